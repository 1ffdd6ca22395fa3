"""The study ridge-equivalent: its simulation against brute force, its theory against the simulation."""

import numpy as np
import pytest

import unlazy
from unlazy.studies.regression.ridge_equivalent import RidgeEquivalentStudy

SMALL = RidgeEquivalentStudy(
    n=40, d=60, spectrum_exponent=0.7, prior_exponent=0.3, noise_variance=0.4, ridge=(0.0, 0.05, 0.5)
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One small run of both parts."""
    over = {"n": [60, 150], "ridge": [0.0, 0.01, 0.1, 1.0]}
    store = tmp_path_factory.mktemp("store") / "results.sqlite"
    return unlazy.run("ridge-equivalent", set={"d": 100}, over=over, seeds=60, store=store)


def test_the_simulation_is_the_average_over_drawn_targets_and_noise():
    spectrum, prior = SMALL._population()
    exact = SMALL.simulate(np.random.default_rng(5))
    # The same generator draws the same design, and goes on to draw targets and noise.
    rng = np.random.default_rng(5)
    x = rng.standard_normal((SMALL.n, SMALL.d)) * np.sqrt(spectrum)
    targets = rng.standard_normal((SMALL.d, 4000)) * np.sqrt(prior)[:, None]
    y = x @ targets + np.sqrt(SMALL.noise_variance) * rng.standard_normal((SMALL.n, 4000))
    for index, ridge in enumerate(SMALL.ridge):
        gram = x @ x.T + max(SMALL.n * ridge, 1e-9) * np.eye(SMALL.n)
        fitted = x.T @ np.linalg.solve(gram, y)
        risk = np.sum(spectrum[:, None] * (targets - fitted) ** 2, axis=0)
        training = np.mean((y - x @ fitted) ** 2, axis=0)
        for name, draws in (("risk", risk), ("training_error", training)):
            error = draws.std(ddof=1) / np.sqrt(draws.size)
            assert abs(draws.mean() - exact[name][index]) <= 4 * error + 1e-12
            assert name == "training_error" or abs(draws.mean() - 1.2 * exact[name][index]) > 4 * error
        hat = np.trace(x @ x.T @ np.linalg.inv(gram))
        assert exact["degrees_of_freedom"][index] == pytest.approx(hat, rel=1e-6)
        assert exact["effective_ridge"][index] == pytest.approx(1 / np.trace(np.linalg.inv(gram)), rel=1e-6)


@pytest.mark.parametrize("name", ["risk", "bias", "variance", "gcv", "degrees_of_freedom", "effective_ridge"])
def test_the_theory_is_the_mean_of_the_simulation(run, name):
    for part in run.parts.values():
        simulated, predicted = part.simulated[name], part.predicted[name]
        mean = simulated.mean("seed")
        error = simulated.std("seed", ddof=1) / np.sqrt(simulated.sizes["seed"])
        # The equivalent is exact up to O(1/n); n is at least 60, and the ridgeless cases are 40 away from n = d.
        slack = 4 * error + 0.05 * abs(predicted)
        assert (abs(mean - predicted) <= slack).all()
        positive = predicted > 1e-6
        assert (abs(mean - 1.2 * predicted) > slack).where(positive, True).all()


def test_the_prior_is_scaled_to_the_signal_variance():
    spectrum, prior = RidgeEquivalentStudy(d=50, signal_variance=2.5)._population()
    assert spectrum @ prior == pytest.approx(2.5)
    np.testing.assert_allclose(prior[1:] / prior[:-1], (np.arange(2, 51) / np.arange(1, 50)) ** -0.5)


def test_a_huge_ridge_predicts_zero():
    far = RidgeEquivalentStudy(ridge=(1e12,), signal_variance=1.5).predict()
    assert far["risk"] == pytest.approx([1.5], rel=1e-6)
    assert far["degrees_of_freedom"] == pytest.approx([0], abs=1e-6)


def test_doubling_signal_and_noise_doubles_every_error():
    one, two = (RidgeEquivalentStudy(signal_variance=s, noise_variance=0.3 * s).predict() for s in (1.0, 2.0))
    for name in ("risk", "bias", "variance", "training_error", "gcv"):
        np.testing.assert_allclose(two[name], 2 * one[name], rtol=1e-12)


def test_the_figure_draws_theory_and_simulation_in_every_panel(tmp_path):
    figure = unlazy.run("ridge-equivalent", set={"d": 20}, seeds=2, store=tmp_path / "s.sqlite").figure()
    assert len(figure.axes) == 4
    assert all(axes.lines and axes.get_ylabel() for axes in figure.axes)

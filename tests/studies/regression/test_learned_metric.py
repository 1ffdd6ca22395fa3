"""Six studies of ridge and learned metrics: theory against published numbers, algebra against brute force."""

from dataclasses import replace

import numpy as np
import pytest

from unlazy.studies.regression.degrees_of_freedom_criterion import DegreesOfFreedomCriterion
from unlazy.studies.regression.harmful_overfitting import HarmfulOverfitting
from unlazy.studies.regression.misaligned_signal import MisalignedSignal
from unlazy.studies.regression.optimal_bound import OptimalBound
from unlazy.studies.regression.ridge_regimes import RidgeRegimes
from unlazy.studies.regression.task_decay import TaskDecay


@pytest.mark.parametrize(
    ("n", "ridge", "bayes", "digits"),
    [
        (10, 1.0413640855, 0.24388988239, 1e-6),
        (20, 1.1082959966, 0.15282952371, 1e-6),
        (320, 1.1953, 0.02467, 3e-4),
        (1280, 1.2004, 0.00993, 6e-4),
    ],
)
def test_the_harmful_example_has_the_published_risks(n, ridge, bayes, digits):
    """The best ridge is nearly ridgeless there, and d = n^3 costs milliseconds."""
    found = HarmfulOverfitting(n=n).predict()
    assert found["ridge_risk"] == pytest.approx(ridge, rel=digits)
    assert found["bayes_risk"] == pytest.approx(bayes, rel=digits)


def test_ridge_tends_to_zeta_of_three_in_the_harmful_example():
    large = HarmfulOverfitting(n=20_000).predict()
    assert large["zero_risk"] == pytest.approx(1.2020569, rel=1e-6)
    assert 0.999 * large["zero_risk"] < large["ridge_risk"] <= large["zero_risk"] * (1 + 1e-6)


@pytest.mark.parametrize(
    ("n", "ridge", "bayes", "digits"),
    [(20, 1.3167, 0.4492646479, 5e-5), (80, 1.1391, 0.19929, 5e-5), (640, 1.0362, 0.06490, 1e-4)],
)
def test_the_misaligned_example_has_the_published_risks(n, ridge, bayes, digits):
    found = MisalignedSignal(n=n).predict()
    assert found["ridge_risk"] == pytest.approx(ridge, rel=3e-4)
    assert found["bayes_risk"] == pytest.approx(bayes, rel=digits)


@pytest.mark.parametrize("a", [0.0, 0.5, 1.0, 2.0, 4.0, 6.0, 10.0])
def test_task_decay_has_the_published_risks(a):
    published = {
        0.0: (3.677, 3.677), 0.5: (0.4091, 0.3805), 1.0: (0.1154, 0.0887), 2.0: (0.0479, 0.0222),
        4.0: (0.0354, 0.0078), 6.0: (0.0339, 0.0049), 10.0: (0.0335, 0.0029),
    }  # fmt: skip
    found = TaskDecay(prior_exponent=a).predict()
    assert found["ridge_risk"] == pytest.approx(published[a][0], rel=2e-3)
    assert found["bayes_risk"] == pytest.approx(published[a][1], abs=6e-5, rel=2e-4)


@pytest.mark.parametrize(
    ("a", "c", "n", "bias", "variance"),
    [
        (2.0, 2.0, 50, 0.0, 0.2492),
        (1.5, 2.0, 200, 0.0, 0.1317),
        (0.5, 1.5, 800, 0.1259, 0.0164),
        (0.5, 1.3, 200, 0.0808, 0.0819),
        (0.5, 3.0, 200, 1.2606, 0.0),
        (0.3, 2.5, 800, 1.4204, 0.0),
    ],
)
def test_the_three_regimes_have_the_published_bias_and_variance(a, c, n, bias, variance):
    found = RidgeRegimes(n=n, spectrum_exponent=a, dimension_exponent=c, ridge=(0.0,)).predict()
    assert found["bias"] == pytest.approx([bias], abs=1e-4)
    assert found["variance"] == pytest.approx([variance], abs=1e-4)
    assert 0.25 < found["risk_order"][0] / found["risk"][0] < 4


def test_the_optimal_bound_has_the_published_values():
    for a, bound in ((1.0, 0.0978), (2.0, 0.0263), (3.0, 0.0136)):
        assert OptimalBound(prior_exponent=a).predict()["optimal_risk_bound"] == pytest.approx(bound, abs=6e-5)


def test_the_infimum_and_the_metric_of_the_tasks_are_those_of_drawn_tasks():
    """The targets are drawn from their law given the design; drawing tasks and noise gives the same mean."""
    study = OptimalBound(n=20, d=50, tasks=100, noise_variance=0.5, prior_exponent=1.0)
    direct, drawn = [], []
    for seed in range(200):
        direct.append(list(study.simulate(np.random.default_rng(seed)).values()))
        rng = np.random.default_rng(10_000 + seed)
        j = np.arange(1, 51.0)
        x = rng.standard_normal((20, 50)) * j**-0.5
        y = x @ (rng.standard_normal((50, 100)) * j[:, None] ** -0.5) + np.sqrt(0.5) * rng.standard_normal((20, 100))
        t = y @ y.T / 100
        kernel = x @ np.diag(1 / j) @ x.T
        inverse = np.linalg.inv(kernel + 0.5 * np.eye(20))
        at_prior = 0.5 / 20 * np.trace(inverse @ t) + 1.0 / 20 * np.trace(kernel @ inverse)
        drawn.append([np.minimum(np.linalg.eigvalsh(t), 1.0).mean() - 0.5, at_prior - 0.5])
    direct, drawn = np.array(direct), np.array(drawn)
    error = np.sqrt((direct.var(axis=0) + drawn.var(axis=0)) / 200)
    difference = abs(direct.mean(axis=0) - drawn.mean(axis=0))
    assert (difference < 4 * error).all()
    assert (abs(direct.mean(axis=0) - 1.2 * drawn.mean(axis=0)) > 4 * error).any()


def test_the_family_of_metrics_is_what_one_fits_one_by_one():
    study = DegreesOfFreedomCriterion(n=15, d=30, tasks=6, metric_exponent=(0.0, 1.5), ridge=(0.01, 0.5))
    found = study.simulate(np.random.default_rng(2))
    j = np.arange(1, 31.0)
    rng = np.random.default_rng(2)
    x = rng.standard_normal((15, 30)) * j**-0.5
    b = rng.standard_normal((30, 6)) / j[:, None]
    y = x @ b + 0.5 * rng.standard_normal((15, 6))
    for row, exponent in enumerate((0.0, 1.5)):
        metric = np.diag(j**-exponent)
        for column, ridge in enumerate((0.01, 0.5)):
            hat_inverse = np.linalg.inv(x @ metric @ x.T + 15 * ridge * np.eye(15))
            fit = metric @ x.T @ hat_inverse @ y
            freedom = np.trace(x @ metric @ x.T @ hat_inverse)
            penalty = ridge * np.mean(np.sum(fit * (np.linalg.inv(metric) @ fit), axis=0))
            value = np.mean((y - x @ fit) ** 2) + penalty + 0.5 * freedom / 15
            cp = np.mean((y - x @ fit) ** 2) + 0.5 * freedom / 15 - 0.25
            expected = {
                "risk": np.mean(np.sum((b - fit) ** 2 / j[:, None], axis=0)),
                "criterion": value - 0.25,
                "in_sample_risk": np.mean((x @ b - x @ fit) ** 2),
                "mallows_cp": cp,
                "degrees_of_freedom": freedom,
            }
            for name, number in expected.items():
                assert found[name][row, column] == pytest.approx(number, rel=1e-8), name


def test_gradient_descent_on_an_unrestricted_layer_interpolates_smoothed_targets():
    """From W = I by the exact gradient every iterate predicts X^T (X X^T)^-1 H Y, and R comes down to its infimum.

    So the limit depends on the hat matrix alone, which the infimum makes a projection: the study's free minimiser.
    """
    study = DegreesOfFreedomCriterion(n=8, d=20, tasks=30, spectrum_exponent=0.5, metric_exponent=(0.0,), ridge=(0.1,))
    infimum = study.simulate(np.random.default_rng(6))["free_criterion"]
    j = np.arange(1, 21.0)
    rng = np.random.default_rng(6)
    x = rng.standard_normal((8, 20)) * j**-0.25
    b = rng.standard_normal((20, 30)) / j[:, None]
    y = x @ b + 0.5 * rng.standard_normal((8, 30))
    weights, ridge, excess = np.eye(20), 0.1, []
    above = y @ y.T / 30 - 0.5 * np.eye(8)
    for step in range(3001):
        kernel = x @ weights.T @ weights @ x.T
        inverse = np.linalg.inv(kernel + 8 * ridge * np.eye(8))
        if step in (0, 100, 1000, 3000):
            fit = weights.T @ weights @ x.T @ inverse @ y
            smoothed = kernel @ inverse @ y
            np.testing.assert_allclose(fit, x.T @ np.linalg.solve(x @ x.T, smoothed), atol=1e-8)
            excess.append(0.25 + ridge * np.trace(inverse @ above) - infimum)
        weights = weights + ridge * weights @ x.T @ inverse @ above @ inverse @ x
    assert excess[0] > excess[1] > excess[2] > excess[3] > 0
    assert excess[3] < 0.1 * excess[0]


@pytest.mark.parametrize("study", [TaskDecay, HarmfulOverfitting, MisalignedSignal])
def test_every_instance_has_bayes_below_ridge_and_learned_metrics_in_between_or_near(study):
    small = replace(study(), n=12, tasks=60, steps=(0, 15))
    found = small.simulate(np.random.default_rng(1))
    assert found["bayes_risk"] < found["ridge_risk"]
    assert found["evidence_risk"][1] < found["evidence_risk"][0]

"""Learned metrics on drawn tasks: the algebra against brute force, the control variate against plain averages."""

import numpy as np
import pytest

from unlazy.data.many_tasks import diagonal_tasks
from unlazy.functions.spectra import harmful_example, power_law
from unlazy.numerics.metric_path import metric_path
from unlazy.training.regression.metric_learning import gain_on_zero, metric_risks, trained_risk

SPECTRUM, PRIOR = power_law(60, 0.7), power_law(60, 1.5)


def draw(rng, n, tasks):
    return diagonal_tasks(rng, SPECTRUM, PRIOR, n, tasks, 0.3)


def _fit(sample, metric, penalty):
    kernel = sample.design @ np.diag(metric) @ sample.design.T + penalty * np.eye(len(sample.design))
    return np.diag(metric) @ sample.design.T @ np.linalg.solve(kernel, sample.targets)


@pytest.mark.parametrize("zeros", [0, 20, 59])
def test_the_gain_is_the_risk_of_zero_less_that_of_the_fit(zeros):
    rng = np.random.default_rng(3)
    sample = draw(rng, 25, 7)
    metric = rng.uniform(0.1, 2, 60)
    metric[rng.permutation(60)[:zeros]] = 0
    fit = _fit(sample, metric, 0.4)
    zero = sample.excess_risk(np.zeros_like(fit))
    expected = zero - sample.excess_risk(fit)
    assert gain_on_zero(sample, metric, 0.4) == pytest.approx(expected, rel=1e-10)


def test_the_risk_is_the_test_error_on_fresh_inputs():
    rng = np.random.default_rng(4)
    sample = draw(rng, 25, 5)
    fit = _fit(sample, np.ones(60), 1.0)
    fresh = rng.standard_normal((20_000, 60)) * np.sqrt(SPECTRUM)
    errors = np.mean((fresh @ (sample.coefficients - fit)) ** 2, axis=1)
    deviation = errors.std() / np.sqrt(errors.size)
    risk = sample.excess_risk(fit)
    assert abs(errors.mean() - risk) < 4 * deviation
    assert abs(errors.mean() - 1.2 * risk) > 4 * deviation


def test_samples_have_the_population_moments():
    sample = draw(np.random.default_rng(5), 4000, 3000)
    np.testing.assert_allclose(np.mean(sample.design**2, axis=0), SPECTRUM, rtol=0.15)
    np.testing.assert_allclose(np.mean(sample.coefficients**2, axis=1), PRIOR, rtol=0.15)
    noise = sample.targets - sample.design @ sample.coefficients
    assert np.mean(noise**2) == pytest.approx(0.3, rel=0.01)


def test_the_control_variate_leaves_the_mean_of_a_learned_metric_and_shrinks_its_spread():
    ridges, steps, seeds = (0.1,), (3,), 150
    controlled, plain = [], []
    for seed in range(seeds):
        controlled.append(
            metric_risks(np.random.default_rng(seed), SPECTRUM, PRIOR, 25, 10, 0.3, ridges, steps)["evidence_risk"][0]
        )
        sample = draw(np.random.default_rng(seed), 25, 10)
        path = metric_path(sample.design, sample.targets, 0.3)
        metric = next(point.metric for point in path if point.step == 3)
        plain.append(sample.excess_risk(_fit(sample, metric, 0.3)))
    difference = np.subtract(controlled, plain)
    assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(seeds)
    assert abs(difference.mean() + 0.2 * np.mean(plain)) > 4 * difference.std() / np.sqrt(seeds)
    assert np.std(controlled) < 0.8 * np.std(plain)


def test_bayes_is_the_exact_expectation_and_below_every_ridge():
    ridges = np.logspace(-3, 1, 9)
    rng = np.random.default_rng(8)
    risks = metric_risks(rng, SPECTRUM, PRIOR, 25, 4, 0.3, ridges, (0,))
    design = np.random.default_rng(8).standard_normal((25, 60)) * np.sqrt(SPECTRUM)
    draws = np.random.default_rng(9)
    coefficients = draws.standard_normal((60, 20_000)) * np.sqrt(PRIOR)[:, None]
    targets = design @ coefficients + np.sqrt(0.3) * draws.standard_normal((25, 20_000))
    kernel = design @ np.diag(PRIOR) @ design.T + 0.3 * np.eye(25)
    fit = np.diag(PRIOR) @ design.T @ np.linalg.solve(kernel, targets)
    each = SPECTRUM @ (coefficients - fit) ** 2
    assert abs(each.mean() - risks["bayes_risk"]) < 4 * each.std() / np.sqrt(each.size)
    assert risks["bayes_risk"] < risks["ridge_risk"]


def test_a_trained_diagonal_layer_learns_the_harmful_example_and_a_full_one_does_not():
    spectrum, prior, _ = harmful_example(8, written_out=True)
    data = spectrum, prior, 8, 100, 1.0
    options = {"steps": 80, "step_size": 5.0, "batch_size": 50}
    seeds = range(6)
    diagonal, full = (
        np.mean([trained_risk(np.random.default_rng(s), *data, diagonal=kind, **options) for s in seeds])
        for kind in (True, False)
    )
    ridge = np.mean([metric_risks(np.random.default_rng(s), *data, (0.1,), (0,), ())["ridge_risk"] for s in seeds])
    assert diagonal < 0.6 * ridge
    assert full > 0.8 * ridge

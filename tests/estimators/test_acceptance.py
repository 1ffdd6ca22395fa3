"""The comparison that the estimators were built for. The seeds were not used while they were designed."""

import subprocess
import sys
import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import MultiTaskLassoCV, RidgeCV

from unlazy.data.many_tasks import diagonal_tasks, many_tasks
from unlazy.estimators import SharedMetricRegressor

SEEDS = (71, 72, 73, 74, 75, 76)
STRUCTURED = ("sparse", "soft_sparse", "power_laws", "misaligned")


@cache
def mean_risks(kind):
    """Mean excess risks over the seeds: learned metric, RidgeCV, MultiTaskLassoCV."""
    risks = []
    for seed in SEEDS:
        data = many_tasks(kind, np.random.default_rng(seed), n=100, d=1000, tasks=10, noise_variance=0.25)
        models = (SharedMetricRegressor(), RidgeCV(np.logspace(-3, 5, 33)), MultiTaskLassoCV(cv=5))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            risks.append([risk(model.fit(data.design, data.targets), data) for model in models])
    return np.mean(risks, axis=0)


def risk(model, data):
    return data.excess_risk(model.coef_.T, model.intercept_)


@pytest.mark.slow
def test_sparse_features_are_learned_far_better_than_by_the_multi_task_lasso():
    learned, _, lasso = mean_risks("sparse")
    assert learned <= 0.6 * lasso


@pytest.mark.slow
@pytest.mark.parametrize("kind", STRUCTURED[1:])
def test_other_structure_is_learned_about_as_well_as_by_the_multi_task_lasso(kind):
    learned, _, lasso = mean_risks(kind)
    assert learned <= 1.15 * lasso


@pytest.mark.slow
@pytest.mark.parametrize("kind", STRUCTURED)
def test_structure_is_learned_far_better_than_by_ridge(kind):
    learned, ridge, _ = mean_risks(kind)
    assert learned <= 0.6 * ridge


@pytest.mark.slow
def test_nothing_is_lost_against_ridge_where_ridge_is_optimal():
    learned, ridge, _ = mean_risks("dense")
    assert learned <= 1.03 * ridge


def dense(n, d, tasks, noise_variance):
    return lambda rng: many_tasks("dense", rng, n, d, tasks, noise_variance)


def weak_signal_in_features_of_variance_one_over_j(rng):
    variances = 1 / np.arange(1, 301)
    return diagonal_tasks(rng, variances, np.full(300, 0.02 / variances.sum()), 80, 5, 0.25)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:y has one target")
@pytest.mark.parametrize(
    "draw",
    [
        dense(100, 300, 5, 4.0),
        dense(60, 200, 1, 1.0),
        dense(60, 200, 3, 0.25),
        dense(30, 60, 5, 1.0),
        weak_signal_in_features_of_variance_one_over_j,
    ],
)
def test_where_nothing_can_be_learned_ridge_is_kept_but_for_few_data_sets(draw):
    """The level is 5%: of 20 data sets 4 or more would leave ridge with probability 1.6%."""
    left, risks = 0, []
    for seed in range(64_000, 64_020):
        data = draw(np.random.default_rng(seed))
        model = SharedMetricRegressor().fit(data.design, data.targets)
        scale = np.sum((data.design - data.design.mean(axis=0)) ** 2) / len(data.design)
        ridge = RidgeCV(scale * np.logspace(-8, 4, 37)).fit(data.design, data.targets)
        risks.append([risk(model, data), risk(ridge, data)])
        left += (model.criterion_, model.start_exponent_) != ("ridge", 0.0)
    assert left <= 3
    learned, ridge = np.mean(risks, axis=0)
    assert learned <= 1.03 * ridge


@pytest.mark.slow
def test_twenty_thousand_features_need_less_than_two_gibibytes():
    program = """
import resource
import numpy as np
from unlazy.data.many_tasks import many_tasks
from unlazy.estimators import SharedMetricRegressor
data = many_tasks("sparse", np.random.default_rng(74), n=300, d=20_000, tasks=50)
SharedMetricRegressor().fit(data.design, data.targets)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert int(printed) < 2 * 2**20

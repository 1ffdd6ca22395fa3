"""Intervals of learning curves, against errors that are known: by a formula, and by training on held-out rows."""

import numpy as np
import pytest

from benchmarks.intervals import FRESH, cases_of
from unlazy.diagnostics import LearningCurve


@pytest.mark.parametrize(("tail", "least"), [(np.inf, 0.9), (3.0, 0.84)])
def test_intervals_hold_the_error_of_least_squares_with_normal_and_with_heavy_noise(tail, least):
    """n normal rows, d columns and an intercept: s (1 + 1/n) (1 + d/(n-d-2)); chance is four standard errors of 150."""
    d, pool, pools = 5, 60, 150
    sizes = np.array([60, 120, 600])
    covered, reliable = [], []
    for seed in range(pools):
        rng = np.random.default_rng(seed)
        noise = rng.standard_normal(pool) if np.isinf(tail) else rng.standard_t(tail, pool)
        X = rng.standard_normal((pool, d))
        found = LearningCurve("linear", penalty=1e-6).fit(X, 2 + X @ np.ones(d) + noise).predict(sizes)
        variance = 1.0 if np.isinf(tail) else tail / (tail - 2)
        truth = variance * (1 + 1 / sizes) * (1 + d / (sizes - d - 2))
        covered.append((found.low < truth) & (truth < found.high))
        reliable.append(found.reliable)
    assert (np.mean(covered, axis=0) > least).all(), np.mean(covered, axis=0)
    if np.isinf(tail):
        assert (np.mean(reliable, axis=0) > 0.5).all()


def test_intervals_hold_what_training_on_held_out_rows_of_small_tables_gives():
    cases = [case for name in ("diabetes", "breast_cancer:8") for case in cases_of(name, 10, ("linear",))]
    for factor in (1, 2, 5, 10):
        here = [case for case in cases if case.factor == factor]
        # 40 to 80 forecasts from few pools, which are not independent
        assert np.mean([case.covered for case in here]) > 0.85, factor
    sure = [case for case in cases if case.reliable]
    assert len(sure) > 0.3 * len(cases)
    assert max(case.ratio for case in sure) <= 4 * (1 + 1e-9)


@pytest.mark.slow
def test_intervals_hold_on_tables_that_they_were_not_set_with():
    cases = [case for name in FRESH for case in cases_of(name, 12)]
    for kept in (cases, [case for case in cases if case.reliable]):
        for factor in (1, 2, 5, 10):
            held = [case.covered for case in kept if case.factor == factor]
            assert np.mean(held) > 0.88, factor


def test_rows_do_not_vouch_for_a_target_that_the_inputs_determine_but_for_rows_that_are_not_among_them():
    """One row in 50 is off by 5, none of every third pool of 60: such pools see an error of 0.01 in place of 0.5."""
    rng = np.random.default_rng(31)
    seen = {0.1: [], 1.0: []}
    for _ in range(40):
        X, noise, odd = rng.standard_normal((60, 3)), rng.standard_normal(60), rng.random(60) < 0.02
        for deviation, found in seen.items():
            if not odd.any():
                found.append(LearningCurve("linear").fit(X, X.sum(axis=1) + deviation * noise).predict(60))
    assert len(seen[0.1]) >= 5
    assert all(one.high < 0.02 * 5**2 for one in seen[0.1])
    assert not any(one.reliable for one in seen[0.1])
    # with noise of variance 1 such rows add half of it
    assert np.mean([one.reliable for one in seen[1.0]]) > 0.8


@pytest.mark.parametrize("column", [13, 23])
def test_columns_that_the_others_determine_but_for_few_rows_are_not_called_reliable(column):
    cases = cases_of(f"breast_cancer:{column}", 5, ("linear",))
    assert not any(case.reliable for case in cases)

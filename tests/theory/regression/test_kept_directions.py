"""What the degrees-of-freedom criterion keeps: formulas against drawn least squares, and against all metrics."""

import itertools

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory import degrees_of_freedom_criterion, degrees_of_freedom_minimiser, least_squares_risk

SIGNAL = np.arange(1, 9.0) ** -2


def projections(rng, n, kept, noise, weight):
    """Risk and criterion less the noise for drawn inputs, from the hat matrix of least squares; exact over tasks."""
    x = rng.standard_normal((n, SIGNAL.size)) * np.sqrt(SIGNAL)
    inside, outside = x[:, :kept], x[:, kept:]
    fit = np.linalg.pinv(inside)
    lost = fit @ outside
    risk = (
        np.sum(SIGNAL[kept:]) + np.sum(SIGNAL[:kept, None] * (lost**2)) + noise * np.sum(SIGNAL[:kept, None] * fit**2)
    )
    hat = inside @ fit
    criterion = np.trace((np.eye(n) - hat) @ x @ x.T) / n + (weight - noise) * kept / n
    return risk, criterion


def test_risk_and_criterion_are_those_of_drawn_least_squares():
    """The prior is 1 here, so that the signal spectrum is the covariance."""
    n, noise, weight = 12, 0.3, 0.8
    for kept in (1, 3, 5):
        rng = np.random.default_rng(kept)
        drawn = np.array([projections(rng, n, kept, noise, weight) for _ in range(4000)])
        error = drawn.std(0) / np.sqrt(len(drawn))
        tail = SIGNAL[kept:].sum()
        formula = np.array(
            [least_squares_risk(SIGNAL, n, noise, kept), (1 - kept / n) * tail + (weight - noise) * kept / n]
        )
        assert (abs(drawn.mean(0) - formula) < 4 * error).all()
        assert (abs(drawn.mean(0) - 1.2 * formula) > 4 * error).all()


def test_the_minimum_is_that_over_all_numbers_of_directions_and_over_all_subsets():
    n, noise, weight = 10, 0.3, 0.6
    found = degrees_of_freedom_minimiser(SIGNAL, n, noise, weight)
    values = {
        subset: (1 - len(subset) / n) * (SIGNAL.sum() - SIGNAL[list(subset)].sum()) + (weight - noise) * len(subset) / n
        for size in range(9)
        for subset in itertools.combinations(range(8), size)
    }
    best = min(values, key=values.get)
    assert best == tuple(range(found.kept))
    assert found.criterion == pytest.approx(values[best], rel=1e-12)
    assert found.risk == pytest.approx(float(least_squares_risk(SIGNAL, n, noise, found.kept)))


def test_the_criterion_is_monotone_in_every_entry_of_a_diagonal_metric():
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((7, 10)), rng.standard_normal((7, 5))
    for entry in range(10):
        metric = rng.uniform(0, 3, 10)
        values = []
        for size in np.logspace(-4, 4, 30):
            metric[entry] = size
            values.append(degrees_of_freedom_criterion((x * metric) @ x.T, y, 0.1, 0.7).criterion)
        steps = np.diff(values)
        assert (steps < 1e-12).all() or (steps > -1e-12).all()


def test_a_slow_decay_keeps_more_than_is_good_and_a_fast_one_does_not():
    """Against the best number of directions, at the sizes of the talk's experiment."""
    j = np.arange(1, 1001.0)
    for a, low, high in ((0.5, 1.5, np.inf), (2.0, 1.0, 1.02)):
        signal = j ** -(1 + a)
        best = least_squares_risk(signal, 100, 0.25, np.arange(99)).min()
        assert low <= degrees_of_freedom_minimiser(signal, 100, 0.25, 0.5).risk / best <= high


def test_sizes_broadcast_and_wrong_ones_are_refused():
    n, noise = np.array([10, 40]), np.array([[0.1], [0.2], [0.5]])
    found = degrees_of_freedom_minimiser(SIGNAL, n, noise, 2 * noise)
    assert found.kept.shape == found.criterion.shape == found.risk.shape == (3, 2)
    one = degrees_of_freedom_minimiser(SIGNAL, 40, 0.2, 0.4)
    assert (one.kept, one.criterion, one.risk) == (found.kept[1, 1], found.criterion[1, 1], found.risk[1, 1])
    assert np.isinf(least_squares_risk(SIGNAL, 5, 0.1, [4, 5, 6])).all()
    with pytest.raises(InputError, match="kept"):
        least_squares_risk(SIGNAL, 5, 0.1, 9)

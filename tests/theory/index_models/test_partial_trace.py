"""Partial traces: limits that other results give, and the variance of a partial trace by simulation."""

import math

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.index_models import partial_trace_overlap
from unlazy.training.index_models.partial_trace import radial_factor


@pytest.mark.parametrize("k", [3, 4, 5, 6])
def test_thresholds_are_of_order_d_to_half_the_degree(k):
    low, high = partial_trace_overlap(k, 1.0, [1e6, 1e8], 0.3).samples_threshold
    assert math.log(high / low) / math.log(100) == pytest.approx(k / 2, abs=1e-4)


def test_a_vector_turns_from_a_power_step_at_the_threshold():
    n = partial_trace_overlap(3, 1.0, 1e8, 0.2).samples_threshold
    for factor, grows in ((0.8, False), (1.25, True)):
        first, later = (partial_trace_overlap(3, factor * n, 1e8, 0.2, power_steps=k).squared_overlap for k in (0, 1))
        assert (later > first) == grows


@pytest.mark.parametrize("k", [3, 4, 5, 6])
def test_the_noise_is_the_variance_of_partial_traces(k):
    """One entry of the matrix, or of the vector, has the variance v of which B = (d-1) v / k! is made."""
    d, rest = 12, 2 - k % 2
    rng = np.random.default_rng(3)
    x, others = rng.standard_normal((2, 4_000_000)), rng.chisquare(d - 2, 4_000_000)
    product = x[0] * x[1] if rest == 2 else x[0]
    squares = (radial_factor((x**2).sum(0) + others, k, d) * product) ** 2
    error = squares.std() / math.sqrt(squares.size)
    threshold = partial_trace_overlap(k, 1.0, d, 1.0)
    first = 1 / threshold.squared_overlap - 1 if rest == 1 else threshold.samples_threshold
    variance = first * math.factorial(k) / (d - 1)
    assert abs(squares.mean() - variance) < 5 * error < 0.2 * variance


def test_bad_input_is_refused_in_a_line():
    with pytest.raises(InputError, match="hermite_degree"):
        partial_trace_overlap(2, 100, 10, 0.5)
    with pytest.raises(InputError, match="squared_correlation"):
        partial_trace_overlap(3, 100, 10, 1.5)

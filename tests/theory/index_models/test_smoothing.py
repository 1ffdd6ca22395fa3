"""Smoothing: the drift by simulation, its limits, and what is refused."""

import math

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.index_models import overlap_drift, smoothed_drift, smoothed_samples


@pytest.mark.parametrize("k", [3, 4])
def test_without_a_radius_it_is_online_sgd(k):
    m = np.array([-0.4, 0.1, 0.6])
    found = smoothed_drift(k, m, 10**7, 0.0)
    expected = overlap_drift(f"He{k}", m, activation=f"He{k}", reuse=False)
    assert found.pull == pytest.approx(expected.pull, rel=1e-9)
    assert found.update_square == pytest.approx(expected.update_square, rel=1e-5)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_drift_is_that_of_weights_drawn_on_the_sphere(k):
    """S from weights w + lambda e that are drawn: (w'.theta)^k at two overlaps, the same e at both."""
    rng, d, size, m, small = np.random.default_rng(1), 8, 1.5, 0.3, 1e-4
    e = rng.standard_normal((400_000, d - 1))
    t = e[:, 0] / np.linalg.norm(e, axis=1)
    means = [((at + size * math.sqrt(1 - at**2) * t) / math.sqrt(1 + size**2)) ** k for at in (m - small, m + small)]
    each = (1 - m**2) * (means[1] - means[0]) / (2 * small)
    error = each.std() / math.sqrt(each.size)
    pull = smoothed_drift(k, m, d, size).pull
    assert abs(each.mean() - pull) < 5 * error < 0.2 * abs(pull)


@pytest.mark.parametrize(("k", "exponent"), [(3, 1.5), (4, 2.0)])
def test_the_widest_radius_needs_d_to_half_the_degree(k, exponent):
    sizes = np.array([1e4, 1e6])
    n = [
        smoothed_samples(
            k, d, d**0.25, 0.02 * (1 + d**0.5) ** (k - 1) * d ** (1 - k / 2), start_overlap=d**-0.25, target_overlap=0.5
        )
        for d in sizes
    ]
    assert math.log(n[1] / n[0]) / math.log(100) == pytest.approx(exponent, abs=0.1)


def test_bad_input_is_refused_in_a_line():
    with pytest.raises(InputError, match="smoothing_radius"):
        smoothed_drift(3, 0.1, 10, -1.0)
    with pytest.raises(InputError, match="target_overlap must be above"):
        smoothed_samples(3, 10, 1.0, 0.1, start_overlap=0.5, target_overlap=0.4)

from math import fsum

import numpy as np
import pytest

from unlazy.numerics.compress import NODES_PER_BIN, compress, most_bins

KERNELS = {
    "learned": lambda t: 1 / (1 + np.exp(-t)),
    "missed": lambda t: 1 / (1 + np.exp(t)),
    "learned twice": lambda t: 1 / (1 + np.exp(-t)) ** 2,
    "missed twice": lambda t: 1 / (1 + np.exp(t)) ** 2,
    "mixed": lambda t: 1 / (1 + np.exp(t)) / (1 + np.exp(-t)),
}


def ratio(points, kappa):
    """log(l / kappa), with the digits of l also where log l is large; beyond e^340 squares would overflow."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.clip(np.log(points / kappa), -340, 340)


def spectra(rng):
    size = 3000
    return {
        "power law": np.arange(1.0, size + 1) ** -1.3,
        "uniform": rng.random(size),
        "narrow": 1 + 1e-9 * rng.random(size),
        "log-normal": np.exp(4 * rng.standard_normal(size)),
        "clusters": rng.choice([1e-7, 1.0, 3e4], size) * (1 + 0.1 * rng.random(size)),
        "huge range": 10 ** rng.uniform(-290, 290, 12 * size),
    }


@pytest.mark.parametrize("kind", ["power law", "uniform", "narrow", "log-normal", "clusters", "huge range"])
def test_sums_of_the_kernels_of_ridge_theory_keep_12_digits(kind):
    rng = np.random.default_rng(5)
    points = spectra(rng)[kind]
    # the last measure is concentrated on a handful of points
    weights = np.stack([np.ones(points.size), rng.random(points.size), rng.random(points.size) ** 300])
    found = compress(points, weights)
    assert found.nodes.size < points.size / 2
    assert np.unique(found.lower).size <= found.nodes.size <= NODES_PER_BIN * most_bins(points)
    for kappa in np.geomspace(points.min() / 1e4, points.max() * 1e4, 15):
        for name, kernel in KERNELS.items():
            terms = weights * kernel(ratio(points, kappa))
            expected = [fsum(row) for row in terms]
            sums = found.weights @ kernel(ratio(found.nodes, kappa))
            np.testing.assert_allclose(sums, expected, rtol=1e-12, err_msg=f"{name} at {kappa:g}")


def test_a_single_mass_anywhere_in_the_widest_bin_is_integrated_to_1e_13():
    # the worst case of the bound: no averaging over the bin, and kappa passes the whole bin
    points = np.exp(np.linspace(0, 2, 41) - 1)
    found = compress(points, np.eye(41))
    assert found.nodes.size == NODES_PER_BIN
    for kappa in np.exp(np.linspace(-8, 8, 129)):
        for kernel in KERNELS.values():
            sums = found.weights @ kernel(ratio(found.nodes, kappa))
            np.testing.assert_allclose(sums, kernel(ratio(points, kappa)), rtol=1e-13)


def test_polynomials_in_log_l_are_integrated_exactly_up_to_degree_19():
    x = np.random.default_rng(0).uniform(-1, 1, 500)
    x[:2] = -1, 1
    found = compress(np.exp(x), np.ones((1, 500)))
    degrees = np.arange(NODES_PER_BIN + 1)[:, None]
    sums = np.log(found.nodes) ** degrees @ found.weights[0]
    np.testing.assert_allclose(sums[:-1], np.sum(x ** degrees[:-1], axis=1), atol=1e-11)
    # of degree 20 the interpolant misses the Chebyshev polynomial that vanishes at all nodes
    missed = np.sum(np.cos(NODES_PER_BIN * np.arccos(x))) / 2 ** (NODES_PER_BIN - 1)
    np.testing.assert_allclose(np.sum(x**NODES_PER_BIN) - sums[-1], missed, rtol=1e-5)


def test_few_distinct_points_stay_as_they_are_with_their_weights_summed():
    points = np.repeat([3.0, 1e-8, 5.0, 1e-320], [2, 3, 1, 1])
    found = compress(points, np.stack([np.ones(7), np.arange(7.0)]))
    np.testing.assert_array_equal(found.nodes, [1e-320, 1e-8, 3.0, 5.0])
    np.testing.assert_array_equal(found.weights, [[1, 3, 2, 1], [6, 9, 1, 5]])
    np.testing.assert_array_equal(found.lower, found.nodes)
    np.testing.assert_array_equal(found.totals, found.weights)


def test_a_bin_knows_its_smallest_point_and_its_exact_total():
    rng = np.random.default_rng(1)
    points = np.concatenate([rng.uniform(1, 2, 300), rng.uniform(1e6, 3e6, 200)])
    found = compress(points, np.ones((1, 500)))
    assert found.nodes.size == 2 * NODES_PER_BIN
    assert set(found.lower) == {points[:300].min(), points[300:].min()}
    np.testing.assert_array_equal(found.totals[0, found.totals[0] > 0], [300, 200])
    assert (np.diff(found.nodes) > 0).all()
    assert (found.nodes >= found.lower).all()


def test_digits_of_extreme_points_survive():
    rng = np.random.default_rng(2)
    mantissas = rng.uniform(1, 5, 200)
    for scale in (1e-305, 1e-299, 1e299):
        found = compress(scale * mantissas, np.ones((1, 200)))
        kappa = 2.0
        sums = found.weights[0] @ KERNELS["missed"](ratio(found.nodes / scale, kappa))
        np.testing.assert_allclose(sums, np.sum(kappa / (mantissas + kappa)), rtol=1e-13)

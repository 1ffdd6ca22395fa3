import math

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.functions.elementwise import as_activation
from unlazy.theory.kernels.free_probability import MarchenkoPastur
from unlazy.theory.one_step.spiked.features import gradient_step_groups
from unlazy.theory.one_step.spiked.spectrum import feature_outliers, feature_spectrum
from unlazy.theory.one_step.spiked.statistics import NeuronGroups

START = NeuronGroups(np.ones(1), np.zeros(1), np.ones(1))


def two_groups(*spikes):
    return NeuronGroups(np.array([0.5, 0.5]), np.array(spikes), np.ones(2))


def second_hermite(x):
    return (x**2 - 1) / math.sqrt(2)


@pytest.mark.parametrize(("n", "features"), [(1000, 300), (300, 1000)])
def test_features_without_linear_part_are_marchenko_pastur(n, features):
    law = MarchenkoPastur(features / n)
    low, high = (1 - math.sqrt(features / n)) ** 2, (1 + math.sqrt(features / n)) ** 2
    x = np.linspace(low, high, 40)[1:-1]
    found = feature_spectrum(second_hermite, START, n, 200, features, x)
    density = np.sqrt((x - low) * (high - x)) / (2 * math.pi * features / n * x)
    np.testing.assert_allclose(found.density, density, rtol=1e-4)
    np.testing.assert_allclose(found.density, -law.stieltjes(x + 1e-9j).imag / math.pi, rtol=1e-4)
    atom = max(1 - n / features, 0)
    below, above = feature_spectrum(second_hermite, START, n, 200, features, [low / 2, 1.2 * high]).distribution
    np.testing.assert_allclose([below, above], [atom, 1], atol=1e-5)
    np.testing.assert_allclose(feature_outliers(second_hermite, START, n, 200, features).bulk_edge, high, rtol=1e-5)


def test_linear_features_are_a_free_product():
    """W^T S W for square W has the law of S^(1/2) W W^T S^(1/2): its S transform is 1 / ((1 + w)(1 + phi w))."""
    n, d = 900, 300
    phi = d / n
    x = np.geomspace(0.01, 6.5, 25)
    found = feature_spectrum("identity", START, n, d, d, x, resolution=1e-4)
    # with t = z G(z) = 1 + w that is phi t^3 + (1 - phi) t^2 - z t + z = 0
    roots = [np.roots([phi, 1 - phi, -z, z]) / z for z in x * (1 + 1e-4j)]
    density = [-root.imag.min() / math.pi for root in roots]
    np.testing.assert_allclose(found.density, density, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("spikes", "n"), [((2.0, -1.0), 1000), ((0.0, 0.0), 1000), ((1.5, 1.5), 400)])
def test_density_is_the_slope_of_the_distribution(spikes, n):
    """Two routes: the resolvent, and the potential of which it is the derivative."""
    groups = two_groups(*spikes)
    x = np.append(np.geomspace(1e-6, 0.1, 160), np.linspace(0.1, 4, 150)[1:])
    found = feature_spectrum("tanh", groups, n, 400, 600, x, index_nodes=40)
    logarithm = np.log(x)
    mass = np.append(0, np.cumsum(np.diff(logarithm) * ((found.density * x)[1:] + (found.density * x)[:-1]) / 2))
    np.testing.assert_allclose(found.distribution[0] + mass, found.distribution, atol=2e-3)
    np.testing.assert_allclose(found.distribution[-1], 1, atol=1e-5)
    np.testing.assert_allclose(mass[-1], 1 - max(1 - n / 600, 0), atol=4e-3)
    assert (np.diff(found.distribution) >= -1e-7).all()


def test_spectrum_has_its_independently_computed_values():
    first = feature_outliers("tanh", two_groups(1.5, 1.5), 1000, 400, 600)
    np.testing.assert_allclose(first.outliers, [226.7], rtol=3e-3)
    np.testing.assert_allclose(first.bulk_edge, 1.52, atol=0.01)
    second = feature_outliers("tanh", two_groups(2.0, -1.0), 1000, 400, 600)
    np.testing.assert_allclose(second.outliers, [215.6, 1.875], rtol=5e-4)
    start = feature_outliers("tanh", two_groups(0.0, 0.0), 1000, 400, 600)
    assert start.outliers.size == 0
    np.testing.assert_allclose(start.bulk_edge, 2.55, atol=0.02)


def test_edge_is_where_the_density_ends():
    for groups in (two_groups(2.0, -1.0), gradient_step_groups("tanh", "tanh", 800, 400, 600, 20.0, 0.1).neuron_groups):
        edge = feature_outliers("tanh", groups, 1000, 400, 600, index_nodes=40).bulk_edge
        inside, outside = feature_spectrum(
            "tanh", groups, 1000, 400, 600, [edge * 0.999, edge * 1.001], resolution=1e-9, index_nodes=40
        ).density
        assert inside > 1e-3
        assert outside < 1e-6


def test_largest_outliers_are_those_of_the_conditional_means():
    neurons = 1e6
    groups = two_groups(2.0, -1.0)
    found = feature_outliers("relu", groups, neurons, neurons, neurons)
    points, weights = np.polynomial.hermite_e.hermegauss(100)
    from unlazy.numerics.gaussian import normal_averages

    means = normal_averages("activation", as_activation("relu"), points[:, None] * groups.spikes, 1.0).mean
    weights = weights / weights.sum()
    leading = neurons * np.linalg.eigvalsh(0.5 * (means.T * weights) @ means)[::-1]
    np.testing.assert_allclose(found.outliers[:2], leading, rtol=1e-4)


@pytest.mark.parametrize("spikes", [(0.0, 0.0), (4.0, 1.0)])
def test_spectrum_is_that_of_drawn_features(spikes):
    d, neurons, n, seeds = 240, 360, 600, 4
    groups = two_groups(*spikes)
    eigenvalues = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        weights = rng.normal(size=(d, neurons))
        weights[0] = 0
        weights /= np.linalg.norm(weights, axis=0)
        weights[0] = np.repeat(groups.spikes, neurons // 2)
        features = as_activation("tanh")(rng.normal(size=(n, d)) @ weights)
        eigenvalues.append(np.linalg.eigvalsh(features.T @ features / n))
    eigenvalues = np.array(eigenvalues)
    x = np.array([0.02, 0.05, 0.1, 0.3, 1.0])
    drawn = np.mean(eigenvalues[:, :, None] <= x, axis=(0, 1))
    found = feature_spectrum("tanh", groups, n, d, neurons, x)
    assert np.abs(drawn - found.distribution).max() < 0.01
    # another bulk is told apart
    other = feature_spectrum("tanh", two_groups(1.0, 1.0), n, d, neurons, x)
    assert np.abs(drawn - other.distribution).max() > 0.02
    outliers = feature_outliers("tanh", groups, n, d, neurons)
    count = outliers.outliers.size
    assert count == (2 if any(spikes) else 0)
    top = eigenvalues.mean(axis=0)[::-1]
    np.testing.assert_allclose(top[:count], outliers.outliers, rtol=0.05)
    # the end of the bulk is reached like N^(-2/3)
    np.testing.assert_allclose(top[count], outliers.bulk_edge, rtol=0.08)
    assert not np.allclose(1.2 * top[: count + 1], [*outliers.outliers, outliers.bulk_edge], rtol=0.08)


def test_saturated_features_count_in_the_outlier():
    """M(s) = erf(30 s / sqrt(3)) is almost a sign, whose slope vanishes at most points; E M^2 is an arc sine."""
    groups = NeuronGroups(np.ones(1), np.array([30.0]), np.ones(1))
    found = feature_outliers("erf", groups, 1e5, 1e5, 1e5, index_nodes=400)
    np.testing.assert_allclose(found.outliers, [1e5 * 2 / math.pi * math.asin(600 / 601)], rtol=2e-4)


def test_linear_features_have_at_most_the_rank_of_the_inputs():
    """N - d eigenvalues of linear features are 0."""
    groups = NeuronGroups(np.array([0.3, 0.7]), np.array([0.5, -1.0]), np.array([1.0, 2.0]))
    found = feature_spectrum("identity", groups, 9000, 50, 200, [1e-6, 1e-3, 100.0], index_nodes=60)
    np.testing.assert_allclose(found.distribution, [0.75, 0.75, 1], atol=1e-5)


def test_many_tiny_groups_keep_the_distribution_exact():
    groups = gradient_step_groups("erf", "erf", 1000, 400, 600, 30.0, 0.01).neuron_groups
    assert groups.fractions.min() < 1e-12
    found = feature_spectrum("erf", groups, 500, 400, 600, [1e-5, 20.0], index_nodes=40)
    np.testing.assert_allclose(found.distribution, [1 / 6, 1], atol=2e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eigenvalue": [0.0]}, "eigenvalue must be > 0"),
        ({"n": 0}, "n must be >= 1"),
        ({"resolution": 0.5}, "resolution must be > 0 and <= 0.1"),
        ({"activation": "tan"}, "activation must be one of"),
        ({"activation": lambda x: 1.0}, "activation must not be constant"),
        ({"neuron_groups": ([1.0], [0.0], [-1.0])}, "radii must be > 0"),
    ],
)
def test_wrong_input_is_named(changes, message):
    arguments = {
        "activation": "tanh",
        "neuron_groups": START,
        "n": 10,
        "d": 10,
        "width": 10,
        "eigenvalue": [1.0],
    } | changes
    with pytest.raises(InputError, match=message):
        feature_spectrum(**arguments)

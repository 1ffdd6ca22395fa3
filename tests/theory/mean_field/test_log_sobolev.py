import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory import log_sobolev_constant


def law(potential, reach, count=801):
    points = np.linspace(-reach, reach, count)
    values = np.exp(potential(points).min() - potential(points))
    return points, values / values.sum()


def double_well(tilt, temperature):
    return lambda x: ((x**2 - 1) ** 2 / 4 + tilt * x) / temperature


@pytest.mark.parametrize("variance", [0.2, 3.0])
def test_a_normal_law_has_its_variance(variance):
    points, masses = law(lambda x: x**2 / (2 * variance), 8 * np.sqrt(variance))
    assert log_sobolev_constant(points, masses).log_sobolev == pytest.approx(variance, rel=1e-3)


@pytest.mark.parametrize("rate", [1.0, 4.0])
def test_a_strictly_convex_potential_is_below_the_bound_of_bakry_and_emery(rate):
    """alpha <= 1/inf V'', and above one over the gap."""
    points, masses = law(lambda x: rate * x**2 / 2 + np.cosh(x), 6 / np.sqrt(rate))
    found = log_sobolev_constant(points, masses)
    assert found.inverse_gap <= found.log_sobolev <= 1 / (rate + 1)


@pytest.mark.parametrize("temperature", [0.05, 0.08, 0.15])
def test_a_cold_double_well_has_the_ratio_of_a_law_on_two_points(temperature):
    """alpha times the gap tends to log(p/q)/(2(p - q)), p and q the masses of the wells (Diaconis & Saloff-Coste)."""
    points, masses = law(double_well(0.15, temperature), 2.6)
    found, p = log_sobolev_constant(points, masses), masses[points < 0].sum()
    expected = np.log(p / (1 - p)) / (2 * (2 * p - 1))
    assert found.log_sobolev / found.inverse_gap == pytest.approx(expected, rel=0.02)
    assert expected > 1.2


@pytest.mark.parametrize("temperature", [0.08, 0.3])
def test_a_symmetric_double_well_has_the_constant_of_its_gap(temperature):
    found = log_sobolev_constant(*law(double_well(0.0, temperature), 2.6))
    assert found.log_sobolev == pytest.approx(found.inverse_gap, rel=1e-4)


def test_the_gap_is_that_of_the_generator():
    """By the eigenvalues of a dense matrix."""
    points, masses = law(double_well(0.1, 0.2), 2.6, 301)
    weights = np.sqrt(masses[1:] * masses[:-1]) / (points[1] - points[0]) ** 2
    laplacian = np.diag(np.append(weights, 0) + np.append(0, weights)) - np.diag(weights, 1) - np.diag(weights, -1)
    scaled = laplacian / np.sqrt(np.outer(masses, masses))
    gap = np.sort(np.linalg.eigvalsh(scaled))[1]
    assert log_sobolev_constant(points, masses).inverse_gap == pytest.approx(1 / gap, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_no_trial_function_is_better_and_the_bracket_holds(seed):
    rng = np.random.default_rng(seed)
    waves = rng.normal(size=(4, 2))
    points, masses = law(lambda x: x**2 / 2 + sum(a * np.cos((k + 1) * x + b) for k, (a, b) in enumerate(waves)), 8)
    found = log_sobolev_constant(points, masses)
    assert found.lower_bound <= found.log_sobolev <= found.upper_bound
    weights = np.sqrt(masses[1:] * masses[:-1]) / (points[1] - points[0]) ** 2
    for _ in range(200):
        f = rng.uniform(0, 2) + np.tanh(rng.uniform(0.2, 5) * (points - rng.normal())) + 0.3 * rng.normal() * points
        square = f**2 / (masses @ f**2)
        entropy = masses @ (square * np.log(np.maximum(square, 1e-300)))
        energy = weights @ np.diff(f) ** 2 / (masses @ f**2)
        assert entropy / (2 * energy) <= found.log_sobolev * (1 + 1e-6)


def test_points_that_are_not_equally_spaced_are_refused():
    with pytest.raises(InputError, match="points must be 11 or more, increasing, equally spaced"):
        log_sobolev_constant([0, 1, 3], [0.2, 0.5, 0.3])
    with pytest.raises(InputError, match="grid_masses must be > 0"):
        log_sobolev_constant(np.arange(11.0), np.zeros(11))

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from unlazy.checks import InputError
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.mean_field.dual import (
    entropy_sandwich,
    free_energy_on,
    naive_iteration_radius,
    online_averaging_constant,
    particle_constants,
    sample_optimum,
    width_covariance,
)
from unlazy.theory.mean_field.grid import Loss, gibbs_of_potential, logistic_loss, square_loss
from unlazy.theory.mean_field.one_dimension import scalar_problem
from unlazy.theory.mean_field.optimum import density_optimum, mean_field_optimum, quadratic_optimum

Z = np.linspace(-2, 2, 20)
LINE = {"d": 1, "confinement": 1.0, "temperature": 1.0}
Y = np.sin(2 * Z)


def network(points):
    return 4 * np.tanh(np.outer(points[:, 0], Z) + points[:, 1:])


def small_optimum(loss=None, **options):
    """Two tanh features of a one-dimensional particle."""
    settings = {"d": 1, "confinement": 0.2, "temperature": 0.3, "grid_points": 601} | options
    return mean_field_optimum(
        lambda x: np.tanh(x + np.array([0.5, -1.0])) * np.array([2.0, -3.0]),
        loss or logistic_loss([1, 1]),
        **settings,
    )


@pytest.mark.parametrize(
    ("confinement", "temperature", "free_energy", "energy", "excess", "energy_excess"),
    [
        (0.005, 0.01, 0.0132320878753, 0.0368682043682, 0.0981413488, 0.01084570),
        (0.01, 0.05, -0.0756904674028, 0.0978136287137, 0.3494218847, 0.06299067),
        (0.05, 0.1, -0.0574981063438, 0.2207872890126, 0.4734606459, 0.09293446),
    ],
)
def test_the_network_agrees_with_another_computation(
    confinement, temperature, free_energy, energy, excess, energy_excess
):
    found = mean_field_optimum(network, square_loss(Y), d=2, confinement=confinement, temperature=temperature)
    np.testing.assert_allclose(found.free_energy, free_energy, atol=4e-12)
    # These were computed in a box of 7 prior deviations, which leaves 5e-11 in F*.
    np.testing.assert_allclose(found.energy, energy, atol=6e-11)
    constants = particle_constants(found)
    np.testing.assert_allclose(constants.free_energy_excess, excess, atol=2e-10)
    np.testing.assert_allclose(constants.energy_excess, energy_excess, atol=3e-8)
    assert abs(found.duality_gap) < 1e-14
    assert found.refinement_change <= 3e-11
    if confinement == 0.05:
        np.testing.assert_allclose(np.trace(width_covariance(found)), 6.53842650, atol=1e-8)
        np.testing.assert_allclose(np.trace(found.covariance), 184.144, atol=1e-3)
        np.testing.assert_allclose(naive_iteration_radius(found), 51, atol=0.5)


@pytest.mark.parametrize("as_kernel", [False, True])
def test_a_quadratic_problem_has_its_closed_form(as_kernel):
    a, b, h, c, lam = 0.5, 1.5, 0.3, 1.0, 0.2
    common = {"d": 1, "confinement": a / 2, "temperature": lam}
    if as_kernel:
        found = quadratic_optimum(
            lambda x, y: b / 2 * x @ y.T,
            potential=lambda x: -(h + b * c) * x[:, 0],
            added_constant=b * c**2 / 2,
            **common,
        )
    else:
        found = mean_field_optimum(
            lambda x: x, square_loss([c]), potential=lambda x: -h * x[:, 0], loss_weights=[b], **common
        )
        np.testing.assert_allclose(found.predictions, 0.9, atol=1e-13)
        np.testing.assert_allclose(width_covariance(found), lam / (a + b), rtol=1e-12)
        wanted = width_covariance(found, lambda x: np.stack([x[:, 0], 2 * x[:, 0] + 1], axis=1))
        np.testing.assert_allclose(wanted, lam / (a + b) * np.array([[1, 2], [2, 4]]), rtol=1e-12)
    np.testing.assert_allclose((found.energy, found.free_energy), (0.04, -0.15215863345352), atol=2e-14)
    constants = particle_constants(found)
    np.testing.assert_allclose(constants.free_energy_excess, 0.13862943611199, rtol=1e-12)
    np.testing.assert_allclose(constants.energy_excess, 0, atol=1e-12)
    np.testing.assert_allclose(constants.excess_bound, b / 2 * lam / a, rtol=1e-12)
    np.testing.assert_allclose(naive_iteration_radius(found), b / a, rtol=1e-12)


def test_three_dimensions_are_the_sum_of_their_modes():
    strengths, target, lam = np.array([1.5, 0.4, 3.0]), np.array([1.0, -0.5, 0.2]), 0.2
    found = mean_field_optimum(
        lambda x: x, square_loss(target), loss_weights=strengths, d=3, confinement=0.25, temperature=lam, grid_points=41
    )
    means = strengths * target / (0.5 + strengths)
    np.testing.assert_allclose(found.predictions, means, atol=1e-12)
    energy = (0.25 * means**2 + strengths / 2 * (means - target) ** 2).sum() + 3 * lam / 2
    np.testing.assert_allclose(found.energy, energy, rtol=1e-12)
    np.testing.assert_allclose(
        particle_constants(found).free_energy_excess, lam / 2 * np.log1p(strengths / 0.5).sum(), rtol=1e-11
    )


def test_density_estimation_agrees_with_an_independent_computation():
    data = [-1.5, -1.2, -0.9, 0.8, 1, 1.1, 1.6, 1.9]
    found = density_optimum(data, bandwidth=0.6, smoothing=0.3, confinement=0.02, temperature=0.05)
    np.testing.assert_allclose(found.energy, 0.0461472536, atol=1e-10)
    np.testing.assert_allclose(found.free_energy, -0.0170883219244, atol=2e-13)
    constants = particle_constants(found)
    np.testing.assert_allclose(constants.free_energy_excess, 0.16296011, atol=1e-8)
    np.testing.assert_allclose(constants.energy_excess, 0.04996893, atol=2e-8)


def test_density_estimation_in_two_dimensions_does_not_see_a_rotation():
    data = np.random.default_rng(0).normal(size=(12, 2))
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    settings = {"bandwidth": 1.5, "smoothing": 0.5, "confinement": 0.1, "temperature": 0.1, "grid_points": 61}
    one, other = (density_optimum(rows, **settings) for rows in (data, data @ turn))
    np.testing.assert_allclose((one.free_energy, one.energy), (other.free_energy, other.energy), atol=1e-11)
    np.testing.assert_allclose(
        particle_constants(one).free_energy_excess, particle_constants(other).free_energy_excess, rtol=1e-9
    )


def test_the_logistic_optimum_is_that_of_the_textbook_dual():
    found = small_optimum(logistic_loss([1, -1]))
    grid = found.grid

    def negative_dual(p):
        conjugate = np.sum(p * np.log(p) + (1 - p) * np.log1p(-p))
        potential = grid.feature_values @ (np.array([-1, 1]) * p / 2) + grid.potential
        return conjugate / 2 + 0.3 * np.log(np.exp(-potential / 0.3).sum() * grid.volume)

    best = minimize(negative_dual, [0.5, 0.5], bounds=[(1e-6, 1 - 1e-6)] * 2, options={"ftol": 1e-15, "gtol": 1e-9})
    np.testing.assert_allclose(found.free_energy, -best.fun, atol=1e-12)
    np.testing.assert_allclose(found.multipliers, np.array([-1, 1]) * best.x, atol=1e-6)
    assert free_energy_on(found.grid, found.law) == pytest.approx(found.free_energy, abs=1e-14)


def test_the_added_constant_is_the_derivative_along_the_path_of_optima():
    found, step = small_optimum(), 1e-4
    low, high = (
        particle_constants(small_optimum(temperature=0.3 * s)).free_energy_excess for s in (1 - step, 1 + step)
    )
    constants = particle_constants(found)
    np.testing.assert_allclose(constants.temperature_derivative, (high - low) / (0.6 * step), rtol=2e-7)
    assert constants.energy_excess == pytest.approx(
        constants.free_energy_excess - 0.3 * constants.temperature_derivative
    )


def free_energy(count, temperature):
    """min L^N / N for F = (1/2)(E h - 1.5)^2 + 0.2 E x^2, h = 2 tanh(x + 1/2), exactly, for any number of particles.

    The square of the mean is a Gaussian average of exponentials that factorise over particles; the potential is first
    tilted to the mean-field optimum, so that the average does not cancel.
    """
    x = np.linspace(-14, 14, 4001)
    h = 2 * np.tanh(x + 0.5)
    found = mean_field_optimum(
        lambda p: 2 * np.tanh(p + 0.5), square_loss([1.5]), d=1, confinement=0.2, temperature=temperature
    )
    mean = found.predictions[0]
    tilted = np.exp(-(0.2 * x**2 + (mean - 1.5) * h) / temperature) * (x[1] - x[0])
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    phases = np.exp(1j * np.outer(nodes, h - mean) / np.sqrt(count * temperature)) @ tilted
    log_average = np.log(np.sum(weights / weights.sum() * (phases / tilted.sum()) ** count).real)
    shift = (mean - 1.5) ** 2 / 2 - (mean - 1.5) * mean
    value = shift - temperature * (np.log(tilted.sum()) + log_average / count)
    return count * (value - found.free_energy), found


def test_the_constants_are_those_of_the_exact_partition_function_of_n_particles():
    values = {n: free_energy(n, 0.1)[0] for n in (50, 100)}
    constants = particle_constants(free_energy(50, 0.1)[1])
    np.testing.assert_allclose(2 * values[100] - values[50], constants.free_energy_excess, rtol=1e-3)
    assert abs(values[50] / constants.free_energy_excess - 1) < 0.05
    step = 1e-3

    def energy_excess(n):
        low, high = (free_energy(n, 0.1 * s)[0] for s in (1 - step, 1 + step))
        return values[n] - (high - low) / (2 * step)

    np.testing.assert_allclose(2 * energy_excess(100) - energy_excess(50), constants.energy_excess, rtol=5e-3)


def test_the_gap_of_any_law_lies_in_the_entropy_sandwich():
    found = small_optimum()
    rng = np.random.default_rng(0)
    for strength in (0.01, 0.3, 3.0):
        bumps = strength * np.sin(np.outer(found.grid.points[:, 0], rng.normal(size=6)) @ rng.normal(size=6))
        masses = found.law.grid_masses * np.exp(bumps)
        lower, gap, upper = entropy_sandwich(found, masses / masses.sum())
        assert 0 < lower < gap < upper
    np.testing.assert_allclose(entropy_sandwich(found, found.law.grid_masses), 0, atol=1e-14)


@pytest.mark.parametrize("confinement", [0.2, 1.5])
def test_the_naive_iteration_grows_or_shrinks_by_its_radius(confinement):
    found = small_optimum(square_loss([1.0, 0.5]), confinement=confinement)
    grid, radius, u = found.grid, naive_iteration_radius(found), found.predictions + 1e-7
    errors = []
    for _ in range(12 if radius < 1 else 6):
        potential = grid.feature_values @ (grid.loss_weights * grid.loss.first_derivative(u)) + grid.potential
        u = gibbs_of_potential(grid, potential).predictions
        errors.append(u - found.predictions)
    assert errors[-1] @ errors[-2] < 0
    assert np.linalg.norm(errors[-1]) / np.linalg.norm(errors[-2]) == pytest.approx(radius, rel=0.02)


def test_the_online_constant_is_a_sum_over_modes_for_the_squared_loss():
    found = small_optimum(square_loss([1.0, 0.5]))
    values, vectors = np.linalg.eigh(found.covariance)
    radius, g = values / (2 * 0.3), found.multipliers
    noise = np.diag(vectors.T @ (2 * np.diag(g**2) - np.outer(g, g)) @ vectors)
    expected = np.sum(radius * (1 + radius) / 2 * noise * 2 / (4 * (1 + radius) - 1))
    np.testing.assert_allclose(online_averaging_constant(found), expected, rtol=1e-10)


def test_samples_have_the_moments_of_the_optimum():
    found = small_optimum()
    x = sample_optimum(found, 20_000, rng=np.random.default_rng(1))
    values = np.tanh(x + np.array([0.5, -1.0])) * np.array([2.0, -3.0])
    error = values.std(axis=0) / np.sqrt(len(x))
    assert (np.abs(values.mean(axis=0) - found.predictions) < 4 * error).all()


def test_the_box_grows_where_features_push_the_optimum_out():
    lam, b, c = 0.01, 50.0, 4.0
    found = mean_field_optimum(lambda x: x, square_loss([c]), loss_weights=[b], d=1, confinement=0.5, temperature=lam)
    np.testing.assert_allclose(found.predictions, b * c / (1 + b), rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"temperature": 0.0}, InputError, "temperature must be > 1e-60 and <= 1e.60, got 0"),
        ({"confinement": -1.0}, InputError, "confinement must be > 1e-60 and <= 1e.60, got -1"),
        ({"d": 4}, InputError, "d must be an integer >= 1 and <= 3, got 4"),
        ({"loss_weights": [1.0]}, InputError, r"loss_weights must have one entry per feature \(2\), got 1"),
        ({"potential": lambda x: np.full(len(x), np.nan)}, InputError, "potential must be finite"),
        (
            {"loss": square_loss([1, 2, 3])},
            InputError,
            r"targets must have one entry per prediction \(2,\), got \(3,\)",
        ),
        ({"loss": square_loss([1])}, InputError, r"targets must have one entry per prediction \(2,\), got \(1,\)"),
        ({"loss": logistic_loss([1])}, InputError, r"labels must have one entry per prediction \(2,\), got \(1,\)"),
        ({"loss": Loss(np.sum, np.sum, np.sum)}, InputError, r"loss must give one value per feature, shape \(2,\)"),
        ({"loss": "square"}, InputError, "loss must be a Loss, such as .*, got 'square'"),
        ({"added_constant": "a"}, InputError, "added_constant must be numeric, got"),
        ({"added_constant": np.nan}, InputError, "added_constant must be finite, got nan"),
        ({"half_width": 1.0}, ConvergenceError, "half_width = 1 cuts the optimum off"),
        ({"grid_points": 11, "temperature": 1e-4}, ConvergenceError, "grid_points = 11 do not resolve the optimum"),
        (
            {"grid_points": None, "temperature": 1e-300, "confinement": 1e-300},
            InputError,
            "confinement must be > 1e-60",
        ),
    ],
)
def test_wrong_problems_are_refused_in_one_line(change, error, words):
    with pytest.raises(error, match=words):
        small_optimum(**change)


def test_wrong_losses_kernels_and_masses_are_refused():
    with pytest.raises(InputError, match="labels must be 1 or -1, got 0"):
        logistic_loss([0, 1])
    common = {"d": 1, "confinement": 0.2, "temperature": 0.3, "grid_points": 101}
    with pytest.raises(InputError, match="added_constant must be finite, got nan"):
        quadratic_optimum(lambda x, y: np.exp(-((x - y.T) ** 2)), added_constant=np.nan, **common)
    with pytest.raises(InputError, match="interaction_kernel must be positive semidefinite"):
        quadratic_optimum(lambda x, y: -np.exp(-((x - y.T) ** 2)), **common)
    with pytest.raises(InputError, match="interaction_kernel must be positive semidefinite"):
        quadratic_optimum(lambda x, y: np.cos(x - y.T) ** 3 + (x - y.T) ** 2, **common)
    with pytest.raises(InputError, match="grid_masses must sum to 1, got 2"):
        entropy_sandwich(small_optimum(grid_points=101), np.full(101, 2 / 101))


@pytest.mark.parametrize(
    ("targets", "temperature"),
    [
        ((0.0,), 0.01),
        ((1e3,), 0.01),
        ((1e4,), 0.1),
        ((1.0,), 1e-8),
        ((-7.0,), 1e4),
        ((100.0, -40.0), 0.1),
        ((5.0, -5.0, 0.0), 0.1),
    ],
)
def test_an_optimum_far_from_0_has_its_closed_form(targets, temperature):
    """h(x) = x with squared loss: N(m, temperature/(2 confinement)), m = w y/(w + 2 confinement), w = 1/n."""
    y, confinement = np.array(targets), 0.5
    weight, d = 1 / y.size, y.size
    found = mean_field_optimum(lambda x: x, square_loss(y), d=d, confinement=confinement, temperature=temperature)
    mean, variance = weight * y / (weight + 2 * confinement), temperature / (2 * confinement)
    energy = weight / 2 * ((mean - y) ** 2).sum() + confinement * ((mean**2).sum() + d * variance)
    entropy = -d / 2 * np.log(2 * np.pi * np.e * variance)
    np.testing.assert_allclose(found.predictions, mean, rtol=1e-9, atol=1e-9 * np.sqrt(variance))
    np.testing.assert_allclose(np.diag(found.covariance), variance, rtol=1e-8)
    np.testing.assert_allclose((found.energy, found.entropy), (energy, entropy), rtol=1e-7)
    np.testing.assert_allclose(found.free_energy, energy + temperature * entropy, rtol=1e-9)


@pytest.mark.parametrize("points", [None, 601])
@pytest.mark.parametrize("centre", [-30.0, 1e3])
def test_a_problem_that_is_moved_has_the_optimum_of_the_one_around_0(centre, points):
    """With two wells and two features, of which one is even: the confinement is moved by the potential."""
    confinement, settings = 0.2, {"d": 1, "confinement": 0.2, "temperature": 0.05}

    def moved(by):
        def potential(x):
            x = x[:, 0]
            return np.exp(-2 * (x - by) ** 2) + confinement * ((x - by) ** 2 - x**2)

        def features(x):
            return np.hstack([np.tanh(x - by), np.cos(x - by)])

        return mean_field_optimum(
            features, square_loss([0.3, 0.1]), potential=potential, grid_points=points, **settings
        )

    here, there = moved(0.0), moved(centre)
    np.testing.assert_allclose(there.predictions, here.predictions, rtol=1e-7)
    np.testing.assert_allclose(there.covariance, here.covariance, rtol=1e-7)
    np.testing.assert_allclose(there[:3], here[:3], rtol=1e-8)
    np.testing.assert_allclose(there.centre, here.centre + centre, atol=2)
    assert not here.centre.any()
    assert sample_optimum(there, 100, rng=np.random.default_rng(0)).mean() == pytest.approx(centre, abs=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_field_optimum(3.0, square_loss([1.0]), **LINE), "feature_map must be a function .*, got a float"),
        (
            lambda: mean_field_optimum(lambda x: math.tanh(x), square_loss([1.0]), **LINE),
            "feature_map must take arrays",
        ),
        (
            lambda: mean_field_optimum(np.tanh, square_loss([1.0]), potential=lambda x: x[:, 1], **LINE),
            "potential must take arrays of points",
        ),
        (lambda: quadratic_optimum("k", **LINE), "interaction_kernel must be a function .*, got a str"),
        (lambda: quadratic_optimum(lambda x, y: x @ np.ones((1, 3)), **LINE), "interaction_kernel must give a matrix"),
        (
            lambda: scalar_problem(np.cos, math.tanh, interaction=1, target_mean=0, confinement=1, temperature=1),
            "feature must",
        ),
        (
            lambda: gibbs_of_potential(small_optimum().grid, [1.0, 2.0]),
            r"potential must give one row per point \(601\)",
        ),
        (
            lambda: density_optimum([1.0], bandwidth=1e-300, smoothing=0.1, confinement=1, temperature=1),
            "bandwidth must",
        ),
        (lambda: sample_optimum(small_optimum(), 1e100, rng=np.random.default_rng(0)), "particles must be an integer"),
    ],
)
def test_functions_and_numbers_that_cannot_be_used_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()

import numpy as np
import pytest
from scipy.linalg import expm

from unlazy.checks import InputError
from unlazy.theory.mean_field.dual import width_covariance
from unlazy.theory.mean_field.finite_step import step_size_bias
from unlazy.theory.mean_field.fluctuations import width_fluctuations
from unlazy.theory.mean_field.grid import Loss, logistic_loss, square_loss
from unlazy.theory.mean_field.optimum import mean_field_optimum

A, B, LAM = 0.5, 1.5, 0.2


def quadratic(d=1, grid_points=801):
    """F = (A/2) E|x|^2 + (B/2) |E x - 1|^2."""
    return mean_field_optimum(
        lambda x: x,
        square_loss(np.ones(d)),
        loss_weights=np.full(d, B),
        d=d,
        confinement=A / 2,
        temperature=LAM,
        grid_points=grid_points,
    )


@pytest.mark.parametrize(("dimension", "points", "error"), [(1, 801, 2e-4), (2, 121, 8e-3)])
def test_the_mean_of_a_quadratic_problem_relaxes_with_its_rate(dimension, points, error):
    times = np.array([0.0, 0.05, 0.3, 1.0, 3.0])
    found = width_fluctuations(quadratic(dimension, points), times)
    expected = LAM / (A + B) + (LAM / A - LAM / (A + B)) * np.exp(-2 * (A + B) * times)
    np.testing.assert_allclose(found, expected[:, None, None] * np.eye(dimension), rtol=error, atol=1e-9)


def test_fluctuations_are_those_of_the_dense_exponential():
    """Sigma_t of the docstring with matrices on the whole grid, for a loss whose curvatures differ."""
    lam = 0.3
    found = mean_field_optimum(
        lambda x: np.tanh(x + np.array([0.5, -1.0])) * np.array([2.0, -3.0]),
        logistic_loss([1, -1]),
        d=1,
        confinement=0.2,
        temperature=lam,
        grid_points=121,
    )
    q, h = found.law.grid_masses, found.grid.feature_values - found.predictions
    potential, spacing = -lam * found.law.log_grid_masses, found.grid.volume
    generator = np.zeros((121, 121))
    for i in range(120):
        generator[i, i + 1] = lam / spacing**2 * np.exp((potential[i] - potential[i + 1]) / (2 * lam))
        generator[i + 1, i] = lam / spacing**2 * np.exp((potential[i + 1] - potential[i]) / (2 * lam))
    generator -= np.diag(generator.sum(axis=1))
    coupled = np.eye(121) + h * found.loss_curvature / lam @ (h.T * q)
    stationary = np.linalg.inv(coupled)
    times = np.array([0.0, 0.02, 0.2, 1.0, 5.0, 60.0])
    for time, covariance in zip(times, width_fluctuations(found, times), strict=True):
        evolved = expm(coupled @ generator * time) @ h
        expected = (h.T * q) @ stationary @ h + (evolved.T * q) @ (np.eye(121) - stationary) @ evolved
        np.testing.assert_allclose(covariance, expected, rtol=1e-4, atol=1e-6)
    ends = width_fluctuations(found, times)[[0, -1]]
    np.testing.assert_allclose(ends, [found.covariance, width_covariance(found)], rtol=1e-6)


def test_a_step_size_adds_what_it_does_to_gaussian_particles():
    """The mean has rate A + B and the other modes A; a mode of rate r has the variance LAM/(r (1 - step r/2))."""
    found = quadratic(grid_points=401)
    x = found.grid.points
    given = {"feature_gradient": np.ones((401, 1, 1)), "feature_laplacian": np.zeros((401, 1))}
    bias = step_size_bias(found, **given, potential_gradient=A * x, potential_laplacian=np.full(401, A))
    np.testing.assert_allclose((bias.energy_slope, bias.energy_excess_slope), (LAM * A / 4, LAM * B / 4), rtol=1e-9)
    np.testing.assert_allclose(bias.covariance_slope, LAM / 2, rtol=1e-6)


def test_a_step_size_adds_what_it_does_to_one_particle_in_a_double_well():
    """Without interaction: the stationary law of the chain, from its transition matrix, at two small steps."""
    lam, confinement, points = 0.5, 0.4, 601
    linear = Loss(lambda f: f, np.ones_like, np.zeros_like)
    found = mean_field_optimum(
        lambda x: np.exp(-(x**2)), linear, d=1, confinement=confinement, temperature=lam, grid_points=points
    )
    x = found.grid.points[:, 0]
    bump = np.exp(-(x**2))
    bias = step_size_bias(
        found,
        feature_gradient=(-2 * x * bump)[:, None, None],
        feature_laplacian=((4 * x**2 - 2) * bump)[:, None],
        potential_gradient=2 * confinement * x[:, None],
        potential_laplacian=np.full(points, 2 * confinement),
    )

    def slope(step):
        mean = x - step * (2 * confinement * x - 2 * x * bump)
        chain = np.exp(-((x[None, :] - mean[:, None]) ** 2) / (4 * lam * step))
        chain /= chain.sum(axis=1, keepdims=True)
        law = np.linalg.matrix_power(chain, 2**14)[points // 2]
        return (law @ (confinement * x**2 + bump) - found.energy) / step

    np.testing.assert_allclose(bias.energy_slope, 2 * slope(0.02) - slope(0.04), rtol=1e-2)
    assert bias.energy_excess_slope == 0


def test_wrong_times_losses_and_shapes_are_refused():
    found = quadratic(grid_points=101)
    with pytest.raises(InputError, match="time must be >= 0, got -1"):
        width_fluctuations(found, [-1.0])
    shapes = {
        "feature_gradient": np.ones((101, 1, 1)),
        "feature_laplacian": np.zeros((101, 1)),
        "potential_laplacian": np.ones(101),
    }
    with pytest.raises(InputError, match=r"potential_gradient must have shape \(101, 1\), got \(3,\)"):
        step_size_bias(found, **shapes, potential_gradient=[1.0, 2.0, 3.0])
    logistic = mean_field_optimum(
        lambda x: x, logistic_loss([1]), d=1, confinement=0.2, temperature=0.3, grid_points=101
    )
    with pytest.raises(InputError, match="optimum must have a loss of constant curvature"):
        step_size_bias(logistic, **shapes, potential_gradient=np.ones((101, 1)))

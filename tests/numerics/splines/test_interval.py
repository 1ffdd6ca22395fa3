import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import BSpline
from scipy.stats import norm

from unlazy.checks import InputError
from unlazy.numerics.splines.box import tensor_diffused, tensor_values
from unlazy.numerics.splines.interval import SplineBasis


def diffused_by_quadrature(basis, j, x, t):
    """E_j and dE_j/dx by scipy's spline and adaptive quadrature, cell by cell."""
    knots = np.r_[[basis.low] * basis.degree, basis.breaks, [basis.high] * basis.degree]
    spline = BSpline.basis_element(knots[j : j + basis.degree + 2], extrapolate=False)
    scale = (basis.degree + 1) / (knots[j + basis.degree + 1] - knots[j])
    m, s = np.exp(-t), np.sqrt(-np.expm1(-2 * t))

    def kernel(y):
        return scale * np.nan_to_num(float(spline(y))) * norm.pdf(x, m * y, s)

    cells = list(zip(basis.breaks[:-1], basis.breaks[1:], strict=True))[max(0, j - basis.degree) : j + 1]
    value = sum(quad(kernel, *cell, epsabs=1e-14, epsrel=1e-12)[0] for cell in cells)
    slope = sum(quad(lambda y: -(x - m * y) / s**2 * kernel(y), *c, epsabs=1e-14, epsrel=1e-12)[0] for c in cells)
    return value, slope


@pytest.mark.parametrize(
    ("j", "t", "x", "value", "derivative"),
    [
        (2, 0.1, -0.3, 0.853650718199, -0.245812903169),
        (6, 0.1, 0.9, 0.906878986374, -0.413400197579),
        (0, 1.0, 0.9, 0.178657120744, -0.254127826671),
    ],
)
def test_the_diffused_basis_agree_with_an_independent_computation(j, t, x, value, derivative):
    found = SplineBasis(7, 2).diffused([x], t)
    np.testing.assert_allclose(found.value[0, j], value, rtol=1e-11)
    np.testing.assert_allclose(found.derivative[0, j], derivative, rtol=1e-11)
    assert found.log_scale[0] == 0


@pytest.mark.parametrize(
    ("n_basis", "degree", "low", "high"), [(9, 1, -1, 1), (12, 3, -2, 5), (8, 5, 0, 1), (4, 0, -1, 1)]
)
@pytest.mark.parametrize("t", [0.02, 0.3, 3.0])
def test_the_diffused_basis_agrees_with_adaptive_quadrature(n_basis, degree, low, high, t):
    basis = SplineBasis(n_basis, degree, low, high)
    points = np.array([low - 0.1, low + 0.37 * (high - low), high])
    found = basis.diffused(points, t)
    assert (found.log_scale == 0).all()
    for j in (0, n_basis // 2, n_basis - 1):
        expected = np.array([diffused_by_quadrature(basis, j, x, t) for x in points])
        np.testing.assert_allclose(found.value[:, j], expected[:, 0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.derivative[:, j], expected[:, 1], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("t", [1e-12, 1e-4, 0.05, 1.0, 8.0, 1000.0])
def test_both_ways_to_diffuse_agree_where_neither_underflows(t):
    basis = SplineBasis(13, 3)
    x = np.r_[np.linspace(-1, 1, 41), basis.breaks] * np.exp(-t)
    plain, logs = basis.diffused(x, t), basis.log_diffused(x, t)
    value = np.exp(logs.log_value + logs.log_scale[:, None])
    np.testing.assert_allclose(plain.value, value, atol=1e-12 * value.max())
    slopes = value * logs.log_derivative
    np.testing.assert_allclose(plain.derivative, slopes, atol=1e-9 * np.abs(slopes).max())


def test_diffusing_for_no_time_gives_back_the_spline_and_for_ever_the_normal_law():
    basis = SplineBasis(9, 3)
    x = np.linspace(-0.9, 0.9, 12)
    np.testing.assert_allclose(basis.diffused(x, 1e-14).value, basis.values(x), atol=1e-6)
    late = basis.diffused(x, 400.0)
    np.testing.assert_allclose(late.value, np.repeat(norm.pdf(x)[:, None], 9, axis=1), rtol=1e-13)
    np.testing.assert_allclose(late.derivative / late.value, -np.repeat(x[:, None], 9, axis=1), rtol=1e-12)


@pytest.mark.parametrize("x", [2.5, -3.0, 1e4])
def test_far_outside_the_score_points_to_the_nearest_end(x):
    basis, t = SplineBasis(8, 2), 0.01
    found = tensor_diffused((basis,), np.full(8, 1 / 8), [[x]], t)
    m, variance = np.exp(-t), -np.expm1(-2 * t)
    distance = abs(x - m * np.sign(x))
    # the edge value times a normal tail, up to variance/distance^2 and the slope at the edge
    np.testing.assert_allclose(found.score[0, 0], -np.sign(x) * distance / variance, rtol=3 * variance / distance**2)
    edge = basis.values([np.sign(x)]).mean() / m
    expected = np.log(edge) + norm.logsf(distance / np.sqrt(variance))
    np.testing.assert_allclose(found.log_density[0], expected, rtol=1e-2)


def test_the_score_of_a_density_with_a_gap_is_the_gradient_of_its_logarithm():
    basis = SplineBasis(12, 3)
    weights = np.zeros((12, 12))
    weights[0, 0], weights[-1, 3] = 0.3, 0.7
    points = np.array([[0.3, 0.2], [-0.9, -0.95], [5.0, 5.0], [0.0, 0.0]])
    for t in (1e-3, 0.5):
        found = tensor_diffused((basis, basis), weights, points, t)
        assert np.isfinite(found.log_density).all()
        for axis, h in enumerate(1e-5 * np.eye(2)):
            up, down = (tensor_diffused((basis, basis), weights, points + sign * h, t).log_density for sign in (1, -1))
            np.testing.assert_allclose(found.score[:, axis], (up - down) / 2e-5, rtol=1e-5)


def test_basis_functions_are_densities_and_their_masses_add_up():
    basis = SplineBasis(11, 3, -2, 3)
    for j in range(11):
        assert quad(lambda y, j=j: basis.values([y])[0, j], -2, 3, limit=200)[0] == pytest.approx(1, abs=1e-8)
    edges = np.array([-2, -1.3, 0.2, 0.25, 3])
    masses = basis.masses(edges)
    np.testing.assert_allclose(masses.sum(axis=0), 1, rtol=1e-13)
    np.testing.assert_allclose(masses[1, 4], quad(lambda y: basis.values([y])[0, 4], -1.3, 0.2)[0], rtol=1e-9)


def test_a_tensor_product_is_the_sum_over_all_index_tuples():
    rng = np.random.default_rng(0)
    bases = (SplineBasis(4, 1), SplineBasis(5, 2, 0, 2), SplineBasis(6, 3, -3, 0))
    weights = rng.dirichlet(np.ones(120)).reshape(4, 5, 6)
    points = rng.uniform([-1, 0, -3], [1, 2, 0], (7, 3))
    a, b, c = (basis.values(points[:, i]) for i, basis in enumerate(bases))
    np.testing.assert_allclose(tensor_values(bases, weights, points), np.einsum("ijk,ni,nj,nk->n", weights, a, b, c))


def test_score_matching_is_maximum_likelihood():
    """The difference of the denoising objectives of two spline models is that of their likelihoods at T0."""
    basis, datum = SplineBasis(7, 2), 0.35
    rng = np.random.default_rng(1)
    models = rng.dirichlet(np.full(7, 5.0), 2)
    hermite, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()

    def at(t):
        m, s = np.exp(-t), np.sqrt(-np.expm1(-2 * t))
        points = (m * datum + s * hermite)[:, None]
        return [tensor_diffused((basis,), a, points, t) for a in models], -hermite / s

    nodes, node_weights = np.polynomial.legendre.leggauss(60)
    low, high = np.log(0.01), np.log(12.0)
    objective = np.zeros(2)
    for u, w in zip(nodes, node_weights, strict=True):
        t = np.exp(low + (high - low) * (u + 1) / 2)
        found, target = at(t)
        errors = [weights @ (model.score[:, 0] - target) ** 2 for model in found]
        objective += np.array(errors) * w * t * (high - low) / 2
    likelihoods = [weights @ model.log_density for model in at(0.01)[0]]
    assert abs(objective[0] - objective[1]) > 0.01
    np.testing.assert_allclose(objective[0] - objective[1], likelihoods[1] - likelihoods[0], rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SplineBasis(4, 3), "n_basis must be an integer >= 5"),
        (lambda: SplineBasis(9, -1), "degree must be an integer >= 0"),
        (lambda: SplineBasis(9, 3, 1.0, 1.0), "high must be above low = 1"),
        (lambda: SplineBasis(9, 3).values([0.2, 1.5]), r"x must be in the support \[-1, 1\], got 1.5"),
        (lambda: SplineBasis(9, 3).diffused([0.2], 0.0), "t must be > 0, got 0"),
        (lambda: SplineBasis(9, 3).diffused([np.nan], 1.0), "x must be finite"),
        (lambda: SplineBasis(9, 3).masses([0.5, 0.1]), "edges must be at least two increasing"),
        (lambda: tensor_values((SplineBasis(9, 3),), np.ones(8), [[0.0]]), r"coefficients must have the shape \(9,\)"),
        (lambda: tensor_values((SplineBasis(9, 3),), np.ones(9), [[0.0, 1.0]]), r"points must have 1 column\(s\)"),
        (lambda: tensor_diffused((SplineBasis(9, 3),), -np.ones(9), [[0.0]], 1.0), "coefficients must be >= 0"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()

import numpy as np
import pytest
from scipy.integrate import quad

from unlazy.checks import InputError
from unlazy.numerics.gaussian import normal_nodes
from unlazy.theory.in_context.landscape import (
    attention_landscape,
    attention_saddle,
    descent_time,
    escape_slope,
    saddle_curvature,
    slope_bound,
)


def random_moments(rng, teachers=3, features=3, mixing=1.0):
    """Features and whitened teacher features as values on finitely many points, and the strength r."""
    points, strength = 400, 0.7
    raw = np.tanh(rng.standard_normal((points, teachers + 4)))
    teacher = raw[:, :teachers]
    root = np.linalg.cholesky(teacher.T @ teacher / points)
    teacher = np.sqrt(strength) * np.linalg.solve(root, teacher.T).T
    features = teacher @ rng.standard_normal((teachers, features)) + mixing * raw @ rng.standard_normal(
        (teachers + 4, features)
    )
    return features, teacher, strength


def landscape_of(features, teacher, strength):
    n = len(features)
    return attention_landscape(teacher.T @ features / n, features.T @ features / n, strength)


def loss_of(features, teacher):
    fit = np.linalg.lstsq(features, teacher, rcond=None)[0]
    return np.mean(np.sum((teacher - features @ fit) ** 2, axis=1))


@pytest.mark.parametrize("teachers", [2, 3, 5])
def test_the_loss_is_that_of_least_squares_and_the_residual_its_covariance(teachers):
    features, teacher, strength = random_moments(np.random.default_rng(teachers), teachers)
    found = landscape_of(features, teacher, strength)
    np.testing.assert_allclose(found.loss, loss_of(features, teacher), rtol=1e-10)
    missed = teacher - features @ found.best_fit.T
    np.testing.assert_allclose(found.missed_moment, missed.T @ missed / len(missed), atol=1e-12)
    assert found.loss >= max(teachers - 3, 0) * strength - 1e-12


@pytest.mark.parametrize("teachers", [3, 5])
def test_the_slope_is_the_derivative_towards_its_rotation_and_no_rotation_is_steeper(teachers):
    rng = np.random.default_rng(7)
    features, teacher, strength = random_moments(rng, teachers)
    found = landscape_of(features, teacher, strength)

    def derivative(rotation, step=1e-5):
        ends = [loss_of((1 - s) * features + s * teacher @ rotation.T, teacher) for s in (step, -step)]
        return (ends[0] - ends[1]) / (2 * step)

    assert np.linalg.norm(found.rotation, 2) <= 1 + 1e-12
    np.testing.assert_allclose(derivative(found.rotation), found.steepest_slope, rtol=1e-6)
    for _ in range(200):
        rotation = np.linalg.svd(rng.standard_normal((3, teachers)), full_matrices=False)
        rotation = rotation[0] @ rotation[2]
        expected = -2 * np.trace(rotation @ found.missed_moment @ found.best_fit)
        assert expected >= found.steepest_slope - 1e-12
    np.testing.assert_allclose(derivative(rotation), expected, rtol=1e-5)


def test_the_bound_has_no_violation_and_is_reached_up_to_a_factor():
    rng, ratios, losses = np.random.default_rng(3), [], []
    for mixing in np.geomspace(0.02, 20, 300):
        features, teacher, strength = random_moments(rng, mixing=mixing)
        largest = np.sqrt(np.linalg.norm(features, axis=1).max() * np.linalg.norm(teacher, axis=1).max())
        found = landscape_of(features, teacher, strength)
        ratios.append(found.steepest_slope / slope_bound(found.loss, strength, largest))
        losses.append(found.loss / strength)
    assert min(losses) < 0.1
    assert max(losses) > 1.2
    assert min(ratios) >= 1
    # a bound with a constant 20 times as large would be violated
    assert min(ratios) < 20


def test_the_bound_is_the_least_sum_over_all_spectra_of_the_residual():
    strength, k = 0.8, 4
    for loss in (0.3, 0.8, 1.1, 2.0, 2.9):
        grid = np.stack(np.meshgrid(*[np.linspace(0, strength, 21)] * (k - 1)), axis=-1).reshape(-1, k - 1)
        last = loss - grid.sum(axis=1)
        kept = (last >= -1e-12) & (last <= strength + 1e-12)
        z = np.column_stack([grid[kept], last[kept]])
        brute = np.min(np.sum(z * (strength - z), axis=1))
        np.testing.assert_allclose(-slope_bound(loss, strength, 1.0), 2 * brute, atol=0.05 * strength**2)
        assert 2 * brute >= -slope_bound(loss, strength, 1.0) - 1e-12


def test_below_the_strength_the_bound_is_that_of_the_paper_and_it_vanishes_at_multiples():
    loss = np.linspace(0.01, 0.49, 7)
    np.testing.assert_allclose(slope_bound(loss, 0.5, 2.0), -2 / 4 * loss * (0.5 - loss), rtol=1e-12)
    np.testing.assert_allclose(slope_bound(0.5 * np.arange(5), 0.5, 2.0), 0, atol=1e-15)


def test_saddle_numbers_of_tanh_agree_with_adaptive_quadrature():
    def mean(function):
        return quad(lambda z: function(z) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), -12, 12, epsabs=1e-14, limit=300)[
            0
        ]

    found = attention_saddle("tanh", 2, 1)
    np.testing.assert_allclose(found.target_moment, mean(lambda z: np.tanh(z) ** 2), rtol=1e-11)
    np.testing.assert_allclose(found.linear_coefficient, mean(lambda z: z * np.tanh(z)), rtol=1e-11)
    np.testing.assert_allclose(found.mean_slope, mean(lambda z: 1 - np.tanh(z) ** 2), rtol=1e-11)
    # by adaptive quadrature, and by a numerical Hessian on the 12-node grid as population
    np.testing.assert_allclose(found.escape_rate, 1.365480112, rtol=1e-9)
    on_grid = attention_saddle("tanh", 2, 1, nodes=12)
    np.testing.assert_allclose(on_grid.target_moment, 0.3956276133, rtol=1e-9)
    np.testing.assert_allclose(on_grid.escape_rate, 1.356546455, rtol=1e-9)
    np.testing.assert_allclose(on_grid.curvature, -3.165020907, rtol=1e-9)
    np.testing.assert_allclose(escape_slope(1.356546, 0.02), 2.6769, atol=5e-5)


def test_closed_forms_of_erf_and_identity():
    erf = attention_saddle("erf", 3, 2)
    np.testing.assert_allclose(erf.target_moment, 2 / np.pi * np.arcsin(2 / 3), rtol=1e-12)
    np.testing.assert_allclose(erf.linear_coefficient, 2 / np.sqrt(3 * np.pi), rtol=1e-12)
    assert erf.multiplicity == 4
    identity = attention_saddle("identity", 4, 1)
    np.testing.assert_allclose([identity.target_moment, identity.escape_rate], [1, 8], rtol=1e-10)


def test_the_flow_is_the_limit_of_small_steps():
    np.testing.assert_allclose(escape_slope(1.3, [0.0, 1e-9, 1e-3]), [2.6, 2.6, 2.6 - 1.3**2 * 1e-3], rtol=1e-6)


@pytest.mark.parametrize(("features", "missing"), [(2, 1), (3, 1), (3, 2), (3, 3)])
def test_saddle_curvature_is_the_second_derivative_on_a_product_grid(features, missing):
    points, weights = normal_nodes(3)
    d = features + missing
    x = np.stack(np.meshgrid(*[points] * d, indexing="ij"), axis=-1).reshape(-1, d)
    masses = np.prod(np.stack(np.meshgrid(*[weights] * d, indexing="ij"), axis=-1).reshape(-1, d), axis=1)
    slots = np.arange(features)
    learned = slots < features - missing
    teacher = np.tanh(x[:, :features])
    h = np.tanh(x[:, np.where(learned, slots, slots + missing)]) / features
    saddle = attention_saddle("tanh", features, missing, nodes=3)

    def moments(h):
        return teacher.T @ (masses[:, None] * h), h.T @ (masses[:, None] * h)

    def loss(s):
        cross, covariance = moments((1 - s) * h + s * np.where(learned, 0.0, teacher))
        return features * saddle.target_moment - np.trace(cross @ np.linalg.solve(covariance, cross.T))

    found = saddle_curvature(*moments(h), saddle.target_moment)
    step = 1e-4
    np.testing.assert_allclose((loss(step) + loss(-step) - 2 * loss(0)) / step**2, found, rtol=1e-5)
    np.testing.assert_allclose(found, saddle.curvature, rtol=1e-10)
    np.testing.assert_allclose(loss(0), saddle.loss, rtol=1e-10)
    largest = np.linalg.norm(h, axis=1).max()
    assert found <= -2 * saddle.loss**2 / largest**2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attention_saddle("relu", 2, 1), "activation must be odd, got values of unequal size at 4.3 and -4.3"),
        (lambda: attention_saddle("tanh", 2, 3), "missing_features must be at most features = 2, got 3"),
        (lambda: attention_saddle("tanh", 2.5, 1), "features must be an integer >= 1, got 2.5"),
        (lambda: attention_saddle("tanh", True, 1), "features must be an integer >= 1, got True"),
        (lambda: attention_saddle("tanh", 3, "3"), "missing_features must be an integer >= 1, got '3'"),
        (lambda: attention_saddle(lambda x: 0 * x, 2, 1), "activation must have a finite E sigma"),
        (lambda: attention_landscape(np.eye(2), np.ones((2, 2)), 1.0), "positive definite with a condition number"),
        (lambda: attention_landscape(np.eye(2), np.eye(3), 1.0), r"feature_moment must have shape \(2, 2\)"),
        (lambda: attention_landscape(2 * np.eye(2), np.eye(2), 1.0), "must be moments of one law"),
        (lambda: attention_landscape(np.eye(2), np.eye(2), 0.0), "target_moment must be > 0, got 0"),
        (lambda: saddle_curvature(0.5 * np.eye(2), np.eye(2), 1.0), "must be those of a saddle"),
        (lambda: slope_bound(-1.0, 1.0, 1.0), "loss must be >= 0, got -1"),
        (lambda: escape_slope(np.nan, 0.1), "escape_rate must be finite"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.filterwarnings("error")
def test_bounds_and_slopes_of_extreme_numbers_are_their_limits():
    # (2/c^2) L (r - L) with L << r, in exact powers of ten
    np.testing.assert_allclose(slope_bound(1e-300, 1e300, 1e-5), -2e10, rtol=1e-12)
    assert slope_bound(1e308, 1e-308, 1.0) == 0
    assert slope_bound(1e300, 1e300, 1e-300) == 0
    assert slope_bound(0.5e300, 1e300, 1e-5) == -np.inf
    np.testing.assert_allclose(escape_slope(3.0, 1e-320), 6.0, rtol=1e-12)
    np.testing.assert_allclose(escape_slope(1e200, 1e200), 2 * 400 * np.log(10) / 1e200, rtol=1e-12)
    assert escape_slope(0.0, 1e308) == 0
    # both sides of where the series takes over
    np.testing.assert_allclose(*(escape_slope(1.0, step) for step in (0.99e-9, 1.01e-9)), rtol=1e-10)


@pytest.mark.parametrize(("start", "end"), [(0.65, 0.1), (0.3, 0.299)])
def test_the_descent_time_is_the_integral_of_one_over_the_bound_on_the_speed(start, end):
    """The slope of `slope_bound` squared over R is the least speed."""
    strength, length, ratio = 0.7, 1.3, 5.0
    expected = quad(lambda loss: ratio / slope_bound(loss, strength, length) ** 2, end, start)[0]
    np.testing.assert_allclose(descent_time(start, end, strength, length, ratio), expected, rtol=1e-9)


def test_a_descent_from_above_the_plateau_is_refused():
    with pytest.raises(InputError, match="start_loss must be below target_moment"):
        descent_time(1.2, 0.3, 1, 1, 1)

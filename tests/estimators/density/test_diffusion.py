import warnings

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import kstest, multivariate_normal
from sklearn.utils.estimator_checks import parametrize_with_checks

from unlazy.checks import InputError
from unlazy.estimators import DiffusionDensity


# one principal direction: a spline for every check; the network is compiled anew for each, which takes minutes
@pytest.mark.filterwarnings("ignore:the plane of support_dimension")
@parametrize_with_checks([DiffusionDensity(support_dimension=1)])
def test_estimator_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([DiffusionDensity(steps=30, width=8)])
def test_the_network_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


def _exponential(n, seed=0):
    return np.random.default_rng(seed).exponential(size=(n, 1))


def test_a_density_integrates_to_one_and_is_near_the_truth():
    model = DiffusionDensity().fit(_exponential(2000))
    x = np.linspace(-20, 30, 200_001)
    density = np.exp(model.score_samples(x[:, None]))
    assert trapezoid(density, x) == pytest.approx(1, abs=1e-4)
    # half the L1 distance of a Gaussian kernel with any bandwidth is above 0.05 here, because of the edge
    assert 0.5 * trapezoid(np.abs(density - np.where(x >= 0, np.exp(-x), 0)), x) < 0.05


def test_units_shift_the_log_density_and_nothing_else():
    x = np.random.default_rng(1).gamma(3.0, size=(300, 2))
    units, shift = np.array([1e-6, 1e5]), np.array([3.0, -1e6])
    plain, scaled = DiffusionDensity().fit(x), DiffusionDensity().fit(x * units + shift)
    expected = plain.score_samples(x) - np.log(units).sum()
    np.testing.assert_allclose(scaled.score_samples(x * units + shift), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("method", "n_basis", "rows"),
    [
        ("exact", 8, _exponential(400)),
        ("reverse", 5, _exponential(400)),
        # most rows lie in the first cells of the box, and some far outside of it
        pytest.param("reverse", "aic", np.exp(np.random.default_rng(0).normal(size=(600, 1))), marks=pytest.mark.slow),
        pytest.param("reverse", "aic", np.random.default_rng(0).standard_cauchy((300, 1)), marks=pytest.mark.slow),
    ],
    ids=["exact", "exponential", "lognormal", "Cauchy"],
)
def test_draws_have_the_law_of_the_density(method, n_basis, rows):
    model = DiffusionDensity(n_basis=n_basis).fit(rows)
    drawn = model.sample(4000, random_state=0, method=method)[:, 0]
    low, high = model.bounds_[0]
    middle, half = (low + high) / 2, (high - low) / 2
    x = (
        middle
        + half * np.r_[np.linspace(-500, -1.1, 20_001), np.linspace(-1.09, 1.09, 50_001), np.linspace(1.1, 500, 20_001)]
    )
    density = np.exp(model.score_samples(x[:, None]))
    cdf = np.r_[0, np.cumsum(np.diff(x) * (density[1:] + density[:-1]) / 2)]
    assert cdf[-1] == pytest.approx(1, abs=1e-3)
    # the deviation of 4000 exact draws is above 0.026 once in a hundred
    assert kstest(drawn, lambda at: np.interp(at, x, cdf)).statistic < 0.03


def test_correlated_rows_are_modelled_along_their_principal_axes():
    """The mean log density of fresh rows is near the exact one, whatever the correlation, and edges keep their axes."""
    rng = np.random.default_rng(0)
    for correlation in (0.8, 0.99):
        law = multivariate_normal([1, 2], [[1, correlation], [correlation, 1]])
        rows, fresh = law.rvs(500, random_state=rng), law.rvs(3000, random_state=rng)
        model = DiffusionDensity().fit(rows)
        assert model.bounds_ is None
        assert law.logpdf(fresh).mean() - 0.25 < model.score(fresh) < law.logpdf(fresh).mean()
    drawn = model.sample(3000, random_state=0)
    assert np.corrcoef(drawn.T)[0, 1] == pytest.approx(0.99, abs=0.004)
    assert DiffusionDensity().fit(rng.random((500, 2))).bounds_ is not None
    # the whole mass: a grid along the box and the Gaussian around it
    along = np.stack(np.meshgrid(*2 * [np.arange(-7.98, 8, 0.04)], indexing="ij"), axis=-1).reshape(-1, 2)
    cell = 0.04**2 * abs(np.linalg.det(model.box_axes_))
    density = np.exp(model.score_samples(model.box_center_ + along @ model.box_axes_))
    assert density.sum() * cell == pytest.approx(1, abs=2e-3)


def test_the_score_along_principal_axes_is_the_gradient_of_the_density():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((400, 2)) @ [[1.0, 20.0], [0.0, 4.0]] + [3.0, 0.0]
    model = DiffusionDensity().fit(rows)
    assert model.bounds_ is None
    for column, step in enumerate(np.diag([1e-4, 2e-3])):
        plain = (model.score_samples(rows[:20] + step) - model.score_samples(rows[:20] - step)) / (2 * step[column])
        np.testing.assert_allclose(model.score_at(rows[:20], 1e-9)[:, column], plain, rtol=5e-3, atol=5e-3)


def test_the_score_is_the_gradient_of_the_diffused_density():
    """In one dimension p_t is an integral over p: by quadrature, and by differences at a small time."""
    model = DiffusionDensity(n_basis=7).fit(_exponential(300))
    low, high = model.bounds_[0]
    center, half = (low + high) / 2, (high - low) / 2
    x = np.linspace(low - 30 * half, high + 30 * half, 600_001)
    density = np.exp(model.score_samples(x[:, None]))
    t = 0.2
    at, step = center + half * np.array([-1.5, -0.4, 0.3, 1.1]), 1e-4 * half

    def diffused(y):
        kernel = np.exp(-((y - center - np.exp(-t) * (x - center)) ** 2) / (2 * half**2 * (1 - np.exp(-2 * t))))
        return trapezoid(density * kernel, x)

    slopes = [(np.log(diffused(y + step)) - np.log(diffused(y - step))) / (2 * step) for y in at]
    np.testing.assert_allclose(model.score_at(at[:, None], t)[:, 0], slopes, rtol=1e-4)
    inside = np.linspace(low + 0.3 * half, high - 0.3 * half, 7)
    plain = model.score_samples((inside + step)[:, None]) - model.score_samples((inside - step)[:, None])
    np.testing.assert_allclose(model.score_at(inside[:, None], 1e-9)[:, 0], plain / (2 * step), rtol=1e-3, atol=1e-3)


def test_rows_on_a_plane_have_a_density_on_it_and_none_off_it():
    rng = np.random.default_rng(0)
    plane = np.linalg.qr(rng.standard_normal((5, 2)))[0]
    inner = rng.uniform(-1, 1, (600, 2))
    rows = inner @ plane.T + 3.0
    model = DiffusionDensity().fit(rows)
    assert model.support_dimension_ == 2
    assert model.kind_ == "spline"
    # the uniform law on the square has density 1/4 with respect to area, whatever the rotation
    at = rng.uniform(-0.6, 0.6, (200, 2))
    assert np.mean(model.score_samples(at @ plane.T + 3.0)) == pytest.approx(np.log(0.25), abs=0.25)
    off = np.linalg.svd(plane.T)[2][2]
    assert (model.score_samples(at[:5] @ plane.T + 3.0 + 0.01 * off) == -np.inf).all()
    drawn = model.sample(50, random_state=1) - 3.0
    np.testing.assert_allclose(drawn - drawn @ plane @ plane.T, 0, atol=1e-12)


def test_off_the_plane_the_score_is_that_of_the_noise():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.uniform(-1, 1, (200, 1)), np.full((200, 1), 7.0)], axis=1)
    model = DiffusionDensity().fit(rows)
    t = 0.3
    found = model.score_at(np.array([[0.2, 7.4], [0.2, 6.0]]), t)
    np.testing.assert_allclose(found[:, 1], -np.array([0.4, -1.0]) / (1 - np.exp(-2 * t)), rtol=1e-12)
    assert found[0, 0] == pytest.approx(found[1, 0], rel=1e-12)
    np.testing.assert_array_equal(model.sample(5, random_state=0)[:, 1], 7.0)


def test_no_new_row_has_density_zero_but_outside_given_bounds():
    rows = _exponential(100)
    assert np.isfinite(DiffusionDensity().fit(rows).score_samples([[-3.0], [60.0], [1e6]])).all()
    bounded = DiffusionDensity(bounds=[[0.0, 20.0]]).fit(rows)
    np.testing.assert_array_equal(np.isfinite(bounded.score_samples([[-0.1], [19.9], [20.1]])), [False, True, False])
    x = np.linspace(0, 20, 20_001)
    assert trapezoid(np.exp(bounded.score_samples(x[:, None])), x) == pytest.approx(1, abs=1e-5)


def test_the_box_is_padded_by_two_in_n_of_the_range():
    rows = np.linspace(2.0, 4.0, 101)[:, None]
    np.testing.assert_allclose(DiffusionDensity().fit(rows).bounds_, [[2 - 4 / 101, 4 + 4 / 101]], rtol=1e-12)


def test_a_row_far_out_does_not_blur_the_others():
    rows = np.random.default_rng(0).uniform(size=(500, 1))
    at = np.linspace(0.1, 0.9, 50)[:, None]
    alone = DiffusionDensity().fit(rows)
    beside = DiffusionDensity().fit(np.concatenate([rows, [[1e7]]]))
    assert beside.n_far_ == 1
    np.testing.assert_allclose(beside.score_samples(at), alone.score_samples(at), atol=0.02)
    assert np.isfinite(beside.score_samples([[1e7]])).all()


def test_duplicates_and_few_rows_give_a_density():
    assert np.isfinite(DiffusionDensity().fit([[0.0], [1.0]]).score_samples([[0.5]])).all()
    repeated = np.repeat([[0.0], [1.0], [1.0], [2.0]], 50, axis=0)
    assert np.isfinite(DiffusionDensity().fit(repeated).score_samples(repeated)).all()


@pytest.mark.slow
def test_a_few_rows_in_many_columns_give_their_gaussian():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((15, 4)) * [1.0, 2.0, 3.0, 4.0]
    model = DiffusionDensity(width=8).fit(rows)
    assert model.kind_ == "net"
    z = rng.standard_normal((5, 4))
    law, mean = model._law, rows.mean(axis=0)
    covariance = (law.coloring * model.scale_).T @ (law.coloring * model.scale_)
    points = mean + (z @ law.coloring) * model.scale_
    # smoothed by the first time and mixed with a wider Gaussian of weight 1/16
    exact = np.logaddexp(
        np.log(15 / 16) + multivariate_normal(mean, covariance).logpdf(points),
        np.log(1 / 16) + multivariate_normal(mean, 4 * covariance).logpdf(points),
    )
    np.testing.assert_allclose(model.score_samples(points), exact, atol=0.01)
    assert np.isfinite(model.score_samples(mean + 1e6 * np.eye(4))).all()


@pytest.mark.slow
def test_the_network_beats_the_gaussian_where_the_rows_are_not_gaussian():
    rng = np.random.default_rng(0)

    def draw(n):
        modes = 2 * rng.integers(0, 2, (n, 4)) - 1
        return modes + 0.3 * rng.standard_normal((n, 4))

    rows, fresh = draw(1500), draw(1000)
    model = DiffusionDensity(steps=1500, random_state=0).fit(rows)
    gaussian = multivariate_normal(rows.mean(axis=0), np.cov(rows.T)).logpdf(fresh).mean()
    exact = np.sum(
        np.logaddexp(-((fresh - 1) ** 2) / 0.18, -((fresh + 1) ** 2) / 0.18) - np.log(2 * 0.3 * np.sqrt(2 * np.pi)), 1
    ).mean()
    assert gaussian + 0.5 * (exact - gaussian) < model.score(fresh) < exact
    drawn = model.sample(500, random_state=0)
    assert np.abs(np.abs(drawn).mean(axis=0) - 1).max() < 0.1
    score = model.score_at(fresh[:50], 0.5)
    assert score.shape == (50, 4)
    assert np.isfinite(score).all()


@pytest.mark.parametrize(
    ("settings", "rows", "message"),
    [
        ({"kind": "splines"}, [[0.0], [1.0]], "kind must be one of auto, spline, net; got 'splines'"),
        ({}, [[1.0, 2.0], [1.0, 2.0]], "X must have two different rows, got n_samples = 2 equal ones"),
        ({}, [[1.0]], "minimum of 2 is required"),
        ({}, [[np.nan], [1.0]], "NaN"),
        ({"support_dimension": None}, [[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]], "support_dimension='auto'"),
        ({"support_dimension": 3}, [[0.0, 0.1], [1.0, 0.3], [2.0, 5.0]], "support_dimension must be an integer >= 1"),
        ({}, [[0.0, 1.0, 3.0], [1.0, 5.0, 2.0]], "X must have more than 3 rows"),
        ({"kind": "spline"}, np.random.default_rng(0).random((20, 4)), "'spline' for 4"),
        ({"bounds": [[0.0, 0.5]]}, [[0.2], [0.7]], r"X must lie in bounds \[0, 0.5\] of column 0, got 0.7 in row 1"),
        ({"bounds": [[1.0, 0.5]]}, [[0.2], [0.7]], r"bounds must increase, got \[1.0, 0.5\]"),
        ({"bounds": [0.0, 1.0]}, [[0.2], [0.7]], "bounds must have 2 dimension"),
        ({"n_basis": 4}, [[0.2], [0.7]], "n_basis must be an integer >= 5"),
        ({"n_basis": "bic"}, [[0.2], [0.7]], 'n_basis must be "aic"'),
        ({"first_time": 0.0}, [[0.2], [0.7]], "first_time must be > 0"),
        ({}, [[1e300], [-1e300]], "overflow"),
    ],
)
def test_wrong_input_is_named(settings, rows, message):
    with pytest.raises(ValueError, match=message):
        DiffusionDensity(**settings).fit(rows)


def test_wrong_calls_are_named():
    model = DiffusionDensity().fit([[0.0], [1.0], [0.5]])
    with pytest.raises(InputError, match="time must be > 0, got 0"):
        model.score_at([[0.5]], 0.0)
    with pytest.raises(InputError, match="n_samples must be an integer >= 1, got 0"):
        model.sample(0)
    with pytest.raises(InputError, match="method must be one of auto, exact, reverse"):
        model.sample(1, method="inverse")


def test_a_plane_that_leaves_variance_is_a_warning():
    rows = np.random.default_rng(0).standard_normal((50, 3))
    with pytest.warns(UserWarning, match="leaves .*% of the variance"):
        DiffusionDensity(support_dimension=1).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DiffusionDensity().fit(rows[:, :1])

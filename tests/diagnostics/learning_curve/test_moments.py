import matplotlib.pyplot as plt
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.diagnostics import LearningCurve


def _population(d=40):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    covariance = (basis / np.arange(1, d + 1)) @ basis.T
    covariance = (covariance + covariance.T) / 2
    teacher = rng.normal(size=d)
    teacher /= np.sqrt(teacher @ covariance @ teacher)
    return covariance, covariance @ teacher, 1.25, teacher


def test_errors_are_those_of_ridge_fits_to_gaussian_rows():
    covariance, cross, variance, teacher = _population()
    curve = LearningCurve("linear").fit_moments(covariance, cross, variance)
    assert curve.noise_estimate().noise_variance == pytest.approx(0.25)
    root = np.linalg.cholesky(covariance)
    rng = np.random.default_rng(1)
    for n, penalty in ((80, 0.5), (160, 5.0)):
        errors, training = [], []
        for _ in range(200):
            X = rng.normal(size=(n, 40)) @ root.T
            y = X @ teacher + 0.5 * rng.normal(size=n)
            w = np.linalg.solve(X.T @ X + penalty * np.eye(40), X.T @ y)
            errors.append((w - teacher) @ covariance @ (w - teacher) + 0.25)
            training.append(np.mean((y - X @ w) ** 2))
        found = curve.predict(n, penalty)
        for values, prediction in ((errors, found.test_error), (training, found.training_error)):
            error = np.std(values) / len(values) ** 0.5
            assert abs(np.mean(values) - prediction) < 4 * error + 0.01 * prediction
            assert 4 * error + 0.01 * prediction < 0.1 * prediction


def test_isotropic_case_is_its_closed_form():
    """With v the effective penalty per eigenvalue and a rows per column: a - 1/(1 + v) = penalty/v."""
    d, a, penalty, noise = 100, 2.0, 0.5, 0.25
    curve = LearningCurve("linear").fit_moments(np.eye(d) / d, np.full(d, 1 / d), 1 + noise)
    found = curve.predict(a * d, penalty)
    v = (1 + penalty - a + np.sqrt((1 + penalty - a) ** 2 + 4 * a * penalty)) / (2 * a)
    error = ((v / (1 + v)) ** 2 + noise) / (1 - 1 / (a * (1 + v) ** 2))
    assert found.test_error == pytest.approx(error, rel=1e-9)
    assert found.training_error == pytest.approx((penalty / (a * v)) ** 2 * error, rel=1e-9)
    # the Bayes penalty of an isotropic prior is noise over signal per direction
    assert curve.best_penalty().penalty == pytest.approx(noise, rel=1e-3)


def test_best_penalty_beats_a_dense_grid_and_answers_opt():
    covariance, cross, variance, _ = _population()
    curve = LearningCurve("linear", penalty="opt").fit_moments(covariance, cross, variance)
    found = curve.predict([50, 400])
    grid = curve.predict(np.array([[50], [400]]), np.geomspace(1e-3, 1e3, 2000)).test_error.min(axis=1)
    np.testing.assert_allclose(found.test_error, grid, rtol=1e-5)
    assert (found.test_error <= grid * (1 + 1e-9)).all()


def test_moments_of_a_pool_describe_draws_from_it_with_replacement():
    rng = np.random.default_rng(3)
    X = rng.standard_t(8, size=(1000, 20)) / np.sqrt(np.arange(1, 21))
    y = np.tanh(X[:, 0] - X[:, 1]) + 0.3 * rng.normal(size=1000)
    y -= y.mean()
    curve = LearningCurve("linear").fit_moments(X.T @ X / 1000, X.T @ y / 1000, np.mean(y**2))
    errors = []
    for _ in range(100):
        drawn = rng.integers(0, 1000, 80)
        w = np.linalg.solve(X[drawn].T @ X[drawn] + np.eye(20), X[drawn].T @ y[drawn])
        errors.append(np.mean((y - X @ w) ** 2))
    assert curve.predict(80, 1.0).test_error == pytest.approx(np.mean(errors), rel=0.04)
    # with 50 rows per column the curve of the rows themselves says the same
    rows = LearningCurve("linear", max_rows=1000).fit(X, y).predict(80, 1.0)
    assert curve.predict(80, 1.0).test_error == pytest.approx(float(rows.test_error), rel=0.06)


def test_curve_has_the_interface_of_the_others():
    covariance, cross, variance, _ = _population()
    curve = LearningCurve("linear", penalty=1.0).fit_moments(covariance, np.column_stack([cross, -cross]), 2 * variance)
    single = LearningCurve("linear", penalty=1.0).fit_moments(covariance, cross, variance)
    assert curve.predict(100).test_error == pytest.approx(2 * single.predict(100).test_error)
    assert np.isnan(curve.predict(100).interval.low)
    needed = single.samples_needed(0.4)
    assert single.predict(needed.n).test_error <= 0.4 < single.predict(needed.n - 1).test_error
    assert np.isnan(needed.interval.low)
    assert single.samples_needed(0.2).n == np.inf
    assert 0 < single.alignment(100).learnable_share < 1
    assert "moments of a population" in str(single)
    plt.close(single.plot())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"covariance": np.ones((3, 4))}, "covariance must be a square matrix, got shape"),
        ({"covariance": np.triu(np.ones((3, 3)))}, "covariance must be symmetric"),
        ({"covariance": np.diag([1.0, 1.0, -0.1])}, "positive semi-definite, got the eigenvalue -0.1"),
        ({"covariance": np.zeros((3, 3))}, "covariance must have an eigenvalue > 0"),
        ({"covariance": np.diag([1.0, 1.0, np.nan])}, "covariance must be finite"),
        ({"covariance": np.diag([1.0, 1.0, 0.0])}, "range of covariance"),
        ({"cross_moment": np.ones(4)}, r"cross_moment must have shape \(3,\)"),
        ({"target_variance": 0.2}, "target_variance must be >= 0.75"),
        ({"target_variance": -1.0}, "target_variance must be > 0"),
    ],
)
def test_impossible_moments_are_refused_in_one_line(change, message):
    good = {"covariance": np.eye(3), "cross_moment": np.full(3, 0.5), "target_variance": 1.0}
    LearningCurve("linear").fit_moments(**good)
    with pytest.raises(InputError, match=message):
        LearningCurve("linear").fit_moments(**{**good, **change})


def test_questions_that_need_rows_are_refused():
    curve = LearningCurve("linear").fit_moments(np.eye(3), np.full(3, 0.5), 1.0)
    with pytest.raises(InputError, match="width must be None"):
        curve.predict(10, width=5)
    with pytest.raises(InputError, match="moments have none"):
        curve.penalty_path()
    with pytest.raises(InputError, match="kernel must be 'linear'"):
        LearningCurve().fit_moments(np.eye(3), np.full(3, 0.5), 1.0)
    with pytest.raises(InputError, match='penalty="opt"'):
        LearningCurve("linear", penalty="opt").fit(np.eye(5), np.arange(5.0))

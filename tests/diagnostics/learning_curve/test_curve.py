import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import KernelCenterer

from unlazy.checks import InputError
from unlazy.diagnostics import LearningCurve, ridge_report
from unlazy.diagnostics.learning_curve.pointwise import pointwise_error
from unlazy.diagnostics.learning_curve.spectral import pool_spectrum, spectral_curve
from unlazy.theory.kernels.random_features import kernel_regression_equivalent

METHODS = ("fast", "hybrid", "pointwise")
EIGENVALUES, ENERGIES = np.array([5, 3, 2, 1, 0.5, 0.25]), np.array([4, 1, 1, 0.5, 0.25, 0.25])
LINE = np.exp(-((np.arange(8)[:, None] - np.arange(8)) ** 2) / 8)
LINE_TARGET = np.array([1, -1, 2, 0, 0.5, -2, 1.5, 1])[:, None]


def friedman(rows, seed, noise=0.3):
    """Inputs of unit variance and a target of unit signal variance, about."""
    X, y = make_friedman1(rows, random_state=seed)
    rng = np.random.default_rng(seed)
    return (X - 0.5) * np.sqrt(12), (y - 14.4) / 4.9 + np.sqrt(noise) * rng.standard_normal(rows)


def spectral(n, penalty, width=np.inf, eigenvalues=EIGENVALUES, energies=ENERGIES):
    lists = np.broadcast_arrays(*(np.atleast_1d(np.asarray(a, dtype=float)) for a in (n, penalty, width)))
    return spectral_curve(pool_spectrum(eigenvalues, energies), *lists)


def errors_of_splits(K, Y, n, penalty, splits, seed=0, design=None):
    """Test and training errors of kernel regression on random n rows of the pool; `design(rng)` makes another K."""
    rng = np.random.default_rng(seed)
    test, train = [], []
    for _ in range(splits):
        matrix = K if design is None else design(rng)
        order = rng.permutation(len(K))
        a, b = order[:n], order[n:]
        weights = np.linalg.solve(matrix[np.ix_(a, a)] + penalty * np.eye(n), Y[a])
        test.append(np.mean(np.sum((Y[b] - matrix[np.ix_(b, a)] @ weights) ** 2, axis=1)))
        train.append(np.mean(np.sum((penalty * weights) ** 2, axis=1)))
    return np.array(test), np.array(train)


def assert_mean(values, prediction, remainder):
    """Within four standard errors and the accuracy of the theory, by which a prediction wrong by 20% is rejected."""
    allowed = 4 * np.std(values, ddof=1) / np.sqrt(len(values)) + remainder * np.mean(values)
    assert abs(np.mean(values) - prediction) < allowed, (np.mean(values), prediction, allowed)
    assert abs(np.mean(values) - 1.2 * prediction) > allowed, (np.mean(values), prediction, allowed)
    assert abs(np.mean(values) - prediction / 1.2) > allowed, (np.mean(values), prediction, allowed)


@pytest.mark.parametrize(
    ("n", "penalty", "width", "kappa", "error"),
    [
        (2, 0.1, np.inf, 3.342648687436, 0.834674123830),
        (4, 0.1, np.inf, 0.714037268002, 0.632556203619),
        (6, 0.1, np.inf, 0.1, 0.527605170999),
        (8, 0.5, np.inf, 0.156498727759, 0.443959833972),
        (4, 0, np.inf, 0.532014613017, 0.644380049390),
        (4, 0.1, 5, 1.035316603234, 1.357510739451),
        (3, 0.2, 3, 2.778972436434, 1.521123101286),
    ],
)
def test_spectral_formula_has_values_computed_outside_of_the_package(n, penalty, width, kappa, error):
    found = spectral(n, penalty, width)
    np.testing.assert_allclose(found.kappa, kappa, rtol=2e-12)
    np.testing.assert_allclose(found.test_error, error, rtol=2e-12)
    if n == 2:
        np.testing.assert_allclose(found.training_error, 0.003175244283, rtol=1e-9)


@pytest.mark.parametrize(
    ("n", "fast", "pointwise"),
    [
        (3, 3.530378721194, 3.585939499289),
        (6, 4.027568937398, 3.734575081695),
        (8, 3.962333038516, 3.499892629303),
        (10, 3.870777293388, 3.305111234978),
        (12, 3.790900615422, 3.160852973971),
    ],
)
def test_both_formulas_have_values_computed_outside_of_the_package_on_eight_points(n, fast, pointwise):
    eigenvalues, vectors = np.linalg.eigh(LINE)
    energies = (vectors.T @ LINE_TARGET)[:, 0] ** 2
    found = spectral(n, 0.2, eigenvalues=eigenvalues, energies=energies)
    np.testing.assert_allclose(found.test_error, fast, rtol=1e-11)
    solved = pointwise_error(LINE, LINE_TARGET, n, 0.2)
    np.testing.assert_allclose(solved.errors.mean(), pointwise, rtol=1e-11)
    if n == 6:
        np.testing.assert_allclose(solved.kappa[:3], [0.400622, 0.33327508, 0.32740818], rtol=1e-7)


@pytest.mark.parametrize(("n", "width", "error"), [(4, 6, 3.510837126864), (6, 3, 2.956584967824)])
def test_pointwise_features_solve_their_equations(n, width, error):
    K, Y, f, penalty = LINE, LINE_TARGET, n / 8, 0.2
    for start in ((0.5, 0.5), (2.0, 0.9)):
        found = pointwise_error(K, Y, n, penalty, width, start)
        # computed outside of the package
        np.testing.assert_allclose(found.errors.mean(), error, rtol=1e-9)
        s = found.scale
        G = np.linalg.inv(s * K + np.diag(found.kappa))
        g, b = np.diagonal(G), np.diagonal(G @ K @ G)
        np.testing.assert_allclose(found.kappa, penalty + (1 - f) / g, rtol=1e-8)
        assert 1 / s == pytest.approx(1 + np.trace(K @ G) / width)
        system = np.block(
            [
                [np.diag(g**2) - (1 - f) * G**2, -(s**2) / width * b[:, None]],
                [-(1 - f) * b, np.array([1 - s**2 * np.trace(G @ K @ G @ K) / width])],
            ]
        )
        right = np.append(np.sum((G @ Y) ** 2, axis=1), np.trace(Y.T @ G @ K @ G @ Y))
        np.testing.assert_allclose(found.errors, f * np.linalg.solve(system, right)[:-1], rtol=1e-7)
    many = pointwise_error(K, Y, n, penalty, 1e12, (0.5, 1.0)).errors
    np.testing.assert_allclose(many, pointwise_error(K, Y, n, penalty).errors, rtol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "linear"])
def test_all_rows_give_gcv_and_leave_one_out_errors(kernel):
    X, y = friedman(40, 0)
    Y = np.column_stack([y, X[:, 0] ** 2 + 1])
    penalty = 0.4
    curve = LearningCurve(kernel, penalty=penalty, gamma=0.1, fit_intercept=False).fit(X, Y)
    K = pairwise_kernels(X, metric=kernel, filter_params=True, gamma=0.1)
    G = np.linalg.inv(K + penalty * np.eye(40))
    gcv = 40 * np.sum((G @ Y) ** 2) / np.trace(G) ** 2
    left_out = []
    for row in range(40):
        kept = np.arange(40) != row
        model = KernelRidge(alpha=penalty, kernel="precomputed").fit(K[np.ix_(kept, kept)], Y[kept])
        left_out.append(np.sum((Y[row] - model.predict(K[row, kept][None])) ** 2))
    for method, expected in (("fast", gcv), ("hybrid", np.mean(left_out)), ("pointwise", np.mean(left_out))):
        found = curve.set_params(method=method).predict()
        np.testing.assert_allclose(found.test_error, expected, rtol=1e-8)
        np.testing.assert_allclose(found.training_error, np.mean(np.sum((penalty * G @ Y) ** 2, axis=1)), rtol=1e-8)
        np.testing.assert_allclose(found.r_squared, 1 - expected / Y.var(axis=0).sum(), rtol=1e-8)
    np.testing.assert_allclose(found.point_errors, left_out, rtol=1e-7)
    np.testing.assert_allclose(curve.target_mean_, Y.mean(axis=0))


def predicted_without(kernel, X, y, row, penalty):
    """What scikit-learn, fitted to the other rows with an intercept, says of a row; gamma is 0.05."""
    kept = np.arange(len(X)) != row
    if kernel == "linear":
        return Ridge(alpha=penalty, solver="svd").fit(X[kept], y[kept]).predict(X[[row]])[0]
    K = pairwise_kernels(X, metric=kernel, gamma=0.05)
    centrer, mean = KernelCenterer().fit(K[np.ix_(kept, kept)]), y[kept].mean(axis=0)
    model = KernelRidge(alpha=penalty, kernel="precomputed")
    model.fit(centrer.transform(K[np.ix_(kept, kept)]), y[kept] - mean)
    return mean + model.predict(centrer.transform(K[row, kept][None]))[0]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(("rows", "d"), [(15, 40), (15, 15), (16, 15), (17, 15), (40, 6)])
@pytest.mark.parametrize("penalty", [1e-3, 3.0])
def test_leave_one_out_errors_are_those_of_refits_that_estimate_the_mean_from_the_other_rows(kernel, rows, d, penalty):
    rng = np.random.default_rng([rows, d])
    # pure noise, and columns that are centred on all rows: each is minus the sum of the others
    X, y = rng.standard_normal((rows, d)), 3 + rng.standard_normal((rows, 2))
    X -= X.mean(axis=0)
    left_out = [np.sum((y[row] - predicted_without(kernel, X, y, row, penalty)) ** 2) for row in range(rows)]
    curve = LearningCurve(kernel, gamma=0.05, penalty=penalty, method="pointwise").fit(X, y)
    found = curve.predict()
    np.testing.assert_allclose(found.point_errors, left_out, rtol=1e-7)
    hybrid = curve.set_params(method="hybrid").predict()
    np.testing.assert_allclose([found.test_error, hybrid.test_error], np.mean(left_out), rtol=1e-8)
    # the sampling error of some dozens of squares, few of which carry the sum
    assert found.r_squared < 0.7
    if kernel == "linear":
        fit = Ridge(alpha=penalty, solver="svd").fit(X, y).predict(X)
        np.testing.assert_allclose(hybrid.training_error, np.mean(np.sum((y - fit) ** 2, axis=1)), rtol=1e-7)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_with_an_intercept_means_of_columns_and_target_do_not_matter(kernel, shift):
    X, y = friedman(40, 0)
    sizes = [15, 40, 90]
    plain = LearningCurve(kernel, gamma=0.05).fit(X, y).predict(sizes)
    moved = LearningCurve(kernel, gamma=0.05).fit(X + shift, y + 3 + shift).predict(sizes)
    np.testing.assert_allclose(moved.test_error, plain.test_error, rtol=1e-6)
    np.testing.assert_allclose(moved.interval, plain.interval, rtol=1e-5)


def test_without_an_intercept_the_error_is_that_of_kernel_ridge_on_the_target_as_it_is():
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((400, 5)), rng.standard_normal((4000, 5))
    weights = rng.standard_normal(5)
    for intercept in (False, True):
        model = Ridge(alpha=1.0, fit_intercept=intercept)
        model.fit(X, 3 + X @ weights + 0.2 * rng.standard_normal(400))
        trained = np.mean((3 + new @ weights + 0.2 * rng.standard_normal(4000) - model.predict(new)) ** 2)
        pool = X[:200], 3 + X[:200] @ weights + 0.2 * rng.standard_normal(200)
        found = LearningCurve("linear", penalty=1.0, fit_intercept=intercept).fit(*pool).predict(400)
        # the deviation of a mean of 200 squares, four times, and the trained one's
        assert found.test_error == pytest.approx(trained, rel=4 * np.sqrt(2 / 200) + 0.05)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("method", ["auto", "pointwise"])
def test_errors_with_an_intercept_agree_with_fits_to_random_rows_of_the_pool(kernel, method):
    X, y = friedman(160, 3)
    # a kernel with little along the constant vector: fits without an intercept would be far off
    X, y = X[:, :6], y + 3
    curve = LearningCurve(kernel, penalty=0.5, gamma=0.3, method=method).fit(X, y)
    rng = np.random.default_rng(0)
    K = pairwise_kernels(X, metric=kernel, filter_params=True, gamma=0.3)
    for n in (30, 100):
        test, train = [], []
        for _ in range(300):
            order = rng.permutation(160)
            a, b = order[:n], order[n:]
            A = np.block([[K[np.ix_(a, a)] + 0.5 * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
            solution = np.linalg.solve(A, np.append(y[a], 0.0))
            test.append(np.mean((y[b] - K[np.ix_(b, a)] @ solution[:-1] - solution[-1]) ** 2))
            train.append(np.mean((0.5 * solution[:-1]) ** 2))
        found = curve.predict(n)
        assert_mean(test, found.test_error, 0.04)
        assert_mean(train, found.training_error, 0.08)


def test_features_with_an_intercept_solve_their_equations():
    """G is the limit of (s K + c 1 1^T + diag kappa)^-1 for a large c."""
    K, Y, n, penalty, width = LINE, LINE_TARGET + 2, 6, 0.2, 5
    found = pointwise_error(K, Y, n, penalty, width, (0.5, 0.5), intercept=True)
    f, s = n / 8, found.scale
    G = np.linalg.inv(s * K + 1e7 + np.diag(found.kappa))
    g, b = np.diagonal(G), np.diagonal(G @ K @ G)
    np.testing.assert_allclose(found.kappa, penalty + (1 - f) / g, rtol=1e-6)
    # without the intercept's direction, of which there is 1
    kept = np.trace(G @ (s * K + np.diag(found.kappa)))
    assert kept == pytest.approx(7, abs=1e-5)
    assert 1 / s == pytest.approx(1 + np.trace(K @ G) / width, rel=1e-6)
    system = np.block(
        [
            [np.diag(g**2) - (1 - f) * G**2, -(s**2) / width * b[:, None]],
            [-(1 - f) * b, np.array([1 - s**2 * np.trace(G @ K @ G @ K) / width])],
        ]
    )
    centred = Y - Y.mean()
    right = np.append(np.sum((G @ centred) ** 2, axis=1), np.trace(centred.T @ G @ K @ G @ centred))
    np.testing.assert_allclose(found.errors, f * np.linalg.solve(system, right)[:-1], rtol=1e-5)


def test_few_rows_of_a_large_pool_are_rows_of_a_population():
    rng = np.random.default_rng(0)
    N = 4000
    eigenvalues, energies = N * np.arange(1, N + 1.0) ** -1.5, rng.random(N) * np.arange(1, N + 1.0) ** -1.2
    n, penalty = np.array([4.0, 12, 40]), 0.3
    for features in (np.inf, 15):
        found = spectral(n, np.full(3, penalty), np.full(3, features), eigenvalues, energies)
        theory = kernel_regression_equivalent(eigenvalues / N, energies / N, n, penalty, 0, width=features)
        # rows that are drawn without replacement differ by the order of n/N
        np.testing.assert_allclose(found.test_error / theory.risk, 1, atol=2 * 40 / N)
        np.testing.assert_allclose(found.kappa / (N * theory.effective_ridge), 1, atol=2 * 40 / N)


@pytest.mark.parametrize(
    ("kernel", "penalty", "method", "accuracy"),
    [
        ("rbf", 0.3, "auto", 0.03),
        ("laplacian", 0.05, "auto", 0.03),
        ("poly", 0.5, "pointwise", 0.04),
        ("rbf", 1.0, "fast", 0.04),
    ],
)
def test_errors_agree_with_fits_to_random_rows_of_the_pool(kernel, penalty, method, accuracy):
    X, y = friedman(160, 3)
    Y = np.column_stack([y, np.sin(X[:, 0] + X[:, 1])])
    Y -= Y.mean(axis=0)
    curve = LearningCurve(kernel, penalty=penalty, method=method, gamma=0.05, fit_intercept=False).fit(X, Y)
    for n in (30, 100):
        found = curve.predict(n)
        test, train = errors_of_splits(curve.kernel_matrix_, Y, n, penalty, 400)
        assert_mean(test, found.test_error, accuracy)
        assert_mean(train, found.training_error, 2 * accuracy)
        assert found.in_range


def test_unequal_leverages_need_an_effective_penalty_for_each_row():
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:300]
    X = ((X - X.mean(axis=0)) / X.std(axis=0))[rows]
    K = (X @ X.T / 30 + 1) ** 3 / 8
    Y = (y[rows] - y[rows].mean())[:, None]
    curve = LearningCurve("precomputed", penalty=0.3, fit_intercept=False).fit(K, Y)
    found = curve.predict(100)
    test, _ = errors_of_splits(K, Y, 100, 0.3, 600)
    assert found.method == "pointwise"
    assert_mean(test, found.test_error, 0.05)
    fast = curve.set_params(method="fast").predict(100)
    assert not fast.reliable
    assert fast.test_error < 0.85 * test.mean()


@pytest.mark.parametrize(("penalty", "factor"), [(3.0, 2), (1.0, 3)])
def test_extrapolated_errors_agree_with_fits_to_more_rows(penalty, factor):
    pool, pools = 120, 40
    found = []
    for seed in range(pools):
        found.append(
            LearningCurve(penalty=penalty, gamma=0.05, fit_intercept=False)
            .fit(*friedman(pool, 100 + seed))
            .predict(factor * pool)
            .test_error
        )
    truth = []
    for seed in range(30):
        X, y = friedman(factor * pool + 500, 500 + seed)
        train, test = slice(0, factor * pool), slice(factor * pool, None)
        model = KernelRidge(alpha=penalty, kernel="rbf", gamma=0.05).fit(X[train], y[train])
        truth.append(np.mean((model.predict(X[test]) - y[test]) ** 2))
    ratio = np.log(np.mean(found) / np.mean(truth))
    allowed = 0.03 + 4 * np.hypot(np.std(np.log(found)) / np.sqrt(pools), np.std(np.log(truth)) / np.sqrt(30))
    assert abs(ratio) < allowed < np.log(1.2)


def test_deviations_are_those_of_leaving_out_rows():
    X, y = friedman(70, 5)
    sizes = np.array([20, 60, 70])
    for method, tolerance in (("fast", 0.08), ("pointwise", 0.15)):
        curve = LearningCurve(penalty=0.5, gamma=0.05, method=method)
        found = curve.fit(X, y).predict(sizes)
        reach = np.log(found.test_error / found.interval.low) / 1.959964
        left_out = []
        for row in range(70):
            kept = np.arange(70) != row
            left_out.append(np.log(clone(curve).fit(X[kept], y[kept]).predict(sizes).test_error))
        jackknife = np.sqrt(69 / 70 * np.sum((left_out - np.mean(left_out, axis=0)) ** 2, axis=0))
        np.testing.assert_allclose(reach, jackknife, rtol=tolerance)


def test_intervals_for_more_rows_widen_with_the_freedom_of_the_fit_and_end_at_what_the_pool_has():
    X, y = friedman(70, 5)
    curve = LearningCurve(penalty=0.5, gamma=0.05).fit(X, y)
    found = curve.predict([70, 100, 700])
    K = KernelCenterer().fit_transform(curve.kernel_matrix_)
    freedom = np.trace(K @ np.linalg.inv(K + 0.5 * np.eye(70)))
    reach = np.log(found.test_error / found.interval.low) / 1.959964
    np.testing.assert_allclose(reach[1:], np.hypot(reach[0], 0.5 * freedom / 70 * np.log([10 / 7, 10])), rtol=1e-5)
    assert (found.interval.high[1:] <= found.interval.high[0]).all()
    assert found.interval.high[2] == pytest.approx(found.interval.high[0])
    # above by half the tail of left-out errors, which a normal law would have at 3
    squares = np.array([(y[row] - predicted_without("rbf", X, y, row, 0.5)) ** 2 for row in range(70)])
    factor = np.clip(np.mean(squares**2) / np.mean(squares) ** 2 / 2, 1, 2.4)
    assert np.log(found.interval.high[0] / found.test_error[0]) / 1.959964 == pytest.approx(factor * reach[0], rel=1e-6)
    np.testing.assert_array_equal(found.reliable, 1.959964 * (1 + factor) * reach <= np.log(4))
    assert not found.reliable[2]


def test_intervals_cover_the_error_of_fresh_data_nearly_as_often_as_they_say():
    pool, pools = 150, 60
    sizes, penalty = np.array([50, 150, 300]), 2.0
    truth = []
    for n in sizes:
        errors = []
        for seed in range(40):
            X, y = friedman(n + 1000, 3000 + seed)
            model = KernelRidge(alpha=penalty, kernel="rbf", gamma=0.05).fit(X[:n], y[:n])
            errors.append(np.mean((model.predict(X[n:]) - y[n:]) ** 2))
        truth.append(np.mean(errors))
    covered, narrow = [], []
    for seed in range(pools):
        curve = LearningCurve(penalty=penalty, gamma=0.05, fit_intercept=False).fit(*friedman(pool, 7000 + seed))
        for confidence, found in ((0.95, covered), (0.5, narrow)):
            low, high = curve.set_params(confidence=confidence).predict(sizes).interval
            found.append((low < truth) & (truth < high))
    for confidence, found in ((0.95, covered), (0.5, narrow)):
        allowed = 4 * np.sqrt(confidence * (1 - confidence) / pools)
        assert (np.abs(np.mean(found, axis=0) - confidence) < allowed).all()


def test_the_choice_of_the_method_loses_little():
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(1).permutation(len(X))[:150]
    X = ((X - X.mean(axis=0)) / X.std(axis=0))[rows]
    n, penalties = np.array([8, 15, 30, 60, 120, 200])[:, None], [0.01, 0.3, 3.0]
    left = 0
    for kernel, gamma in (("poly", 1 / 30), ("rbf", 1 / 30), ("linear", None), ("laplacian", 1 / 60)):
        curve = LearningCurve(kernel, gamma=gamma).fit(X, y[rows])
        chosen, exact = curve.predict(n, penalties), curve.set_params(method="pointwise").predict(n, penalties)
        hybrid = (chosen.method == "hybrid") & exact.reliable
        left += np.count_nonzero(hybrid)
        assert np.abs(np.log(chosen.test_error / exact.test_error))[hybrid].max(initial=0) < 0.06
    assert left >= 10


def test_a_linear_kernel_gives_the_forecast_of_ridge_report():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((50, 80)) * np.arange(1, 81) ** -0.5
    Y = X @ rng.standard_normal((80, 3)) + rng.standard_normal((50, 3))
    Y -= Y.mean(axis=0)
    forecast = ridge_report(X, Y, fit_intercept=False, n=[15, 30, 50, 100]).forecast
    curve = LearningCurve("linear", method="hybrid", fit_intercept=False).fit(X, Y)
    # its ridge is the penalty over n and its errors are means over targets
    found = curve.predict(forecast.n, forecast.n * forecast.ridge)
    np.testing.assert_allclose(found.test_error / 3, forecast.test_error, rtol=1e-6)
    forecast = ridge_report(X, Y + 3, n=[15, 30, 50]).forecast
    found = LearningCurve("linear", method="hybrid").fit(X, Y).predict(forecast.n, forecast.n * forecast.ridge)
    np.testing.assert_allclose(found.test_error / 3, forecast.test_error, rtol=1e-6)


def test_spectral_extrapolation_ends_where_the_effective_penalty_is_zero():
    penalty = 0.5
    limit = 6 + penalty * np.sum(1 / EIGENVALUES)
    found = spectral([limit - 1e-6, limit + 1e-6], [penalty, penalty])
    assert 0 < found.kappa[0] < 1e-5
    assert np.isnan(found.kappa[1])
    assert np.isnan(found.test_error[1])
    X, y = friedman(40, 1)
    curve = LearningCurve(penalty=1e-3, gamma=0.05, method="fast").fit(X, y)
    far = curve.predict([20, 4000])
    np.testing.assert_array_equal(far.in_range, [True, False])
    assert np.isnan([far.test_error[1], far.r_squared[1], far.interval.low[1], far.training_error[1]]).all()
    assert not far.reliable[1]
    with pytest.raises(
        InputError, match=r"n must be smaller or penalty larger: no prediction for n = 4000 at penalty = 0\.001"
    ):
        curve.alignment(4000)


def test_pointwise_extrapolation_solves_its_equations_however_far():
    X, y = friedman(60, 1)
    K = pairwise_kernels(X, metric="rbf", gamma=0.05)
    for n, penalty in ((90, 1e-3), (600, 0.1), (61, 1.0)):
        found = pointwise_error(K, y[:, None] - y.mean(), n, penalty)
        G = np.linalg.inv(K + np.diag(found.kappa))
        np.testing.assert_allclose(found.kappa, penalty + (1 - n / 60) / np.diagonal(G), rtol=1e-6, atol=1e-12)
        assert np.linalg.eigvalsh(K + np.diag(found.kappa))[0] > 0
    curve = LearningCurve(penalty=1e-3, gamma=0.05, method="pointwise").fit(X, y)
    np.testing.assert_array_equal(curve.predict([30, 600]).reliable, [True, False])


@pytest.mark.parametrize("intercept", [True, False])
def test_least_squares_is_the_limit_without_a_penalty(intercept):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 5))
    y = X @ np.arange(5) + rng.standard_normal(60)
    design = np.column_stack([X, np.ones(60)]) if intercept else X
    outside = np.sum((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2)
    curve = LearningCurve("linear", penalty=0, method="fast", fit_intercept=intercept).fit(X, y)
    n, columns = np.array([8, 30, 60]), 5 + intercept
    found = curve.predict(n)
    np.testing.assert_allclose(found.test_error, n * outside / ((60 - columns) * (n - columns)), rtol=1e-10)
    np.testing.assert_allclose(found.training_error, ((n - columns) / n) ** 2 * found.test_error, rtol=1e-10)
    peak = curve.predict(columns)
    assert peak.test_error == peak.interval.low == np.inf
    assert peak.training_error == 0
    assert peak.in_range
    assert not peak.reliable
    # with a term for each row, pointwise sees the leverages too
    assert abs(curve.set_params(method="pointwise").predict(30).test_error / found.test_error[1] - 1) < 0.05
    tiny = curve.predict(n, 1e-7).test_error
    np.testing.assert_allclose(curve.predict(n).test_error, tiny, rtol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_random_features_agree_with_fits(method):
    X, y = friedman(120, 8)
    Y = (y - y.mean())[:, None]
    gamma, penalty, n = 0.05, 1.0, 50
    curve = LearningCurve(penalty=penalty, gamma=gamma, method=method, fit_intercept=False).fit(X, Y)
    for p in (12, 50, 200):

        def design(rng, p=p):
            waves, phases = rng.standard_normal((10, p)) * np.sqrt(2 * gamma), rng.random(p) * 2 * np.pi
            features = np.sqrt(2 / p) * np.cos(X @ waves + phases)
            return features @ features.T

        test, train = errors_of_splits(curve.kernel_matrix_, Y, n, penalty, 150, design=design)
        found = curve.predict(n, width=p)
        assert_mean(test, found.test_error, 0.06)
        assert_mean(train, found.training_error, 0.08)
    many = curve.predict(n, width=[1e9, np.inf])
    np.testing.assert_allclose(many.test_error[0], many.test_error[1], rtol=1e-6)


def test_features_without_a_penalty_are_the_limit_of_small_ones():
    sizes, features = np.array([3.0, 4, 2, 4]), np.array([2.0, 2, 4, 7])
    found = spectral(sizes, np.zeros(4), features)
    small = spectral(sizes, np.full(4, 1e-9), features)
    np.testing.assert_allclose(found.test_error, small.test_error, rtol=1e-6)
    np.testing.assert_allclose(
        found.training_error, np.maximum(1 - features / sizes, 0) ** 2 * found.test_error, atol=1e-12
    )
    assert spectral(3, 0, 3).test_error == np.inf


@pytest.mark.parametrize("method", METHODS)
def test_errors_of_several_outputs_add_up_and_units_of_the_kernel_cancel(method):
    X, y = friedman(50, 2)
    Y = np.column_stack([y, X[:, 3] ** 3, np.ones(50)])
    n, penalty = [10, 50, 70], 0.7
    K = pairwise_kernels(X, metric="rbf", gamma=0.05)
    curve = LearningCurve("precomputed", method=method)
    both = curve.fit(K, Y).predict(n, penalty)
    single = [clone(curve).fit(K, Y[:, k]).predict(n, penalty).test_error for k in (0, 1)]
    np.testing.assert_allclose(both.test_error, np.sum(single, axis=0), rtol=1e-9)
    for scale in (1e-80, 1e80):
        scaled = clone(curve).fit(scale * K, 1e40 * Y).predict(n, scale * penalty)
        np.testing.assert_allclose(scaled.test_error, 1e80 * both.test_error, rtol=1e-8)
        np.testing.assert_allclose(scaled.interval.high, 1e80 * both.interval.high, rtol=1e-5)


def test_a_table_of_many_sizes_and_penalties_agrees_with_each_entry():
    X, y = friedman(80, 4)
    curve = LearningCurve(gamma=0.05, method="hybrid").fit(X, y)
    n, penalties = np.geomspace(2, 80, 40)[:, None], np.geomspace(1e-4, 100, 30)
    table = curve.predict(n, penalties)
    assert table.test_error.shape == table.reliable.shape == table.interval.low.shape == (40, 30)
    assert table.point_errors is None
    for row, column in ((0, 0), (17, 9), (39, 29), (39, 0)):
        alone = clone(curve).fit(X, y).predict(n[row, 0], penalties[column])
        for field in ("test_error", "training_error", "r_squared"):
            np.testing.assert_allclose(getattr(table, field)[row, column], getattr(alone, field), rtol=1e-7)
        np.testing.assert_allclose(table.interval.high[row, column], alone.interval.high, rtol=1e-6)


def test_samples_needed_inverts_the_curve():
    X, y = friedman(150, 6)
    curve = LearningCurve(penalty=2.0, gamma=0.05).fit(X, y)
    for n in (40, 150, 400):
        target = float(curve.predict(n).test_error)
        found = curve.samples_needed(target * (1 + 1e-9))
        assert n <= found.n <= 1.01 * n + 1
        assert curve.predict(found.n).test_error <= target * (1 + 1e-8)
        assert found.interval.low < n < found.interval.high
    never = curve.samples_needed(0.01)
    assert never.n == np.inf
    assert not never.reliable
    assert 0.01 < never.least_error < curve.predict(150).test_error
    assert curve.samples_needed(100.0).n == 2
    assert LearningCurve(penalty=2.0, gamma=0.05, fit_intercept=False).fit(X, y).samples_needed(100.0).n == 1


def test_the_width_that_is_needed_reaches_the_tolerance():
    X, y = friedman(100, 6)
    curve = LearningCurve(penalty=1.0, gamma=0.05).fit(X, y)
    for tol in (0.02, 0.2):
        needed = curve.width_needed(tol)
        assert needed.test_error <= (1 + tol) * needed.kernel_error
        assert (
            curve.predict(width=min(0.98 * needed.width, needed.width - 1)).test_error > (1 + tol) * needed.kernel_error
        )
    assert curve.width_needed(0.02).width > needed.width


def test_best_penalty_has_the_least_leave_one_out_error():
    X, y = friedman(60, 7)
    curve = LearningCurve(gamma=0.05).fit(X, y)
    best = curve.best_penalty()
    assert best.where == "inside"
    penalties = best.penalty * np.array([0.3, 0.9, 1.0, 1.1, 3])
    errors = [
        np.mean([(y[row] - predicted_without("rbf", X, y, row, penalty)) ** 2 for row in range(60)])
        for penalty in penalties
    ]
    assert np.argmin(errors) == 2
    np.testing.assert_allclose(errors[2], best.test_error, rtol=1e-8)
    noise_only = LearningCurve(gamma=0.05).fit(X, np.random.default_rng(0).permutation(y))
    assert noise_only.best_penalty().penalty > 10 * best.penalty


@pytest.mark.parametrize("variance", [0.05, 0.3, 1.0])
def test_noise_is_found(variance):
    found = [LearningCurve(gamma=0.02).fit(*friedman(300, seed, variance)).noise_estimate() for seed in range(6)]
    estimates = [estimate.noise_variance for estimate in found]
    # what 300 rows do not teach of the signal counts as noise
    allowed = 4 * np.std(estimates, ddof=1) / np.sqrt(6) + 0.015
    assert abs(np.mean(estimates) - variance) < allowed
    assert found[0].share == found[0].noise_variance / np.var(friedman(300, 0, variance)[1])


def test_alignment_is_that_of_the_decomposition():
    X, y = friedman(50, 9)
    curve = LearningCurve(penalty=0.5, gamma=0.05).fit(X, y)
    found = curve.alignment()
    K = KernelCenterer().fit_transform(curve.kernel_matrix_)
    hat = K @ np.linalg.inv(K + 0.5 * np.eye(50))
    centred = y - y.mean()
    np.testing.assert_allclose(found.degrees_of_freedom, np.trace(hat), rtol=1e-10)
    np.testing.assert_allclose(found.learnable_share, centred @ hat @ centred / (centred @ centred), rtol=1e-10)
    np.testing.assert_allclose(found.spectrum, np.linalg.eigvalsh(K)[:0:-1], atol=1e-12)
    np.testing.assert_allclose([found.cumulative_target[-1], found.cumulative_spectrum[-1]], 1)
    few = curve.alignment(10)
    assert few.degrees_of_freedom < min(10, found.degrees_of_freedom)


def test_large_pools_are_subsampled_and_say_so():
    X, y = friedman(90, 3)
    curve = LearningCurve(gamma=0.05, max_rows=40, random_state=1).fit(X, y)
    assert curve.rows_ == 90
    assert curve.pool_.size == 40
    assert "40 rows taken at random of 90" in str(curve)
    again, other = (clone(curve).set_params(random_state=seed).fit(X, y) for seed in (1, 2))
    np.testing.assert_array_equal(curve.pool_, again.pool_)
    assert (curve.pool_ != other.pool_).any()
    K = pairwise_kernels(X, metric="rbf", gamma=0.05)
    same = LearningCurve("precomputed", max_rows=40, random_state=1).fit(K, y)
    np.testing.assert_allclose(same.predict(60).test_error, curve.predict(60).test_error, rtol=1e-9)
    assert curve.predict().n == 90


def gaussian(x, z, width=1.0):
    return np.exp(-np.sum((x - z) ** 2) / width)


def test_it_is_a_scikit_learn_estimator():
    X, y = friedman(30, 3)
    own = LearningCurve(gaussian, kernel_params={"width": 20.0}).fit(X, y)
    named = LearningCurve("rbf", gamma=0.05).fit(X, y)
    np.testing.assert_allclose(own.predict([10, 30]).test_error, named.predict([10, 30]).test_error, rtol=1e-10)
    copy = clone(own)
    assert copy.get_params() == own.get_params()
    assert not hasattr(copy, "pool_")
    assert "LearningCurve" in str(copy)
    back = pickle.loads(pickle.dumps(own))
    np.testing.assert_array_equal(back.predict([10, 30]).test_error, own.predict([10, 30]).test_error)
    assert named.fit(X, y) is named


def test_the_summary_says_what_twice_the_rows_bring():
    X, y = friedman(120, 3)
    curve = LearningCurve(penalty=3.0, gamma=0.05).fit(X, y)
    found = curve.predict([120, 240])
    text = " ".join(curve.summary().split())
    low, high = found.interval.low[1], found.interval.high[1]
    assert f"should fall from {found.test_error[0]:.3g} to {found.test_error[1]:.3g} ({low:.3g}-{high:.3g})" in text
    assert f"best penalty {curve.best_penalty().penalty:.3g}" in text
    assert all(len(line) <= 100 for line in str(curve).splitlines())
    at_zero = LearningCurve(penalty=0, gamma=0.05, max_rows=60).fit(X, y)
    assert "cannot be said at penalty 0" in str(at_zero)


@pytest.mark.parametrize("penalty", [0.0, 1e-4, 1.0])
def test_the_figure_has_three_panels(penalty, tmp_path):
    X, y = friedman(40, 3)
    figure = LearningCurve(penalty=penalty, gamma=0.05, method="hybrid").fit(X, y).plot()
    assert [axes.get_xlabel().split()[0] for axes in figure.axes] == ["rows", "penalty", "direction"]
    figure.savefig(tmp_path / "curve.png")


def test_importing_the_package_does_not_load_scikit_learn():
    code = "import sys, unlazy.diagnostics; assert 'sklearn' not in sys.modules; unlazy.diagnostics.LearningCurve"
    subprocess.run([sys.executable, "-c", code], check=True)


X_GOOD, Y_GOOD = np.arange(12.0).reshape(6, 2) ** 0.5, np.arange(6.0) ** 2
INDEFINITE = np.diag([1.0, 1, 1, 1, -0.5, -0.5])
LOPSIDED = np.eye(6) + np.triu(np.full((6, 6), 0.1), 1)


@pytest.mark.parametrize(
    ("parameters", "X", "y", "message"),
    [
        ({"kernel": "rfb"}, X_GOOD, Y_GOOD, r"kernel must be one of .*; got 'rfb' \(did you mean rbf"),
        ({"method": "hybird"}, X_GOOD, Y_GOOD, r"method must be one of .* \(did you mean hybrid"),
        ({"penalty": -1.0}, X_GOOD, Y_GOOD, "penalty must be >= 0 and <= 1e\\+100, got -1"),
        ({"confidence": 1.0}, X_GOOD, Y_GOOD, "confidence must be > 0 and < 1, got 1"),
        ({"max_rows": 1}, X_GOOD, Y_GOOD, "max_rows must be >= 2"),
        ({}, X_GOOD, np.full(6, 3.0), "y must vary, got the constant 3"),
        ({}, X_GOOD[:1], Y_GOOD[:1], r"X must have at least 2 rows, got shape \(1, 2\)"),
        ({}, np.where(X_GOOD > 3, np.nan, X_GOOD), Y_GOOD, "X must be finite .*got nan"),
        ({}, X_GOOD, np.append(Y_GOOD[:5], np.nan), "y must be finite .*got nan"),
        ({}, X_GOOD, Y_GOOD[:5], r"y must have shape \(6,\) or \(6, outputs\) like the rows of X, got \(5,\)"),
        ({}, X_GOOD[:, 0], Y_GOOD, r"X must have 2 dimension\(s\)"),
        ({"kernel": "precomputed"}, X_GOOD, Y_GOOD, r"X must be a square matrix .* got shape \(6, 2\)"),
        ({"kernel": "precomputed"}, LOPSIDED, Y_GOOD, "the kernel matrix must be symmetric, got differences up to 0.1"),
        ({"kernel": "precomputed"}, INDEFINITE, Y_GOOD, "the kernel must be positive semi-definite, got the eig"),
        ({"kernel": "precomputed"}, -np.eye(6), Y_GOOD, "the kernel must be positive definite, got a mean"),
        (
            {"kernel": "precomputed"},
            np.full((6, 6), 2.0),
            Y_GOOD,
            "the kernel must differ between rows, got the same for",
        ),
        ({"fit_intercept": "no"}, X_GOOD, Y_GOOD, "fit_intercept must be one of True, False; got 'no'"),
        ({"kernel": "chi2"}, -X_GOOD, Y_GOOD, "X does not suit kernel='chi2': "),
    ],
)
def test_wrong_data_are_named(parameters, X, y, message):
    with pytest.raises(InputError, match=message):
        LearningCurve(**parameters).fit(X, y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 1}, "n must be >= 2 .*got 1"),
        ({"n": np.nan}, "n must be finite"),
        ({"n": 7, "penalty": 0}, "penalty must be > 0 for n > 6, the number of rows in the pool, got 0"),
        ({"penalty": -0.1}, "penalty must be >= 0 .*got -0.1"),
        ({"width": 0}, "width must be >= 1, got 0"),
        ({"width": np.nan}, "width must be >= 1, got nan"),
        ({"n": [2, 3], "penalty": [1, 2, 3]}, "n has 2 values and penalty 3"),
    ],
)
def test_wrong_questions_are_named(arguments, message):
    curve = LearningCurve().fit(X_GOOD, Y_GOOD)
    with pytest.raises(InputError, match=message):
        curve.predict(**arguments)
    with pytest.raises(InputError, match="target_error must be > 0, got 0"):
        curve.samples_needed(0)
    with pytest.raises(InputError, match="tolerance must be > 0, got 0"):
        curve.width_needed(0)


def test_it_must_be_fitted_first():
    from sklearn.exceptions import NotFittedError

    for question in ("predict", "best_penalty", "noise_estimate", "alignment", "summary", "plot"):
        with pytest.raises(NotFittedError):
            getattr(LearningCurve(), question)()


@pytest.mark.parametrize("method", [*METHODS, "auto"])
def test_extreme_input_gives_numbers_or_says_that_it_does_not(method):
    X, y = friedman(30, 3)
    repeated = np.vstack([X, X[:10]]), np.append(y, y[:10])
    rows = [(data, True) for data in ((X, y), repeated, (X[:2], y[:2]))]
    rows += [(data, False) for data in ((X, y - y.mean()), (np.zeros((5, 2)), y[:5] - y[:5].mean()))]
    for data, intercept in rows:
        curve = LearningCurve(gamma=0.05, method=method, fit_intercept=intercept).fit(*data)
        n = np.array([1.0 + intercept, 2, len(data[1]), 1e3, 1e15])[:, None]
        found = curve.predict(n, [1e-100, 1e-3, 1.0, 1e100])
        for field in (found.test_error, *found.interval, found.training_error, found.r_squared):
            np.testing.assert_array_equal(np.isnan(field), ~found.in_range)
        assert found.in_range[:3].all()
        assert (found.test_error[found.in_range] >= 0).all()
        assert not found.reliable[~found.in_range].any()
        # an infinite penalty predicts the mean
        known = found.in_range[:, 3]
        # from one row less than n, as at the pool itself
        variance, rows_ = np.var(data[1], ddof=intercept), n[known, 0]
        np.testing.assert_allclose(found.test_error[known, 3], variance * rows_ / (rows_ - intercept), rtol=1e-6)

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.diagnostics import kernel_structure_test
from unlazy.functions.elementwise import Link


def null(rng, n, d):
    return rng.standard_normal((n, d))


def sparse_coordinate(rng, n, d, kurtosis=20):
    """One coordinate that is mostly 0, of variance 1 like the others."""
    X = rng.standard_normal((n, d))
    chance = 3 / kurtosis
    X[:, 0] *= (rng.random(n) < chance) / np.sqrt(chance)
    return X


def mixture_of_scales(rng, n, d):
    """Two coordinates with a common random scale, 10 times as large in 30% of the rows; uncorrelated."""
    X = rng.standard_normal((n, d))
    X[:, :2] *= np.where(rng.random(n) < 0.3, 10.0, 1.0)[:, None]
    return X


def explicit_top(X, kernel):
    """The largest eigenvalue, entry by entry."""
    n, d = X.shape
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    Z = Z / np.linalg.norm(Z, axis=1)[:, None]
    A = np.array(
        [[0.0 if i == j else kernel(np.sqrt(d) * (Z[i] @ Z[j])) / np.sqrt(n) for j in range(n)] for i in range(n)]
    )
    return np.linalg.eigvalsh(A)[-1]


def test_the_statistic_is_the_largest_eigenvalue_of_the_kernel_matrix():
    X = np.random.default_rng(0).standard_normal((30, 5)) * np.arange(1, 6) + 3
    found = kernel_structure_test(X, null_draws=3)
    np.testing.assert_allclose(found.largest_eigenvalue, explicit_top(X, lambda t: (t**2 - 1) / np.sqrt(2)), rtol=1e-10)
    cubic = kernel_structure_test(X, lambda t: t**3 - 3 * t, null_draws=1)
    np.testing.assert_allclose(cubic.largest_eigenvalue, explicit_top(X, lambda t: t**3 - 3 * t), rtol=1e-10)
    # units and origin of the columns do not matter, nor rotations if whitened
    again = kernel_structure_test(1e60 * X * np.arange(2, 7) - 1e60, null_draws=1)
    np.testing.assert_allclose(again.largest_eigenvalue, found.largest_eigenvalue, rtol=1e-8)
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 5)))[0]
    tops = [kernel_structure_test(data, whiten=True, null_draws=1).largest_eigenvalue for data in (X, X @ rotation)]
    np.testing.assert_allclose(tops[0], tops[1], rtol=1e-9)


def test_the_edge_is_that_of_the_note_and_the_null_lies_at_it():
    found = kernel_structure_test(null(np.random.default_rng(0), 600, 30), null_draws=19)
    np.testing.assert_allclose(found.null_edge, 2.986, atol=5e-4)
    assert abs(np.mean(found.null_eigenvalues) / found.null_edge - 1) < 0.05


@pytest.mark.parametrize("whiten", [False, True])
def test_p_values_are_uniform_without_structure(whiten):
    data_sets = 80
    mixing = np.linalg.cholesky(0.5 * np.eye(8) + 0.5) if whiten else np.eye(8)
    values = []
    for seed in range(data_sets):
        X = null(np.random.default_rng([1, seed]), 60, 8) @ mixing.T
        values.append(kernel_structure_test(X, null_draws=19, whiten=whiten, random_state=seed).p_value)
    for level in (0.1, 0.3, 0.5, 0.8):
        allowed = 4 * np.sqrt(level * (1 - level) / data_sets)
        assert abs(np.mean(np.array(values) <= level + 1e-12) - level) < allowed


@pytest.mark.parametrize("structure", [sparse_coordinate, mixture_of_scales])
def test_structure_beyond_the_covariance_is_detected(structure):
    detected, in_covariance = 0, 0
    for seed in range(8):
        X = structure(np.random.default_rng([2, seed]), 600, 30)
        detected += kernel_structure_test(X, null_draws=19, random_state=seed).p_value <= 0.05
        Z = (X - X.mean(axis=0)) / X.std(axis=0)
        in_covariance += np.linalg.eigvalsh(Z.T @ Z / 600)[-1] > 1.05 * (1 + np.sqrt(30 / 600)) ** 2
    assert detected >= 7
    assert in_covariance <= 1


def test_correlations_are_structure_unless_whitened():
    X = null(np.random.default_rng(3), 200, 6)
    correlated = X @ np.linalg.cholesky(0.4 * np.eye(6) + 0.6).T
    assert kernel_structure_test(correlated, null_draws=19).p_value == 0.05
    whitened = [kernel_structure_test(rows, null_draws=19, whiten=True) for rows in (X, correlated)]
    np.testing.assert_allclose(whitened[0].largest_eigenvalue, whitened[1].largest_eigenvalue, rtol=1e-9)
    assert whitened[0].p_value == whitened[1].p_value


def test_data_that_came_from_the_same_seed_are_not_drawn_again():
    X = null(np.random.default_rng(0), 40, 4)
    assert not np.isclose(
        kernel_structure_test(X, null_draws=19, random_state=0).null_eigenvalues,
        kernel_structure_test(X).largest_eigenvalue,
    ).any()


def test_large_data_are_subsampled_and_draws_are_reproducible():
    X = null(np.random.default_rng(3), 90, 5)
    first, again, other = (kernel_structure_test(X, null_draws=4, max_rows=50, random_state=seed) for seed in (0, 0, 1))
    assert first.n == 50
    assert first.largest_eigenvalue == again.largest_eigenvalue != other.largest_eigenvalue
    np.testing.assert_array_equal(first.null_eigenvalues, again.null_eigenvalues)
    assert "from 50 rows" in str(first)
    assert "p = " in str(first)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((9, 2))}, r"X must have at least 3 columns, got shape \(9, 2\)"),
        ({"X": np.eye(3)}, "X must have at least 4 rows, got 3 rows"),
        ({"X": np.where(np.eye(9) > 0, np.nan, 1.0)}, "X must be finite"),
        ({"X": np.column_stack([np.eye(9), np.ones(9)])}, "X must vary in every column, got the constant column 9"),
        ({"X": np.eye(9)[:, :4], "max_rows": 3}, "X must have at least 4 rows, got 9 rows and max_rows = 3"),
        ({"null_draws": 0}, "null_draws must be >= 1"),
        ({"random_state": -1}, "random_state must be a whole number >= 0, a Generator or None, got -1"),
        ({"whiten": 2}, "whiten must be one of True, False"),
        ({"X": np.tile(np.eye(9)[:, :2], 2), "whiten": True}, "X must have 4 columns that are not linear combinations"),
        (
            {"kernel_function": lambda t: np.abs(t - 0.3)},
            "kernel_function must be square integrable and smooth between breakpoints",
        ),
    ],
)
def test_wrong_input_is_named(change, message):
    legal = {"X": np.random.default_rng(0).standard_normal((12, 4)), "null_draws": 1}
    with pytest.raises(InputError, match=message):
        kernel_structure_test(**legal | change)
    kinked = Link("kinked", lambda t: np.abs(t - 0.3), breakpoints=(0.3,))
    assert kernel_structure_test(legal["X"], kinked, null_draws=1).p_value in (0.5, 1.0)

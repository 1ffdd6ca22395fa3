import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.functions.spectra import power_law
from unlazy.numerics.ridge import (
    conditional_risk,
    decompose,
    left_out_residuals,
    ridge_coefficients,
    ridge_path,
    ridge_solutions,
)

SHAPES = [(30, 50), (50, 30), (40, 40), (1, 5), (5, 1)]


def draw(n, d, seed=0):
    rng = np.random.default_rng(seed)
    spectrum, prior = rng.uniform(0.1, 2, d), rng.uniform(0.1, 2, d)
    return rng.standard_normal((n, d)) * np.sqrt(spectrum), spectrum, prior


def definitions(X, spectrum, prior, noise_variance, smoother, dual):
    """The expectations written with matrices: b_hat = smoother y, G = dual up to a factor."""
    n, d = X.shape
    Q = np.eye(d) - smoother @ X
    labels = X @ np.diag(prior) @ X.T + noise_variance * np.eye(n)
    residual = np.eye(n) - X @ smoother
    bias = np.trace(np.diag(spectrum) @ Q @ np.diag(prior) @ Q.T)
    variance = noise_variance * np.trace(np.diag(spectrum) @ smoother @ smoother.T)
    training_error = np.trace(residual @ labels @ residual.T) / n
    gcv = np.trace(dual @ labels @ dual) / n / (np.trace(dual) / n) ** 2
    return np.array([bias + variance, bias, variance, training_error, n - np.trace(residual), gcv])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("isotropic", [False, True])
def test_conditional_risk_is_the_matrix_definition_for_every_ridge(shape, isotropic):
    X, spectrum, prior = draw(*shape)
    if isotropic:
        spectrum, prior = np.ones(shape[1]), np.full(shape[1], 0.3)
    ridges = np.array([1e-3, 0.1, 3.0])
    risk = np.array(conditional_risk(decompose(X), spectrum, prior, 0.7, ridges))
    for column, ridge in zip(risk.T, ridges, strict=True):
        G = np.linalg.inv(X @ X.T + len(X) * ridge * np.eye(len(X)))
        np.testing.assert_allclose(column, definitions(X, spectrum, prior, 0.7, X.T @ G, G), rtol=1e-10)


def null_or_inverse(X):
    """G in the limit of ridge 0 up to a factor: the projector on the null space of X X^T, or its inverse."""
    n = len(X)
    full_row_rank = np.linalg.matrix_rank(X) == n
    return np.linalg.inv(X @ X.T) if full_row_rank else np.eye(n) - X @ np.linalg.pinv(X)


@pytest.mark.parametrize("shape", SHAPES)
def test_ridge_zero_is_the_pseudo_inverse(shape):
    X, spectrum, prior = draw(*shape)
    risk = np.array(conditional_risk(decompose(X), spectrum, prior, 0.7, 0.0))
    expected = definitions(X, spectrum, prior, 0.7, np.linalg.pinv(X), null_or_inverse(X))
    np.testing.assert_allclose(risk, expected, rtol=1e-9, atol=1e-10)


def test_rank_deficient_designs_are_the_pseudo_inverse_too():
    X, spectrum, prior = draw(40, 30)
    X = X @ np.diag([1.0] * 20 + [0.0] * 10)
    for design in (X, X[:25]):
        decomposition = decompose(design)
        assert decomposition.squares.size == 20
        risk = np.array(conditional_risk(decomposition, spectrum, prior, 0.7, 0.0))
        smoother = np.linalg.pinv(design, rcond=1e-10)
        projector = np.eye(len(design)) - design @ smoother
        np.testing.assert_allclose(risk, definitions(design, spectrum, prior, 0.7, smoother, projector), rtol=1e-9)


@pytest.mark.parametrize("shape", [(30, 50), (50, 30)])
def test_the_path_is_continuous_at_ridge_zero_and_ends_at_the_zero_predictor(shape):
    X, spectrum, prior = draw(*shape)
    risk = conditional_risk(decompose(X), spectrum, prior, 0.7, [0.0, 1e-11, 1e300])
    for field in risk:
        assert field[1] == pytest.approx(field[0], rel=1e-7, abs=1e-9)
    assert risk.risk[2] == pytest.approx(spectrum @ prior, rel=1e-12)
    label_variance = np.mean(X**2 @ prior) + 0.7
    assert risk.training_error[2] == pytest.approx(label_variance, rel=1e-12)
    assert risk.gcv[2] == pytest.approx(label_variance, rel=1e-12)
    assert 0 < risk.degrees_of_freedom[2] < 1e-297


def test_a_design_of_zeros_learns_nothing():
    risk = conditional_risk(decompose(np.zeros((4, 3))), 1.0, 2.0, 0.5, [0.0, 1.0])
    np.testing.assert_allclose(risk.risk, 6.0)
    np.testing.assert_allclose(risk.gcv, 0.5)
    np.testing.assert_allclose(risk.degrees_of_freedom, 0.0)


def test_steep_spectra_keep_their_small_directions():
    d, n = 100, 150
    spectrum = power_law(d, 7.0)
    X = np.random.default_rng(1).standard_normal((n, d)) * np.sqrt(spectrum)
    risk = conditional_risk(decompose(X), spectrum, 1.0, 0.7, 0.0)
    Z = X / np.sqrt(spectrum)
    assert risk.degrees_of_freedom == pytest.approx(d, rel=1e-12)
    assert risk.variance == pytest.approx(0.7 * np.trace(np.linalg.inv(Z.T @ Z)), rel=1e-6)


def test_drawn_targets_average_to_the_conditional_expectations():
    X, spectrum, prior = draw(40, 60, seed=3)
    rng, draws, ridges = np.random.default_rng(4), 4000, [0.0, 0.05]
    targets = rng.standard_normal((draws, 60)) * np.sqrt(prior)
    labels = X @ targets.T + np.sqrt(0.7) * rng.standard_normal((40, draws))
    decomposition = decompose(X)
    path = ridge_path(decomposition, labels, ridges)
    expected = conditional_risk(decomposition, spectrum, prior, 0.7, ridges)
    measured = {
        "risk": np.einsum("ldt,d->lt", (path.coefficients - targets.T) ** 2, spectrum),
        "training_error": np.mean((labels - path.fitted) ** 2, axis=1),
        "gcv": path.gcv,
    }
    for name, values in measured.items():
        error = 4 * values.std(axis=1) / np.sqrt(draws)
        prediction = getattr(expected, name)
        assert (np.abs(values.mean(axis=1) - prediction) <= error + 1e-20).all(), name
        wrong = 1.2 * prediction[1]
        assert abs(values[1].mean() - wrong) > error[1], name


@pytest.mark.parametrize("shape", [(30, 50), (50, 30)])
def test_path_coefficients_solve_the_normal_equations(shape):
    X, _, _ = draw(*shape)
    n, d = shape
    Y = np.random.default_rng(5).standard_normal((n, 2))
    ridges = [0.0, 1e-3, 10.0]
    path = ridge_path(decompose(X), Y, ridges)
    np.testing.assert_allclose(path.coefficients[0], np.linalg.pinv(X) @ Y, atol=1e-11)
    for i, ridge in enumerate(ridges[1:], start=1):
        direct = np.linalg.solve(X.T @ X / n + ridge * np.eye(d), X.T @ Y / n)
        np.testing.assert_allclose(path.coefficients[i], direct, atol=1e-11)
        hat = X @ np.linalg.solve(X.T @ X + n * ridge * np.eye(d), X.T)
        gcv = np.mean((Y - hat @ Y) ** 2, axis=0) / (1 - np.trace(hat) / n) ** 2
        np.testing.assert_allclose(path.gcv[i], gcv, rtol=1e-10)
        assert path.degrees_of_freedom[i] == pytest.approx(np.trace(hat), rel=1e-10)
    np.testing.assert_allclose(path.fitted, X @ path.coefficients, atol=1e-12)


def refit_residuals(X, y, penalty):
    left_out = []
    for i in range(len(y)):
        rows = np.arange(len(y)) != i
        kernel = X[rows] @ X[rows].T + penalty * np.eye(len(y) - 1)
        left_out.append(y[i] - X[i] @ X[rows].T @ np.linalg.pinv(kernel, rcond=1e-12) @ y[rows])
    return np.array(left_out)


def leverage_one(n, d):
    X = draw(n, d)[0]
    X[0, 1:], X[1:, 0] = 0, 0
    return X


@pytest.mark.parametrize("X", [draw(12, 20)[0], draw(20, 8)[0], leverage_one(20, 8)])
def test_leave_one_out_residuals_are_those_of_refits(X):
    y = np.random.default_rng(6).standard_normal(len(X))
    ridges = [0.0, 0.01, 1.0]
    path = ridge_path(decompose(X), y, ridges)
    for residuals, ridge in zip(path.loo_residuals, ridges, strict=True):
        np.testing.assert_allclose(residuals, refit_residuals(X, y, len(y) * ridge), rtol=1e-8)


@pytest.mark.parametrize("X", [draw(12, 20)[0], draw(20, 8)[0], leverage_one(20, 8)])
def test_left_out_fits_of_centred_data_relearn_the_mean(X):
    rng = np.random.default_rng(7)
    y = 3 + rng.standard_normal(len(X))
    penalties = np.array([0.1, 1.0, 30.0])
    centred, labels = X - X.mean(axis=0), y - y.mean()
    path = ridge_path(decompose(centred), labels, penalties / len(y), centred=True)
    kernel = centred @ centred.T
    parts = left_out_residuals(*np.linalg.eigh(kernel), labels[:, None], penalties, len(y))
    for along, (residual, weights), penalty in zip(path.loo_residuals, parts, penalties, strict=True):
        refits = []
        for i in range(len(y)):
            rows = np.arange(len(y)) != i
            mean, centre = y[rows].mean(), X[rows].mean(axis=0)
            fit = np.linalg.solve(
                (X[rows] - centre).T @ (X[rows] - centre) + penalty * np.eye(X.shape[1]),
                (X[rows] - centre).T @ (y[rows] - mean),
            )
            refits.append(y[i] - mean - (X[i] - centre) @ fit)
        np.testing.assert_allclose(along, refits, rtol=1e-8)
        np.testing.assert_allclose(residual[:, 0], refits, rtol=1e-8)
        np.testing.assert_allclose(weights * residual[:, 0], labels - kernel @ ridge_solutions(kernel, labels, penalty))


def test_left_out_residuals_of_stacked_kernels_are_those_of_each():
    designs = np.stack([draw(9, 4, seed=seed)[0] for seed in range(3)])
    labels = np.random.default_rng(8).standard_normal((3, 9, 1))
    kernels = designs @ designs.mT
    ((residuals, _),) = left_out_residuals(*np.linalg.eigh(kernels), labels, [0.3])
    for design, y, residual in zip(designs, labels[..., 0], residuals[..., 0], strict=True):
        np.testing.assert_allclose(residual, refit_residuals(design, y, 0.3), rtol=1e-8)


@pytest.mark.parametrize("shape", [(30, 50), (50, 30)])
@pytest.mark.parametrize("tasks", [(), (3,)])
@pytest.mark.parametrize("penalties", [0.2, [0.2], np.logspace(-3, 3, 40), [1e-18, 0.2]])
def test_coefficients_for_one_few_many_and_tiny_penalties_are_those_of_the_path(shape, tasks, penalties):
    X, _, _ = draw(*shape)
    Y = np.random.default_rng(9).standard_normal((shape[0], *tasks))
    found = ridge_coefficients(X, Y, penalties)
    assert found.shape == (*np.shape(penalties), shape[1], *tasks)
    expected = ridge_path(decompose(X), Y, np.array(penalties) / shape[0]).coefficients
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-8, atol=1e-10)


def test_shapes_follow_the_targets_and_the_ridges():
    X, spectrum, prior = draw(6, 4)
    decomposition = decompose(X)
    one = ridge_path(decomposition, np.ones(6), 0.1)
    assert [a.shape for a in one] == [(1, 4), (1, 6), (1,), (1,), (1, 6)]
    many = ridge_path(decomposition, np.ones((6, 3)), [0.1, 0.2])
    assert [a.shape for a in many] == [(2, 4, 3), (2, 6, 3), (2,), (2, 3), (2, 6, 3)]
    assert np.shape(conditional_risk(decomposition, spectrum, prior, 0.1, 0.1).risk) == ()
    assert conditional_risk(decomposition, spectrum, prior, 0.1, np.ones((2, 3))).gcv.shape == (2, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: decompose(X[0]), r"design must have 2 dimension\(s\), got shape \(4,\)"),
        (lambda X: ridge_path(decompose(X), np.ones(5), 0.1), r"targets must have shape \(6,\)"),
        (lambda X: ridge_path(decompose(X), np.ones(6), -0.1), "ridges must be >= 0 .*, got -0.1"),
        (lambda X: conditional_risk(decompose(X), np.ones(3), 1.0, 0.1, 0.1), r"spectrum .* shape \(4,\)"),
        (lambda X: conditional_risk(decompose(X), 1.0, -1.0, 0.1, 0.1), "prior must be >= 0, got -1"),
        (lambda X: conditional_risk(decompose(X), 1.0, 1.0, np.nan, 0.1), "noise_variance must be finite"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call(draw(6, 4)[0])


def test_no_penalty_is_the_pseudo_inverse_also_of_a_singular_matrix():
    rng = np.random.default_rng(8)
    twice = np.repeat(rng.standard_normal((3, 6)), 2, axis=0)
    for design in (np.ones((5, 2)), twice, twice.T):
        targets = rng.standard_normal(len(design))
        expected = np.linalg.pinv(design, rcond=1e-7) @ targets
        np.testing.assert_allclose(ridge_coefficients(design, targets, 0.0), expected, atol=1e-12)


@pytest.mark.parametrize("columns", [(), (3,)])
@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_many_penalties_at_once_give_what_each_gives_alone(n, columns):
    X = draw(n, 25, seed=n)[0]
    right = np.random.default_rng(5).standard_normal((n, *columns))
    penalties = np.geomspace(1e-2, 1e4, 12).reshape(3, 4)
    kernel = X @ X.T + 1e-3 * np.eye(n)
    kept = kernel.copy()
    found = ridge_solutions(kernel, right, penalties)
    assert found.shape == (3, 4, n, *columns)
    alone = [[np.linalg.solve(kernel + c * np.eye(n), right) for c in row] for row in penalties]
    np.testing.assert_allclose(found, alone, rtol=1e-10)
    np.testing.assert_array_equal(kernel, kept)

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.numerics.convex_fits import convex_fit


@pytest.fixture(params=[20, 120])
def problem(request):
    rng = np.random.default_rng(0)
    design = rng.standard_normal((request.param, 40)) / np.sqrt(40)
    return design, np.sign(design @ rng.standard_normal(40) + 0.5 * rng.standard_normal(request.param))


@pytest.mark.parametrize("bias", [True, False])
def test_logistic_fits_are_those_of_scikit_learn(problem, bias):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1 / 0.05, fit_intercept=bias, tol=1e-12, max_iter=10_000).fit(*problem)
    weights, offset = convex_fit("logistic", *problem, 0.05, fit_intercept=bias)
    np.testing.assert_allclose(weights, model.coef_[0], atol=2e-5)
    np.testing.assert_allclose(offset, np.ravel(model.intercept_)[0] if bias else 0.0, atol=2e-5)


def test_hinge_fits_have_no_duality_gap(problem):
    """A lower bound of the objective: the dual at the clipped forces of the margins, in which the fit is no input."""
    from sklearn.svm import LinearSVC

    design, labels = problem
    weights, _ = convex_fit("hinge", design, labels, 0.05)
    model = LinearSVC(C=1 / 0.05, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=1_000_000).fit(design, labels)

    def objective(w):
        return np.maximum(1 - labels * (design @ w), 0).sum() + 0.025 * w @ w

    np.testing.assert_allclose(objective(weights), objective(model.coef_[0]), rtol=1e-5)
    np.testing.assert_allclose(weights, model.coef_[0], atol=2e-3)


def test_square_fits_solve_the_normal_equations(problem):
    design, labels = problem
    weights, _ = convex_fit("square", design, labels, 0.05)
    np.testing.assert_allclose(design.T @ (labels - design @ weights), 0.05 * weights, atol=1e-10)


def test_a_bias_is_for_the_logistic_loss_only(problem):
    with pytest.raises(InputError, match="fit_intercept must be false with the hinge loss"):
        convex_fit("hinge", *problem, 0.05, fit_intercept=True)

"""Logistic and softmax regression with a quadratic penalty: the optimum, and its scores of each row without that row.

minimise  sum_i w_i [logsumexp(B z_i) - (B z_i)_{y_i}] + sum_j penalty_j |W_j|^2 / 2,     z_i = x_i W  (r numbers).

K >= 3 classes have r = K - 1 contrasts, B with orthonormal columns: the columns of W B^T sum to 0, as those of every
softmax fit with a penalty. Two classes have one score z = log odds, B = (-1/2, 1/2): scikit-learn's binary model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from unlazy.numerics.contrasts import helmert_contrasts
from unlazy.numerics.leave_one_out import LeaveOneOut, inverse_hessian, leave_one_out, newton_step, span
from unlazy.numerics.roots import ConvergenceError

_NEWTON_STEPS = 100
_CHORD_STEPS = 20
_HALVINGS = 40
# largest change of a score in the last step
_TOLERANCE = 1e-7
# a Hessian so near to the optimum, in scores, is that of the optimum
_NEAR = 0.02
# more weights than that start with L-BFGS, whose steps need no Hessian
_MOST_NEWTON = 250


class SoftmaxProblem(NamedTuple):
    rows: np.ndarray
    """(n, p), a column of ones included if there is an intercept."""
    labels: np.ndarray
    """Class numbers (n,)."""
    weights: np.ndarray
    penalty: np.ndarray
    """(p,)."""
    basis: np.ndarray
    """B (K, r)."""


class SoftmaxDesign(NamedTuple):
    """A problem in as few columns as it needs, and the way back."""

    problem: SoftmaxProblem
    directions: np.ndarray | None
    """An orthonormal basis of the rows' span, (columns, n), where there are more columns than rows."""
    constant: float
    """The column of the intercept, last of the problem's rows; 0 for none."""

    def weights(self, coefficients: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """W of coefficients (outputs, columns) and intercepts (outputs,), which are those of classes if K >= 3."""
        basis = self.problem.basis
        turn = np.eye(1) if len(basis) == 2 else basis
        inner = coefficients.T @ turn
        inner = inner if self.directions is None else self.directions.T @ inner
        return np.vstack([inner, intercept @ turn / self.constant]) if self.constant else inner

    def coefficients(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts of W."""
        basis = self.problem.basis
        turn = np.eye(1) if len(basis) == 2 else basis
        inner = weights[:-1] if self.constant else weights
        inner = inner if self.directions is None else self.directions @ inner
        intercept = self.constant * weights[-1] if self.constant else np.zeros(weights.shape[1])
        return turn @ inner.T, turn @ intercept


class Optimum(NamedTuple):
    weights: np.ndarray
    """W (p, r)."""
    scores: np.ndarray
    """Of the fit to all rows, (n, r)."""
    left_out: LeaveOneOut
    distance: float
    """The largest change of a score from where the search began."""


class _Point(NamedTuple):
    scores: np.ndarray
    shares: np.ndarray
    gradient: np.ndarray
    residual: np.ndarray
    objective: float


def class_basis(classes: int) -> np.ndarray:
    """B (K, r): the scores of the classes are B z."""
    return np.array([[-0.5], [0.5]]) if classes == 2 else helmert_contrasts(classes)


def design(
    rows: np.ndarray,
    labels: np.ndarray,
    classes: int,
    weights: np.ndarray,
    penalty: float,
    *,
    fit_intercept: bool,
    penalised_constant: float = 0.0,
) -> SoftmaxDesign:
    """The problem of rows (n, columns), with an intercept that is not penalised or, as a column, like all others."""
    reduced, directions = span(rows)
    penalties = np.full(reduced.shape[1], float(penalty))
    constant = (penalised_constant or 1.0) if fit_intercept else 0.0
    if fit_intercept:
        reduced = np.column_stack([reduced, np.full(len(rows), constant)])
        penalties = np.append(penalties, penalty if penalised_constant else 0.0)
    return SoftmaxDesign(
        SoftmaxProblem(reduced, labels, weights, penalties, class_basis(classes)), directions, constant
    )


def log_shares(scores: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Logarithms of the probabilities of the classes, (n, K)."""
    from scipy.special import log_softmax

    return log_softmax(scores @ basis.T, axis=1)


def optimum(problem: SoftmaxProblem, start: np.ndarray) -> Optimum:
    """The minimum, from a start W, and the scores without each row; `SingularHessian` if it is not unique."""
    weights, inverse = _minimum(problem, start)
    point = _point(problem, weights)
    curvature = _curvature(problem, point)
    left_out = leave_one_out(problem.rows, inverse, problem.weights, point.scores, point.gradient, curvature)
    distance = np.abs(point.scores - problem.rows @ start).max()
    return Optimum(weights, point.scores, left_out, float(distance))


def left_out_scores(problem: SoftmaxProblem, best: Optimum, refits: int = 0) -> np.ndarray:
    """Scores (n, r) of each row without it; those of the `refits` rows that move farthest by fits without them."""
    scores = best.left_out.scores.copy()
    for row in np.argsort(-changes(problem, best), kind="stable")[:refits]:
        others = problem.weights.copy()
        others[row] = 0.0
        weights, _ = _minimum(problem._replace(weights=others), best.weights)
        scores[row] = problem.rows[row] @ weights
    return scores


def changes(problem: SoftmaxProblem, best: Optimum) -> np.ndarray:
    """The largest change of a row's log odds of two classes by leaving it out, (n,)."""
    return np.ptp((best.left_out.scores - best.scores) @ problem.basis.T, axis=1)


def class_scores(scores: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Scores as scikit-learn's `decision_function` has them: (n,) for two classes, else (n, K)."""
    return scores[:, 0] if len(basis) == 2 else scores @ basis.T


def path(problem: SoftmaxProblem, penalties: np.ndarray) -> Iterator[Optimum]:
    """Optima for rows of penalties (m, p), each from the one before; the first from 0."""
    weights = np.zeros((problem.rows.shape[1], problem.basis.shape[1]))
    for penalty in penalties:
        found = optimum(problem._replace(penalty=penalty), weights)
        weights = found.weights
        yield found


def _minimum(problem: SoftmaxProblem, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W and an inverse Hessian within 0.02, in scores, of it.

    Newton's method with halved steps; the inverse Hessian of its last step serves until no score moves by 1e-7.
    """
    weights = _descent(problem, start) if start.size > _MOST_NEWTON and not _is_near(problem, start) else start
    point = _point(problem, weights)
    for _ in range(_NEWTON_STEPS):
        inverse = inverse_hessian(problem.rows, problem.penalty, problem.weights, _curvature(problem, point))
        step = newton_step(inverse, point.residual)
        size = np.abs(problem.rows @ step).max()
        if size > _NEAR:
            weights, point = _line_search(problem, weights, point, step)
            continue
        for _ in range(_CHORD_STEPS):
            weights = weights + step
            point = _point(problem, weights)
            if size <= _TOLERANCE * (1 + np.abs(point.scores).max()):
                return weights, inverse
            step = newton_step(inverse, point.residual)
            size = np.abs(problem.rows @ step).max()
    raise ConvergenceError(f"softmax regression did not settle in {_NEWTON_STEPS} steps: its last step was {size:.3g}")


def _point(problem: SoftmaxProblem, weights: np.ndarray) -> _Point:
    scores = problem.rows @ weights
    logs = log_shares(scores, problem.basis)
    own = np.arange(len(scores)), problem.labels
    shares = np.exp(logs)
    excess = shares.copy()
    excess[own] -= 1
    gradient = excess @ problem.basis
    penalised = problem.penalty[:, None] * weights
    residual = problem.rows.T @ (problem.weights[:, None] * gradient) + penalised
    objective = -problem.weights @ logs[own] + np.sum(penalised * weights) / 2
    return _Point(scores, shares, gradient, residual, float(objective))


def _curvature(problem: SoftmaxProblem, point: _Point) -> np.ndarray:
    """L = B^T (diag s - s s^T) B, (n, r, r)."""
    basis = problem.basis
    r = basis.shape[1]
    products = (basis[:, :, None] * basis[:, None, :]).reshape(len(basis), r * r)
    mean = point.shares @ basis
    return (point.shares @ products).reshape(-1, r, r) - mean[:, :, None] * mean[:, None, :]


def _line_search(
    problem: SoftmaxProblem, weights: np.ndarray, point: _Point, step: np.ndarray
) -> tuple[np.ndarray, _Point]:
    slope = float(np.sum(point.residual * step))
    share = 1.0
    for _ in range(_HALVINGS):
        tried = weights + share * step
        found = _point(problem, tried)
        if found.objective <= point.objective + 1e-4 * share * slope:
            return tried, found
        share /= 2
    # rounding hides the descent
    return weights + step, _point(problem, weights + step)


def _is_near(problem: SoftmaxProblem, weights: np.ndarray) -> bool:
    """Whether the penalty alone says that the optimum is near: no weight moves farther than gradient / penalty."""
    residual = _point(problem, weights).residual
    return bool(np.abs(residual).max() <= 1e-2 * max(1.0, np.abs(weights).max() * problem.penalty.max()))


def _descent(problem: SoftmaxProblem, start: np.ndarray) -> np.ndarray:
    from scipy.optimize import minimize

    shape = start.shape

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        found = _point(problem, flat.reshape(shape))
        return found.objective, found.residual.ravel()

    found = minimize(
        value, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200, "gtol": 1e-3, "ftol": 1e-9}
    )
    return found.x.reshape(shape)

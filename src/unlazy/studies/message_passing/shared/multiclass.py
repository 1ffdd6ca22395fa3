"""What the studies of matrix message passing share: compiled chunks of steps, a fit, and a run on real rows."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np

_DONE = 1e-15


class Fit(NamedTuple):
    """What message passing found: W (d, K), the change of the fields per step, a bound on |W - optimum|."""

    coefficients: np.ndarray
    changes: np.ndarray
    distance: float


_COMPILED: dict[Any, Any] = {}
_COMPILING = threading.Lock()


def _compiled(function: Any, given: Any, state: Any, key: Any) -> Any:
    """The compiled function of problem, state and damping: of the threads that run instances only one compiles it."""
    import jax

    key = (key, *(part.shape for part in given))
    with _COMPILING:
        if key not in _COMPILED:
            _COMPILED[key] = jax.jit(function).lower(given, state, 0.0).compile()
    return _COMPILED[key]


def pass_messages(given: Any, chunk: int, chunks: int, damping: float = 0.0, fewest: int = 1) -> Fit:
    """At least `fewest` chunks of steps, until the fields stand still (mean squared change below 1e-15) or explode."""
    import jax

    from unlazy.training.message_passing import matrix_amp

    def advance(given: Any, state: Any, damping: Any) -> Any:
        state, info = matrix_amp.run(given, chunk, damping, state)
        return state, info.change, matrix_amp.residual(given, state)

    state, changes = jax.jit(matrix_amp.init)(given), []
    program = _compiled(advance, given, state, chunk)
    for _ in range(chunks):
        state, change, gradient = program(given, state, damping)
        changes.append(np.asarray(change))
        if len(changes) >= fewest and not changes[-1][-1] > _DONE:
            break
    coefficients = np.asarray(state.weights) @ np.asarray(given.contrasts).T
    return Fit(coefficients, np.concatenate(changes), float(gradient) / float(given.ridge))


class DigitRun(NamedTuple):
    """Largest distances of a weight from scikit-learn's optimum step by step, and the iterations that L-BFGS took."""

    distances: np.ndarray
    free_distances: np.ndarray
    descent_steps: int


def digit_run(rows: np.ndarray, labels: np.ndarray, ridge: float, damping: float, chunk: int) -> DigitRun:
    """Two chunks of damped and one of undamped steps on centred rows (n, d), with the moments of these rows."""
    import jax
    from sklearn.linear_model import LogisticRegression

    from unlazy.training.message_passing import matrix_amp

    classes = int(labels.max()) + 1
    centers = np.array([rows[labels == k].mean(axis=0) for k in range(classes)])
    within = rows - centers[labels]
    model = LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(rows, labels)

    def path(given: Any, state: Any, share: Any) -> Any:
        def one(state: Any, _: Any) -> Any:
            state, _ = matrix_amp.step(state, given, share)
            return state, state.weights

        return jax.lax.scan(one, state, None, length=chunk)

    with jax.enable_x64(True):
        given, basis = matrix_amp.rotated_problem(
            rows, labels, classes, ridge, second=rows.T @ rows / len(rows), spread=within.T @ within / len(rows)
        )
        start = jax.jit(matrix_amp.init)(given)
        program = _compiled(path, given, start, (chunk, "path"))
        state, early = program(given, start, damping)
        _, late = program(given, state, damping)
        _, free = program(given, start, 0.0)
        contrasts = np.asarray(given.contrasts)
        damped, undamped = np.concatenate([early, late]), np.asarray(free)

    def distances(weights: np.ndarray) -> np.ndarray:
        return np.abs(basis @ weights @ contrasts.T - model.coef_.T).max(axis=(1, 2))

    return DigitRun(distances(damped), distances(undamped), int(model.n_iter_[0]))

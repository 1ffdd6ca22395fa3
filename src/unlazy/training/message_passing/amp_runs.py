"""Runs of matrix message passing, in compiled chunks of steps: until it stands still, and against the optimum."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unlazy.training.message_passing import matrix_amp
from unlazy.training.message_passing.softmax_fits import fit_softmax
from unlazy.training.programs import compiled

_DONE = 1e-15


class AmpFit(NamedTuple):
    """The change of the fields per step, and a bound on the distance of the weights from the optimum."""

    changes: np.ndarray
    distance: float


class AmpDistances(NamedTuple):
    """Largest distances of a weight from the optimum, iteration by iteration, and the iterations that L-BFGS took to
    it."""

    damped: np.ndarray
    undamped: np.ndarray
    descent_iterations: int


def pass_messages(
    rows: np.ndarray,
    labels: np.ndarray,
    classes: int,
    penalty: float,
    *,
    chunk: int,
    chunks: tuple[int, int],
    **known: np.ndarray,
) -> AmpFit:
    """At least and at most so many chunks of steps, until the mean squared change is below 1e-15 or explodes.

    What is known of the rows are `second`, `spread` and `groups` of `matrix_amp.problem`.
    """

    def advance(given: Any, state: Any, damping: Any) -> Any:
        state, info = matrix_amp.run(given, chunk, damping, state)
        return state, info.change, matrix_amp.residual(given, state)

    with jax.enable_x64(True):
        moments = {name: jnp.asarray(array) for name, array in known.items()}
        given = matrix_amp.problem(jnp.asarray(rows), jnp.asarray(labels), classes, penalty, **moments)
        state, changes = jax.jit(matrix_amp.init)(given), []
        program = compiled(("advance", chunk), advance, given, state, 0.0)
        for _ in range(chunks[1]):
            state, change, gradient = program(given, state, 0.0)
            changes.append(np.asarray(change))
            if len(changes) >= chunks[0] and not changes[-1][-1] > _DONE:
                break
        return AmpFit(np.concatenate(changes), float(gradient) / float(given.penalty))


def optimum_distances(rows: np.ndarray, labels: np.ndarray, penalty: float, damping: float, chunk: int) -> AmpDistances:
    """Two chunks of damped and one of undamped steps on centred rows (n, d), with the moments of these rows."""
    classes = int(labels.max()) + 1
    within = rows - np.array([rows[labels == k].mean(axis=0) for k in range(classes)])[labels]
    best = fit_softmax(rows, labels, classes, penalty, tolerance=1e-10)

    def path(given: Any, state: Any, share: Any) -> Any:
        def one(state: Any, _: Any) -> Any:
            state, _ = matrix_amp.step(state, given, share)
            return state, state.weights

        return jax.lax.scan(one, state, None, length=chunk)

    with jax.enable_x64(True):
        given, basis = matrix_amp.rotated_problem(
            rows, labels, classes, penalty, second=rows.T @ rows / len(rows), spread=within.T @ within / len(rows)
        )
        start = jax.jit(matrix_amp.init)(given)
        program = compiled(("path", chunk), path, given, start, 0.0)
        state, early = program(given, start, damping)
        _, late = program(given, state, damping)
        _, free = program(given, start, 0.0)
        contrasts = np.asarray(given.contrasts)
        runs = np.concatenate([early, late]), np.asarray(free)
    damped, undamped = (np.abs(basis @ run @ contrasts.T - best.weights).max(axis=(1, 2)) for run in runs)
    return AmpDistances(damped, undamped, best.iterations)

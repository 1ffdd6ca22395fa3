"""Early stopping by the margins of the training samples."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError, check_known
from unlazy.optim.checks import check_optimiser


class StopAtMarginState(NamedTuple):
    """The state of `stop_at_margin`."""

    updates: Array
    """Calls of `update` so far."""
    stopped_at: Array
    """The number of updates that were made before it stopped; -1 if it has not."""
    inner: optax.OptState


def stop_at_margin(
    optimizer: optax.GradientTransformation, margin: ArrayLike, fitted_share: ArrayLike = 1.0
) -> optax.GradientTransformationExtraArgs:
    """Stop an optimiser for good as soon as a share of the training samples have a margin of at least `margin`.

    `update(gradient, state, params, margins=margins)` gets the margins y_i f(x_i) at the current parameters (any
    shape); from the first call with mean(margins >= margin) >= fitted_share on, updates are 0. If a share tau of the
    labels is flipped, fitted_share = 1 - tau stops when the others can have been fitted: before the flipped ones, if
    the signal is learned first. Source of the two stages: Han et al. (2025b); the rule is this project's.

    >>> import jax, jax.numpy as jnp, optax
    >>> optimiser = stop_at_margin(optax.sgd(1.0), margin=2.0)
    >>> w = jnp.zeros(())
    >>> state = optimiser.init(w)
    >>> for _ in range(5):
    ...     change, state = optimiser.update(-jnp.ones(()), state, w, margins=w)
    ...     w = optax.apply_updates(w, change)
    >>> float(w), int(state.stopped_at)
    (2.0, 2)
    """
    inner = check_optimiser("optimizer", optimizer)
    check_known("margin", margin, ndim=0)
    check_known("fitted_share", fitted_share, above=0, high=1, ndim=0)

    def init(params: optax.Params) -> StopAtMarginState:
        return StopAtMarginState(jnp.zeros((), jnp.int32), -jnp.ones((), jnp.int32), inner.init(params))

    def update(
        updates: optax.Updates,
        state: StopAtMarginState,
        params: optax.Params | None = None,
        *,
        margins: ArrayLike | None = None,
        **extra: Any,
    ) -> tuple[optax.Updates, StopAtMarginState]:
        if margins is None:
            raise InputError("update must be given margins: update(gradient, state, params, margins=...)")
        # the mean of n ones is 1, but the mean of 7 of 10 may fall short of 0.7 by a rounding
        reached = jnp.mean(jnp.asarray(margins) >= margin) >= fitted_share - 1e-6
        stopped_at = jnp.where((state.stopped_at < 0) & reached, state.updates, state.stopped_at)

        def halt() -> tuple[optax.Updates, optax.OptState]:
            return jax.tree.map(jnp.zeros_like, updates), state.inner

        def go_on() -> tuple[optax.Updates, optax.OptState]:
            return inner.update(updates, state.inner, params, **extra)

        change, memory = jax.lax.cond(stopped_at >= 0, halt, go_on)
        return change, StopAtMarginState(state.updates + 1, stopped_at, memory)

    return optax.GradientTransformationExtraArgs(init, update)

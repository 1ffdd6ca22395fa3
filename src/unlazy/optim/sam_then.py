"""Sharpness-aware minimisation for a while, then the plain optimiser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import optax.contrib
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError, check_choice, check_known
from unlazy.optim.checks import check_optimiser

_LARGEST_STEP = 2**31 - 1


class SamThenState(NamedTuple):
    """The state of `sam_then`."""

    steps: Array
    """True steps done, of either kind."""
    sam: optax.contrib.SAMState
    """Holds the state of the optimiser, which the switch does not reset."""


def sam_then(
    optimizer: optax.GradientTransformation,
    radius: ArrayLike,
    switch_step: ArrayLike,
    *,
    opaque_mode: bool = False,
) -> optax.GradientTransformationExtraArgs:
    """`switch_step` steps of sharpness-aware minimisation around an optimiser, then the optimiser alone.

    A step of the first kind feeds the optimiser the gradient g(w + radius g(w)/|g(w)|) instead of g(w), with |.| over
    all leaves; a gradient of 0 is not followed. `radius` >= 0 and `switch_step` >= 0 may be traced.

    Calls are counted as in `optax.contrib.sam`, which does the steps: by default (`opaque_mode=False`) a step of the
    first kind takes two calls of `update`, one to go up, after which the parameters are the perturbed ones, and one to
    come back and go down; after the switch a step is one call. T steps are 2 min(T, switch_step) + max(T - switch_step,
    0) calls, and `state.steps` counts the steps. If the loss is random, give both calls of a step the same batch and
    key. With `opaque_mode=True` every step is one call, `update(g, state, params, grad_fn=grad_fn)`, where
    `grad_fn(params, 0)` is the gradient at other parameters; it is not evaluated after the switch. Other arguments of
    `update` by name are the optimiser's, such as the margins of `stop_at_margin`.

    Sources: Foret et al. (2021); SAM against noise memorisation: Chen et al. (2023).

    >>> import jax, jax.numpy as jnp, optax
    >>> loss = lambda w: jnp.sum(w**2) / 2
    >>> optimiser = sam_then(optax.sgd(0.5), radius=0.2, switch_step=1)
    >>> w = jnp.array([1.0])
    >>> state = optimiser.init(w)
    >>> for _ in range(3):
    ...     change, state = optimiser.update(jax.grad(loss)(w), state, w)
    ...     w = optax.apply_updates(w, change)
    ...     print(f"{w[0]:.2f} after {state.steps} steps")
    1.20 after 0 steps
    0.40 after 1 steps
    0.20 after 2 steps
    """
    plain = check_optimiser("optimizer", optimizer)
    check_known("radius", radius, low=0, ndim=0)
    check_known("switch_step", switch_step, low=0, high=_LARGEST_STEP, ndim=0, whole=True)
    check_choice("opaque_mode", opaque_mode, (True, False))

    def around(optimiser: optax.GradientTransformation) -> optax.GradientTransformationExtraArgs:
        return optax.contrib.sam(optimiser, _upwards(radius), sync_period=2, opaque_mode=opaque_mode)

    def init(params: optax.Params) -> SamThenState:
        return SamThenState(jnp.zeros((), jnp.int32), around(plain).init(params))

    def update(
        updates: optax.Updates,
        state: SamThenState,
        params: optax.Params | None = None,
        *,
        grad_fn: Callable[[Any, int], Any] | None = None,
        **extra: Any,
    ) -> tuple[optax.Updates, SamThenState]:
        if params is None:
            raise InputError("update must be given params: update(gradient, state, params)")
        if opaque_mode and grad_fn is None:
            raise InputError("update must be given grad_fn for opaque_mode=True: update(g, state, params, grad_fn=...)")

        def descend(slope: optax.Updates, memory: Any, at: optax.Params | None = None) -> tuple[optax.Updates, Any]:
            return plain.update(slope, memory, at, **extra)

        # optax's has no place for further arguments
        sam = around(optax.GradientTransformation(plain.init, descend))

        def sharpness_aware() -> tuple[optax.Updates, optax.contrib.SAMState]:
            return sam.update(updates, state.sam, params, grad_fn=grad_fn)

        def alone() -> tuple[optax.Updates, optax.contrib.SAMState]:
            change, memory = descend(updates, state.sam.opt_state, params)
            return change, state.sam._replace(opt_state=memory)

        change, inner = jax.lax.cond(state.steps < switch_step, sharpness_aware, alone)
        return change, SamThenState(state.steps + (inner.steps_since_sync == 0), inner)

    return optax.GradientTransformationExtraArgs(init, update)


def ascent(radius: ArrayLike, gradient_norm: Array) -> Array:
    """radius/|g|, the multiple of a gradient g by which sharpness-aware minimisation goes up; 0 where g is 0."""
    return jnp.multiply(radius, jnp.where(gradient_norm > 0, 1 / jnp.where(gradient_norm > 0, gradient_norm, 1.0), 0.0))


def _upwards(radius: ArrayLike) -> optax.GradientTransformation:
    """-radius g/|g|, which optax.contrib.sam follows upwards.

    Unlike `optax.contrib.normalize` it leaves 0 as it is, and its squares do not underflow.
    """

    def scaled(updates: optax.Updates) -> optax.Updates:
        leaves = jax.tree.leaves(updates)
        if not leaves:
            return updates
        largest = jnp.stack([jnp.max(jnp.abs(leaf), initial=0.0) for leaf in leaves]).max()
        unit = jnp.where(largest > 0, largest, 1.0)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(leaf / unit)) for leaf in leaves))
        return jax.tree.map(lambda leaf: (-ascent(radius, norm) * (leaf / unit)).astype(leaf.dtype), updates)

    return optax.stateless(lambda updates, _: scaled(updates))

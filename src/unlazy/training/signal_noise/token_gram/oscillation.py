"""A training loss that goes up and down."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array


def watch_loss(steps: int) -> dict[str, Any]:
    """What and when `patch_run` has to record for `loss_rises`: the loss at 200 to 400 pairs of neighbouring steps."""
    return {"record": lambda problem, state, test: state.loss, "record_at": _recorded(steps)}


def loss_rises(losses: Array, steps: int) -> tuple[Array, Array]:
    """The shares of the pairs of `watch_loss` at which the loss rises by more than 1%: of all; of the last tenth."""
    before, places = _before(steps), {t: place for place, t in enumerate(_recorded(steps))}
    here, after = (losses[jnp.array([places[t + later] for t in before])] for later in (0, 1))
    rising = (after > 1.01 * here + 1e-9).astype(float)
    late = jnp.array([t >= 0.9 * steps for t in before], float)
    return rising.mean(), (rising * late).sum() / late.sum()


def _recorded(steps: int) -> list[int]:
    return sorted({t + later for t in _before(steps) for later in (0, 1)})


def _before(steps: int) -> range:
    # An odd stride: losses that go up and down by turns are seen at both.
    return range(0, steps, 2 * (steps // 400) + 1)

"""Exact gradient descent of the patch network in token coordinates, at a cost that does not depend on the dimension.

Gradients of the loss are combinations of tokens, so the weights stay W = initial W0 + C Z. A step costs O(R K^2): one
product with the tokens' Gram matrix for each gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import check_known
from unlazy.optim import ascent
from unlazy.training.loop import evolve
from unlazy.training.signal_noise.token_gram.network import Network, gradient, mean_loss, outputs
from unlazy.training.signal_noise.token_gram.problem import PatchProblem
from unlazy.training.signal_noise.token_gram.rules import UpdateRule
from unlazy.training.signal_noise.token_gram.views import SeenBatch
from unlazy.training.signal_noise.token_gram.weights import Weights, initial_weights, squared_norm

LIMIT = 1e12
"""A larger training loss is a divergence."""


class State(NamedTuple):
    """Where training is: `step` updates were made. A run that diverged or stopped stays where it was.

    `diverged_at` is the number of updates after which the loss or a weight would not have been finite, or the loss
    beyond `LIMIT`, -1 if there was none; the last of these updates is not made. It is the number of all updates made if
    `train` finds at its end that coefficients and pre-activations belong to different weights, as after a rule that
    treats coordinates one by one: nothing in such a state means anything. `stopped_at` is the number of updates after
    which the loss was at most `stop_loss`, -1 if it never was.
    """

    weights: Weights
    outputs: Array
    """f on the training samples, (n,)."""
    loss: Array
    """The training loss on the design's labels and weights."""
    rule_state: Any
    step: Array
    diverged_at: Array
    stopped_at: Array


class TrainedPatches(NamedTuple):
    """The last state and what was recorded, with a leading axis for the steps of `record_at`."""

    state: State
    records: Any


def init(problem: PatchProblem, network: Network, rule: UpdateRule, *, stop_loss: ArrayLike | None = None) -> State:
    """The state before the first update."""
    weights = initial_weights(problem)
    none, zero = jnp.int32(-1), jnp.int32(0)
    return _measured(problem, network, weights, rule.transform.init(weights), zero, none, stop_loss)


def step(
    key: Array,
    state: State,
    problem: PatchProblem,
    network: Network,
    rule: UpdateRule,
    *,
    stop_loss: ArrayLike | None = None,
) -> State:
    """One update of a run that goes on; `key` is this step's own."""
    transform = optax.with_extra_args_support(rule.transform)
    slope = _slope(key, state, problem, network, rule)
    change, rule_state = transform.update(slope, state.rule_state, state.weights, problem=problem)
    weights = optax.apply_updates(state.weights, change)
    new = _measured(problem, network, weights, rule_state, state.step + 1, state.diverged_at, stop_loss)
    failed = new.diverged_at >= 0
    kept = jax.tree.map(lambda old, value: jnp.where(failed, old, value), state, new)
    return kept._replace(diverged_at=new.diverged_at)


def train(
    key: Array,
    problem: PatchProblem,
    network: Network,
    rule: UpdateRule,
    steps: int,
    *,
    record: Callable[[State], Any] | None = None,
    record_at: Sequence[int] | None = None,
    stop_loss: ArrayLike | None = None,
    updates: ArrayLike | None = None,
    state: State | None = None,
) -> TrainedPatches:
    """Make `steps` updates, or fewer if the loss falls to `stop_loss` before or the run diverges.

    `updates`, which may be traced, is a smaller number of them that are made.

    `record(state)` is any tree of arrays, evaluated after each number of updates in `record_at` (increasing, from 0 to
    `steps`; by default the end alone); of a run that stopped or diverged it sees the state where that was. Give the
    `state` of another call to go on from its weights with this rule: the transformation starts anew, `State.step` goes
    on, and `record_at` counts from here. The update after t others draws from `fold_in(key, t)`.

    A rule that treats coordinates one by one (Adam, the sign) has no meaning here and makes coefficients and
    pre-activations disagree; the run is reported as diverged at its last step.

    A pure function of its arrays, for jit and vmap: everything in `problem` and the numbers in `rule` may be traced.
    """
    check_known("steps", steps, whole=True, ndim=0, low=0)
    if rule.radius is not None and not callable(rule.radius):
        check_known("radius", rule.radius, ndim=0, low=0)
    # Under vmap every instance now has a second layer of its own. With a common one XLA copies all hidden layers into
    # another layout for the product with it: nearly half of the time.
    problem = problem._replace(second_layer=problem.second_layer + 0 * problem.preactivations[:, 0])
    start = init(problem, network, rule, stop_loss=stop_loss)
    if state is not None:
        rule_state = rule.transform.init(state.weights)
        start = _measured(problem, network, state.weights, rule_state, state.step, state.diverged_at, stop_loss)

    def update(_: Array, state: State) -> State:
        return step(jax.random.fold_in(key, state.step), state, problem, network, rule, stop_loss=stop_loss)

    def ended(state: State) -> Array:
        over = (state.diverged_at >= 0) | (state.stopped_at >= 0)
        return over if updates is None else over | (state.step - start.step >= updates)

    last, records = evolve(update, start, int(steps), record=record, record_at=record_at, stop=ended)
    nonsense = (last.diverged_at < 0) & ~_consistent(problem, last)
    last = last._replace(
        diverged_at=jnp.where(nonsense, last.step, last.diverged_at),
        stopped_at=jnp.where(nonsense, jnp.int32(-1), last.stopped_at),
    )
    return TrainedPatches(last, records)


def _consistent(problem: PatchProblem, state: State) -> Array:
    """Whether the pre-activations are those of the weights, H = c H0 + C G, up to the rounding of all the steps."""
    combined, c, images = state.weights
    start = problem.preactivations
    off = jnp.max(jnp.abs(images - c * start - combined @ problem.gram))
    eps = jnp.finfo(images.dtype).eps
    rounding = eps * (8 + state.step)
    terms = jnp.max(jnp.abs(combined) @ jnp.abs(problem.gram))
    size = jnp.maximum(jnp.max(jnp.abs(images)), jnp.max(jnp.abs(start)))
    return off <= (jnp.sqrt(eps) + rounding) * terms + rounding * size


def _slope(key: Array, state: State, problem: PatchProblem, network: Network, rule: UpdateRule) -> Weights:
    """The gradient of the rule's view, or with a radius the one at the point that far uphill."""
    batch = rule.view(key, problem.design)
    here = state.weights.preactivations
    slope = gradient(problem, network, batch, here, state.outputs)
    if rule.radius is None:
        return slope
    radius = rule.radius(state.step) if callable(rule.radius) else rule.radius
    uphill = ascent(radius, jnp.sqrt(squared_norm(problem, slope)))
    return gradient(problem, network, batch, here + uphill * slope.preactivations)


def _measured(
    problem: PatchProblem,
    network: Network,
    weights: Weights,
    rule_state: Any,
    step: Array,
    diverged_at: Array,
    stop_loss: ArrayLike | None,
) -> State:
    """The state at these weights, with its outputs, its loss, and whether it is the end."""
    values = outputs(problem, network, weights.preactivations)
    loss = mean_loss(SeenBatch(problem.design.labels, problem.design.weights), network, values)
    # Comparisons with NaN are false, and one entry that is not finite makes this sum so; it is faster than `all`.
    total = jnp.sum(problem.second_layer @ weights.coefficients) + weights.initial
    fine = (loss <= LIMIT) & jnp.isfinite(total)
    none = jnp.int32(-1)
    stopped_at = none if stop_loss is None else jnp.where(loss <= stop_loss, step, none)
    diverged_at = jnp.where((diverged_at < 0) & ~fine, step, diverged_at)
    return State(weights, values, loss, rule_state, step, diverged_at, stopped_at)

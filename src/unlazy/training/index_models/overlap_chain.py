"""The overlap of one neuron in online SGD as an exact Markov chain, at a cost that does not depend on the dimension.

    rule = Rule(step_size=0.1, sign=-1.0)
    overlaps = train(key, jnp.zeros(64), 400, rule, (4000, 24_000), link=as_link("He3"))            # (2, 64)

Of an example x only u = w.x, the part v along theta without its part along w, and the square R of what is left count:
independent, u and v standard normal and R chi-square with d - 2 degrees of freedom. With psi of `push`, c = gamma psi/d
and z = m u + sqrt(1 - m^2) v,

    m <- (m + c sqrt(1 - m^2) v) / sqrt(1 + c^2 (v^2 + R)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import check_known, check_signs
from unlazy.functions.elementwise import LINKS, Link
from unlazy.random import chi_square, symmetric, to_normal
from unlazy.training.loop import record_steps

_BLOCK = 64
"""Steps whose random numbers are drawn together."""


class Rule(NamedTuple):
    """What a neuron does with an example; numbers, or arrays with an entry for each chain or neuron, traced or not."""

    step_size: ArrayLike
    """gamma: the update is gamma/d times psi."""
    reuse_step_size: ArrayLike = 1.0
    """s: that of the first of two steps on an example, over d, as the second one sees it."""
    reuse: ArrayLike = 1.0
    """1 for two steps on each example, 0 for one."""
    sign: ArrayLike = 1.0
    """a, the output weight, 1 or -1."""
    bias: ArrayLike = 0.0
    """b."""
    noise_variance: ArrayLike = 0.0
    clip: ArrayLike = math.inf
    """Largest |gamma psi/d| sqrt(d); polynomial activations need about 1 against rare huge gradients."""


class Draws(NamedTuple):
    """The random numbers of a step, one of each for every chain."""

    along: Array
    """u = w.x."""
    across: Array
    """v, the part of x along theta orthogonal to w."""
    rest: Array
    """R, the square of what is orthogonal to both."""
    noise: Array
    """Standard normal, the label noise over its deviation."""


def push(rule: Rule, derivative: Callable[[Array], Array], along: Array, label: Array, square: Array) -> Array:
    """psi = g1 + g2, g1 = a y sigma'(u + b), g2 = a y sigma'(u + b + s q g1), of pre-activations u and labels y.

    `square` is q = |x - u w|^2/d. g2 is left out where `reuse` is 0.
    """
    signed = rule.sign * label
    first = signed * derivative(along + rule.bias)
    second = signed * derivative(along + rule.bias + rule.reuse_step_size * square * first)
    return jnp.add(first, rule.reuse * second)


def clipped(rule: Rule, psi: Array, d: ArrayLike) -> Array:
    """c = gamma psi/d within +-clip/sqrt(d)."""
    limit = rule.clip / jnp.sqrt(d)
    return jnp.clip(rule.step_size / d * psi, -limit, limit)


def step(
    draws: Draws, overlap: Array, d: ArrayLike, rule: Rule, link: Link, derivative: Callable, pushed: Callable = push
) -> Array:
    """The overlaps after one example each; `pushed` is psi, as `push` is."""
    u, v, rest, noise = draws
    side = jnp.sqrt((1 - overlap) * (1 + overlap))
    label = link(overlap * u + side * v) + jnp.sqrt(rule.noise_variance) * noise
    square = v**2 + rest
    c = clipped(rule, pushed(rule, derivative, u, label, square / d), d)
    moved = (overlap + c * side * v) / jnp.sqrt(1 + c**2 * square)
    # rounding must not leave [-1, 1]
    return jnp.clip(moved, -1.0, 1.0)


def draw(key: Array, shape: tuple[int, int], d: ArrayLike, dtype: Any = None, *, noisy: bool = True) -> Draws:
    """Independent numbers for each part of an example in d dimensions, (steps, chains); without noise 0 for it."""
    along, across, ranked, *noise = map(to_normal, symmetric(key, 4 if noisy else 3, shape, dtype))
    rest = chi_square(jnp.asarray(d) - 2, ranked)
    return Draws(along, across, rest, noise[0] if noisy else jnp.zeros_like(along))


def train(
    key: Array,
    start: Array,
    d: ArrayLike,
    rule: Rule,
    record_at: ArrayLike,
    *,
    link: Link,
    activation: Link = LINKS["relu"],
) -> Array:
    """The overlaps (records, chains) at `record_at` examples, in a loop of its own since these numbers may be traced.

    The chains begin at `start`, whose precision is that of all; `record_at` increases. d and the numbers of the rule
    may be traced too, so that one program serves all dimensions.

    Exact for one neuron in d >= 3 dimensions on the correlation loss, x ~ N(0, I_d); chains are independent. Source:
    Lee, Oko, Suzuki & Wu (2024), Algorithm 1, with the projection at the old w in both steps.
    """
    start = _checked(start, d, rule)
    check_known("record_at", record_at, whole=True, ndim=1, low=0)
    if not isinstance(record_at, jax.core.Tracer):
        check_known("the last of record_at", np.asarray(record_at)[-1], low=1)
        record_steps(int(np.asarray(record_at)[-1]), np.asarray(record_at).tolist())
    ends = jnp.asarray(record_at, jnp.int32)

    def segment(state: tuple[Array, Array, Array], end: Array) -> tuple[tuple[Array, Array, Array], Array]:
        def block(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            overlap, done, index = state
            length = jnp.minimum(end - done, _BLOCK)
            draws = _draw_block(key, index, start, d, rule)

            def one(overlap: Array, x: tuple[Array, Draws]) -> tuple[Array, None]:
                place, drawn = x
                moved = step(drawn, overlap, d, rule, link, activation.slope)
                return jnp.where(place < length, moved, overlap), None

            overlap, _ = jax.lax.scan(one, overlap, (jnp.arange(_BLOCK), draws))
            return overlap, done + length, index + 1

        state = jax.lax.while_loop(lambda state: state[1] < end, block, state)
        return state, state[0]

    return jax.lax.scan(segment, (start, jnp.int32(0), jnp.int32(0)), ends)[1]


def crossing_step(
    key: Array,
    start: Array,
    d: ArrayLike,
    rule: Rule,
    largest_steps: ArrayLike,
    *,
    link: Link,
    activation: Link = LINKS["relu"],
    target_overlap: ArrayLike = 0.5,
    share: float = 0.5,
    pushed: Callable = push,
) -> Array:
    """The first number of examples after which at least `share` of the chains have |m| >= `target_overlap`, or -1.

    Looked at after every example, and no longer than needed: the chains go on in blocks of 64 examples until then, or
    until `largest_steps`, which may be traced. `pushed` is what an example does, as in `step`. Everything else as in
    `train`.
    """
    start = _checked(start, d, rule)
    check_known("largest_steps", largest_steps, whole=True, ndim=0, low=1)
    check_known("share", share, ndim=0, above=0, high=1)
    check_known("target_overlap", target_overlap, ndim=0, above=0, below=1)
    none = jnp.int32(-1)

    def there(overlap: Array) -> Array:
        # a count, so that a share of 1/2 is exact
        return (jnp.abs(overlap) >= target_overlap).sum(axis=-1) >= share * start.size

    def block(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        overlap, index, _ = state
        draws = _draw_block(key, index, start, d, rule)

        def one(overlap: Array, drawn: Draws) -> tuple[Array, Array]:
            moved = step(drawn, overlap, d, rule, link, activation.slope, pushed)
            return moved, moved

        overlap, path = jax.lax.scan(one, overlap, draws)
        reached = there(path)
        found = index * _BLOCK + 1 + jnp.argmax(reached).astype(jnp.int32)
        return overlap, index + 1, jnp.where(reached.any() & (found <= largest_steps), found, none)

    def goes_on(state: tuple[Array, Array, Array]) -> Array:
        return (state[2] < 0) & (state[1] * _BLOCK < largest_steps)

    begin = (start, jnp.int32(0), jnp.where(there(start), jnp.int32(0), none))
    return jax.lax.while_loop(goes_on, block, begin)[2]


def measured_drift(
    key: Array,
    rule: Rule,
    overlaps: Sequence[float],
    *,
    link: Link,
    activation: Link = LINKS["relu"],
    cells: int = 64,
) -> Array:
    """The mean of psi (z - m u) over drawn examples with |x|^2 = d, the same u and v for all overlaps m.

    The ranks of (u, v) are uniform in each cell of a grid of cells x cells: the mean is as unbiased as that of
    independent ones, and varies about as much as that of four times as many.
    """
    places = jnp.arange(cells)
    inside = [(1 + uniform) / 2 for uniform in symmetric(key, 2, (cells, cells))]
    ranks = 2 * (places + inside[0]) / cells - 1, 2 * (places[:, None] + inside[1]) / cells - 1
    most = 1 - jnp.finfo(inside[0].dtype).epsneg
    u, v = (to_normal(jnp.clip(rank, -most, most)).reshape(-1) for rank in ranks)
    m = jnp.asarray(overlaps, u.dtype)[:, None]
    across = jnp.sqrt(1 - m**2) * v
    psi = push(rule, activation.slope, u, link(m * u + across), jnp.ones_like(u))
    return (psi * across).mean(1)


def check_rule(rule: Rule, d: ArrayLike) -> None:
    """Raise an `InputError` for what is known to be impossible; traced numbers pass."""
    check_known("d", d, ndim=0, low=3)
    check_known("step_size", rule.step_size, above=0)
    check_known("reuse_step_size", rule.reuse_step_size, low=0)
    check_known("reuse", rule.reuse, low=0, high=1)
    check_known("bias", rule.bias)
    check_known("noise_variance", rule.noise_variance, low=0)
    check_known("clip", rule.clip, above=0, finite=False)
    check_signs("sign", rule.sign)


def _draw_block(key: Array, index: Array, start: Array, d: ArrayLike, rule: Rule) -> Draws:
    silent = isinstance(rule.noise_variance, int | float) and rule.noise_variance == 0
    return draw(jax.random.fold_in(key, index), (_BLOCK, start.size), d, start.dtype, noisy=not silent)


def _checked(start: ArrayLike, d: ArrayLike, rule: Rule) -> Array:
    check_rule(rule, d)
    check_known("start", start, ndim=1)
    if not isinstance(start, jax.core.Tracer):
        check_known("|start|", np.abs(np.asarray(start, float)), below=1)
    return jnp.asarray(start, dtype=None if hasattr(start, "dtype") else float)

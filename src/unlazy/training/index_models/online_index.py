"""Two-layer networks on single-index data by layer-wise online SGD: all neurons see the same examples, once or twice.

    weights = init(key, 64, 1000)
    run = train(key, weights, rule, 50_000, link=as_link("He3"), record_at=(10_000, 50_000))
    fit = fit_second_layer(key, run.weights, 0.01, link=as_link("He3"))

Phase I moves each neuron's w_j by the update of `overlap_chain`, of which one neuron's overlap is an exact chain; phase
II fits the second layer by ridge regression on fresh examples, with fresh biases. The hidden direction is the first
coordinate axis, which loses nothing as the start is isotropic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError, check_known
from unlazy.functions.elementwise import LINKS, Link
from unlazy.random import normal, short_normals, uniform
from unlazy.training.index_models.overlap_chain import Rule, check_rule, clipped, push
from unlazy.training.loop import evolve, record_steps

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1)


class TrainedLayer(NamedTuple):
    """The first layer, unit rows (width, d), and its overlaps (records, width, ...) on the way."""

    weights: Array
    overlaps: Array


class SecondLayer(NamedTuple):
    """What phase II leaves behind."""

    relative_risk: Array
    """Mean squared error at fresh points without noise, over the variance of the link there."""
    absolute_error: Array
    """The mean of |f - f*| there."""
    ridge: Array
    """The one that was chosen."""


def init(key: Array, width: int, d: int, dtype: Any = None) -> Array:
    """First-layer weights (width, d), uniform on the unit sphere."""
    check_known("width", width, whole=True, ndim=0, low=1)
    check_known("d", d, whole=True, ndim=0, low=3)
    weights = normal(key, (width, d), dtype)
    return weights / jnp.linalg.norm(weights, axis=1, keepdims=True)


def planted(key: Array, width: int, d: int, overlap: ArrayLike) -> Array:
    """First-layer weights of unit length with this overlap each, uniform otherwise."""
    rest = init(key, width, d).at[:, 0].set(0.0)
    rest = rest / jnp.linalg.norm(rest, axis=1, keepdims=True)
    return (jnp.sqrt(1 - jnp.square(overlap)) * rest).at[:, 0].set(overlap)


def step(weights: Array, x: Array, noise: ArrayLike, rule: Rule, link: Link, derivative: Callable) -> Array:
    """The weights after one example x: w + c (x - (w.x) w), c = gamma psi/d, and then unit length again."""
    d = x.size
    u = weights @ x
    label = link(x[0]) + jnp.sqrt(rule.noise_variance) * noise
    c = clipped(rule, push(rule, derivative, u, label, (x @ x - u**2) / d), d)
    moved = weights + c[:, None] * (x - u[:, None] * weights)
    return moved / jnp.linalg.norm(moved, axis=1, keepdims=True)


def train(
    key: Array,
    weights: Array,
    rule: Rule,
    n: int,
    *,
    link: Link,
    activation: Link = LINKS["relu"],
    record_at: Sequence[int] | None = None,
    block: int = 16,
) -> TrainedLayer:
    """Phase I: `n` fresh examples, one after the other; the precision is that of `weights`.

    Sign and bias of the rule may be arrays, one for each neuron. Overlaps are recorded after each number of examples in
    `record_at` (increasing, from 0 to `n`; by default the end alone).

    The same as `step` repeated, up to rounding, but the d-dimensional work is done for `block` examples X at once by
    two matrix products. Within a block all weights are combinations of those at its start and of X, so that a step
    updates their coefficients alone. Source: Lee, Oko, Suzuki & Wu (2024), Algorithm 1, phase I.
    """
    if getattr(weights, "ndim", 0) != 2:
        raise InputError(f"weights must have shape (width, d), got shape {getattr(weights, 'shape', ())}")
    check_rule(rule, weights.shape[1])
    check_known("n", n, whole=True, ndim=0, low=1)
    check_known("block", block, whole=True, ndim=0, low=1)
    stops = record_steps(n, record_at)
    lengths, after = _blocks((*stops, n), block)
    d = weights.shape[1]

    def advance(index: Array, weights: Array) -> Array:
        numbers = short_normals(jax.random.fold_in(key, index), (block * (d + 1),), weights.dtype)
        inputs, noise = numbers[: block * d].reshape(block, d), numbers[block * d :]
        return _block(weights, inputs, noise, jnp.asarray(lengths)[index], rule, link, activation.slope)

    record_after = after[: len(stops)]
    return TrainedLayer(*evolve(advance, weights, len(lengths), record=lambda w: w[:, 0], record_at=record_after))


def _blocks(ends: Sequence[int], length: int) -> tuple[np.ndarray, list[int]]:
    """Lengths of blocks of at most `length` steps such that one ends at each of `ends`, and after how many that is."""
    lengths: list[int] = []
    last, after = 0, []
    for end in ends:
        whole, left = divmod(end - last, length)
        lengths += [length] * whole + [left] * (left > 0)
        after.append(len(lengths))
        last = end
    return np.array(lengths, np.int32), after


def _block(
    weights: Array, inputs: Array, noise: Array, length: ArrayLike, rule: Rule, link: Link, derivative: Callable
) -> Array:
    """The weights after the first `length` of the inputs."""
    d = inputs.shape[1]
    labels = link(inputs[:, 0]) + jnp.sqrt(rule.noise_variance) * noise

    def size(u: Array, across: Array, label: Array) -> Array:
        return clipped(rule, push(rule, derivative, u, label, across / d), d)

    return move_together(weights, inputs, labels, size, length)


def move_together(
    weights: Array,
    inputs: Array,
    labels: Array,
    size: Callable[[Array, Array, Array], Array],
    length: ArrayLike | None = None,
) -> Array:
    """The unit rows w after w <- normalise(w + c (x - (w.x) w)) for each of the inputs (count, d), or `length` of them.

    c = size(w.x, |x - (w.x) w|^2, label). A step is w <- f w + e x_k with f = (1 - c u)/|.| and e = c/|.|. All w are
    a w_0 + sum_j e_j x_j, so that a step needs their products with x_k alone, from W X^T and the Gram matrix.
    """
    count = len(inputs)
    gram = inputs @ inputs.T
    products = inputs @ weights.T

    def one(state: tuple[Array, Array], given: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
        first, added = state
        place, product, row, label = given
        u = first * product + row @ added
        across = row[place] - u**2
        c = size(u, across, label)
        if length is not None:
            c = jnp.where(place < length, c, 0.0)
        shrink = 1 / jnp.sqrt(1 + c**2 * across)
        kept = (1 - c * u) * shrink
        # neurons last: they are what a processor handles side by side
        new = jnp.where((jnp.arange(count) == place)[:, None], c * shrink, kept * added)
        return (kept * first, new), None

    begin = jnp.ones_like(products[0]), jnp.zeros_like(products)
    (first, added), _ = jax.lax.scan(one, begin, (jnp.arange(count), products, gram, labels))
    moved = first[:, None] * weights + added.T @ inputs
    # what |w| = 1 was short of by rounding
    return moved / jnp.linalg.norm(moved, axis=1, keepdims=True)


def fit_second_layer(
    key: Array,
    weights: Array,
    noise_variance: ArrayLike,
    *,
    link: Link,
    activation: Link = LINKS["relu"],
    reach: float = 3.0,
    samples_per_neuron: int = 5,
    test_points: int = 4000,
    ridges: Sequence[float] = RIDGES,
) -> SecondLayer:
    """Phase II: ridge regression on sigma(w_j.x + b_j) and a constant, fresh b_j uniform on [-reach, reach].

    `samples_per_neuron` fresh examples for each neuron; half as many more choose the ridge.
    """
    count = len(weights)
    bias_key, draw_key, noise_key = jax.random.split(key, 3)
    biases = uniform(bias_key, (count,), -reach, reach)
    fitted, chosen = samples_per_neuron * count, max(samples_per_neuron * count // 2, 1)
    inputs = normal(draw_key, (fitted + chosen + test_points, weights.shape[1]), weights.dtype)
    truth = link(inputs[:, 0].astype(float))
    hidden = activation((inputs @ weights.T).astype(float) + biases)
    features = jnp.concatenate([hidden, jnp.ones((len(hidden), 1))], axis=1)
    labels = truth[: fitted + chosen] + jnp.sqrt(noise_variance) * normal(noise_key, (fitted + chosen,))
    squares, basis = jnp.linalg.eigh(features[:fitted].T @ features[:fitted] / fitted)
    rotated = basis.T @ (features[:fitted].T @ labels[:fitted]) / fitted
    dual = basis @ (rotated[:, None] / (jnp.maximum(squares, 0.0)[:, None] + jnp.asarray(ridges)))
    outputs = features[fitted:] @ dual
    errors = jnp.mean((outputs[:chosen] - labels[fitted:, None]) ** 2, axis=0)
    best = jnp.argmin(errors)
    test = truth[fitted + chosen :]
    off = outputs[chosen:, best] - test
    return SecondLayer(jnp.mean(off**2) / jnp.var(test), jnp.mean(jnp.abs(off)), jnp.asarray(ridges)[best])

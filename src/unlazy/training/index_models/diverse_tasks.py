"""A sum of different tasks in random directions, the neurons that learn it, and what a second layer makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.functions.elementwise import as_activation, as_link
from unlazy.random import normal, uniform
from unlazy.training.index_models.additive_network import AdditiveRule, train_network
from unlazy.training.index_models.online_index import init

SHARES = ((1.0, 0.0), (0.8, 0.6), (0.8, -0.6), (0.96, 0.28))
"""Of h_3 and h_4 in the links, one after the other: information exponent 3, C_k = 1.25."""
FACTORS = (1.0, 0.3, 0.1)
"""Of the first step size, in the phases of training."""
RIDGES = (1e-5, 1e-4, 1e-3, 1e-2)
REACH = 3.0


class Learned(NamedTuple):
    """What a network of many neurons, each on its own, learned of the tasks."""

    start: Array
    """Unit rows (width, d)."""
    weights: Array
    overlaps: Array
    """With every task at the start and at the end of each phase, (1 + phases, width, tasks)."""
    directions: Array
    """Of the tasks, unit rows (tasks, d)."""
    rule: AdditiveRule


def diverse_rule(
    directions: Array, step_size: ArrayLike, noise_variance: ArrayLike = 0.0, activation: str = "tanh"
) -> AdditiveRule:
    """f = M^(-1/2) sum_m link_m(<x, theta_m>), the links in turn those of `SHARES`."""
    tasks, d = directions.shape
    shares = jnp.asarray(SHARES, directions.dtype)[jnp.arange(tasks) % len(SHARES)]

    def link(z: Array) -> Array:
        return sum(shares[:, place] * as_link(f"He{3 + place}")(z) for place in range(2))

    strengths = jnp.full(tasks, tasks**-0.5, directions.dtype)
    return AdditiveRule(link, strengths, d, step_size, as_activation(activation), noise_variance, directions)


def learn(
    key: Array,
    *,
    d: int,
    tasks: int,
    width: int,
    task_samples_per_squared_dimension: float,
    relative_step_size: ArrayLike,
    noise_variance: ArrayLike = 0.0,
    parts: Sequence[int] = (4, 2, 1),
) -> Learned:
    """Phase I: n = ratio M d^2 fresh samples from random starts, of which such parts have smaller and smaller steps."""
    direction_key, start_key, train_key = jax.random.split(key, 3)
    directions, start = init(direction_key, tasks, d), init(start_key, width, d)
    rule = diverse_rule(directions, relative_step_size / (d * tasks) ** 0.5, noise_variance)
    total = task_samples_per_squared_dimension * tasks * d**2 / sum(parts)
    weights, records = start, [rule.fields(start)]
    for place, (part, factor) in enumerate(zip(parts, FACTORS, strict=True)):
        phase = rule._replace(step_size=factor * rule.step_size)
        weights = train_network(jax.random.fold_in(train_key, place), weights, phase, round(part * total)).weights
        records.append(rule.fields(weights))
    return Learned(start, weights, jnp.stack(records), directions, rule)


def second_layer_risks(
    key: Array,
    layers: Array,
    target: Callable[[Array], Array],
    width: Sequence[int],
    noise_variance: ArrayLike = 0.0,
    samples_per_neuron: int = 10,
    test_points: int = 2000,
) -> Array:
    """Phase II: the relative risk of ridge regression on relu(<w_j, x> + b_j) of the first N neurons, (layers, widths).

    All layers (count, largest_width, d) get the same fresh biases, uniform on [-3, 3], and samples; the ridge is the
    best of four on as many test points again.
    """
    largest, d = layers.shape[1:]
    bias_key, draw_key, noise_key = jax.random.split(key, 3)
    biases = uniform(bias_key, (largest,), -REACH, REACH)
    fitted = samples_per_neuron * largest
    x = normal(draw_key, (fitted + 2 * test_points, d))
    truth = target(x)
    labels = truth[:fitted] + jnp.sqrt(noise_variance) * normal(noise_key, (fitted,))

    kept = jnp.arange(largest) < jnp.asarray(width)[:, None]
    kept = jnp.concatenate([kept, jnp.ones((len(kept), 1), bool)], axis=1)

    def moments(weights: Array) -> tuple[Array, Array]:
        features = jnp.concatenate([jax.nn.relu(x @ weights.T + biases), jnp.ones((len(x), 1))], axis=1)
        both = features[:fitted].T @ jnp.concatenate([features[:fitted], labels[:, None]], axis=1) / fitted
        return features[fitted:], both

    features, both = jax.vmap(moments)(layers)
    gram = jnp.where(kept[:, :, None] & kept[:, None, :], both[:, None, :, :-1], 0.0)
    moment = jnp.where(kept, both[:, None, :, -1], 0.0)
    # one call for all: calls of LAPACK side by side can lock each other
    ridges = jnp.asarray(RIDGES)[:, None, None] * jnp.eye(kept.shape[1])
    moment = jnp.broadcast_to(moment[:, :, None, :, None], (*gram.shape[:2], len(RIDGES), kept.shape[1], 1))
    solved = jnp.linalg.solve(gram[:, :, None] + ridges, moment)[..., 0]
    errors = (jnp.einsum("lnp,lwrp->lwrn", features, solved) - truth[fitted:]) ** 2
    best = jnp.argmin(errors[..., :test_points].mean(axis=3), axis=2)
    tested = errors[..., test_points:].mean(axis=3)
    return jnp.take_along_axis(tested, best[..., None], axis=2)[..., 0] / truth.var()

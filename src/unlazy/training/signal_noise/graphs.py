"""Patch networks on the nodes of a graph: every node sees the mean of its neighbours' patches and its own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.random import uniform
from unlazy.training.signal_noise import token_gram as engine


def groups(n: int, neighbours: ArrayLike) -> Array:
    """The averages over separate groups of D = `neighbours` nodes of one class, (n, n); D must divide n/2.

    Classes alternate along the nodes: those of one class are every second one.
    """
    index = jnp.arange(n)
    group = 2 * (index // 2 // neighbours) + index % 2
    return _averages(group[:, None] == group)


def random_neighbours(key: Array, n: int, neighbours: ArrayLike, homophily: ArrayLike) -> Array:
    """The averages over D = `neighbours` nodes at random, each node itself among its own, (n, n).

    Classes alternate along the nodes. Of the D nodes (1 + h)/2 are of the node's own class, h the `homophily`, rounded
    to whole numbers: the same for all nodes, for those of a class are on a circle, and neighbours are at distances that
    are drawn once for all. A node is as often a neighbour as it has neighbours; edges have a direction.
    """
    index, half = jnp.arange(n), n // 2
    others = jnp.round(neighbours * (1 - jnp.asarray(homophily, float)) / 2)
    scores = uniform(key, (2, half))
    # The smallest score is the node itself in its own class.
    scores = scores.at[0, 0].set(-1.0)
    order = jnp.sum(scores[:, :, None] > scores[:, None, :], axis=-1)
    chosen = order < jnp.stack([neighbours - others, others])[:, None]
    return _averages(chosen[(index[:, None] + index) % 2, (index[:, None] // 2 - index // 2) % half])


def averaged(problem: engine.PatchProblem, averages: Array) -> engine.PatchProblem:
    """The two-patch problem whose samples are these averages (n, n) of the samples; the loss weighs all alike."""
    tokens = jnp.eye(len(averages) + 1).at[1:, 1:].set(averages)
    signal = averages @ problem.design.classes
    patches = (engine.Patch(shared=signal[:, None]), problem.design.patches[1])
    return problem._replace(
        design=problem.design._replace(patches=patches),
        gram=tokens @ problem.gram @ tokens.T,
        preactivations=problem.preactivations @ tokens.T,
    )


def graph_run(
    key: Array,
    *,
    power: int,
    n: int,
    neighbours: ArrayLike,
    homophily: ArrayLike,
    graph: ArrayLike,
    d: ArrayLike,
    signal_strength: ArrayLike,
    width: int,
    initial_scale: ArrayLike,
    stop_loss: ArrayLike,
    steps: int,
    draws: int = 500,
) -> dict[str, Array]:
    """Train a ReLU^q network with one graph convolution by gradient flow; n SNR^q = `signal_strength` before it.

    The graph has `groups` (0) or `random_neighbours` (1). Tested on means over as many fresh nodes.
    """
    draw_key, graph_key, train_key, test_key = jax.random.split(key, 4)
    network, root = engine.Network(engine.relu_power(power)), jnp.sqrt(jnp.asarray(d, float))
    norms: dict[str, Any] = {
        "signal_norm": root * (signal_strength / n) ** (1 / power),
        "initial_deviation": initial_scale / root,
    }
    averages = jnp.where(graph == 1, random_neighbours(graph_key, n, neighbours, homophily), groups(n, neighbours))
    problem = averaged(engine.draw_signal_noise(draw_key, n=n, d=d, width=width, **norms), averages)
    state = engine.train(train_key, problem, network, engine.gradient_flow(), steps, stop_loss=stop_loss).state
    # All nodes of a class have patches of the same law: the first of either stand for them.
    signal = (averages[:2] @ problem.design.classes)[:, None]
    noise = jnp.sqrt(jnp.sum(averages[:2] ** 2, axis=1))
    tested = engine.fresh_errors(
        test_key,
        problem,
        state.weights,
        network,
        shared=jnp.stack([signal, jnp.zeros_like(signal)], axis=1),
        own=jnp.stack([jnp.zeros(2), noise], axis=1)[..., None],
        labels=problem.design.classes[:2],
        draws=draws,
    )
    return {
        "test_error": tested.error.mean(),
        "test_loss": tested.loss.mean(),
        "training_loss": state.loss,
        "signal_coefficient": jnp.max(engine.signal_coefficients(problem, state.weights)),
        "noise_coefficient": jnp.max(engine.noise_coefficients(problem, state.weights)),
        "diverged_at": state.diverged_at,
    }


def _averages(edges: Array) -> Array:
    return edges / jnp.sum(edges, axis=1, keepdims=True)

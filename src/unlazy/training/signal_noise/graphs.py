"""Patch networks on the nodes of a graph: every node sees the mean of its neighbours' patches and its own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.random import uniform
from unlazy.training.signal_noise.token_gram.drawing import draw_signal_noise
from unlazy.training.signal_noise.token_gram.engine import train
from unlazy.training.signal_noise.token_gram.fresh import fresh_errors
from unlazy.training.signal_noise.token_gram.network import Network, relu_power
from unlazy.training.signal_noise.token_gram.observables import noise_coefficients, signal_coefficients
from unlazy.training.signal_noise.token_gram.problem import Patch, PatchProblem
from unlazy.training.signal_noise.token_gram.rules import gradient_flow


def groups(n: int, neighbours: ArrayLike) -> Array:
    """The averages over separate groups of D = `neighbours` nodes of one class, (n, n); D must divide n/2.

    Classes alternate along the nodes: those of one class are every second one.
    """
    index = jnp.arange(n)
    group = 2 * (index // 2 // neighbours) + index % 2
    return _averages(group[:, None] == group)


def random_edges(key: Array, n: int, neighbours: ArrayLike, homophily: ArrayLike) -> Array:
    """The averages of a stochastic block model, (n, n): nodes of either class alternate, edges are independent.

    A node has D - 1 others on average beside itself, D = `neighbours`; with h the `homophily`, (1 + h)/2 of them of its
    own class.
    """
    index = jnp.arange(n)
    same = (index[:, None] - index) % 2 == 0
    others = (jnp.asarray(neighbours, float) - 1) / 2
    probability = jnp.where(same, others * (1 + homophily) / (n / 2 - 1), others * (1 - homophily) / (n / 2))
    below = jnp.tril(uniform(key, (n, n)) < probability, -1)
    return _averages(below | below.T | jnp.eye(n, dtype=bool))


def averaged(problem: PatchProblem, averages: Array) -> PatchProblem:
    """The two-patch problem whose samples are these averages (n, n) of the samples; the loss weighs all alike."""
    tokens = jnp.eye(len(averages) + 1).at[1:, 1:].set(averages)
    signal = averages @ problem.design.classes
    patches = (Patch(shared=signal[:, None]), problem.design.patches[1])
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
    draws: int = 50,
) -> dict[str, Array]:
    """Train a ReLU^q network with one graph convolution by gradient flow; n SNR^q = `signal_strength` before it.

    The graph is one of `groups` (0) or has `random_edges` (1). Tested on fresh patches at the nodes of the same graph.
    """
    draw_key, graph_key, train_key, test_key = jax.random.split(key, 4)
    network, root = Network(relu_power(power)), jnp.sqrt(jnp.asarray(d, float))
    norms = {"signal_norm": root * (signal_strength / n) ** (1 / power), "initial_deviation": initial_scale / root}
    averages = jnp.where(graph == 1, random_edges(graph_key, n, neighbours, homophily), groups(n, neighbours))
    problem = averaged(draw_signal_noise(draw_key, n=n, d=d, width=width, **norms), averages)
    state = train(train_key, problem, network, gradient_flow(), steps, stop_loss=stop_loss).state
    signal, noise = problem.design.patches[0].shared, jnp.sqrt(jnp.sum(averages**2, axis=1))
    tested = fresh_errors(
        test_key,
        problem,
        state.weights,
        network,
        shared=jnp.stack([signal, jnp.zeros_like(signal)], axis=1),
        own=jnp.stack([jnp.zeros(n), noise], axis=1)[..., None],
        labels=problem.design.classes,
        draws=draws,
    )
    return {
        "test_error": tested.error.mean(),
        "test_loss": tested.loss.mean(),
        "training_loss": state.loss,
        "signal_coefficient": jnp.max(signal_coefficients(problem, state.weights)),
        "noise_coefficient": jnp.max(noise_coefficients(problem, state.weights)),
        "diverged_at": state.diverged_at,
    }


def _averages(edges: Array) -> Array:
    return edges / jnp.sum(edges, axis=1, keepdims=True)

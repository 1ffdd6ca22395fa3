"""Two attention layers that learn which token is the parent of which, then to count in context what follows what.

The reduced model of Nichani, Damian & Lee (2024) on one-hot tokens X, (T, S), whose last token is the question:

    f = X^T softmax(softmax(A1) X A2 x_T),

with A1 (T, T) masked to tokens up to the own one, and A2 (S, S). The loss is - E sum_s' pi(s'|s_T) log(f(s') + eps).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.random import normal, uniform
from unlazy.training.loop import evolve

_SQUARINGS = 14
_FEW = 1e-4
"""A count so small that it matters only where there are none."""


class CausalPrompts(NamedTuple):
    """One-hot tokens (n, T, S), and the law (n, S) of what follows the last of them."""

    tokens: Array
    law: Array


class AttentionLayers(NamedTuple):
    """The logits of both layers, A1 (T, T) and A2 (S, S)."""

    first: Array
    second: Array


def draw_causal_prompts(key: Array, count: int, parents: Array, symbols: int, normals: int) -> CausalPrompts:
    """Sequences of T tokens, T - 1 of them with the given `parents` (-1 for none), the last uniform.

    The rows of a transition matrix are Dirichlet of concentration `normals`/2: sums of so many squares, over their sum.
    """
    length = len(parents) + 1
    matrix_key, token_key = jax.random.split(key)
    squares = (normal(matrix_key, (normals, count, symbols, symbols)) ** 2).sum(axis=0)
    matrices = squares / squares.sum(axis=2, keepdims=True)
    stationary = matrices
    for _ in range(_SQUARINGS):
        stationary = stationary @ stationary
        stationary = stationary / stationary.sum(axis=2, keepdims=True)
    drawn = uniform(token_key, (length, count))

    def chosen(laws: Array, numbers: Array) -> Array:
        place = (jnp.cumsum(laws, axis=1) < numbers[:, None]).sum(axis=1)
        return jax.nn.one_hot(jnp.minimum(place, symbols - 1), symbols, dtype=laws.dtype)

    def step(tokens: Array, place: Array) -> tuple[Array, None]:
        parent = parents[place]
        told = jnp.einsum("ns,nst->nt", tokens[jnp.maximum(parent, 0)], matrices)
        return tokens.at[place].set(chosen(jnp.where(parent < 0, stationary[:, 0], told), drawn[place])), None

    start = jnp.zeros((length, count, symbols), matrices.dtype)
    tokens, _ = jax.lax.scan(step, start, jnp.arange(length - 1))
    last = chosen(jnp.full((count, symbols), 1 / symbols, matrices.dtype), drawn[-1])
    tokens = jnp.moveaxis(tokens.at[-1].set(last), 0, 1)
    return CausalPrompts(tokens, jnp.einsum("ns,nst->nt", last, matrices))


def first_attention(first: Array) -> Array:
    """How much each token attends to each, (T, T)."""
    return jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(first.shape, bool)), first, -jnp.inf), axis=1)


def causal_answers(layers: AttentionLayers, tokens: Array) -> Array:
    """f, the model's law of what follows the last token, (n, S)."""
    mixed = jnp.einsum("ij,njs->nis", first_attention(layers.first), tokens)
    scores = jnp.einsum("nis,ns->ni", mixed, tokens[:, -1] @ layers.second.T)
    return jnp.einsum("ni,nis->ns", jax.nn.softmax(scores, axis=1), tokens)


def counted_answers(tokens: Array, parents: Array, pseudo_count: float) -> Array:
    """How often each symbol follows the last token in the sequence, for one who knows the parents, (n, S).

    (`pseudo_count` + number) over its sum; with the prior's concentration it is the posterior mean.
    """
    told = tokens[:, jnp.maximum(parents, 0)] * (parents >= 0)[None, :, None]
    follows = jnp.einsum("nis,ns->ni", told, tokens[:, -1])
    counts = jnp.einsum("ni,nis->ns", follows, tokens[:, :-1]) + pseudo_count
    return counts / counts.sum(axis=1, keepdims=True)


def causal_loss(answers: Array, law: Array, floor: ArrayLike) -> Array:
    """- E sum_s' pi(s'|s_T) log(f(s') + floor)."""
    return -jnp.mean(jnp.sum(law * jnp.log(answers + floor), axis=1))


def parent_attention(first: Array, parents: Array) -> Array:
    """The mean attention of tokens that have a parent to it."""
    places = jnp.arange(len(parents))
    own = first_attention(first)[places, jnp.maximum(parents, 0)]
    return jnp.sum(own * (parents >= 0)) / jnp.sum(parents >= 0)


def first_gradient(key: Array, batches: int, batch_size: int, parents: Array, symbols: int, **law: Any) -> Array:
    """- S T / b times the gradient of the loss in A1 at A1 = 0, A2 = b I, (T, T), the mean over batches.

    `law` has `normals`, `initial_attention_scale` (b) and `floor`.
    """
    scale = law["initial_attention_scale"]
    start = initial_layers(len(parents) + 1, symbols, scale)

    def loss(first: Array, number: Array) -> Array:
        prompts = draw_causal_prompts(jax.random.fold_in(key, number), batch_size, parents, symbols, law["normals"])
        return causal_loss(causal_answers(start._replace(first=first), prompts.tokens), prompts.law, law["floor"])

    def add(total: Array, number: Array) -> tuple[Array, None]:
        return total + jax.grad(loss)(start.first, number), None

    total, _ = jax.lax.scan(add, jnp.zeros_like(start.first), jnp.arange(batches))
    return -symbols * (len(parents) + 1) / scale * total / batches


def initial_layers(length: int, symbols: int, scale: ArrayLike) -> AttentionLayers:
    """A1 = 0 and A2 = b I."""
    return AttentionLayers(jnp.zeros((length, length)), jnp.asarray(scale) * jnp.eye(symbols))


def learn_causal_structure(
    key: Array,
    parents: Array,
    symbols: int,
    *,
    staged: ArrayLike,
    steps: int,
    step_sizes: tuple[ArrayLike, ArrayLike],
    batch_size: int,
    record_at: Sequence[int],
    tests: int,
    **law: Any,
) -> dict[str, Array]:
    """Gradient descent on fresh prompts: A1 for the first half of the steps, then A2; both throughout if `staged` is 0.

    What is recorded: `parent_attention`; `same_symbol_score`, how far the diagonal of A2 is above its other entries;
    and `loss` on fresh test prompts. Of these also `counted_loss`, of the frequencies after the last token's symbol,
    `bayes_loss`, of the posterior mean, and `known_law_loss`, of who knows pi, are returned.
    """
    test_key, train_key = jax.random.split(key)
    test = draw_causal_prompts(test_key, tests, parents, symbols, law["normals"])
    floor = law["floor"]

    def loss(layers: AttentionLayers, number: Array) -> Array:
        drawn = jax.random.fold_in(train_key, number)
        prompts = draw_causal_prompts(drawn, batch_size, parents, symbols, law["normals"])
        return causal_loss(causal_answers(layers, prompts.tokens), prompts.law, floor)

    def step(number: Array, layers: AttentionLayers) -> AttentionLayers:
        gradient = jax.grad(loss)(layers, number)
        late = number >= steps // 2
        rates = [jnp.where((late == stage) | (jnp.asarray(staged) == 0), s, 0.0) for stage, s in enumerate(step_sizes)]
        return AttentionLayers(*(a - rate * g for a, rate, g in zip(layers, rates, gradient, strict=True)))

    def record(layers: AttentionLayers) -> dict[str, Array]:
        diagonal = jnp.trace(layers.second) / symbols
        return {
            "parent_attention": parent_attention(layers.first, parents),
            "same_symbol_score": diagonal - (layers.second.sum() - symbols * diagonal) / (symbols * (symbols - 1)),
            "loss": causal_loss(causal_answers(layers, test.tokens), test.law, floor),
        }

    start = initial_layers(len(parents) + 1, symbols, law["initial_attention_scale"])
    layers, records = evolve(step, start, steps, record=record, record_at=record_at)
    counts = {"counted_loss": _FEW, "bayes_loss": law["normals"] / 2}
    learners = {name: counted_answers(test.tokens, parents, count) for name, count in counts.items()}
    return {
        **records,
        "attention": first_attention(layers.first),
        **{name: causal_loss(answers, test.law, floor) for name, answers in learners.items()},
        "known_law_loss": causal_loss(test.law, test.law, floor),
    }

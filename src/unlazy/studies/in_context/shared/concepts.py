"""Prompts about one concept with two meanings, and the attention layer that learns them.

Concept k has orthonormal vectors a_k (concept) and b_k (semantics) for inputs, c_k and d_k for labels. A demonstration
of meaning y = +-1 is (a_k + y b_k, c_k + y d_k) plus noise. Noise, initial weights and gradient steps commute with
rotations, so a_k, c_k are the coordinate vectors e_k and b_k, d_k the coordinate vectors e_{K+k}.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.random import normal


class Prompts(NamedTuple):
    """Demonstrations, a query and its meaning."""

    inputs: Array
    """(n, L, d)."""
    labels: Array
    """(n, L, d)."""
    query: Array
    """(n, d)."""
    meaning: Array
    """+-1, (n,)."""


class ConceptAttention(eqx.Module):
    """f = r . relu(W_O sum_l s_l Y_l), s = softmax_l((W_K x_l) . (W_Q x_q)), with r = +-1/m fixed."""

    query: Array
    key: Array
    output: Array
    readout: Array

    def attended(self, mixture: Array) -> Array:
        """r . relu(W_O v) for vectors v, (n, d)."""
        return jax.nn.relu(mixture @ self.output.T) @ self.readout

    def __call__(self, prompts: Prompts) -> Array:
        # The scores are x_l . (W_K^T W_Q x_q): two products with the query's vector instead of one with every x_l.
        direction = (prompts.query @ self.query.T) @ self.key
        weights = jax.nn.softmax(jnp.einsum("nld,nd->nl", prompts.inputs, direction))
        return self.attended(jnp.einsum("nl,nld->nd", weights, prompts.labels))

    @classmethod
    def start(cls, drawn: Array, scale: ArrayLike, deviation: ArrayLike) -> ConceptAttention:
        """W_Q = W_K = scale I and W_O = `deviation` times the drawn standard normal numbers (m, d)."""
        output = jnp.asarray(deviation) * drawn
        width, d = drawn.shape
        identity = jnp.asarray(scale) * jnp.eye(d, dtype=output.dtype)
        signs = jnp.where(jnp.arange(width) % 2 == 0, 1.0, -1.0).astype(output.dtype)
        return cls(query=identity, key=identity, output=output, readout=signs / width)


def draw_prompts(
    key: Array, count: int, *, concepts: int, length: int, d: int, noise: ArrayLike, mixed: bool = False
) -> Prompts:
    """`count` prompts; `noise` is the expected length of a noise vector.

    Each has one concept, or if `mixed` Dirichlet(1) weights of all concepts, scaled to Euclidean length 1.
    """
    drawn = normal(key, (prompt_numbers(count, concepts, length, d),))
    return prompts_from(drawn, count, concepts=concepts, length=length, d=d, noise=noise, mixed=mixed)


def prompt_numbers(count: int, concepts: int, length: int, d: int) -> int:
    """How many standard normal numbers `count` prompts take."""
    return count * ((2 * length + 1) * d + length + 1 + concepts)


def prompts_from(
    drawn: Array, count: int, *, concepts: int, length: int, d: int, noise: ArrayLike, mixed: bool = False
) -> Prompts:
    """The prompts of `draw_prompts` from given numbers: what is drawn at once compiles once."""
    vectors = 2 * length + 1
    signs = count * (length + 1)
    added = noise / jnp.sqrt(float(d)) * drawn[: count * vectors * d].reshape(count, vectors, d)
    meanings = jnp.where(drawn[count * vectors * d :][:signs] > 0, 1.0, -1.0).reshape(count, length + 1)
    free = drawn[count * vectors * d + signs :].reshape(count, concepts)
    if mixed:
        exponential = -jax.scipy.stats.norm.logcdf(free)
        weights = exponential / jnp.linalg.norm(exponential, axis=1, keepdims=True)
    else:
        weights = jax.nn.one_hot(jnp.argmax(free, axis=1), concepts)
    meanings, weights = meanings.astype(drawn.dtype), weights.astype(drawn.dtype)

    shared = jnp.broadcast_to(weights[:, None], (count, length + 1, concepts))
    signal = jnp.concatenate([shared, meanings[:, :, None] * shared], axis=2)
    signal = jnp.pad(signal, ((0, 0), (0, 0), (0, d - 2 * concepts)))
    inputs = signal + added[:, : length + 1]
    labels = signal[:, :length] + added[:, length + 1 :]
    return Prompts(inputs[:, :length], labels, inputs[:, length], meanings[:, length])


def error(model: ConceptAttention, prompts: Prompts) -> Array:
    """The share of wrong signs; no sign is half wrong."""
    margins = prompts.meaning * model(prompts)
    return jnp.where(margins == 0, 0.5, margins < 0).mean()


def measure(model: ConceptAttention, concepts: int) -> dict[str, Array]:
    """What query, key and output matrices know of concepts and semantics."""
    a, b = jnp.arange(concepts), concepts + jnp.arange(concepts)
    both = jnp.eye(len(model.query), dtype=model.query.dtype)
    return {
        "query_concept": model.query[a, a].mean(),
        "query_semantics": model.query[b, b].mean(),
        "key_concept": model.key[a, a].mean(),
        "key_semantics": model.key[b, b].mean(),
        "output_concept": jnp.abs(model.output[:, a]).mean(),
        "output_semantics": jnp.abs(model.output[:, b]).mean(),
        "score": jnp.sum(model.key[:, b] * model.query[:, b], axis=0),
        "readout": model.attended(both[a] + both[b]),
    }

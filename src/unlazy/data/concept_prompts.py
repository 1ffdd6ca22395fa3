"""Prompts about one concept with two meanings.

Concept k has orthonormal vectors a_k (concept) and b_k (semantics) for inputs, c_k and d_k for labels. A demonstration
of meaning y = +-1 is (a_k + y b_k, c_k + y d_k) plus noise. For a model whose start and training commute with rotations
a_k, c_k may be the coordinate vectors e_k and b_k, d_k the coordinate vectors e_{K+k}.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.random import normal


class ConceptPrompts(NamedTuple):
    """Demonstrations, a query and its meaning."""

    inputs: Array
    """(n, L, d)."""
    labels: Array
    """(n, L, d)."""
    query: Array
    """(n, d)."""
    meaning: Array
    """+-1, (n,)."""


class PromptSizes(NamedTuple):
    """Concepts K, demonstrations L of a prompt and dimension d >= 2K of a word."""

    concepts: int
    context: int
    d: int

    def numbers(self, n: int) -> int:
        """How many standard normal numbers n prompts take."""
        return n * ((2 * self.context + 1) * self.d + self.context + 1 + self.concepts)


def draw_prompts(key: Array, n: int, sizes: PromptSizes, noise_norm: ArrayLike, mixed: bool = False) -> ConceptPrompts:
    """n prompts; `noise_norm` is the expected length of a noise vector.

    Each has one concept, or if `mixed` Dirichlet(1) weights of all concepts, scaled to Euclidean length 1.
    """
    return prompts_from(normal(key, (sizes.numbers(n),)), n, sizes, noise_norm, mixed)


def prompts_from(
    drawn: Array, n: int, sizes: PromptSizes, noise_norm: ArrayLike, mixed: bool = False
) -> ConceptPrompts:
    """The prompts of `draw_prompts` from given numbers: what is drawn at once compiles once."""
    concepts, context, d = sizes
    vectors = 2 * context + 1
    signs = n * (context + 1)
    added = noise_norm / jnp.sqrt(float(d)) * drawn[: n * vectors * d].reshape(n, vectors, d)
    meanings = jnp.where(drawn[n * vectors * d :][:signs] > 0, 1.0, -1.0).reshape(n, context + 1)
    free = drawn[n * vectors * d + signs :].reshape(n, concepts)
    if mixed:
        exponential = -jax.scipy.stats.norm.logcdf(free)
        weights = exponential / jnp.linalg.norm(exponential, axis=1, keepdims=True)
    else:
        weights = jax.nn.one_hot(jnp.argmax(free, axis=1), concepts)
    meanings, weights = meanings.astype(drawn.dtype), weights.astype(drawn.dtype)

    shared = jnp.broadcast_to(weights[:, None], (n, context + 1, concepts))
    signal = jnp.concatenate([shared, meanings[:, :, None] * shared], axis=2)
    signal = jnp.pad(signal, ((0, 0), (0, 0), (0, d - 2 * concepts)))
    inputs = signal + added[:, : context + 1]
    labels = signal[:, :context] + added[:, context + 1 :]
    return ConceptPrompts(inputs[:, :context], labels, inputs[:, context], meanings[:, context])

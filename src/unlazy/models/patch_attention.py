"""One attention layer with a fixed readout, on sequences of tokens."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.random import normal


class PatchAttention(eqx.Module):
    """The network f(X) = (1/L) sum_l softmax(x_l W_Q W_K^T X^T) X W_V w_o on the L tokens x_l, the rows of X.

    `query` W_Q, `key` W_K and `value` W_V are (d, h); `readout` w_o, (h,), is meant to stay as it is. There is no
    division by sqrt(h) in the softmax (Jiang et al. 2024).
    """

    query: Array
    key: Array
    value: Array
    readout: Array

    def attention(self, tokens: Array) -> Array:
        """How much each token (first of the last two axes) attends to each: (n, L, L) on a batch (n, L, d)."""
        scores = jnp.einsum("nlh,nkh->nlk", tokens @ self.query, tokens @ self.key)
        return jax.nn.softmax(scores, axis=-1)

    def direction(self) -> Array:
        """The vector v = W_V w_o along which the network reads a token."""
        return self.value @ self.readout

    def __call__(self, tokens: Array) -> Array:
        """The outputs (n,) on a batch (n, L, d)."""
        # Pooling first: one weight per token instead of one output per pair of tokens.
        weights = self.attention(tokens).mean(axis=1)
        return jnp.einsum("nl,nl->n", weights, tokens @ self.direction())

    @classmethod
    def random(
        cls, key: Array, dimension: int, width: int, *, score_deviation: ArrayLike, value_deviation: ArrayLike
    ) -> PatchAttention:
        """Independent normal W_Q and W_K of standard deviation `score_deviation` and W_V of `value_deviation`.

        The readout has alternating entries +-h^-1/2; random signs would give the same law, as that of W_V is even.
        """
        query, scores, value = normal(key, (3, dimension, width))
        signs = jnp.where(jnp.arange(width) % 2 == 0, 1.0, -1.0).astype(value.dtype)
        return cls(
            query=score_deviation * query,
            key=score_deviation * scores,
            value=value_deviation * value,
            readout=signs / width**0.5,
        )

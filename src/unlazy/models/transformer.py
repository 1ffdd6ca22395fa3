"""A small decoder-only transformer on sequences of real vectors."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from unlazy.checks import InputError
from unlazy.random import normal

_EPSILON = 1e-5


class Transformer(eqx.Module):
    """The GPT-2 network (pre-norm, causal attention, learned positions) that maps (n, T, c) tokens to (n, T) numbers.

    h = tokens `read_in` + `positions`; then for every layer

        h <- h + attention(norm(h) `attention_in`) `attention_out`,    h <- h + gelu(norm(h) `up` + `bias`) `down`,

    and norm(h) . `readout`, where the answer at a token sees that token and earlier ones only. norm takes off the mean
    and divides by the deviation; it has no gains, which the matrix after it would absorb. `attention_in` holds queries,
    keys and values side by side, (L, w, 3w); all weights of the L layers are stacked. Sources: Radford et al. (2019);
    Garg, Tsipras, Liang & Valiant (2022) for its use on regression prompts.
    """

    read_in: Array
    positions: Array
    attention_in: Array
    attention_out: Array
    up: Array
    bias: Array
    down: Array
    readout: Array
    heads: int = eqx.field(static=True)

    def __call__(self, tokens: Array) -> Array:
        """The numbers (n, T) at the tokens (n, T, c), T at most the number of positions."""

        hidden = tokens @ self.read_in + self.positions[: tokens.shape[1]]
        # not a scan: its gradient stores what every layer needs in stacks, which takes 1.3 times as long on the CPU
        for i in range(len(self.up)):
            hidden = hidden + _attention(_norm(hidden) @ self.attention_in[i], self.heads) @ self.attention_out[i]
            hidden = hidden + jax.nn.gelu(_norm(hidden) @ self.up[i] + self.bias[i]) @ self.down[i]
        return _norm(hidden) @ self.readout

    @classmethod
    def random(
        cls, key: Array, tokens: int, length: int, *, width: int, layers: int, heads: int, token_scale: float = 1.0
    ) -> Transformer:
        """Normal weights of variance 1/(inputs), those that add to the stream divided by sqrt(2 layers), readout 0.

        `tokens` is the dimension c of a token and `length` the number of positions, of deviation 0.02 at the start. The
        read-in is multiplied by `token_scale`: where few coordinates of a token matter, a larger one shortens the time
        until training finds them. The perceptrons have 4 `width` neurons. All numbers are single precision.
        """
        if width % heads:
            raise InputError(f"width must be a multiple of heads = {heads}, got {width}")
        shapes = {
            "read_in": (tokens, width),
            "positions": (length, width),
            "attention_in": (layers, width, 3 * width),
            "attention_out": (layers, width, width),
            "up": (layers, width, 4 * width),
            "down": (layers, 4 * width, width),
        }
        deviations = {
            "read_in": token_scale / math.sqrt(tokens),
            "positions": 0.02,
            "attention_out": 1 / math.sqrt(2 * layers * width),
            "down": 1 / math.sqrt(2 * layers * 4 * width),
        }
        sizes = [math.prod(shape) for shape in shapes.values()]
        drawn = jnp.split(normal(key, (sum(sizes),), jnp.float32), [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)])
        weights = {
            name: numbers.reshape(shape) * deviations.get(name, 1 / math.sqrt(shape[-2]))
            for (name, shape), numbers in zip(shapes.items(), drawn, strict=True)
        }
        zeros = {"bias": jnp.zeros((layers, 4 * width), jnp.float32), "readout": jnp.zeros(width, jnp.float32)}
        return cls(**weights, **zeros, heads=heads)


def _norm(hidden: Array) -> Array:
    centred = hidden - hidden.mean(axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(axis=-1, keepdims=True) + _EPSILON)


def _attention(mixed: Array, heads: int) -> Array:
    """Causal softmax attention of the queries, keys and values (n, T, 3w): (n, T, w)."""
    n, length, size = mixed.shape
    query, key, value = jnp.moveaxis(mixed.reshape(n, length, 3, heads, size // (3 * heads)), 2, 0)
    scores = jnp.einsum("nqhe,nkhe->nhqk", query, key) / math.sqrt(query.shape[-1])
    seen = jnp.tril(jnp.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
    return jnp.einsum("nhqk,nkhe->nqhe", weights, value).reshape(n, length, size // 3)

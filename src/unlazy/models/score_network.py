"""A small network for the score of diffused data."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from unlazy.random import normal

_TIME_FEATURES = 6


class ScoreNetwork(eqx.Module):
    """Two hidden layers of SiLU that predict the noise in X_t = m_t X_0 + sigma_t xi, plus the answer for normal data.

        noise(x, t) = sigma_t x + m_t net(x, log(t)/4, sin and cos of log t, log(t)/2, exp(-t)) + (m_t^2/sigma_t) L x,

    and the score is -noise / sigma_t.

    The first term is the whole answer for X_0 ~ N(0, I), the law of whitened data as far as two moments tell; the net
    and L start at zero, and what they predict, m_t xi - sigma_t X_0, has variance one at all times. With L the
    projection on the directions in which the data do not move, noise there is x/sigma_t, as it should: data on a
    subspace of R^d are then a matter of the subspace. Times in units of dX = -X dt + sqrt(2) dB. Source of the
    parametrisation: Salimans & Ho (2022); the linear part follows Oko et al. (2023), section on linear subspaces.
    """

    first: Array
    first_bias: Array
    second: Array
    second_bias: Array
    readout: Array
    readout_bias: Array
    linear: Array

    def noise(self, x: Array, t: Array) -> Array:
        """The predicted noise (n, d) at the points x (n, d) and their times t (n,)."""
        return self._noise(x, t, self._second(self._first(x, t)))

    def __call__(self, x: Array, t: Array) -> Array:
        """The score (n, d) at the points x (n, d) and their times t (n,)."""
        return -self.noise(x, t) / moments(t)[1][:, None]

    def score_and_divergence(self, x: Array, t: Array) -> tuple[Array, Array]:
        """The score (n, d) and its divergence (n,), for about the price of two scores whatever d is.

        With derivatives D_1, D_2 of the two layers at x, tr(W_1 D_1 W_2 D_2 W_3) = D_1.((W_2 * (W_3 W_1)^T) D_2).
        """
        scale, deviation = moments(t)
        before = self._first(x, t)
        after = self._second(before)
        mixed = self.second * (self.readout @ self.first[: x.shape[1]]).T
        trace = jnp.sum(_silu_slope(before) * (_silu_slope(after) @ mixed.T), axis=1)
        trace += scale / deviation * jnp.trace(self.linear)
        return -self._noise(x, t, after) / deviation[:, None], -x.shape[1] - scale / deviation * trace

    def _noise(self, x: Array, t: Array, after: Array) -> Array:
        scale, deviation = moments(t)
        answer = jax.nn.silu(after) @ self.readout + self.readout_bias
        answer += (scale / deviation)[:, None] * (x @ self.linear)
        return deviation[:, None] * x + scale[:, None] * answer

    def _first(self, x: Array, t: Array) -> Array:
        return jnp.concatenate([x, _time_features(t)], axis=1) @ self.first + self.first_bias

    def _second(self, before: Array) -> Array:
        return jax.nn.silu(before) @ self.second + self.second_bias

    @classmethod
    def random(cls, key: Array, d: int, *, width: int = 128) -> ScoreNetwork:
        """Normal weights of variance 1/(inputs); biases, readout and linear part 0, in single precision."""
        inputs = d + _TIME_FEATURES
        drawn = normal(key, (inputs * width + width * width,), jnp.float32)
        return cls(
            first=drawn[: inputs * width].reshape(inputs, width) / math.sqrt(inputs),
            first_bias=jnp.zeros(width, jnp.float32),
            second=drawn[inputs * width :].reshape(width, width) / math.sqrt(width),
            second_bias=jnp.zeros(width, jnp.float32),
            readout=jnp.zeros((width, d), jnp.float32),
            readout_bias=jnp.zeros(d, jnp.float32),
            linear=jnp.zeros((d, d), jnp.float32),
        )


def moments(t: Array) -> tuple[Array, Array]:
    """m_t = exp(-t) and sigma_t = sqrt(1 - exp(-2 t)), as JAX traces them."""
    return jnp.exp(-t), jnp.sqrt(-jnp.expm1(-2 * t))


def _time_features(t: Array) -> Array:
    log = jnp.log(t)
    return jnp.stack([log / 4, jnp.sin(log), jnp.cos(log), jnp.sin(log / 2), jnp.cos(log / 2), jnp.exp(-t)], axis=1)


def _silu_slope(x: Array) -> Array:
    gate = jax.nn.sigmoid(x)
    return gate * (1 + x * (1 - gate))

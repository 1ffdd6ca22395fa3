"""A small normalising flow, RealNVP (Dinh, Sohl-Dickstein & Bengio 2017), for two columns or more."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

_LAYERS, _WIDTH = 8, 64
_STEPS, _CHECKS, _BATCH, _STEP_SIZE = 3000, 30, 256, 1e-3
_HELD_OUT = 0.15


class Flow:
    """Affine couplings of alternating columns, by maximum likelihood, stopped where held-out rows are best."""

    def __init__(self, random_state: int = 0):
        self.random_state = random_state

    def fit(self, rows: np.ndarray) -> Flow:
        rng = np.random.default_rng(self.random_state)
        self.mean, self.scale = rows.mean(axis=0), rows.std(axis=0)
        z = ((rows - self.mean) / self.scale)[rng.permutation(len(rows))].astype(np.float32)
        held = max(10, round(_HELD_OUT * len(z)))
        with jax.enable_x64(False):
            start = _start(rng, z.shape[1])
            self.weights = _train(
                start, jnp.asarray(z[held:]), jnp.asarray(z[:held]), jax.random.key(self.random_state)
            )
        return self

    def score_samples(self, rows: np.ndarray) -> np.ndarray:
        with jax.enable_x64(False):
            z = jnp.asarray((rows - self.mean) / self.scale, jnp.float32)
            return np.asarray(_log_density(self.weights, z), float) - np.log(self.scale).sum()

    def sample(self, n: int, random_state: int) -> np.ndarray:
        normal = np.random.default_rng(random_state).standard_normal((n, len(self.mean)))
        with jax.enable_x64(False):
            z = _inverse(self.weights, jnp.asarray(normal, jnp.float32))
        return self.mean + self.scale * np.asarray(z, float)


def _start(rng: np.random.Generator, d: int) -> list[Any]:
    def matrix(inputs: int, outputs: int, size: float) -> Any:
        return jnp.asarray(size * rng.standard_normal((inputs, outputs)) / np.sqrt(inputs), jnp.float32)

    zeros = [jnp.zeros(_WIDTH), jnp.zeros(_WIDTH), jnp.zeros(2 * d)]
    return [
        ([matrix(d, _WIDTH, 1.0), matrix(_WIDTH, _WIDTH, 1.0), matrix(_WIDTH, 2 * d, 0.01)], zeros)
        for _ in range(_LAYERS)
    ]


def _coupling(weights: Any, index: int, z: Any) -> tuple[Any, Any, Any]:
    """Log scale and shift of the columns that this layer moves, and which ones stay."""
    matrices, vectors = weights[index]
    stays = (jnp.arange(z.shape[1]) + index) % 2
    hidden = z * stays
    for matrix, vector in zip(matrices[:-1], vectors[:-1], strict=True):
        hidden = jax.nn.silu(hidden @ matrix + vector)
    scale, shift = jnp.split(hidden @ matrices[-1] + vectors[-1], 2, axis=1)
    return 2 * jnp.tanh(scale / 2) * (1 - stays), shift * (1 - stays), stays


@jax.jit
def _log_density(weights: Any, z: Any) -> Any:
    volume = jnp.zeros(len(z))
    for index in range(_LAYERS):
        scale, shift, _ = _coupling(weights, index, z)
        z, volume = z * jnp.exp(scale) + shift, volume + scale.sum(axis=1)
    return volume - 0.5 * jnp.sum(z**2, axis=1) - 0.5 * z.shape[1] * np.log(2 * np.pi)


@jax.jit
def _inverse(weights: Any, z: Any) -> Any:
    for index in reversed(range(_LAYERS)):
        scale, shift, _ = _coupling(weights, index, z)
        z = (z - shift) * jnp.exp(-scale)
    return z


@partial(jax.jit)
def _train(weights: Any, rows: Any, held_out: Any, key: Any) -> Any:
    optimiser = optax.chain(optax.clip_by_global_norm(5.0), optax.adam(optax.cosine_decay_schedule(_STEP_SIZE, _STEPS)))

    def loss(weights: Any, batch: Any) -> Any:
        return -_log_density(weights, batch).mean()

    def step(state: Any, key: Any) -> tuple[Any, None]:
        weights, moments = state
        batch = rows[jax.random.randint(key, (_BATCH,), 0, len(rows))]
        change, moments = optimiser.update(jax.grad(loss)(weights, batch), moments, weights)
        return (optax.apply_updates(weights, change), moments), None

    def segment(carry: Any, keys: Any) -> tuple[Any, None]:
        state, best, least = carry
        state, _ = jax.lax.scan(step, state, keys)
        now = loss(state[0], held_out)
        better = now < least
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), state[0], best)
        return (state, best, jnp.where(better, now, least)), None

    keys = jax.random.split(key, (_CHECKS, _STEPS // _CHECKS))
    start = ((weights, optimiser.init(weights)), weights, loss(weights, held_out))
    return jax.lax.scan(segment, start, keys)[0][1]

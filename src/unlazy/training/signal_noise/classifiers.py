"""Classifiers of two-patch data for hosted studies: one compiled program for all signal strengths and widths."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unlazy.training.signal_noise import token_gram as engine

_COMPILING = threading.Lock()
"""Instances run in several threads, of which one compiles."""


class Classified(NamedTuple):
    """The largest coefficients of each classifier, (k,), its training loss, and where it diverged, -1 if nowhere."""

    signal: np.ndarray
    noise: np.ndarray
    loss: np.ndarray
    diverged_at: np.ndarray


def train_classifiers(
    words: np.ndarray, norms: np.ndarray, *, n: int, d: float, width: int, capacity: int, steps: int
) -> Classified:
    """Train ReLU^2 networks on [y mu, xi] by gradient flow, to loss 0.05 or for `steps`, in double precision.

    `words` (k, 2) are the key words and `norms` (k,) the |mu| of k classifiers. Of `capacity` neurons of each class
    `width` are there; their weights begin with the deviation 0.01/sqrt(d).
    """
    with jax.enable_x64(True):
        with _COMPILING:
            program = _compiled(n, capacity, steps, len(norms))
        return Classified(*map(np.asarray, program(words, norms, np.float64(d), np.float64(width))))


@cache
def _compiled(n: int, capacity: int, steps: int, count: int) -> Callable[..., tuple[Any, Any, Any, Any]]:
    network, rule = engine.Network(engine.relu_power(2)), engine.gradient_flow()

    def one(words: Any, signal: Any, d: Any, width: Any) -> tuple[Any, Any, Any, Any]:
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        sizes = {"samples": n, "dimension": d, "width": width, "capacity": capacity}
        problem = engine.draw_signal_noise(key, signal=signal, scale=0.01 / jnp.sqrt(d), **sizes)
        state = engine.train(key, problem, network, rule, steps, stop_loss=0.05).state
        learned = engine.signal_coefficients(problem, state.weights), engine.noise_coefficients(problem, state.weights)
        return jnp.max(learned[0]), jnp.max(jnp.abs(learned[1])), state.loss, state.diverged_at

    words, vector, number = np.zeros((count, 2), np.uint32), np.ones(count), np.float64(1.0)
    return jax.jit(jax.vmap(one, in_axes=(0, 0, None, None))).lower(words, vector, number, number).compile()

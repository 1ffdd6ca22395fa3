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

    signal_coefficient: np.ndarray
    noise_coefficient: np.ndarray
    training_loss: np.ndarray
    diverged_at: np.ndarray


def train_classifiers(
    words: np.ndarray, signal_norm: np.ndarray, *, n: int, d: float, width: int, largest_width: int, steps: int
) -> Classified:
    """Train ReLU^2 networks on [y mu, xi] by gradient flow, to loss 0.05 or for `steps`, in double precision.

    `words` (k, 2) are the key words and `signal_norm` (k,) those of k classifiers. Of `largest_width` neurons of each
    class `width` are there; their weights begin with the deviation 0.01/sqrt(d).
    """
    with jax.enable_x64(True):
        with _COMPILING:
            program = _compiled(n, largest_width, steps, len(signal_norm))
        return Classified(*map(np.asarray, program(words, signal_norm, np.float64(d), np.float64(width))))


@cache
def _compiled(n: int, largest_width: int, steps: int, count: int) -> Callable[..., tuple[Any, Any, Any, Any]]:
    network, rule = engine.Network(engine.relu_power(2)), engine.gradient_flow()

    def one(words: Any, signal_norm: Any, d: Any, width: Any) -> tuple[Any, Any, Any, Any]:
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        sizes = {"n": n, "d": d, "width": width, "largest_width": largest_width}
        laws = {"signal_norm": signal_norm, "initial_deviation": 0.01 / jnp.sqrt(d)}
        problem = engine.draw_signal_noise(key, **sizes, **laws)
        state = engine.train(key, problem, network, rule, steps, stop_loss=0.05).state
        learned = engine.signal_coefficients(problem, state.weights), engine.noise_coefficients(problem, state.weights)
        return jnp.max(learned[0]), jnp.max(jnp.abs(learned[1])), state.loss, state.diverged_at

    words, vector, number = np.zeros((count, 2), np.uint32), np.ones(count), np.float64(1.0)
    return jax.jit(jax.vmap(one, in_axes=(0, 0, None, None))).lower(words, vector, number, number).compile()

"""Whole runs: draw a problem, train the network, and test it on fresh samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.training.signal_noise.token_gram.drawing import draw, paired_second_layer
from unlazy.training.signal_noise.token_gram.engine import State, train
from unlazy.training.signal_noise.token_gram.fresh import FreshError, fresh_kinds
from unlazy.training.signal_noise.token_gram.network import Network
from unlazy.training.signal_noise.token_gram.observables import noise_coefficients, signal_coefficients
from unlazy.training.signal_noise.token_gram.problem import PatchDesign, PatchProblem
from unlazy.training.signal_noise.token_gram.rules import UpdateRule


class PatchRun(NamedTuple):
    """The problem, the last state, what was recorded, and the errors on fresh samples, those of `fresh_kinds`."""

    problem: PatchProblem
    state: State
    records: Any
    fresh: FreshError

    @property
    def signals(self) -> Array:
        """The `signal_coefficients`, (R, S)."""
        return signal_coefficients(self.problem, self.state.weights)

    @property
    def noises(self) -> Array:
        """The `noise_coefficients`, (R, n, Q)."""
        return noise_coefficients(self.problem, self.state.weights)


def patch_run(
    key: Array,
    design: PatchDesign,
    features: ArrayLike,
    network: Network,
    rule: UpdateRule,
    steps: int,
    *,
    d: ArrayLike,
    width: ArrayLike,
    initial_scale: ArrayLike,
    largest_width: int | None = None,
    second_layer: ArrayLike | None = None,
    noise_deviation: ArrayLike = 1.0,
    kinds: ArrayLike | int | None = None,
    record: Callable[[PatchProblem, State, Callable[[State], FreshError]], Any] | None = None,
    record_at: Sequence[int] | None = None,
    stop_loss: ArrayLike | None = None,
    draws: int = 2000,
) -> PatchRun:
    """Train on features of these lengths in the patches of a design, w ~ N(0, (s^2/d) I), and test on `kinds`.

    s is the `initial_scale`. The neurons are those of `paired_second_layer`, unless a second layer is given.
    `record(problem, state, test)` may call `test(state)` for the errors on fresh samples.
    """
    draw_key, train_key, test_key = jax.random.split(key, 3)
    readout = paired_second_layer(width, largest_width) if second_layer is None else second_layer
    laws = {"initial_deviation": initial_scale / jnp.sqrt(jnp.asarray(d, float)), "noise_deviation": noise_deviation}
    problem = draw(draw_key, design, features, readout, d=d, **laws)

    def test(state: State) -> FreshError:
        return fresh_kinds(test_key, problem, state.weights, network, kinds, draws=draws)

    seen = None if record is None else lambda state: record(problem, state, test)
    run = train(train_key, problem, network, rule, steps, record=seen, record_at=record_at, stop_loss=stop_loss)
    return PatchRun(problem, *run, test(run.state))

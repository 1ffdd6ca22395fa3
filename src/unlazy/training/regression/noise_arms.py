"""Training with label noise, with its exact penalties and with neither, on the same data and randomness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax import Array
from jax.typing import ArrayLike

from unlazy.data.plane_tasks import plane_tasks
from unlazy.training.regression.label_noise import train_variants, uniform_noise_gap
from unlazy.training.regression.two_timescale import hidden_layer, init, noise_effect


def train_arms(
    key: Array,
    arms: Mapping[str, Mapping[str, str]],
    record_at: Sequence[int],
    *,
    n: int,
    d: int,
    width: int,
    tasks: int,
    draws: int,
    activation: str,
    ridge: ArrayLike,
    noise_variance: ArrayLike,
    label_noise_variance: ArrayLike,
    **dynamics: Any,
) -> dict[str, Any]:
    """Records of all arms; gap, penalties and gradients of the noise on the network that the arm `none` trained."""
    data_key, start_key, step_key, noise_key = jax.random.split(key, 4)
    data = plane_tasks(data_key, n, d, tasks, noise_variance)
    added = {"label_noise_variance": label_noise_variance}
    options: dict[str, Any] = {"activation": activation, "ridge": ridge, **added, **dynamics}
    start = init(start_key, d, width)
    ends, records = train_variants(step_key, start, data, list(arms.values()), record_at, **options)
    first_layer = ends.first_layer[list(arms).index("none")]
    noise = (data.labels, ridge, label_noise_variance)
    effect = noise_effect(first_layer, data.inputs, *noise, activation)
    hidden = hidden_layer(first_layer, data.inputs, activation)
    gap = uniform_noise_gap(noise_key, hidden, *noise, draws)
    return {**effect._asdict(), "uniform_noise_gap": gap, "slide_penalty": 3 * ridge * effect.noise_penalty, **records}

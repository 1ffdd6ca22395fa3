"""Denoising score matching: a network that predicts the noise in X_t = m_t X_0 + sigma_t xi.

Times are in units of dX = -X dt + sqrt(2) dB; m_t = exp(-t), sigma_t^2 = 1 - exp(-2 t). Everything is single precision.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from unlazy.checks import InputError, check_array, check_whole
from unlazy.models.score_network import ScoreNetwork, moments
from unlazy.numerics.roots import ConvergenceError
from unlazy.random import normal
from unlazy.training.loop import Training, train

_VALIDATION_DRAWS = 16_384


class ScoreSchedule(NamedTuple):
    """`steps` of Adam on `batch_size` noisy rows each, its size falling from `step_size` to 0 along half a cosine.

    Times are drawn log-uniformly from [first_time, last_time]: with the square loss of the noise this weighs the times
    near the data as the likelihood does, ||noise error||^2 dt/t = 2 ||score error||^2 dt up to O(t). `average` is the
    decay of the running mean of the weights.
    """

    steps: int = 4000
    batch_size: int = 256
    step_size: float = 3e-3
    average: float = 0.998
    first_time: float = 1e-3
    last_time: float = 4.0
    width: int = 128


class TrainedScore(NamedTuple):
    """The averaged network of the chosen step, the checkpoints, and their losses on held-out rows (NaN without any)."""

    network: ScoreNetwork
    step: int
    checkpoints: tuple[int, ...]
    losses: np.ndarray


class _Averaged(eqx.Module):
    current: ScoreNetwork
    average: ScoreNetwork


def noise_loss(network: ScoreNetwork, rows: Array, noise: Array, times: Array) -> Array:
    """mean_i ||noise_hat(m x_i + sigma noise_i, t_i) - noise_i||^2 / d, the loss of denoising score matching."""
    scale, deviation = moments(times)
    points = scale[:, None] * rows + deviation[:, None] * noise
    return jnp.mean((network.noise(points, times) - noise) ** 2)


def train_score(seed: int, rows: Any, held_out: Any = None, schedule: ScoreSchedule | None = None) -> TrainedScore:
    """Denoising score matching on rows (n, d) of about unit variance, stopped where held-out rows are denoised best.

    With `held_out` rows the weights of the best of up to 24 checkpoints are kept, the start among them, where the
    network is the score of N(0, I); without them those of the last step. The held-out loss is a mean over the same
    16384 noisy copies at every checkpoint. Source: Vincent (2011); Song et al. (2021).
    """
    data = check_array("rows", rows, ndim=2)
    schedule = ScoreSchedule() if schedule is None else schedule
    for name, least in (("steps", 1), ("batch_size", 1), ("width", 1)):
        check_whole(name, getattr(schedule, name), least)
    if not 0 < schedule.first_time < schedule.last_time:
        raise InputError(
            f"first_time must be above 0 and below last_time = {schedule.last_time:g}, got {schedule.first_time:g}"
        )
    check_array("step_size", schedule.step_size, above=0, ndim=0)
    check_array("average", schedule.average, low=0, high=1, ndim=0)
    stops = tuple(np.unique(np.geomspace(min(20, schedule.steps), schedule.steps, 23).astype(int)).tolist())
    with jax.enable_x64(False):
        key = jax.random.key(seed)
        if held_out is None:
            network, diverged = _train_blindly(schedule)(key, jnp.asarray(data, jnp.float32))
            losses, stops, best = np.full(1, np.nan), (schedule.steps,), 0
        else:
            kept = check_array("held_out", held_out, ndim=2)
            stops = (0, *stops)
            network, found, diverged = _train_watched(schedule, stops)(
                key, jnp.asarray(data, jnp.float32), _validation(seed, kept, schedule)
            )
            losses = np.asarray(found, np.float64)
            best = int(np.nanargmin(losses))
        finite = all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(network))
    if not finite or int(diverged) >= 0:
        raise ConvergenceError(
            f"score matching diverged at step {int(diverged)}: step_size must be smaller, got {schedule.step_size:g}"
        )
    return TrainedScore(network, stops[best], stops, losses)


def start_score(seed: int, d: int, schedule: ScoreSchedule) -> TrainedScore:
    """The network before training: the score of N(0, I)."""
    with jax.enable_x64(False):
        network = ScoreNetwork.random(jax.random.key(seed), d, width=schedule.width)
    return TrainedScore(network, 0, (0,), np.full(1, np.nan))


def _optimiser(schedule: ScoreSchedule) -> optax.GradientTransformation:
    """Adam on the weights; the average follows them with a decay that is small in the first steps."""
    adam = optax.adam(optax.cosine_decay_schedule(schedule.step_size, schedule.steps))

    def start(weights: _Averaged) -> tuple[Any, Array]:
        return adam.init(weights.current), jnp.int32(0)

    def update(gradient: _Averaged, state: tuple[Any, Array], weights: Any = None) -> tuple[Any, Any]:
        inner, count = state
        change, inner = adam.update(gradient.current, inner, weights.current)
        follow = 1 - jnp.minimum(schedule.average, (1 + count) / (10 + count)).astype(jnp.float32)
        moved = jax.tree.map(
            lambda w, c, a: follow * (w + c - a),
            weights.current,
            change,
            weights.average,
        )
        return _Averaged(change, moved), (inner, count + 1)

    return optax.GradientTransformation(start, update)


def _loss(rows: Array, schedule: ScoreSchedule) -> Callable[[_Averaged, Array], Array]:
    """The loss of a fresh batch, all of one draw, since each draw takes long to compile."""
    count, (n, d) = schedule.batch_size, rows.shape
    span = np.log(schedule.last_time / schedule.first_time)

    def loss(weights: _Averaged, key: Array) -> Array:
        drawn = normal(key, (count, d + 2), jnp.float32)
        uniform = jax.scipy.special.ndtr(drawn[:, d:])
        batch = rows[jnp.minimum((n * uniform[:, 0]).astype(jnp.int32), n - 1)]
        # stratified times lower the variance of the gradient
        places = (jnp.arange(count) + uniform[:, 1]) / count
        times = jnp.float32(schedule.first_time) * jnp.exp(jnp.float32(span) * places)
        return noise_loss(weights.current, batch, drawn[:, :d], times)

    return loss


def _validation(seed: int, held_out: np.ndarray, schedule: ScoreSchedule) -> tuple[Array, Array, Array]:
    """Copies of the held-out rows, their noise, and their times: each row sees all of the range of times."""
    rng = np.random.default_rng([seed, 1])
    copies = held_out[np.arange(_VALIDATION_DRAWS) % len(held_out)]
    places = rng.permutation((np.arange(_VALIDATION_DRAWS) + 0.5) / _VALIDATION_DRAWS)
    times = schedule.first_time * (schedule.last_time / schedule.first_time) ** places
    noise = rng.standard_normal(copies.shape)
    return jnp.asarray(copies, jnp.float32), jnp.asarray(noise, jnp.float32), jnp.asarray(times, jnp.float32)


def _trained(key: Array, rows: Array, schedule: ScoreSchedule, **watched: Any) -> Training:
    start = ScoreNetwork.random(jax.random.fold_in(key, 1), rows.shape[1], width=schedule.width)
    return train(
        _Averaged(start, start),
        _loss(rows, schedule),
        _optimiser(schedule),
        schedule.steps,
        trained=lambda model: model,
        key=jax.random.fold_in(key, 2),
        **watched,
    )


@lru_cache(maxsize=16)
def _train_blindly(schedule: ScoreSchedule) -> Callable[..., Any]:
    @jax.jit
    def run(key: Array, rows: Array) -> tuple[ScoreNetwork, Array]:
        found = _trained(key, rows, schedule)
        return found.model.average, found.diverged_at

    return run


@lru_cache(maxsize=16)
def _train_watched(schedule: ScoreSchedule, stops: tuple[int, ...]) -> Callable[..., Any]:
    @jax.jit
    def run(key: Array, rows: Array, validation: tuple[Array, Array, Array]) -> tuple[ScoreNetwork, Array, Array]:
        def record(model: _Averaged) -> tuple[ScoreNetwork, Array]:
            return model.average, noise_loss(model.average, *validation)

        found = _trained(key, rows, schedule, record=record, record_at=stops)
        networks, losses = found.records
        best = jnp.nanargmin(losses)
        return jax.tree.map(lambda leaf: leaf[best], networks), losses, found.diverged_at

    return run

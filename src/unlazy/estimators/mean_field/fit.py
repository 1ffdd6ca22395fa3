"""Training of mean-field networks for the estimators: one compiled program for all candidates, folds and classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

AVERAGED_SHARE = 0.4
"""The last part of the steps, with the safe step, over which predictions are averaged and clouds kept."""
KEPT_CLOUDS = 8
_OBSERVED_EVERY = 5
_BOLD = 4.0
_RUN_AWAY = 1.1
# so many neurons at rows together still fit into a cache
_BATCH_ENTRIES = 400_000
# rows that are predicted together
_BLOCK = 512


class NetworkSetting(NamedTuple):
    """What is chosen by validation; numbers or equally long arrays."""

    amplitude: Any
    prior_scale: Any
    temperature: Any

    @property
    def confinement(self) -> Any:
        return self.temperature / (2 * self.prior_scale**2)


class PaddedRows(NamedTuple):
    """Rows in a padded shape: inputs (n, width) with ones, labels (tasks, n), weights (n,) that are 0 where padded."""

    inputs: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    real: int


class TrainedNetworks(NamedTuple):
    """The last particles, clouds on the way (8, N, width), and the mean over time of the predictions at the rows."""

    particles: Any
    clouds: Any
    predictions: Any
    boldness: Any
    """By how much the step exceeded the safe one at most."""
    losses: Any


def padded(rows: np.ndarray, labels: np.ndarray) -> PaddedRows:
    """Rows and labels in one of few shapes, so that folds of about the same size share a compiled program.

    Padded rows have weight 0, padded columns are 0 and their weights follow the Gaussian of the confinement.
    """
    n, width = len(rows), rows.shape[1] + 1
    length, columns = _room(n, 8), width + -width % (4 if width <= 32 else 8)
    inputs = np.zeros((length, columns), np.float32)
    inputs[:n, : width - 1] = rows
    inputs[:n, width - 1] = 1.0
    targets = np.ones((len(labels), length), np.float32)
    targets[:, :n] = labels
    weights = np.zeros(length, np.float32)
    weights[:n] = 1.0 / n
    return PaddedRows(inputs, targets, weights, n)


def extended(rows: np.ndarray, columns: int) -> np.ndarray:
    """New rows with a column of ones, in as many columns as the particles have, padded to a common number of rows."""
    inputs = np.zeros((_room(len(rows), 8), columns), np.float32)
    inputs[: len(rows), : rows.shape[1]] = rows
    inputs[: len(rows), rows.shape[1]] = 1.0
    return inputs


def _room(n: int, least: int) -> int:
    """The next of 8, 12, 16, 24, 32, 48, ..., and multiples of 256 beyond 1024."""
    if n > 1024:
        return n + -n % 256
    room = least
    while room < n:
        room = room * 3 // 2 if room & (room - 1) == 0 else room // 3 * 4
    return room


def _train(
    key: Any, rows: tuple[Any, Any, Any], setting: NetworkSetting, loss: Any, count: int, steps: int
) -> TrainedNetworks:
    """Langevin steps from the Gaussian: longer than is safe at first, halved where the loss runs away, then safe."""
    import jax
    import jax.numpy as jnp

    from unlazy.models.mean_field import network_functional, predictions, safe_step_size
    from unlazy.random import normals_at
    from unlazy.training.mean_field.langevin import noisy_step, variation_gradient

    inputs, labels, weights = rows
    functional = network_functional(loss, setting.amplitude)
    safe = safe_step_size(rows, loss, setting.amplitude, setting.confinement)
    particles = setting.prior_scale * normals_at(key, steps, (count, inputs.shape[1]), inputs.dtype)
    limit = _RUN_AWAY * (weights @ loss.value(jnp.zeros_like(labels), labels))
    segments = steps // _OBSERVED_EVERY
    late = segments - max(int(AVERAGED_SHARE * segments), KEPT_CLOUDS)

    def segment(carry: Any, index: Any) -> tuple[Any, Any]:
        particles, boldness, total, clouds = carry
        is_late = index >= late
        # the confinement is linear, nothing bounds its runaway: at most half of what is stable, and in the end a tenth,
        # where the variance of weights of which data say nothing is too large by 11%
        rate = jnp.minimum(safe * jnp.where(is_late, 1.0, boldness), jnp.where(is_late, 0.1, 0.5) / setting.confinement)

        def one(number: Any, particles: Any) -> Any:
            return noisy_step(
                key,
                number,
                particles,
                variation_gradient(functional, particles, rows),
                temperature=setting.temperature,
                confinement=setting.confinement,
                step_size=rate,
            )

        first = index * _OBSERVED_EVERY
        particles = jax.lax.fori_loop(first, first + _OBSERVED_EVERY, one, particles)
        found = predictions(particles, inputs, setting.amplitude)
        value = weights @ loss.value(found, labels)
        boldness = jnp.where(is_late | (value < limit), boldness, jnp.maximum(boldness / 2, 1.0))
        place = jnp.clip((index - late) * KEPT_CLOUDS // (segments - late), 0, KEPT_CLOUDS - 1)
        clouds = clouds.at[place].set(particles)
        return (particles, boldness, total + jnp.where(is_late, found, 0.0), clouds), value

    clouds = jnp.zeros((KEPT_CLOUDS, *particles.shape), inputs.dtype)
    start = (particles, jnp.asarray(_BOLD, inputs.dtype), jnp.zeros_like(labels), clouds)
    (particles, boldness, total, clouds), values = jax.lax.scan(segment, start, jnp.arange(segments))
    return TrainedNetworks(particles, clouds, total / (segments - late), boldness, values)


def _compiled(loss_name: str, count: int, steps: int, batch: int, whole: bool) -> Any:
    import jax

    from unlazy.models.mean_field import named_loss

    def one(arguments: Any) -> Any:
        key, inputs, labels, weights, setting = arguments
        trained = _train(key, (inputs, labels, weights), setting, named_loss(loss_name), count, steps)
        return trained if whole else trained.predictions

    def every(keys: Any, inputs: Any, labels: Any, weights: Any, settings: NetworkSetting) -> Any:
        def with_inputs(arguments: Any) -> Any:
            key, labels, weights, setting = arguments
            return one((key, inputs, labels, weights, setting))

        return jax.lax.map(with_inputs, (keys, labels, weights, settings), batch_size=batch)

    return jax.jit(every)


_PROGRAMS: dict[tuple, Any] = {}


def train_all(
    seed: int,
    rows: PaddedRows,
    labels: np.ndarray,
    weights: np.ndarray,
    settings: NetworkSetting,
    *,
    loss: str,
    count: int,
    steps: int,
    whole: bool,
) -> Any:
    """Train one network per row of `labels`, `weights` (runs, n) and entry of `settings`, in float32.

    All of `TrainedNetworks` if `whole`, else the mean predictions (runs, n) alone.
    """
    import jax

    batch = int(np.clip(_BATCH_ENTRIES // (count * len(rows.weights)), 1, len(labels)))
    name = (loss, count, steps, batch, whole)
    program = _PROGRAMS.setdefault(name, _compiled(*name))
    with jax.enable_x64(False):
        keys = jax.random.split(jax.random.key(seed), len(labels))
        numbers = NetworkSetting(*(np.asarray(x, np.float32) for x in settings))
        found = program(keys, rows.inputs, labels.astype(np.float32), weights.astype(np.float32), numbers)
        return jax.tree.map(np.asarray, found)


def mean_predictions(particles: np.ndarray, inputs: np.ndarray, amplitude: float) -> np.ndarray:
    """R times the mean neuron of the particles (N, width) at each input, in blocks of rows."""
    return amplitude * np.concatenate(
        [np.tanh(inputs[i : i + _BLOCK] @ particles.T).mean(axis=1) for i in range(0, len(inputs), _BLOCK)]
    )


class WidthSpread(NamedTuple):
    """N Cov(f(z), f(z')) = c(z, z') - c_z^T (S^-2 + C)^-1 c_z', S^2 = diag(c l'') / lambda_2, for N neurons at rest.

    C, c_z and c(z, z) are covariances of neurons at the rows, between a row and z, and at z, under the law of the drawn
    particles. The form is that of the variance of a Gaussian process given labels of noise variance n lambda_2 / l''.
    """

    particles: np.ndarray
    amplitude: float
    inner: np.ndarray
    """(draws, draws), (I + H H^T)^{-1} / draws for the centred and scaled neurons H at the rows."""

    def deviation(self, inputs: np.ndarray, count: int) -> np.ndarray:
        """The standard deviation of the prediction of `count` neurons at each input."""
        found = []
        for i in range(0, len(inputs), _BLOCK):
            neurons = self.amplitude * np.tanh(inputs[i : i + _BLOCK] @ self.particles.T)
            neurons -= neurons.mean(axis=1, keepdims=True)
            found.append(np.einsum("ij,ij->i", neurons @ self.inner, neurons))
        return np.sqrt(np.maximum(np.concatenate(found), 0.0) / count)


def width_spread(
    particles: np.ndarray, inputs: np.ndarray, amplitude: float, temperature: float, curvature: np.ndarray
) -> WidthSpread:
    """The spread of predictions at finite width, from draws of the law; `curvature` is c l'' at the rows."""
    particles = particles.astype(np.float64)
    neurons = amplitude * np.tanh(particles @ inputs.T.astype(np.float64))
    scaled = (neurons - neurons.mean(axis=0)) * np.sqrt(curvature / (temperature * len(particles)))
    inner = np.linalg.inv(np.eye(len(particles)) + scaled @ scaled.T) / len(particles)
    return WidthSpread(particles, amplitude, inner)

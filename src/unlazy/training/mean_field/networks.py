"""Mean-field networks by Langevin dynamics: energies along a run, and parities against a kernel of the same neurons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.models import mean_field as model
from unlazy.random import normal
from unlazy.training.mean_field.langevin import run


def scalar_functional(amplitude: float, counted: Array | None = None) -> Callable[[Array, Any], Array]:
    """F(particles, rows) of the network with scalar inputs z, rows = (z, y): half the mean squared error.

    Over the rows that are `counted`, booleans, if not over all.
    """

    def functional(cloud: Array, rows: Any) -> Array:
        inputs, labels = rows
        hidden = jnp.tanh(cloud[:, :1] * inputs + cloud[:, 1:])
        return 0.5 * jnp.mean((amplitude * hidden.mean(axis=0) - labels) ** 2, where=counted)

    return functional


def network_energies(
    key: Array,
    inputs: np.ndarray,
    targets: np.ndarray,
    *,
    amplitude: float,
    particles: int,
    start_deviation: float,
    steps: int,
    record_at: Sequence[int],
    **dynamics: Any,
) -> tuple[Array, Array]:
    """F + confinement E|x|^2 along a run of the network with scalar inputs, from normal particles, and its late mean.

    That is over every 20th of the last 40% of the steps. `dynamics` are options of `langevin.run`.
    """
    start_key, walk_key = jax.random.split(key)
    start = start_deviation * normal(start_key, (particles, 2))
    rows = tuple(jnp.asarray(column, float) for column in (model.with_one(inputs[:, None]), targets))
    functional = model.network_functional(model.named_loss("square"), amplitude)
    late = np.arange(steps - 2 * steps // 5, steps + 1, 20)
    stops = np.unique([*record_at, *late])
    options: dict[str, Any] = {"data": rows, "steps": steps, "record_at": stops.tolist(), **dynamics}
    found = run(walk_key, start, functional, **options).energies
    return found[np.searchsorted(stops, record_at)], found[np.searchsorted(stops, late)].mean()


def learn_parity(
    key: Array,
    n: int,
    d: int,
    *,
    particles: int,
    amplitude: float,
    prior_scale: ArrayLike,
    temperature: ArrayLike,
    steps: int,
    record_at: Sequence[int],
    tested: int = 1000,
    kernel_width: int = 512,
) -> dict[str, Array]:
    """Learn the product of the first two of d signs from n rows; accuracies on fresh rows, energies, and weights.

    `relevant_share` is the part of the weights' square in the two relevant columns. `kernel_accuracy` is that of other
    neurons from the prior N(0, prior_scale^2), not trained. Steps are four times as long as is safe for every network.
    """
    data_key, draw_key, walk_key = jax.random.split(key, 3)
    signs = jnp.sign(normal(data_key, (n + tested, d)))
    inputs, labels = model.with_one(signs), signs[:, 0] * signs[:, 1]
    rows, loss = (inputs[:n], labels[:n]), model.named_loss("square")
    draws = prior_scale * normal(draw_key, ((particles + kernel_width) * (d + 1),))
    start, others = (part.reshape(-1, d + 1) for part in jnp.split(draws, [particles * (d + 1)]))
    confinement = model.confinement_of(temperature, prior_scale)
    found = run(
        walk_key,
        start,
        model.network_functional(loss, amplitude),
        steps=steps,
        temperature=temperature,
        confinement=confinement,
        step_size=4 * model.safe_step_size(rows, loss, amplitude, confinement),
        data=rows,
        observables=lambda cloud: model.predictions(cloud, inputs, amplitude),
        observe_every=10,
        average_from=steps // 2,
        record_at=record_at,
    )
    squares = jnp.mean(found.particles[:, :d] ** 2, axis=0)
    return {
        "accuracy": jnp.mean(found.averages[n:] * labels[n:] > 0),
        "kernel_accuracy": best_kernel_accuracy(others, inputs, labels, n, jnp.logspace(-5, 1, 13) * n),
        "relevant_share": squares[:2].sum() / squares.sum(),
        "energy": found.energies,
    }


def best_kernel_accuracy(drawn: Array, inputs: Array, labels: Array, n: int, ridges: Array) -> Array:
    """The best test accuracy, over the ridges, of kernel ridge regression of labels -1 and 1 with drawn neurons.

    The first n rows are for training and the others for the test, on which the ridge is chosen: an advantage.
    """
    features = model.neurons(drawn, inputs)
    kernel = features[:, :n].T @ features / len(drawn)
    values, vectors = jnp.linalg.eigh(kernel[:, :n])
    weights = vectors @ ((vectors.T @ labels[:n])[:, None] / (values[:, None] + ridges))
    answers = kernel[:, n:].T @ weights
    return jnp.mean(answers * labels[n:, None] > 0, axis=0).max()

"""Replicas: networks that are trained on the same samples from independent starts, and how far they agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unlazy.data.rows import Rows
from unlazy.functions.elementwise import as_activation
from unlazy.models.scaled_networks import ScaledMLP
from unlazy.numerics.wide_kernel import wide_kernel, wide_tangent_kernel
from unlazy.training.one_step.own_network.arms import TrainingPlan, TrainingRows
from unlazy.training.one_step.own_network.equinox_network import EquinoxNetwork
from unlazy.training.one_step.own_network.measures import linearised_outputs
from unlazy.training.programs import compiled

_MOMENTUM = 0.98
_STEP = 0.1
"""Over the largest eigenvalue of the kernel (x.x')^2 / n, in which the target is learned."""


def quadratic_replicas(
    rng: np.random.Generator, d: int, samples: Sequence[int], replicas: int, steps: int, *, linear: bool
) -> dict[str, np.ndarray]:
    """Replicas of f(x) = x.A x on the first n samples of a teacher (x.beta)^2, for every n of `samples`; x ~ N(0, I_d).

    They are trained in W, A = W W^T / d with W (d, d) normal at the start; or, if `linear`, in A itself from a
    symmetric normal matrix, as the network in its lazy limit. Functions are compared without their means, by
    cov(f, g) = 2 tr(A B).
    """
    count = np.asarray(samples, np.int32)
    x = rng.standard_normal((count.max(), d)).astype(np.float32)
    start = rng.standard_normal((replicas, d, d)).astype(np.float32)
    start = (start + start.transpose(0, 2, 1)) / np.sqrt(2 * d, dtype=np.float32) if linear else start
    largest = [np.linalg.eigvalsh((x[:n] @ x[:n].T) ** 2)[-1] / n for n in count]
    arrays = count, np.float32(_STEP / np.array(largest)), start, x, np.int32(steps)
    found, missed = compiled(("quadratic replicas", linear), _program(linear), *arrays)(*arrays)
    matrices = np.asarray(found, np.float64).reshape(len(count), replicas, d * d)
    first = start.reshape(replicas, -1).astype(np.float64)
    teacher = np.zeros(d * d)
    teacher[0] = 1
    return {
        **_agreement(matrices),
        "teacher_overlap": _cosines(matrices, teacher).mean(axis=1),
        "replica_variance": _spread(matrices) / _spread(first) if linear else np.full(len(count), np.nan),
        "training_error": np.asarray(missed, np.float64).mean(axis=1),
        "diverged_at": -1 if np.isfinite(matrices).all() else steps,
    }


def _program(linear: bool) -> Callable[..., Any]:
    def answers(weights: Array, x: Array) -> Array:
        return jnp.sum((x @ weights) * x, axis=1) if linear else jnp.mean((x @ weights) ** 2, axis=1)

    def one(n: Array, step_size: Array, start: Array, x: Array, steps: Array) -> tuple[Array, Array]:
        shown, y = (jnp.arange(len(x)) < n) / n, x[:, 0] ** 2

        def loss(weights: Array) -> Array:
            return jnp.sum(shown * (answers(weights, x) - y) ** 2) / 2

        def step(_: int, state: tuple[Array, Array]) -> tuple[Array, Array]:
            weights, velocity = state
            # a gradient in W is 2/d that in A times W
            velocity = _MOMENTUM * velocity + jax.grad(loss)(weights) * (1 if linear else len(start) / 2)
            return weights - step_size * velocity, velocity

        weights, _ = jax.lax.fori_loop(0, steps, step, (start, jnp.zeros_like(start)))
        return weights if linear else weights @ weights.T / len(start), 2 * loss(weights)

    return jax.vmap(jax.vmap(one, (None, None, 0, None, None)), (0, 0, None, None, None))


def dense_replicas(
    rng: np.random.Generator,
    rows: Rows,
    width: int,
    samples: Sequence[int],
    replicas: int,
    *,
    step_size: float,
    steps: int,
    activation: str,
) -> dict[str, np.ndarray]:
    """Replicas of a dense network in the neural-tangent parametrisation, on the first n rows for every n of `samples`.

    `predicted_variance` is that of infinitely wide ones: from outputs f0 of covariance G training goes linearly with
    the tangent kernel K to f0 + L (y - f0), of covariance (1 - L) G (1 - L)^T on fresh rows (Lee et al. 2019).
    """
    networks = [
        EquinoxNetwork(
            ScaledMLP.random(rng, rows.inputs.shape[1:], width, depth=1, parametrisation="ntk", activation=activation),
            rows.inputs[0],
        )
        for _ in range(replicas)
    ]
    flat = [part.reshape(len(part), -1).astype(np.float64) for part in (rows.inputs, rows.fresh_inputs)]
    scaled = np.concatenate(flat) / np.sqrt(flat[0].shape[1])
    function = as_activation(activation)
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    unit = weights @ function(points) ** 2 / weights.sum()
    covariance = wide_kernel(function, scaled, scaled) / unit
    kernel = wide_tangent_kernel(function, function.slope, scaled, scaled) / unit
    fresh = slice(len(rows.inputs), None)
    outputs, theory = [], []
    for n in samples:
        known = np.r_[0:n, len(rows.inputs) : len(scaled)]
        part = kernel[np.ix_(known, np.arange(n))]
        rate = step_size / (np.linalg.eigvalsh(part[:n])[-1] / n)
        data = TrainingRows(rows.inputs[:n], rows.targets[:n], np.zeros((n, 1)))
        plan = TrainingPlan("sgd", rate, 0, 1.0, 0)
        ends = [network.advance(network.start(plan), plan, data, 0, steps).weights for network in networks]
        outputs.append(
            [network.seen(end, rows.fresh_inputs)[0][:, 0] for network, end in zip(networks, ends, strict=True)]
        )
        learned = linearised_outputs(part, np.eye(n), rate / n, steps)[n:]
        both, own = covariance[:n, :n], covariance[fresh, :n]
        theory.append(np.trace(covariance[fresh, fresh] - 2 * learned @ own.T + learned @ both @ learned.T))
    found = np.array(outputs)
    start = np.trace(covariance[fresh, fresh])
    return {
        **_agreement(found - found.mean(axis=-1, keepdims=True)),
        "replica_variance": _spread(found) / start,
        "predicted_variance": np.array(theory) / start,
    }


def _agreement(functions: np.ndarray) -> dict[str, np.ndarray]:
    """Overlaps of all pairs of replicas, (samples, replicas, entries): their mean and their variance over pairs."""
    pairs = np.triu_indices(functions.shape[1], 1)
    overlaps = np.stack([_cosines(each, each[:, None])[pairs] for each in functions])
    return {"replica_overlap": overlaps.mean(axis=1), "overlap_square": np.mean(overlaps**2, axis=1)}


def _cosines(functions: np.ndarray, others: np.ndarray) -> np.ndarray:
    sizes = np.linalg.norm(functions, axis=-1) * np.linalg.norm(others, axis=-1)
    return np.sum(functions * others, axis=-1) / sizes


def _spread(functions: np.ndarray) -> np.ndarray:
    """The variance over replicas, summed over entries."""
    return functions.var(axis=-2, ddof=1).sum(axis=-1)

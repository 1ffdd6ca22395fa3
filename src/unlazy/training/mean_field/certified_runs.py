"""Certificates of a network at stationarity, by chains and by quadrature, for several ways to take the residual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unlazy.models.mean_field import named_loss, with_one
from unlazy.training.mean_field.certificate import certify_stages
from unlazy.training.mean_field.gap_quadrature import gap_quadrature
from unlazy.training.mean_field.watched_network import watch_predictions


def certify_run(
    key: Array,
    inputs: np.ndarray,
    targets: np.ndarray,
    least_free_energy: float,
    *,
    amplitude: float,
    temperature: float,
    confinement: float,
    averaged: Sequence[int],
    stages: int,
    markov_chains: int,
    **run: Any,
) -> dict[str, Array]:
    """The estimate with its error, L(q_g) - D(g) and L(q_g) - L* for residuals averaged over so many steps.

    All are (averaged, stages): as averaged, and after Newton steps. `snapshot_gap` is the mean exact gap of 25 single
    times. The neurons have two parameters, so that all but the estimate is by quadrature.
    """
    n = len(inputs)
    heats: dict[str, Any] = {"temperature": temperature, "confinement": confinement}
    rows: Any = tuple(jnp.asarray(x, float) for x in (with_one(inputs[:, None]), targets, np.full(n, 1 / n)))
    problem = {"loss": named_loss("square"), "amplitude": amplitude, **heats}
    first, *later = jax.random.split(key, 1 + stages * len(averaged))
    anchors, snapshots = watch_predictions(first, rows, **problem, averaged=averaged, snapshots=25, every=5, **run)
    keys = jnp.stack(later).reshape(stages, len(anchors))
    found = certify_stages(keys, rows, anchors, **problem, markov_chains=markov_chains, annealing=100)
    exact = gap_quadrature(inputs, targets, amplitude=amplitude, **heats)
    gaps, duals = jax.lax.map(exact, jnp.concatenate([found.anchor.reshape(-1, n), snapshots]))
    true = gaps + duals - least_free_energy
    size, shape = keys.size, keys.shape
    return {
        "estimated_gap": found.gap.T,
        "standard_error": found.gap_se.T,
        "disagreement": found.disagreement.T,
        "duality_gap": gaps[:size].reshape(shape).T,
        "optimality_gap": true[:size].reshape(shape).T,
        "snapshot_gap": gaps[size:].mean(),
    }

"""Planted spikes: neurons in groups that share a spike along one direction, as after a large gradient step."""

from __future__ import annotations

from typing import Any

import numpy as np

PLANTED = {
    "none": (0.0,),
    "one group": (1.5,),
    "two groups": (2.0, -1.0),
    "four groups": (-1.5, -0.5, 0.7, 1.5),
}
"""Spikes of groups of equal size."""


def planted_groups(name: str) -> Any:
    """The groups for the theory; the rest of each neuron has norm 1."""
    from unlazy.theory.one_step.spiked.statistics import NeuronGroups

    spikes = np.array(PLANTED[name])
    return NeuronGroups(np.full(spikes.size, 1 / spikes.size), spikes, np.ones(spikes.size))


def planted_weights(rng: np.random.Generator, name: str, d: int, features: int, cosine: float) -> np.ndarray:
    """Weights W + v c^T (d, N) with v.beta = cosine, beta the first coordinate axis and W without a part along v."""
    direction = np.zeros(d)
    direction[:2] = cosine, np.sqrt(1 - cosine**2)
    rest = rng.standard_normal((d, features)) / np.sqrt(d)
    rest -= np.outer(direction, direction @ rest)
    spikes = np.resize(PLANTED[name], features)
    return rest + np.outer(direction, spikes)

"""Planted spikes: neurons in groups that share a spike along one direction, as after a large gradient step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def planted_weights(rng: np.random.Generator, spikes: Sequence[float], d: int, width: int, cosine: float) -> np.ndarray:
    """Weights W + v c^T (d, N) with v.beta = cosine, beta the first coordinate axis and W without a part along v.

    The entries of c are `spikes` in turn: groups of equal size.
    """
    direction = np.zeros(d)
    direction[:2] = cosine, np.sqrt(1 - cosine**2)
    rest = rng.standard_normal((d, width)) / np.sqrt(d)
    rest -= np.outer(direction, direction @ rest)
    return rest + np.outer(direction, np.resize(spikes, width))

"""Control variates: less noise by what is known to be 0 in the mean."""

from __future__ import annotations

import numpy as np


def without_controls(values: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """Values (..., samples) less their regression over samples on controls (..., samples, k), whose means are 0."""
    centred = controls - controls.mean(axis=-2, keepdims=True)
    deviation = values - values.mean(axis=-1, keepdims=True)
    coefficients = np.linalg.pinv(centred) @ deviation[..., None]
    return values - (controls @ coefficients)[..., 0]

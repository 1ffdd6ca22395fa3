"""Margins of a classifier: by how much the output of the own class exceeds the others."""

from __future__ import annotations

import numpy as np


def margins(outputs: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """f_y - max of the others for outputs (n, classes); y f for one output (n, 1) of the classes 0 (-) and 1 (+)."""
    if outputs.shape[1] == 1:
        return (2 * codes - 1) * outputs[:, 0]
    own = np.arange(outputs.shape[1]) == codes[:, None]
    return outputs[own] - np.where(own, -np.inf, outputs).max(axis=1)


def hits(found: np.ndarray) -> np.ndarray:
    """1 where a margin is positive, 1/2 where it is 0, else 0."""
    return (found > 0) + 0.5 * (found == 0)


def margin_gap(training: np.ndarray, held_out: np.ndarray) -> float:
    """1 - mean held-out margin / mean training margin: the part of the margin that new samples do not share.

    NaN where the training margin is not positive, as before training.
    """
    own = float(np.mean(training))
    return 1 - float(np.mean(held_out)) / own if own > 0 else np.nan

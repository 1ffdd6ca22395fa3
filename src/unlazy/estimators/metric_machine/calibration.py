"""Probabilities of classes from scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_LARGEST = 50.0


class Calibration(NamedTuple):
    """softmax(scale scores + shifts)."""

    scale: float
    shifts: np.ndarray

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        from scipy.special import softmax

        return softmax(self.scale * scores + self.shifts, axis=1)


def calibrated(scores: np.ndarray, codes: np.ndarray) -> Calibration:
    """Scale and shifts of least log loss on these scores."""
    from scipy.optimize import minimize
    from scipy.special import log_softmax, softmax

    n, classes = scores.shape
    one_hot = np.eye(classes)[codes]

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        scale, shifts = np.exp(parameters[0]), np.append(0.0, parameters[1:])
        logits = scale * scores + shifts
        wrong = (softmax(logits, axis=1) - one_hot) / n
        value = -np.sum(one_hot * log_softmax(logits, axis=1)) / n
        return value, np.append(scale * np.sum(wrong * scores), wrong.sum(axis=0)[1:])

    found = minimize(
        loss,
        np.append(np.log(4.0), np.zeros(classes - 1)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-3, np.log(_LARGEST))] + [(-_LARGEST, _LARGEST)] * (classes - 1),
    )
    return Calibration(float(np.exp(found.x[0])), np.append(0.0, found.x[1:]))

"""Probabilities of classes from scores that estimate them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_FLOOR = 0.05
_MOST_SHIFT, _MOST_SCALE = 20.0, 50.0


class Calibration(NamedTuple):
    """softmax(scale q + power log q_+ + shifts) of scores q that estimate the shares of the classes.

    q_+ = (q + sqrt(q^2 + 0.05^2)) / 2 is about q where that is a share, and positive. Scores that are right need the
    power 1 and nothing else; a scale is what scores of nearly parted classes need.
    """

    scale: float
    power: float
    shifts: np.ndarray

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        from scipy.special import softmax

        return softmax(self.scale * scores + self.power * _logarithm(scores) + self.shifts, axis=1)


def calibrated(scores: np.ndarray, codes: np.ndarray) -> Calibration:
    """Scale, power and shifts of least log loss on these scores (n, classes)."""
    from scipy.optimize import minimize
    from scipy.special import log_softmax, softmax

    n, classes = scores.shape
    one_hot, parts = np.eye(classes)[codes], (scores, _logarithm(scores))

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        logits = parameters[0] * parts[0] + parameters[1] * parts[1] + np.append(0.0, parameters[2:])
        wrong = (softmax(logits, axis=1) - one_hot) / n
        value = -np.sum(one_hot * log_softmax(logits, axis=1)) / n
        return value, np.array([*(np.sum(wrong * part) for part in parts), *wrong.sum(axis=0)[1:]])

    bounds = [(0, _MOST_SCALE), (0, _MOST_SCALE), *[(-_MOST_SHIFT, _MOST_SHIFT)] * (classes - 1)]
    start = np.array([0.0, 1.0, *np.zeros(classes - 1)])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return Calibration(float(found.x[0]), float(found.x[1]), np.append(0.0, found.x[2:]))


def _logarithm(scores: np.ndarray) -> np.ndarray:
    return np.log((scores + np.sqrt(scores**2 + _FLOOR**2)) / 2)

"""Probabilities of classes from scores that estimate them and from those of a linear model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_FLOOR = 0.05
_MOST_SHIFT, _MOST_SCALE = 20.0, 50.0
_MOST_LOGISTIC = 2.0


class Calibration(NamedTuple):
    """softmax(scale q + power log q_+ + share z + shifts) of scores q that estimate the shares of the classes.

    q_+ = (q + sqrt(q^2 + 0.05^2)) / 2 is about q where that is a share, and positive; z are the logits of a linear
    model. Scores that are right need the power 1 and nothing else; a scale is what scores of nearly parted classes
    need.
    """

    scale: float
    power: float
    share: float
    shifts: np.ndarray

    def __call__(self, scores: np.ndarray, logits: np.ndarray | None = None) -> np.ndarray:
        from scipy.special import softmax

        total = self.scale * scores + self.power * _logarithm(scores) + self.shifts
        return softmax(total if logits is None else total + self.share * logits, axis=1)


def calibrated(scores: np.ndarray, codes: np.ndarray, logits: np.ndarray | None = None) -> Calibration:
    """Scale, power, share and shifts of least log loss on these scores and logits (n, classes)."""
    from scipy.optimize import minimize
    from scipy.special import log_softmax, softmax

    n, classes = scores.shape
    one_hot = np.eye(classes)[codes]
    parts = np.stack([scores, _logarithm(scores), np.zeros(scores.shape) if logits is None else logits])

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        total = np.tensordot(parameters[:3], parts, 1) + np.append(0.0, parameters[3:])
        wrong = (softmax(total, axis=1) - one_hot) / n
        value = -np.sum(one_hot * log_softmax(total, axis=1)) / n
        return value, np.array([*np.sum(wrong * parts, axis=(1, 2)), *wrong.sum(axis=0)[1:]])

    most = [_MOST_SCALE, _MOST_SCALE, _MOST_LOGISTIC]
    bounds = [*((0.0, high) for high in most), *[(-_MOST_SHIFT, _MOST_SHIFT)] * (classes - 1)]
    start = np.array([0.0, 1.0, 0.0, *np.zeros(classes - 1)])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    scale, power, share = map(float, found[:3])
    return Calibration(scale, power, share, np.append(0.0, found[3:]))


def _logarithm(scores: np.ndarray) -> np.ndarray:
    return np.log((scores + np.sqrt(scores**2 + _FLOOR**2)) / 2)

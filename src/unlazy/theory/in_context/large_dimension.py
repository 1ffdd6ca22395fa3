"""The large-dimension limit of linear attention on linear regression: errors as sums over a Marchenko-Pastur law.

With x an eigenvalue of (1/k) sum_j w_j w_j^T (ratio c = 1/kappa) and w = 1/(1 + c E 1/(x+s)), the root in [0, 1] of
w^2 + (s + c - 1) w - s = 0, every average that occurs is a quotient of positive terms:

    E 1/(x+s) = 1/(s+w),  E 1/(x+s)^2 = 1/((s+w)(s+w^2)),  E x/(x+s)^2 = w^2/((s+w)(s+w^2)),
    E x^2/(x+s)^2 = w (c s w/(s+w) + w^2) / ((s+w)(s+w^2)).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.numerics.roots import increasing_root

_WIDEN = 1e-9


class PretrainingRatios(NamedTuple):
    """Arrays of one shape; the inverse of tau and of kappa, so that infinite ratios are zeros."""

    inverse_prompts: np.ndarray
    """1/tau."""
    spare_prompts: np.ndarray
    """1 - 1/tau."""
    spread: np.ndarray
    """q = (1 + rho)/alpha, what a context of finite length adds to every eigenvalue."""
    inverse_tasks: np.ndarray
    """c = 1/kappa."""
    spare_tasks: np.ndarray
    """1 - c."""
    noise: np.ndarray
    """rho."""
    test_spread: np.ndarray
    """q of the contexts at test."""

    def at(self, index: np.ndarray) -> PretrainingRatios:
        """The setting at some elements."""
        return PretrainingRatios(*(field[index] for field in self))


class LimitErrors(NamedTuple):
    """Errors at effective ridges."""

    new_tasks: np.ndarray
    pretraining_tasks: np.ndarray
    training: np.ndarray


def companion(s: np.ndarray, spare_tasks: np.ndarray) -> np.ndarray:
    """w, from the form of the quadratic root that does not cancel."""
    middle = spare_tasks - s
    root = np.hypot(middle, 2 * np.sqrt(s))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(middle >= 0, (middle + root) / 2, 2 * s / (root - middle))


def effective_ridge(setting: PretrainingRatios, ridge: np.ndarray) -> np.ndarray:
    """xi >= 0 with ridge = xi (1 - (1/tau) (1 - xi E 1/(x + q + xi))), the largest root.

    w lies in [0, 1], and with w constant the equation is quadratic in xi: the roots at both ends are the bracket.
    """
    low, high = (_root_at(setting, ridge, setting.spread + w) for w in (0.0, 1.0))
    xi = high.copy()
    open_ = (high > 0) & (low < high)
    if open_.any():
        at = setting.at(open_)

        def balance(
            xi: np.ndarray, p: np.ndarray, spare: np.ndarray, q: np.ndarray, rest: np.ndarray, ridge: np.ndarray
        ) -> np.ndarray:
            s = q + xi
            w = companion(s, rest)
            left = p * xi / (s + w) + np.maximum(spare, 0)
            near = np.log(left) - np.log(ridge / xi + np.maximum(-spare, 0))
            # with few prompts both sides are nearly 1/tau, and what they differ by is the degrees of freedom
            return np.where(p < 2, near, -np.log(ridge / xi + p * (q + w) / (s + w)))

        parameters = at.inverse_prompts, at.spare_prompts, at.spread, at.spare_tasks, ridge[open_]
        xi[open_] = increasing_root(balance, low[open_] * (1 - _WIDEN), high[open_] * (1 + _WIDEN), *parameters)
    return xi


def _root_at(setting: PretrainingRatios, ridge: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The root xi >= 0 of xi^2 + ((1 - 1/tau) size - ridge) xi - ridge size = 0."""
    middle = ridge - setting.spare_prompts * size
    root = np.hypot(middle, 2 * np.sqrt(ridge) * np.sqrt(size))
    with np.errstate(divide="ignore", invalid="ignore"):
        other = np.where(ridge > 0, 2 * ridge * (size / (root - middle)), 0.0)
    return np.where(middle > 0, (middle + root) / 2, other)


def ridge_share(setting: PretrainingRatios, xi: np.ndarray) -> np.ndarray:
    """ridge / xi = 1 - (1/tau) (1 - xi E 1/(x + q + xi)), not below 0."""
    s = setting.spread + xi
    w = companion(s, setting.spare_tasks)
    return np.maximum(setting.inverse_prompts * xi / (s + w) + setting.spare_prompts, 0.0)


def errors(setting: PretrainingRatios, xi: np.ndarray, share: np.ndarray) -> LimitErrors:
    """The errors at effective ridge xi, where ridge = share xi; inf at tau = 1 without ridge.

    The mean weights are g(x) = x/(x+s) on every eigenvector of the tasks; e_tr is the error on the pretraining tasks.
    """
    p, _, q, c, rest, noise, test_q = setting
    s = q + xi
    w = companion(s, rest)
    missed, kept = s / (s + w), w / (s + w)
    low, high = s / (s + w**2), w**2 / (s + w**2)
    squared = kept * (c * kept * low + high)
    task_bias = s * missed * high
    variance = (w**2 + q) / (s + w**2) / (s + w)
    with np.errstate(divide="ignore"):
        own = (noise + task_bias + q * squared) / (share + p * xi * variance)
    new = noise + missed * low + test_q * squared + (1 + test_q) * p * variance * own
    task_variance = squared + q * high / (s + w) + test_q * variance
    old = noise + task_bias + test_q * squared + p * task_variance * own
    finite = np.isfinite(own)
    return LimitErrors(new, np.where(test_q == q, own, old), share**2 * np.where(finite, own, 0.0))

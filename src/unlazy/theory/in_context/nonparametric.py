"""Nonparametric tasks in context: the three errors of linear attention on a basis of finitely many functions.

A task is f = sum_j b_j psi_j(x) with independent coefficients of mean 0 and variances v_j, in functions that are
orthonormal under the law of x; its variance V = E f(x)^2 is the same at every x, as with sines and cosines of equal
variances. The first N functions phi are the features below linear attention. A prompt of n noisy examples is answered
at x by a^T Gamma phi(x) with

    a = (1/n) sum_i y_i phi(x_i),      E a a^T = M = (1 - 1/n) diag(v) + (V + rho)/n I,

rho the noise variance: all second moments are known, for every n. Risks are against f, without the label noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, common_shape

_LARGEST = 1e100
_ROUNDING = 1e-9


class InContextRisks(NamedTuple):
    """Three errors and their sum; every field has the broadcast shape of context, tasks and noise_variance."""

    approximation_error: Any
    """V - sum_j v_j, of what the features cannot say."""
    context_error: Any
    """What n examples leave of the features' coefficients, with the best Gamma."""
    pretraining_error: Any
    """What the fit of Gamma to T prompts adds; inf for T <= N^2, where it interpolates or has no unique fit."""
    risk: Any
    """Their sum."""
    plain_context_error: Any
    """The second with Gamma = I, the inverse moment of the features."""


def in_context_risks(
    spectrum: ArrayLike,
    task_variance: float,
    context: ArrayLike,
    tasks: ArrayLike,
    noise_variance: ArrayLike,
) -> InContextRisks:
    """The risk of linear attention on N features whose Gamma is fitted to one prompt of each of T tasks, in its parts.

        approximation    V - sum_j v_j
        context          sum_j v_j (V + rho - v_j) / (n M_jj)     with the best Gamma = M^-1 diag(v);
                         [N (V + rho) - sum_j v_j] / n            with Gamma = I
        pretraining      (approximation + context (1 + e) + rho) N^2 / (T - N^2),
                         e = (2/N) sum_j (v_j^2 / M_jj) / (V + rho)

    `spectrum` are the variances v_1..v_N that tasks have along the features, `task_variance` is V. The first two are
    exact. The third is that of least squares with N^2 features (the deterministic equivalent of `finite_size_errors`
    without ridge) for Gaussian tasks; e is there because large tasks have both large a and large errors. Corrections
    are of order N^2/T and 1/n. Source of the setting and of the rates N^(-2 s),
    N/n and N^2/T: Kim, Nakamaki & Suzuki 2024; the constants are the project's. Broadcasts, but for the spectrum.

    >>> found = in_context_risks([1, 0.2], task_variance=1.3, context=[10, 100], tasks=80, noise_variance=0.1)
    >>> print(found.approximation_error, found.context_error, found.pretraining_error)
    [0.1 0.1] [0.113 0.015] [0.021 0.012]
    """
    variances, power = _spectrum(spectrum, task_variance)
    n = check_array("context", context, low=1, high=_LARGEST)
    prompts = check_array("tasks", tasks, above=0, high=_LARGEST)
    noise = check_array("noise_variance", noise_variance, low=0, high=_LARGEST)
    common_shape(context=n, tasks=prompts, noise_variance=noise)
    n, prompts, noise = np.broadcast_arrays(n, prompts, noise)
    labels, length = (power + noise)[..., None], n[..., None]
    moment = (1 - 1 / length) * variances + labels / length
    share = np.divide(variances, moment, out=np.zeros_like(moment), where=moment > 0)
    by_context = np.sum(share * (labels - variances) / length, axis=-1)
    missed = np.full(n.shape, max(power - variances.sum(), 0.0))
    weights = float(len(variances)) ** 2
    with np.errstate(divide="ignore"):
        factor = np.where(prompts > weights, weights / np.maximum(prompts - weights, 0.0), np.inf)
    total = labels[..., 0]
    spread = 2 * np.mean(share * variances, axis=-1) / np.where(total > 0, total, 1.0)
    residual = missed + by_context * (1 + spread) + noise
    # nothing is left to fit wrongly where nothing is left at all
    by_fit = np.where(residual > 0, residual, 0.0) * np.where(residual > 0, factor, 0.0)
    plain = (len(variances) * (power + noise) - variances.sum()) / n
    fields = missed, by_context, by_fit, missed + by_context + by_fit, plain
    return InContextRisks(*(np.asarray(field)[()] for field in fields))


def prompt_risk(
    attention_weights: ArrayLike,
    spectrum: ArrayLike,
    task_variance: float,
    context: ArrayLike,
    noise_variance: ArrayLike,
) -> Any:
    """The exact risk E (f(x) - a^T Gamma phi(x))^2 of any weights Gamma (N, N), without test prompts.

        V - 2 sum_j v_j Gamma_jj + sum_jk M_jj Gamma_jk^2

    As `in_context_risks`; broadcasts over context and noise_variance.

    >>> print(prompt_risk([[0.9, 0], [0, 0.6]], [1, 0.2], task_variance=1.3, context=[10, 100], noise_variance=0.1))
    [0.2176 0.1496]
    """
    variances, power = _spectrum(spectrum, task_variance)
    weights = check_array("attention_weights", attention_weights, ndim=2, low=-_LARGEST, high=_LARGEST)
    if weights.shape != 2 * variances.shape:
        size = len(variances)
        raise InputError(f"attention_weights must have shape ({size}, {size}) like spectrum, got {weights.shape}")
    n = check_array("context", context, low=1, high=_LARGEST)
    noise = check_array("noise_variance", noise_variance, low=0, high=_LARGEST)
    common_shape(context=n, noise_variance=noise)
    n, noise = np.broadcast_arrays(n, noise)
    moment = (1 - 1 / n[..., None]) * variances + ((power + noise) / n)[..., None]
    return (power - 2 * variances @ np.diagonal(weights) + moment @ np.sum(weights**2, axis=1))[()]


def _spectrum(spectrum: ArrayLike, task_variance: float) -> tuple[np.ndarray, float]:
    variances = check_array("spectrum", spectrum, ndim=1, low=0, high=_LARGEST)
    power = float(check_array("task_variance", task_variance, low=0, high=_LARGEST, ndim=0))
    if variances.sum() > power * (1 + _ROUNDING):
        raise InputError(f"task_variance must be at least the sum of spectrum = {variances.sum():.6g}, got {power:.6g}")
    return variances, max(power, float(variances.sum()))

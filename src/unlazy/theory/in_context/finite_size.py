"""Linear attention at finite size: exact moments of prompts, the exact error of any weights, and its equivalent.

For Gaussian tokens the second moments of a prompt's feature h are known for every context length l and every set of
tasks; with them the deterministic equivalent of ridge regression needs no limit of l and k.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_symmetric, common_shape
from unlazy.theory.regression.ridge import ridge_equivalent

_LARGEST = 1e100


class PromptMoments(NamedTuple):
    """Second moments of prompts with random tokens and tasks of one law."""

    feature_moment: np.ndarray
    """R = E h h^T, (d+1, d+1)."""
    cross_moment: np.ndarray
    """B = E w h^T, (d, d+1)."""
    label_moment: float
    """E y^2 = mean of |w|^2/d + rho."""


class FiniteSizeErrors(NamedTuple):
    """Deterministic equivalents; every field has the broadcast shape of prompts and ridge_times_dimension."""

    effective_ridge_times_dimension: np.ndarray
    """xi: the mean weights are B (R + xi)^-1."""
    test_error: np.ndarray
    """The error on prompts of the test moments."""
    pretraining_task_error: np.ndarray
    """The error on fresh prompts of the pretraining moments."""
    training_error: np.ndarray
    """The mean squared residual of the pretraining prompts."""


def task_moments(task_vectors: ArrayLike, context: float, noise_variance: float) -> PromptMoments:
    """The moments of prompts whose task is one of the rows w_j of `task_vectors` (k, d), each as likely.

    With t_j = |w_j|^2/d + rho and means over j, l the context's length,

        E h h^T = [[(1 + 1/l) mean(w w^T) + (d/l) mean(t) I,  (1 + 2/l) mean(t w)],  [.,  (1 + 2/l) mean(t^2)]],
        E w h^T = [mean(w w^T),  mean(t w)].

    Exact for tokens N(0, I/d).

    >>> moments = task_moments(task_vectors=[[1, 0], [0, 2]], context=10, noise_variance=0.1)
    >>> print(moments.cross_moment)
    [[0.5 0.  0.3]
     [0.  2.  2.1]]
    """
    tasks = check_array("task_vectors", task_vectors, ndim=2, low=-_LARGEST, high=_LARGEST)
    context, noise_variance = _prompt(context, noise_variance)
    d = tasks.shape[1]
    variances = np.sum(tasks**2, axis=1) / d + noise_variance
    mean = len(tasks)
    return _moments(
        tasks.T @ tasks / mean, tasks.T @ variances / mean, variances.mean(), np.mean(variances**2), context
    )


def gaussian_task_moments(task_covariance: ArrayLike, context: float, noise_variance: float) -> PromptMoments:
    """The moments of prompts with tasks w ~ N(0, C), C (d, d); the identity gives the new tasks of `linear_attention`.

    As `task_moments` with mean(w w^T) = C, mean(t) = tr C/d + rho, mean(t w) = 0, mean(t^2) = mean(t)^2 + 2 tr C^2/d^2.

    >>> moments = gaussian_task_moments(task_covariance=[[1, 0], [0, 1]], context=10, noise_variance=0.1)
    >>> print(f"{moments.label_moment:.3f}", moments.feature_moment.diagonal())
    1.100 [1.32  1.32  2.652]
    """
    covariance = check_symmetric("task_covariance", task_covariance, largest=_LARGEST)
    d = len(covariance)
    least = float(np.linalg.eigvalsh(covariance)[0])
    if least < -1e-10 * np.abs(covariance).max():
        raise InputError(f"task_covariance must not have negative eigenvalues, got one of {least:.3g}")
    context, noise_variance = _prompt(context, noise_variance)
    variance = np.trace(covariance) / d + noise_variance
    return _moments(covariance, np.zeros(d), variance, variance**2 + 2 * np.sum(covariance**2) / d**2, context)


def exact_error(moments: PromptMoments, attention_weights: ArrayLike) -> np.ndarray:
    """The exact error E (y - x^T Gamma h)^2 of any weights Gamma (..., d, d+1), without test prompts.

    e = mean(t) - (2/d) <Gamma, B> + (1/d) <Gamma R, Gamma>

    >>> moments = gaussian_task_moments(task_covariance=[[1, 0], [0, 1]], context=10, noise_variance=0.1)
    >>> print(f"{exact_error(moments, attention_weights=[[0.5, 0, 0], [0, 0.5, 0]]):.3f}")
    0.430
    """
    d = len(_moments_given("moments", moments).cross_moment)
    weights = check_array("attention_weights", attention_weights, low=-_LARGEST, high=_LARGEST)
    if weights.shape[-2:] != (d, d + 1):
        raise InputError(
            f"attention_weights must have shape (..., {d}, {d + 1}) like the moments, got shape {weights.shape}"
        )
    products = np.sum(weights * (weights @ moments.feature_moment - 2 * moments.cross_moment), axis=(-2, -1))
    return (moments.label_moment + products / d)[()]


def finite_size_errors(
    moments: PromptMoments,
    prompts: ArrayLike,
    ridge_times_dimension: ArrayLike,
    *,
    test_moments: PromptMoments | None = None,
) -> FiniteSizeErrors:
    """The errors of linear attention pretrained on n prompts of given moments, tested on prompts of others.

        lambda = xi (1 - (d/n) tr R (R+xi)^-1),    Gamma = B (R+xi)^-1,
        e_tr = e(Gamma) / (1 - (d/n) tr R^2 (R+xi)^-2),
        e_test = e_test(Gamma) + (d/n) tr[R_test (R+xi)^-1 R (R+xi)^-1] e_tr

    with n = `prompts`, lambda = `ridge_times_dimension` and the exact error e(Gamma) of `exact_error`. The moments at
    test are those of pretraining if not given. The model interpolates at n = d rank(R), where the errors without ridge
    are inf; the rank is d + 1 but for a single task without noise, whose h lies in a plane of d dimensions. At ridge 0
    the weights are those of least norm. Corrections are O(1/d), except close to interpolation with a tiny ridge, where
    simulations lie up to 15% above it at d = 32.

    >>> moments = gaussian_task_moments(task_covariance=[[1, 0], [0, 1]], context=10, noise_variance=0.1)
    >>> print(finite_size_errors(moments, prompts=[3, 6, 60], ridge_times_dimension=0.1).test_error)
    [1.115 1.01  0.380]
    """
    d = len(_moments_given("moments", moments).cross_moment)
    test = moments if test_moments is None else _moments_given("test_moments", test_moments)
    if test.cross_moment.shape != moments.cross_moment.shape:
        raise InputError(f"test_moments must have the dimension d = {d} of moments, got {len(test.cross_moment)}")
    n = check_array("prompts", prompts, above=0, high=_LARGEST)
    ridge = check_array("ridge_times_dimension", ridge_times_dimension, low=0, high=_LARGEST)
    common_shape(prompts=n, ridge_times_dimension=ridge)
    eigenvalues, vectors = np.linalg.eigh(moments.feature_moment)
    # where h never points there is nothing to learn, and B is 0 too
    kept = eigenvalues > len(eigenvalues) * np.finfo(np.float64).eps * eigenvalues[-1]
    if not kept.any():
        raise InputError("moments must have a feature_moment that is not 0: some task or the noise must not be 0")
    eigenvalues, vectors = eigenvalues[kept], vectors[:, kept]

    # with no signal and unit noise the risk of ridge regression is what multiplies a residual: df2/(n' - df2)
    equivalent = ridge_equivalent(eigenvalues, 0.0, n / d, ridge, 1.0)
    xi = np.asarray(equivalent.effective_ridge)
    inverse = 1 / (eigenvalues + xi[..., None])
    cross = moments.cross_moment @ vectors
    gram = cross.T @ cross

    def residual(at: PromptMoments) -> tuple[np.ndarray, np.ndarray]:
        """e(Gamma), and the diagonal of R_test among the eigenvectors of R."""
        feature = vectors.T @ at.feature_moment @ vectors
        explained = np.sum(cross * (at.cross_moment @ vectors), axis=0)
        square = np.sum(inverse @ (gram * feature) * inverse, axis=-1)
        return at.label_moment + (square - 2 * inverse @ explained) / d, np.diagonal(feature)

    own_residual, _ = residual(moments)
    own = own_residual * (1 + np.asarray(equivalent.variance))
    test_residual, spread = residual(test)
    with np.errstate(invalid="ignore"):
        other = test_residual + d / n * np.sum(eigenvalues * spread * inverse**2, axis=-1) * own
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(xi > 0, ridge / xi, np.maximum(1 - d * len(eigenvalues) / n, 0.0))
    training = share**2 * np.where(np.isfinite(own), own, 0.0)
    return FiniteSizeErrors(
        *(np.asarray(field)[()] for field in (xi, own if test is moments else other, own, training))
    )


def _moments(
    second: np.ndarray, tilted: np.ndarray, variance: float, variance_square: float, context: float
) -> PromptMoments:
    d = len(second)
    feature = np.empty((d + 1, d + 1))
    feature[:d, :d] = (1 + 1 / context) * second + d / context * variance * np.eye(d)
    feature[:d, d] = feature[d, :d] = (1 + 2 / context) * tilted
    feature[d, d] = (1 + 2 / context) * variance_square
    return PromptMoments(feature, np.column_stack([second, tilted]), float(variance))


def _prompt(context: float, noise_variance: float) -> tuple[float, float]:
    length = float(check_array("context", context, low=1, high=_LARGEST, ndim=0))
    return length, float(check_array("noise_variance", noise_variance, low=0, high=_LARGEST, ndim=0))


def _moments_given(name: str, moments: PromptMoments) -> PromptMoments:
    if not isinstance(moments, PromptMoments):
        raise InputError(f"{name} must be PromptMoments, as of `task_moments`, got {type(moments).__name__}")
    return moments

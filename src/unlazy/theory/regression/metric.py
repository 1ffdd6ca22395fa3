"""Learning a metric: the Bayes risk that the best one reaches, and the criteria by which one is learned.

Ridge regression with penalty ridge b.M^-1.b is the two-layer linear network f = v.W x, M = W^T W, with a ridge on v.
With the kernel K = X M X^T of n samples, m tasks Y (n x m) that share X, T = Y Y^T / m and c = n ridge,

    G = (K + c I)^-1,     H = K G,     degrees of freedom = tr H.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_like, check_symmetric, common_shape
from unlazy.theory.regression.ridge import eigenpairs, ridge_equivalent

_LARGEST = 1e280


class BayesRisk(NamedTuple):
    """Both fields have the broadcast shape of n and noise_variance."""

    effective_ridge: np.ndarray
    """kappa."""
    risk: np.ndarray


class MetricCriterion(NamedTuple):
    """Every field has the broadcast shape of ridge and degrees_of_freedom_weight."""

    criterion: np.ndarray
    """data_fit + degrees_of_freedom_weight degrees_of_freedom / n."""
    degrees_of_freedom: np.ndarray
    data_fit: np.ndarray
    """ridge tr(G T), the least of (1/n)|y - X b|^2 + ridge b.M^-1.b on average over tasks."""


def bayes_risk(
    signal_spectrum: ArrayLike, n: ArrayLike, noise_variance: ArrayLike, *, multiplicities: ArrayLike | None = None
) -> BayesRisk:
    """The least risk that any estimator has, that of ridge regression in the metric M = E b b^T at ridge s2/n.

    With t_j (`signal_spectrum`), the eigenvalues of B^(1/2) S B^(1/2) for covariance S and prior B = E b b^T,

        n = sum_j t_j / (t_j + kappa) + s2 / kappa,      risk = n kappa - s2 = kappa sum_j t_j / (t_j + kappa),

    and sum_j min(kappa, t_j) / 2 <= risk <= sum_j min(kappa, t_j). n and noise_variance broadcast; noise_variance 0
    is the limit from above. The metric is optimal for Gaussian b and noise, and among linear estimators for all
    others; the formula is exact in the limit of `ridge_equivalent`. Source: Dobriban & Wager (2018).

    >>> print(bayes_risk(signal_spectrum=[1, 0.25, 0.01], n=[20, 200], noise_variance=0.5).risk)
    [0.0598 0.0071]
    """
    n, noise_variance = _sizes_and_noise(n, noise_variance)
    signal = check_array("signal_spectrum", signal_spectrum, low=0, high=_LARGEST, ndim=1)
    found = ridge_equivalent(signal, 1.0, n, noise_variance / n, noise_variance, multiplicities=multiplicities)
    return BayesRisk(found.effective_ridge, found.effective_ridge * found.degrees_of_freedom)


def optimal_risk_bound(
    signal_spectrum: ArrayLike, n: ArrayLike, noise_variance: ArrayLike, *, multiplicities: ArrayLike | None = None
) -> np.ndarray:
    """The rate of the best metric, sum_j min(s2/n, t_j), with t_j as in `bayes_risk`.

    Each direction costs its own variance or the price s2/n of learning it. With s2 = sp2 - Var(noise) it bounds the
    least of `degrees_of_freedom_criterion` at weight sp2 minus Var(noise), up to constants and for many tasks. n and
    noise_variance broadcast. Source: K. Suzuki & T. Suzuki (2024).

    >>> print(optimal_risk_bound(signal_spectrum=[1, 0.25, 0.01], n=[20, 200], noise_variance=0.5))
    [0.06   0.0075]
    """
    signal = check_array("signal_spectrum", signal_spectrum, low=0, high=_LARGEST, ndim=1)
    copies = check_array("multiplicities", 1.0 if multiplicities is None else multiplicities, low=0)
    (copies,) = check_like("signal_spectrum", signal, multiplicities=copies)
    n, noise_variance = _sizes_and_noise(n, noise_variance)
    order = np.argsort(signal)
    signal, copies = signal[order], copies[order]
    price = noise_variance / n
    missed = np.searchsorted(signal, price, side="right")
    missed_signal = np.append(0.0, np.cumsum(copies * signal))
    learned = np.append(np.cumsum(copies[::-1])[::-1], 0.0)
    return (missed_signal[missed] + price * learned[missed])[()]


def degrees_of_freedom_criterion(
    kernel_matrix: ArrayLike, targets: ArrayLike, ridge: ArrayLike, degrees_of_freedom_weight: ArrayLike
) -> MetricCriterion:
    """The objective R by which a metric is learned: the ridge minimum plus sp2 (`degrees_of_freedom_weight`) times the
    degrees of freedom per sample.

        R = ridge tr(G T) + (sp2/n) tr(K G) = sp2 + ridge tr[G (T - sp2 I)]

    R depends on the kernel through K/ridge only. At a fixed kernel, with y = f + noise of variance s2,
    E R - s2 = (1/n) [f.(I - H) f + (sp2 - s2) tr H], which with sp2 = 2 s2 is at least the in-sample risk
    (1/n) [|(I - H) f|^2 + s2 tr H^2], and equal to it if H is a projection.

    `targets` has shape (n,) or (n, tasks); ridge > 0 and degrees_of_freedom_weight broadcast. Exact for every kernel.
    Source: K. Suzuki & T. Suzuki (2024).

    >>> found = degrees_of_freedom_criterion(
    ...     kernel_matrix=[[2, 1], [1, 2]], targets=[1, 0.5], ridge=[0.1, 1], degrees_of_freedom_weight=0.2
    ... )
    >>> print(found.criterion)
    [0.2227 0.36  ]
    """
    ridge, degrees_of_freedom_weight = (
        check_array("ridge", ridge, above=0, high=_LARGEST),
        check_array("degrees_of_freedom_weight", degrees_of_freedom_weight, low=0),
    )
    common_shape(ridge=ridge, degrees_of_freedom_weight=degrees_of_freedom_weight)
    eigenvalues, signal = _kernel_signal(kernel_matrix, targets)
    total = eigenvalues + (n := eigenvalues.size) * ridge[..., None]
    data_fit = np.sum(ridge[..., None] / total * signal, axis=-1)
    dof = np.sum(eigenvalues / total, axis=-1)
    value = data_fit + degrees_of_freedom_weight * dof / n
    return MetricCriterion(*(np.broadcast_to(field, value.shape).copy()[()] for field in (value, dof, data_fit)))


def degrees_of_freedom_criterion_infimum(targets: ArrayLike, degrees_of_freedom_weight: ArrayLike) -> np.ndarray:
    """The infimum of `degrees_of_freedom_criterion` over all kernels, (1/n) sum_i min(s_i, sp2), s_i eigenvalues of T.

    R is linear in G, so that the infimum lies at the ends 0 <= c G <= I: K infinite on eigenvectors of T with
    s_i > sp2 and 0 on the others. Metrics reach every kernel only if X has rank n (thus d >= n); otherwise it is
    a lower bound. No finite metric attains it, and with few tasks it is far below the risk.

    >>> targets = [[1, 0.5], [0.2, -0.3]]
    >>> print(degrees_of_freedom_criterion_infimum(targets, degrees_of_freedom_weight=[0.1, 1]))
    [0.0819 0.345 ]
    """
    targets, degrees_of_freedom_weight = (
        _columns(targets),
        check_array("degrees_of_freedom_weight", degrees_of_freedom_weight, low=0),
    )
    variances = np.linalg.svd(targets, compute_uv=False) ** 2 / targets.shape[1]
    return np.sum(np.minimum(variances, degrees_of_freedom_weight[..., None]), axis=-1)[()] / len(targets)


def mallows_cp(kernel_matrix: ArrayLike, targets: ArrayLike, ridge: ArrayLike, noise_variance: ArrayLike) -> np.ndarray:
    """Mallows' C_p, the unbiased estimate of the in-sample risk (1/n) E |f - H y|^2 at a fixed kernel.

        |Y - H Y|^2 / (n m) + 2 s2 tr(H) / n - s2

    s2 is the variance of the noise in `targets`; ridge > 0 and noise_variance broadcast. Source: Mallows (1973).

    >>> print(mallows_cp(kernel_matrix=[[2, 1], [1, 2]], targets=[1, 0.5], ridge=[0.1, 1], noise_variance=0.1))
    [0.081 0.111]
    """
    ridge, noise = (
        check_array("ridge", ridge, above=0, high=_LARGEST),
        check_array("noise_variance", noise_variance, low=0),
    )
    common_shape(ridge=ridge, noise_variance=noise)
    eigenvalues, signal = _kernel_signal(kernel_matrix, targets)
    penalty = (n := eigenvalues.size) * ridge[..., None]
    total = eigenvalues + penalty
    residual = np.sum((penalty / total) ** 2 * signal, axis=-1) / n
    return (residual + noise * (2 * np.sum(eigenvalues / total, axis=-1) / n - 1))[()]


def best_kernel(targets: ArrayLike, penalty: float, noise_variance: float) -> np.ndarray:
    """The kernel with the least `mallows_cp`, K = (c / s2) (T - s2 I)_+, the positive part; c = n ridge (`penalty`).

    Then H = (I - s2 T^-1)_+. With many tasks T - s2 I tends to X B X^T, B = E b b^T: the learned metric is
    proportional to B, that of `bayes_risk`.

    >>> print(best_kernel(targets=[[1, 0.5], [0.2, -0.3]], penalty=1, noise_variance=0.1))
    [[5.2507 0.2339]
     [0.2339 0.0104]]
    """
    targets = _columns(targets)
    noise = float(check_array("noise_variance", noise_variance, above=0, ndim=0))
    penalty = float(check_array("penalty", penalty, above=0, high=_LARGEST, ndim=0))
    left, singular, _ = np.linalg.svd(targets, full_matrices=False)
    excess = np.maximum(singular**2 / targets.shape[1] - noise, 0.0)
    return (left * (penalty * (excess / noise))) @ left.T


def label_noise_penalty(kernel_matrix: ArrayLike, ridge: ArrayLike, label_noise_variance: ArrayLike) -> np.ndarray:
    """What fresh label noise of variance v adds to the clean objective: (v/n) tr H, no factor ridge.

    The second layer is fitted in closed form to y + eps and judged on y, which costs eps.H eps / n. Its
    gradient in K is v ridge G^2. ridge > 0 and label_noise_variance broadcast. Exact for every kernel and noise with
    independent entries of mean 0. Source: Takakura & T. Suzuki (2024), with the constant for v = Var(eps).

    >>> print(label_noise_penalty(kernel_matrix=[[2, 1], [1, 2]], ridge=[0.1, 1], label_noise_variance=0.5))
    [0.4427 0.2333]
    """
    eigenvalues, penalty, noise = _noise_arguments(kernel_matrix, ridge, label_noise_variance)
    return (noise * np.mean(eigenvalues / (eigenvalues + penalty), axis=-1))[()]


def frozen_label_noise_penalty(
    kernel_matrix: ArrayLike, ridge: ArrayLike, label_noise_variance: ArrayLike
) -> np.ndarray:
    """What label noise penalises if the fitted second layer counts as a constant in the gradient of the first.

        (v/n) [log det(I + K / (n ridge)) - tr H]

    Its gradient in K, (v/n) G K G, is the expectation of the noise part of that gradient. It is not that of
    `label_noise_penalty`. ridge > 0 and label_noise_variance broadcast. Exact as `label_noise_penalty`.

    >>> print(frozen_label_noise_penalty(kernel_matrix=[[2, 1], [1, 2]], ridge=[0.1, 1], label_noise_variance=0.5))
    [0.6984 0.0971]
    """
    eigenvalues, penalty, noise = _noise_arguments(kernel_matrix, ridge, label_noise_variance)
    share = eigenvalues / (eigenvalues + penalty)
    # -log(1 - h) - h for the eigenvalues h of H; by its series where the two terms cancel
    small = np.minimum(share, 0.05)
    series = small**2 * np.polynomial.polynomial.polyval(small, 1 / np.arange(2.0, 16.0))
    exact = np.log(eigenvalues + penalty) - np.log(penalty) - share
    return (noise * np.mean(np.where(share < 0.05, series, exact), axis=-1))[()]


def _sizes_and_noise(n: ArrayLike, noise_variance: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    n = check_array("n", n, above=0)
    noise_variance = check_array("noise_variance", noise_variance, low=0, high=_LARGEST)
    common_shape(n=n, noise_variance=noise_variance)
    return n, noise_variance


def _kernel_signal(kernel_matrix: ArrayLike, targets: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The eigenvalues of K, and u.T u for its eigenvectors u."""
    eigenvalues, vectors = _kernel_eigh(kernel_matrix)
    columns = _columns(targets, len(vectors))
    return eigenvalues, np.mean((vectors.T @ columns) ** 2, axis=1)


def _noise_arguments(
    kernel_matrix: ArrayLike, ridge: ArrayLike, label_noise_variance: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The eigenvalues of K, and n ridge with an axis for them."""
    ridge = check_array("ridge", ridge, above=0, high=_LARGEST)
    noise = check_array("label_noise_variance", label_noise_variance, low=0, high=_LARGEST)
    common_shape(ridge=ridge, label_noise_variance=noise)
    eigenvalues, _ = _kernel_eigh(kernel_matrix)
    return eigenvalues, eigenvalues.size * ridge[..., None], noise


def _kernel_eigh(kernel_matrix: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Of a singular kernel the eigenvalues are 0 exactly, so that it keeps its rank under the smallest ridge."""
    matrix = check_symmetric("kernel_matrix", kernel_matrix)
    return eigenpairs("kernel_matrix", (matrix + matrix.T) / 2)


def _columns(targets: ArrayLike, n: int | None = None) -> np.ndarray:
    array = check_array("targets", targets)
    n = len(array) if n is None and array.ndim else n
    if array.ndim not in (1, 2) or len(array) != n:
        raise InputError(f"targets must have shape ({n or 'n'},) or ({n or 'n'}, tasks), got shape {array.shape}")
    return array.reshape(len(array), -1)

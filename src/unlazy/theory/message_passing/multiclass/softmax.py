"""Softmax regression with a ridge penalty in high dimension: state evolution with matrices as order parameters.

The estimator is argmin_W sum_i loss(y_i, W^T x_i + b) + (penalty/2)|W|^2, a SUM over the n rows, no other
normalisation: `LogisticRegression(C=1/penalty)` of scikit-learn for K >= 3. For K = 2 it is binary logistic regression
with penalty/2. As the columns of W sum to 0, everything happens in r = K - 1 contrasts: W = W_r B^T with the Helmert
matrix B. Sources: Cakmak, Lu & Opper 2024; Loureiro et al. 2021 (Gaussian mixtures).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_flag, check_symmetric, check_whole, common_shape
from unlazy.theory.message_passing.multiclass.clusters import ClusterEquations
from unlazy.theory.message_passing.multiclass.resolvent import Diagonal, Full
from unlazy.theory.message_passing.multiclass.teacher import TeacherEquations

_LARGEST = 1e100
_LEAST_RIDGE, _LARGEST_RIDGE = 1e-10, 1e10


class ClusterState(NamedTuple):
    """The limit for Gaussian clusters; leading axes are those of n and penalty, C clusters, r = K - 1 contrasts."""

    response: np.ndarray
    """V_c (..., C, r, r): how far a training score moves with its own label's pull."""
    overlap: np.ndarray
    """M_c (..., C, r): the mean score of a cluster, in contrasts, without the bias."""
    norm: np.ndarray
    """Q_c (..., C, r, r) of the scores of a cluster."""
    bias: np.ndarray
    """b (..., r)."""
    test_error: np.ndarray
    class_errors: np.ndarray
    """The error among the fresh points of each class (..., K)."""
    training_error: np.ndarray
    """The share of training rows whose largest score is not their class's."""
    training_loss: np.ndarray
    """The mean softmax loss of a training row, without the penalty."""
    test_loss: np.ndarray
    stability: np.ndarray
    """The factor by which message passing shrinks E|change of a score|^2 per step where fields fluctuate; < 1."""
    overlap_stability: np.ndarray | None
    """The same factor of the slowest of the order parameters (V, M, Q, b); None unless it was asked for."""
    iterations: np.ndarray


def multiclass_clusters(
    means: ArrayLike,
    n: ArrayLike,
    penalty: ArrayLike,
    *,
    variances: ArrayLike | None = None,
    covariances: ArrayLike | None = None,
    cluster_classes: ArrayLike | None = None,
    cluster_probabilities: ArrayLike | None = None,
    fit_intercept: bool = False,
    with_overlap_stability: bool = False,
    max_iterations: int = 500,
) -> ClusterState:
    """The errors of softmax regression on n rows of Gaussian clusters x ~ N(mu_c, Sigma_c), with probability p_c.

        z_c = M_c + b + Q_c^(1/2) xi,   Vh_c = -n p_c E dg,  qh_c = n p_c E g g^T,  mh_c = n p_c E g
        A = (penalty I + sum_c Vh_c (x) Sigma_c)^-1,   V_c = tr_d Sigma_c A
        w = A sum_c mu_c (x) h_c,   h_c = mh_c + Vh_c (M_c + b - M_c' - b'),   M_c' = mu_c^T w
        sum_c h_c = 0 with `fit_intercept`
        Q_c = w^T Sigma_c w + tr_d Sigma_c A (sum_e qh_e (x) Sigma_e) A

    g, dg are those of `softmax_prox` at (z_c, V_c). The means and the bias are updated implicitly (primed = new): the
    plain iteration ends in a cycle for strong clusters. `means` is (C, d). One of `variances`, (d,) for all clusters or
    (C, d), and `covariances`, (d, d) or (C, d, d), says Sigma_c. `cluster_classes` (C,) is the class of each cluster, 0
    to K - 1, by default one class per cluster. n and penalty broadcast; penalty > 0, as without it separable data have
    no solution, and between 1e-10 and 1e10 times the trace of the covariance. `stability` is the largest eigenvalue of

        (T Y)_c = sum_e tr_d Sigma_c A (Sigma_e (x) n p_e E_e[dg Y_e dg^T]) A

    and message passing that knows the clusters (`training.message_passing.matrix_amp`) converges with the larger one of
    `stability` and `overlap_stability`, the squared spectral radius of the iteration above.

    Exact for n, d -> infinity at fixed n/d. Averages are product trapezoid rules for r <= 3 and 4096 Sobol points
    beyond, where `training_error` errs by 1e-3 (by 1e-5 for r = 3 with scores of order 1). Sources: Loureiro et al.
    2021; Cakmak, Lu & Opper 2024. Raises `ConvergenceError` with the residual.

    >>> means = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    >>> found = multiclass_clusters(means, n=[10, 40], penalty=1, variances=[0.5, 0.5, 0.5])
    >>> print(found.test_error.round(4), found.training_error.round(4))
    [0.331  0.2833] [0.1321 0.2181]
    """
    geometry = _geometry(means, variances, covariances)
    count = len(geometry.means)
    labels = _labels(cluster_classes, count)
    weights, with_bias = _probabilities(cluster_probabilities, count), check_flag("fit_intercept", fit_intercept)

    def problem(n: float, penalty: float) -> ClusterEquations:
        return ClusterEquations(geometry, labels, weights, n, penalty, with_bias)

    trace = float(geometry.traces().max())
    with_modes = check_flag("with_overlap_stability", with_overlap_stability)
    found = ClusterState(*_solved(problem, trace, n, penalty, with_modes, max_iterations))
    return found if with_modes else found._replace(overlap_stability=None)


class TeacherState(NamedTuple):
    """The limit for a softmax teacher; leading axes are those of n and penalty, r = K - 1 contrasts."""

    response: np.ndarray
    """V (..., r, r)."""
    overlap: np.ndarray
    """M = E[omega t^T] (..., r, r) of the student's scores and the teacher's fields, in contrasts."""
    norm: np.ndarray
    """Q (..., r, r) of the student's scores."""
    test_error: np.ndarray
    """How often the student's class is not the label that the teacher draws."""
    training_error: np.ndarray
    """The same for the training rows."""
    training_loss: np.ndarray
    test_loss: np.ndarray
    stability: np.ndarray
    """The factor by which message passing shrinks E|change of a score|^2 per step where fields fluctuate."""
    overlap_stability: np.ndarray | None
    """The same factor of the slowest of the order parameters (V, M, Q); None unless it was asked for."""
    iterations: np.ndarray


def multiclass_teacher(
    spectrum: ArrayLike,
    teacher_covariance: ArrayLike,
    n: ArrayLike,
    penalty: ArrayLike,
    *,
    with_overlap_stability: bool = False,
    max_iterations: int = 500,
) -> TeacherState:
    """The errors of softmax regression on n Gaussian rows x whose label is k with chance softmax_k(B t), t = T^T x.

        t | omega ~ N(M^T Q^-1 omega, R - M^T Q^-1 M),   Z_k = E softmax_k(B t),   dZ_k = its derivative in the mean
        Vh = -n E sum_k Z_k dg_k,   qh = n E sum_k Z_k g_k g_k^T,   mh = n E sum_k g_k dZ_k^T
        A_j = (penalty + s_j Vh)^-1,   V = sum_j s_j A_j,   M = sum_j s_j^2 A_j mh S0
        Q = sum_j s_j^2 A_j qh A_j + sum_j s_j^3 A_j mh S0 mh^T A_j

    `spectrum` holds the eigenvalues s_j of E[x x^T] and `teacher_covariance` is R = T^T E[x x^T] T (r, r) for K = r + 1
    classes; the rows of T are independent with covariance S0 = R / sum_j s_j. n and penalty > 0 broadcast. Message
    passing converges with the larger one of `stability` and `overlap_stability`: the second for spectra like 1/j. Exact
    for n, d -> infinity at fixed n/d if no eigenvalue is a share of the trace that stays. Averages are product rules
    for r <= 2 and 16384 Sobol points beyond. Source: Cakmak, Lu & Opper 2024. Raises `ConvergenceError` with the
    residual.

    >>> found = multiclass_teacher(spectrum=[0.1] * 10, teacher_covariance=[[4.0]], n=[20, 80], penalty=0.2)
    >>> print(found.test_error.round(4), found.training_error.round(4))
    [0.2812 0.2069] [0.0434 0.1347]
    """
    eigenvalues = check_array("spectrum", spectrum, low=0, high=_LARGEST, ndim=1)
    if not eigenvalues.any():
        raise InputError("spectrum must not be all 0")
    size = check_array("teacher_covariance", teacher_covariance, ndim=2).shape[0]
    teacher = _covariance("teacher_covariance", teacher_covariance, size)
    if np.linalg.eigvalsh(teacher)[0] <= 0:
        raise InputError("teacher_covariance must be positive definite, got a singular matrix")

    def problem(n: float, penalty: float) -> TeacherEquations:
        return TeacherEquations(eigenvalues, teacher, n, penalty)

    trace = float(eigenvalues.sum())
    with_modes = check_flag("with_overlap_stability", with_overlap_stability)
    found = TeacherState(*_solved(problem, trace, n, penalty, with_modes, max_iterations))
    return found if with_modes else found._replace(overlap_stability=None)


def _solved(
    problem: Callable[[float, float], ClusterEquations | TeacherEquations],
    trace: float,
    n: ArrayLike,
    penalty: ArrayLike,
    modes: bool,
    steps: int,
) -> list[np.ndarray]:
    """The outputs at each n and penalty, which broadcast; every solution is the start of the next."""
    n, penalty = check_array("n", n, low=1, high=1e100), check_array("penalty", penalty, above=0)
    shape = common_shape(n=n, penalty=penalty)
    least, most = _LEAST_RIDGE * trace, _LARGEST_RIDGE * trace
    if (wrong := (penalty < least) | (penalty > most)).any():
        raise InputError(
            f"penalty must be {least:g} to {most:g}, {_LEAST_RIDGE:g} to {_LARGEST_RIDGE:g} times the trace of the "
            f"covariance, got {penalty[wrong].flat[0]:g}"
        )
    check_whole("max_iterations", steps, 1)
    found: list[tuple[np.ndarray, ...]] = []
    start: Any = None
    for rows, strength in zip(*(a.ravel() for a in np.broadcast_arrays(n, penalty)), strict=True):
        run = problem(float(rows), float(strength))
        start, iterations = run.solve(start, steps)
        found.append(run.outputs(start, iterations, modes))
    fields = [np.stack(field) for field in zip(*found, strict=True)]
    return [field.reshape((*shape, *field.shape[1:]))[()] for field in fields]


def _covariance(name: str, value: ArrayLike, size: int) -> np.ndarray:
    matrix = check_symmetric(name, value, size)
    least = np.linalg.eigvalsh(matrix)[0]
    if least < -1e-10 * abs(np.trace(matrix)):
        raise InputError(f"{name} must be positive semi-definite, got the eigenvalue {least:g}")
    return (matrix + matrix.T) / 2


def _geometry(means: ArrayLike, variances: ArrayLike | None, covariances: ArrayLike | None) -> Diagonal | Full:
    centers = check_array("means", means, ndim=2, low=-_LARGEST, high=_LARGEST)
    count, d = centers.shape
    if (variances is None) == (covariances is None):
        raise InputError("exactly one of variances and covariances must be given, got both or none")
    if variances is not None:
        spread = check_array("variances", variances, low=0, high=_LARGEST)
        if spread.shape not in ((d,), (count, d)):
            raise InputError(f"variances must have shape ({d},) or ({count}, {d}) to fit means, got {spread.shape}")
        if not spread.any():
            raise InputError("variances must not all be 0")
        return Diagonal(np.broadcast_to(spread, (count, d)), centers)
    full = check_array("covariances", covariances, low=-_LARGEST, high=_LARGEST)
    if full.shape == (d, d):
        values, vectors = np.linalg.eigh(_covariance("covariances", full, d))
        return Diagonal(np.broadcast_to(np.maximum(values, 0.0), (count, d)), centers @ vectors)
    if full.shape != (count, d, d):
        raise InputError(
            f"covariances must have shape ({d}, {d}) or ({count}, {d}, {d}) to fit means, got {full.shape}"
        )
    return Full(np.stack([_covariance(f"covariances[{c}]", full[c], d) for c in range(count)]), centers)


def _labels(classes: ArrayLike | None, count: int) -> np.ndarray:
    labels = check_array("cluster_classes", np.arange(count) if classes is None else classes, low=0, whole=True, ndim=1)
    if len(labels) != count:
        raise InputError(f"cluster_classes must have one entry per row of means, {count}, got {len(labels)}")
    labels = labels.astype(int)
    top = int(labels.max())
    if top < 1:
        raise InputError("cluster_classes must name at least two classes, got only class 0")
    missing = sorted(set(range(top + 1)) - set(labels.tolist()))
    if missing:
        raise InputError(f"cluster_classes must be 0 to {top} with a cluster each, got none of class {missing[0]}")
    return labels


def _probabilities(probabilities: ArrayLike | None, count: int) -> np.ndarray:
    given = np.full(count, 1 / count) if probabilities is None else probabilities
    weights = check_array("cluster_probabilities", given, above=0, ndim=1)
    if len(weights) != count:
        raise InputError(f"cluster_probabilities must have one entry per row of means, {count}, got {len(weights)}")
    if abs(weights.sum() - 1) > 1e-9:
        raise InputError(f"cluster_probabilities must sum to 1, got {weights.sum():g}")
    return weights

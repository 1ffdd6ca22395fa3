"""State evolution of linear classifiers on Gaussian clusters: errors of convex fits without drawing data.

The estimator minimises sum_i loss(y_i, w.x_i + b) + (ridge/2) |w|^2, a SUM over the n samples; the bias b is not
penalised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.errors import InputError, check_array, check_choice, common_shape
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory._losses import LOSSES, loss_of
from unlazy.theory._se_clusters import Clusters, check_clusters
from unlazy.theory._se_fixed_point import fixed_points
from unlazy.theory._se_nodes import Nodes, plain_nodes, training_nodes

_FIRST_VARIANCE = 1e4
_FIRST_NORM = 1e-12
_TINY = 1e-290
_REACH = 9
_BIAS_STEPS = 200
_BIAS_TOLERANCE = 1e-13


class MixtureStateEvolution(NamedTuple):
    """Limits of the fit; arrays have the broadcast shape of n and ridge, the first three a last axis of clusters."""

    variance: np.ndarray
    """V_c."""
    mean: np.ndarray
    """M_c = mu_c.w, without the bias."""
    norm: np.ndarray
    """Q_c = w.Sigma_c.w, the variance of the score in cluster c."""
    bias: np.ndarray
    """b, 0 for a fit without bias."""
    test_error: np.ndarray
    """P(y (w.x + b) < 0) of a new sample."""
    test_loss: np.ndarray
    """Mean loss of a new sample."""
    train_error: np.ndarray
    """Share of wrong signs on the training samples."""
    train_loss: np.ndarray
    """Mean loss on the training samples, without the ridge term."""
    stability: np.ndarray
    """The factor by which message passing contracts, the largest eigenvalue of the clusters' matrix; below 1."""


class _Response(NamedTuple):
    """What the weights' distribution gives, for one or many cases."""

    variance: np.ndarray
    mean: np.ndarray
    norm: np.ndarray
    pairs: np.ndarray
    """tr(Sigma_c A Sigma_e A)."""


def mixture_state_evolution(
    means: ArrayLike,
    covariances: ArrayLike,
    probabilities: ArrayLike,
    labels: ArrayLike,
    n: ArrayLike,
    ridge: ArrayLike,
    *,
    loss: str = "logistic",
    bias: bool = True,
) -> MixtureStateEvolution:
    """Training and test error of a convex linear classifier on Gaussian clusters, without drawing data.

    Cluster c has mean mu_c (rows of `means`, (C, d)), covariance Sigma_c (`covariances`: a number s for s I, (C, d)
    diagonals, or (C, d, d)), probability p_c and label y_c = -1 or 1, which several clusters may share. With scores
    z_c = M_c + b + sqrt(Q_c) xi and g, dg of the loss at (y_c, z_c, V_c),

        Vh_c = -n p_c E dg,     qh_c = n p_c E g^2,     mh_c = n p_c E g,       sum_c mh_c = 0 (if there is a bias),
        A = (ridge + sum_c Vh_c Sigma_c)^-1,        w = A sum_c mu_c mh_c,
        V_c = tr(Sigma_c A),   M_c = mu_c.w,   Q_c = w.Sigma_c.w + tr(Sigma_c A (sum_e qh_e Sigma_e) A),
        stability = spectral radius of tr(Sigma_c A Sigma_e A) n p_e E_e dg^2.

    The iteration treats the means semi-implicitly, w = (A^-1 + sum_c Vh_c mu_c mu_c^T)^-1 sum_c mu_c (mh_c + Vh_c M_c):
    the plain one ends in two-cycles for well separated clusters. n and ridge broadcast. Means must be comparable with
    the noise of one coordinate: |mu| = 1 with Sigma = I/d is perfectly separable.

    Exact as n and d grow at a fixed ratio for Gaussian clusters; real data are not such clusters. A case that does not
    converge raises `ConvergenceError`; the hinge loss with bias does so where it has no proper solution, as weakly
    separated clusters of unequal size make it ignore the smaller one: w = 0, |b| = 1. Source: Loureiro, Sicuro,
    Gerbelot, Pacco, Krzakala & Zdeborova (2021), "Learning Gaussian mixtures with generalised linear models".
    """
    check_choice("loss", loss, LOSSES)
    clusters = check_clusters(means, covariances, probabilities, labels)
    n, ridge = check_array("n", n, low=1, high=1e100), check_array("ridge", ridge, low=0, high=1e100)
    if (ridge <= 0).any():
        raise InputError("ridge must be > 0 (separable data: no solution without it), got 0")
    shape = common_shape(n=n, ridge=ridge)
    n, ridge = (np.broadcast_to(array, shape).ravel() for array in (n, ridge))
    respond = _diagonal_response if clusters.covariances.ndim == 2 else _full_response
    count = len(clusters.labels)

    offset = np.zeros(n.size)

    def step(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        variance, mean, norm = _state(x)
        if bias:
            offset[rows] = _bias(loss, clusters, n[rows], variance, mean, norm, offset[rows])
        fields = _fields(loss, clusters, variance, mean, norm, offset[rows])
        hats = _hats(fields, clusters, n[rows])
        found = respond(clusters, ridge[rows], *hats, mean, bias)
        deviation = np.sqrt(np.maximum(found.norm, _TINY))
        return np.column_stack(
            [np.log(np.maximum(found.variance, _TINY)), found.mean / deviation, 2 * np.log(deviation)]
        )

    start = np.zeros((n.size, 3 * count))
    start[:, :count] = np.log(np.clip(clusters.traces / ridge[:, None], _TINY, _FIRST_VARIANCE))
    start[:, 2 * count :] = np.log(_FIRST_NORM)
    x = fixed_points(step, start, lambda row: f"n = {n[row]:g}, ridge = {ridge[row]:g}", depth=6)
    return _summary(loss, clusters, n, ridge, respond, _state(x), bias, offset, shape)


def _summary(
    loss: str,
    clusters: Clusters,
    n: np.ndarray,
    ridge: np.ndarray,
    respond: Callable[..., _Response],
    state: tuple[np.ndarray, np.ndarray, np.ndarray],
    bias: bool,
    offset: np.ndarray,
    shape: tuple[int, ...],
) -> MixtureStateEvolution:
    from scipy.special import ndtr

    variance, mean, norm = state
    if bias:
        offset = _bias(loss, clusters, n, *state, offset)
    fields = _fields(loss, clusters, *state, offset)
    pairs = respond(clusters, ridge, *_hats(fields, clusters, n), mean, bias).pairs
    of_loss, probabilities = loss_of(loss), clusters.probabilities
    slope_square, train_loss = (
        average.reshape(mean.shape) for average in fields.average(fields.decrease**2, of_loss.value(fields.margin))
    )
    stability = np.abs(np.linalg.eigvals(pairs * (n[:, None] * probabilities * slope_square)[:, None, :])).max(axis=1)
    location, deviation = clusters.labels * (mean + offset[:, None]), np.sqrt(norm)
    plain = plain_nodes(location.ravel(), deviation.ravel(), np.ones((location.size, 1)))
    test_loss = plain.average(of_loss.value(plain.field))[0].reshape(mean.shape)
    per_case = (
        offset,
        ndtr(-location / deviation) @ probabilities,
        test_loss @ probabilities,
        ndtr((-variance * of_loss.pull - location) / deviation) @ probabilities,
        train_loss @ probabilities,
        stability,
    )
    return MixtureStateEvolution(
        *(field.reshape(*shape, mean.shape[1]) for field in (variance, mean, norm)),
        *(field.reshape(shape)[()] for field in per_case),
    )


def _state(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    log_variance, scaled, log_norm = np.split(x, 3, axis=1)
    norm = np.exp(log_norm)
    return np.exp(log_variance), scaled * np.sqrt(norm), norm


def _bias(
    loss: str,
    clusters: Clusters,
    n: np.ndarray,
    variance: np.ndarray,
    mean: np.ndarray,
    norm: np.ndarray,
    start: np.ndarray,
) -> np.ndarray:
    """The root b of the decreasing function sum_c mh_c: Newton's method inside a bracket, else bisection."""
    odds = np.log(clusters.probabilities.max() / clusters.probabilities.min())
    reach = (np.abs(mean) + _REACH * np.sqrt(norm) + variance).max(axis=1) + odds + 2
    low, high = -reach, reach.copy()
    offset = np.clip(start, low, high)
    last = high - low
    active = np.arange(n.size)
    for _ in range(_BIAS_STEPS):
        b = offset[active]
        fields = _fields(loss, clusters, variance[active], mean[active], norm[active], b)
        precision, _, drive = _hats(fields, clusters, n[active])
        excess, slope = drive.sum(axis=1), precision.sum(axis=1)
        low[active] = np.where(excess >= 0, b, low[active])
        high[active] = np.where(excess <= 0, b, high[active])
        newton = excess / np.maximum(slope, _TINY)
        target = b + newton
        settled = np.abs(newton) <= _BIAS_TOLERANCE * (1 + np.abs(b))
        safe = (target >= low[active]) & (target <= high[active]) & (2 * np.abs(newton) <= last[active])
        target = np.where(settled | safe, target, (low[active] + high[active]) / 2)
        last[active] = np.abs(target - b)
        offset[active] = target
        narrow = high[active] - low[active] <= _BIAS_TOLERANCE * (1 + np.abs(b))
        active = active[~(settled | narrow)]
        if not active.size:
            return offset
    raise ConvergenceError(f"the bias did not settle in {_BIAS_STEPS} steps: its last step was {last[active[0]]:.3g}")


def _fields(
    loss: str,
    clusters: Clusters,
    variance: np.ndarray,
    mean: np.ndarray,
    norm: np.ndarray,
    offset: np.ndarray,
) -> Nodes:
    """Nodes in the margin y z, a row for each case and cluster."""
    location = (clusters.labels * (mean + offset[:, None])).ravel()
    return training_nodes(loss, variance.ravel(), location, np.sqrt(norm).ravel(), location[:, None])


def _hats(fields: Nodes, clusters: Clusters, n: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    averages = fields.average(fields.decrease, fields.slope**2, fields.slope)
    samples = n[:, None] * clusters.probabilities
    precision, noise, drive = (samples * average.reshape(samples.shape) for average in averages)
    return precision, noise, clusters.labels * drive


def _diagonal_response(
    clusters: Clusters,
    ridge: np.ndarray,
    precision: np.ndarray,
    noise: np.ndarray,
    drive: np.ndarray,
    mean: np.ndarray,
    bias: bool,
) -> _Response:
    means, variances = clusters.means, clusters.covariances
    resolvent = 1 / (ridge[:, None] + precision @ variances)
    gram = np.einsum("cj,pj,ej->pce", means, resolvent, means, optimize=True)
    damping = _damping(precision, bias)
    new = _implicit_mean(gram, damping, drive, mean)
    weights = resolvent * ((drive + np.einsum("pce,pe->pc", damping, mean - new)) @ means)
    norm = (weights**2 + resolvent**2 * (noise @ variances)) @ variances.T
    pairs = np.einsum("cj,pj,ej->pce", variances, resolvent**2, variances, optimize=True)
    return _Response(resolvent @ variances.T, new, norm, pairs)


def _full_response(
    clusters: Clusters,
    ridge: np.ndarray,
    precision: np.ndarray,
    noise: np.ndarray,
    drive: np.ndarray,
    mean: np.ndarray,
    bias: bool,
) -> _Response:
    means, covariances = clusters.means, clusters.covariances
    damping = _damping(precision, bias)
    found = []
    for case in range(len(ridge)):
        hessian = np.tensordot(precision[case], covariances, 1)
        hessian[np.diag_indices_from(hessian)] += ridge[case]
        resolvent = np.linalg.inv(hessian)
        new = _implicit_mean((means @ resolvent @ means.T)[None], damping[[case]], drive[[case]], mean[[case]])[0]
        weights = resolvent @ (means.T @ (drive[case] + damping[case] @ (mean[case] - new)))
        products = covariances @ resolvent
        pairs = np.einsum("cij,eji->ce", products, products, optimize=True)
        norm = np.einsum("i,cij,j->c", weights, covariances, weights, optimize=True) + pairs @ noise[case]
        found.append((np.einsum("cii->c", products), new, norm, pairs))
    return _Response(*(np.array(part) for part in zip(*found, strict=True)))


def _damping(precision: np.ndarray, bias: bool) -> np.ndarray:
    """D with sum of mh_c - (D (M_new - M_old))_c, to first order in M, the new force; a bias follows the means."""
    damping = precision[:, :, None] * np.eye(precision.shape[1])
    if bias:
        total = np.maximum(precision.sum(axis=1), _TINY)[:, None, None]
        damping = damping - precision[:, :, None] * precision[:, None, :] / total
    return damping


def _implicit_mean(gram: np.ndarray, damping: np.ndarray, drive: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """M of M = G (mh + D (M_old - M)), with G_ce = mu_c.A.mu_e."""
    system = np.eye(gram.shape[-1]) + gram @ damping
    return np.linalg.solve(system, gram @ (drive[:, :, None] + damping @ mean[:, :, None]))[:, :, 0]

"""The equations of state evolution on Gaussian clusters: one step from (V, M, Q) to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unlazy.numerics.roots import newton_root
from unlazy.theory.message_passing.state_evolution.clusters import GaussianClusters
from unlazy.theory.message_passing.state_evolution.nodes import FieldNodes, training_nodes

_TINY = 1e-290
_REACH = 9
_BIAS_TOLERANCE = 1e-13


class Response(NamedTuple):
    """What the weights' distribution gives, for one or many cases."""

    variance: np.ndarray
    mean: np.ndarray
    norm: np.ndarray
    pairs: np.ndarray
    """tr(Sigma_c A Sigma_e A)."""


def state_of(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """V, M and Q of the unknowns (log V, arsinh(M/sqrt(Q)), log Q), of order one for clusters however far apart."""
    log_variance, scaled, log_norm = np.split(x, 3, axis=1)
    norm = np.exp(log_norm)
    return np.exp(log_variance), np.sinh(scaled) * np.sqrt(norm), norm


def unknowns_of(variance: np.ndarray, mean: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """x of `state_of`."""
    variance, norm = np.maximum(variance, _TINY), np.maximum(norm, _TINY)
    return np.column_stack([np.log(variance), np.arcsinh(mean / np.sqrt(norm)), np.log(norm)])


def bias_of(
    loss: str,
    clusters: GaussianClusters,
    n: np.ndarray,
    variance: np.ndarray,
    mean: np.ndarray,
    norm: np.ndarray,
    start: np.ndarray,
) -> np.ndarray:
    """The root b of the decreasing function sum_c mh_c."""
    odds = np.log(clusters.probabilities.max() / clusters.probabilities.min())
    reach = (np.abs(mean) + _REACH * np.sqrt(norm) + variance).max(axis=1) + odds + 2

    def equation(b: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        fields = fields_of(loss, clusters, variance[rows], mean[rows], norm[rows], b)
        precision, _, drive = hats_of(fields, clusters, n[rows])
        return -drive.sum(axis=1), precision.sum(axis=1)

    return newton_root(equation, -reach, reach, np.clip(start, -reach, reach), _BIAS_TOLERANCE)


def fields_of(
    loss: str,
    clusters: GaussianClusters,
    variance: np.ndarray,
    mean: np.ndarray,
    norm: np.ndarray,
    offset: np.ndarray,
) -> FieldNodes:
    """Nodes in the margin y z, a row for each case and cluster."""
    location = (clusters.labels * (mean + offset[:, None])).ravel()
    return training_nodes(loss, variance.ravel(), location, np.sqrt(norm).ravel(), location[:, None])


def hats_of(fields: FieldNodes, clusters: GaussianClusters, n: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    averages = fields.average(fields.decrease, fields.slope**2, fields.slope)
    samples = n[:, None] * clusters.probabilities
    precision, noise, drive = (samples * average.reshape(samples.shape) for average in averages)
    return precision, noise, clusters.labels * drive


def response_of(clusters: GaussianClusters) -> Callable[..., Response]:
    """The response for covariances that are diagonal in one basis, or for any."""
    return _diagonal_response if clusters.covariances.ndim == 2 else _full_response


def _diagonal_response(
    clusters: GaussianClusters,
    penalty: np.ndarray,
    precision: np.ndarray,
    noise: np.ndarray,
    drive: np.ndarray,
    mean: np.ndarray,
    bias: bool,
) -> Response:
    means, variances = clusters.means, clusters.covariances
    resolvent = 1 / (penalty[:, None] + precision @ variances)
    gram = np.einsum("cj,pj,ej->pce", means, resolvent, means, optimize=True)
    damping = _damping(precision, bias)
    new = _implicit_mean(gram, damping, drive, mean)
    weights = resolvent * ((drive + np.einsum("pce,pe->pc", damping, mean - new)) @ means)
    norm = (weights**2 + resolvent**2 * (noise @ variances)) @ variances.T
    pairs = np.einsum("cj,pj,ej->pce", variances, resolvent**2, variances, optimize=True)
    return Response(resolvent @ variances.T, new, norm, pairs)


def _full_response(
    clusters: GaussianClusters,
    penalty: np.ndarray,
    precision: np.ndarray,
    noise: np.ndarray,
    drive: np.ndarray,
    mean: np.ndarray,
    bias: bool,
) -> Response:
    means, covariances = clusters.means, clusters.covariances
    damping = _damping(precision, bias)
    found = []
    for case in range(len(penalty)):
        hessian = np.tensordot(precision[case], covariances, 1)
        hessian[np.diag_indices_from(hessian)] += penalty[case]
        resolvent = np.linalg.inv(hessian)
        new = _implicit_mean((means @ resolvent @ means.T)[None], damping[[case]], drive[[case]], mean[[case]])[0]
        weights = resolvent @ (means.T @ (drive[case] + damping[case] @ (mean[case] - new)))
        products = covariances @ resolvent
        pairs = np.einsum("cij,eji->ce", products, products, optimize=True)
        norm = np.einsum("i,cij,j->c", weights, covariances, weights, optimize=True) + pairs @ noise[case]
        found.append((np.einsum("cii->c", products), new, norm, pairs))
    return Response(*(np.array(part) for part in zip(*found, strict=True)))


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

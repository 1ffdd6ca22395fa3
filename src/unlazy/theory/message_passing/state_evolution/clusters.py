"""The Gaussian clusters of state evolution, checked and rotated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_signs, check_symmetric

_COMMUTE = 1e-12


class GaussianClusters(NamedTuple):
    """Gaussian clusters, in a basis in which their covariances are diagonal where there is one."""

    means: np.ndarray
    covariances: np.ndarray
    """(C, d) where they are diagonal in one basis, else (C, d, d)."""
    probabilities: np.ndarray
    labels: np.ndarray

    @property
    def traces(self) -> np.ndarray:
        """tr Sigma_c."""
        return (self.covariances if self.covariances.ndim == 2 else np.einsum("cjj->cj", self.covariances)).sum(axis=1)

    def large_penalty(self, n: np.ndarray) -> np.ndarray:
        """Penalties at which responses are of order one and the mean scores of the clusters not far beyond it."""
        return self.traces.mean() + 0.1 * n * (self.probabilities @ (self.means**2).sum(axis=1))


def check_clusters(
    means: ArrayLike, covariances: ArrayLike, probabilities: ArrayLike, labels: ArrayLike
) -> GaussianClusters:
    """The clusters, or what is wrong with them."""
    centres = check_array("means", means, ndim=2, low=-1e100, high=1e100)
    count, d = centres.shape
    shares = check_array("cluster_probabilities", probabilities, ndim=1, above=0)
    signs = check_signs("cluster_labels", labels, ndim=1)
    for name, array in (("cluster_probabilities", shares), ("cluster_labels", signs)):
        if array.size != count:
            raise InputError(f"{name} must have one entry per cluster, {count}, got {array.size}")
    if abs(shares.sum() - 1) > 1e-9:
        raise InputError(f"cluster_probabilities must sum to 1, got {shares.sum():g}")
    if np.unique(signs).size < 2:
        raise InputError(f"cluster_labels must contain both -1 and 1, got only {signs[0]:g}")
    spread = check_array("covariances", covariances, low=-1e100, high=1e100)
    if spread.ndim == 0:
        spread = np.broadcast_to(spread, (count, d))
    if spread.shape not in ((count, d), (count, d, d)):
        raise InputError(
            f"covariances must be a number or have shape {(count, d)} or {(count, d, d)}, got {spread.shape}"
        )
    if spread.ndim == 3:
        centres, spread = _common_basis(centres, spread)
    diagonals = spread if spread.ndim == 2 else np.linalg.eigvalsh(spread)
    for c, diagonal in enumerate(diagonals):
        trace = np.abs(diagonal).sum()
        if diagonal.min() < -1e-10 * trace:
            raise InputError(f"covariances[{c}] must be positive semi-definite, got the eigenvalue {diagonal.min():g}")
        if trace == 0:
            raise InputError(f"covariances[{c}] must not be 0")
    return GaussianClusters(centres, np.maximum(spread, 0.0) if spread.ndim == 2 else spread, shares, signs)


def on_support(clusters: GaussianClusters) -> tuple[GaussianClusters, int, bool]:
    """The clusters in the directions in which some has variance, their number, and whether the means lie in them."""
    means, covariances = clusters.means, clusters.covariances
    if covariances.ndim == 2:
        kept = covariances.max(axis=0) > 0
        inside, spread = means[:, kept], covariances[:, kept]
    else:
        scales = np.abs(covariances).max(axis=(1, 2), keepdims=True)
        values, basis = np.linalg.eigh((covariances / scales).sum(axis=0))
        basis = basis[:, values > len(basis) * np.finfo(np.float64).eps * values.max()]
        inside, spread = means @ basis, basis.T @ covariances @ basis
    outside = np.linalg.norm(means) ** 2 - np.linalg.norm(inside) ** 2
    spanned = outside <= 1e-14 * np.linalg.norm(means) ** 2
    return clusters._replace(means=inside, covariances=spread), inside.shape[1], bool(spanned)


def _common_basis(centres: np.ndarray, covariances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and diagonals in the basis in which all covariances are diagonal, or both unchanged if there is none."""
    for c, matrix in enumerate(covariances):
        check_symmetric(f"covariances[{c}]", matrix)
    scales = np.abs(covariances).max(axis=(1, 2), keepdims=True)
    # different weights, so that eigenvalues which differ in some covariance differ in the sum
    weights = np.sqrt(np.arange(1, len(covariances) + 1))[:, None, None] / np.where(scales > 0, scales, 1.0)
    basis = np.linalg.eigh((weights * covariances).sum(axis=0))[1]
    rotated = basis.T @ covariances @ basis
    diagonals = np.einsum("cjj->cj", rotated)
    rest = np.abs(rotated - diagonals[:, :, None] * np.eye(len(basis))).max(axis=(1, 2))
    if (rest <= _COMMUTE * len(basis) * scales[:, 0, 0]).all():
        # what rounding leaves in the null space of a singular covariance is no variance
        rounding = len(basis) * np.finfo(np.float64).eps * scales[:, 0]
        return centres @ basis, np.where(np.abs(diagonals) <= rounding, 0.0, diagonals)
    return centres, covariances

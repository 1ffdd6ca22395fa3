"""What the state evolution of K classes needs of the clusters' means and covariances.

With A = (penalty I + sum_c Vh_c (x) Sigma_c)^-1 on r x d matrices: traces of A, its products with the means, and the
operator of the two-time covariance. Indices: c, e, f clusters; a, b, g, h contrasts; i, j coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unlazy.theory.message_passing.multiclass.prox import solve_positive


@dataclass(frozen=True)
class Diagonal:
    """Covariances that are diagonal in one basis: variances (C, d), means (C, d) in that basis."""

    variances: np.ndarray
    means: np.ndarray

    def traces(self) -> np.ndarray:
        return self.variances.sum(axis=1)

    def resolvent(self, penalty: float, curvature: np.ndarray) -> np.ndarray:
        """A as (r, r, d)."""
        r = curvature.shape[1]
        inner = np.einsum("cab,cj->abj", curvature, self.variances) + penalty * np.eye(r)[:, :, None]
        eye = np.repeat(np.eye(r)[:, :, None], inner.shape[2], axis=2)
        return solve_positive((inner + inner.swapaxes(0, 1)) / 2, eye)

    def response(self, a: np.ndarray) -> np.ndarray:
        """V_c = tr_d Sigma_c A: (C, r, r)."""
        return np.einsum("cj,abj->cab", self.variances, a)

    def gram(self, a: np.ndarray) -> np.ndarray:
        """mu_c^T A mu_e as (C, r, C, r)."""
        return np.einsum("ci,abi,ei->caeb", self.means, a, self.means)

    def spread(self, a: np.ndarray, force: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Q_c = w^T Sigma_c w + tr_d Sigma_c A (sum_e qh_e (x) Sigma_e) A with w = A sum_c mu_c (x) force_c."""
        w = np.einsum("abi,ci,cb->ai", a, self.means, force)
        drive = np.einsum("cab,cj->abj", noise, self.variances)
        inner = np.einsum("agj,ghj,hbj->abj", a, drive, a) + w[:, None] * w[None]
        return np.einsum("cj,abj->cab", self.variances, inner)

    def pairs(self, a: np.ndarray) -> np.ndarray:
        """tr_d Sigma_c A_ag Sigma_e A_hb as (C, r, r, C, r, r), in the order c a b e g h."""
        return np.einsum("cj,ej,agj,hbj->cabegh", self.variances, self.variances, a, a, optimize=True)


@dataclass(frozen=True)
class Full:
    """Covariances (C, d, d) without a common basis, means (C, d)."""

    covariances: np.ndarray
    means: np.ndarray

    def traces(self) -> np.ndarray:
        return np.trace(self.covariances, axis1=1, axis2=2)

    def resolvent(self, penalty: float, curvature: np.ndarray) -> np.ndarray:
        """A as (r, r, d, d)."""
        r, d = curvature.shape[1], self.covariances.shape[1]
        inner = np.einsum("cab,cij->aibj", curvature, self.covariances).reshape(r * d, r * d)
        inverse = np.linalg.inv((inner + inner.T) / 2 + penalty * np.eye(r * d))
        return inverse.reshape(r, d, r, d).transpose(0, 2, 1, 3)

    def response(self, a: np.ndarray) -> np.ndarray:
        return np.einsum("cij,abij->cab", self.covariances, a)

    def gram(self, a: np.ndarray) -> np.ndarray:
        return np.einsum("ci,abij,ej->caeb", self.means, a, self.means, optimize=True)

    def spread(self, a: np.ndarray, force: np.ndarray, noise: np.ndarray) -> np.ndarray:
        w = np.einsum("abij,cj,cb->ai", a, self.means, force, optimize=True)
        mean_part = np.einsum("ai,cij,bj->cab", w, self.covariances, w, optimize=True)
        return mean_part + np.einsum("cabegh,egh->cab", self.pairs(a), noise)

    def pairs(self, a: np.ndarray) -> np.ndarray:
        # (Sigma_c A_ag) and (Sigma_e A_hb) as matrices; the trace of their product is a sum over entries
        left = np.einsum("cij,agjk->cagik", self.covariances, a, optimize=True)
        clusters, r, d = len(left), a.shape[0], a.shape[2]
        flat = left.reshape(-1, d * d)
        crossed = flat @ left.swapaxes(-1, -2).reshape(-1, d * d).T
        return crossed.reshape(clusters, r, r, clusters, r, r).transpose(0, 1, 5, 3, 2, 4)

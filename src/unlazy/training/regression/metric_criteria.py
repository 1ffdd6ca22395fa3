"""What is known of a metric before and after new data: its risk and the criteria that estimate it.

The degrees of freedom have the weight 2 s2 of Mallows' Cp, s2 the noise variance, which criteria are given without.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.data.many_tasks import ManyTasks
from unlazy.theory.regression.metric import (
    degrees_of_freedom_criterion,
    degrees_of_freedom_criterion_infimum,
    mallows_cp,
)


class RidgeCriteria(NamedTuple):
    """Of ridge regression in one metric, averaged over tasks; every field has the shape of the ridges."""

    risk: np.ndarray
    """Excess risk at new inputs."""
    criterion: np.ndarray
    """R(W) - s2 of `degrees_of_freedom_criterion`."""
    in_sample_risk: np.ndarray
    """Excess risk at the training inputs."""
    mallows_cp: np.ndarray
    degrees_of_freedom: np.ndarray


class FreeCriteria(NamedTuple):
    """Excess risk and criterion less the noise where gradient flow on an unrestricted first layer ends."""

    risk: float
    criterion: float


def ridge_criteria(data: ManyTasks, metric: np.ndarray, ridges: ArrayLike) -> RidgeCriteria:
    """All ridges in one diagonal metric M from one decomposition: b_hat = M X^T a, a in the eigenbasis of X M X^T."""
    n, noise, ridges = len(data.design), data.noise_variance, np.array(ridges)
    weighted = data.design * metric
    kernel = weighted @ data.design.T
    eigenvalues, vectors = np.linalg.eigh(kernel)
    rotated, truth = vectors.T @ data.targets, data.design @ data.coefficients
    half = (vectors.T @ weighted) * np.sqrt(data.covariance)
    gram, overlap = half @ half.T, half @ (np.sqrt(data.covariance)[:, None] * data.coefficients)
    zero = data.excess_risk(np.zeros_like(data.coefficients))
    risk, in_sample = [], []
    for ridge in ridges:
        dual = rotated / (eigenvalues + n * ridge)[:, None]
        risk.append(zero + np.mean(np.sum(dual * (gram @ dual - 2 * overlap), axis=0)))
        in_sample.append(np.mean((truth - vectors @ (eigenvalues[:, None] * dual)) ** 2))
    found = degrees_of_freedom_criterion(kernel, data.targets, ridges, 2 * noise)
    cp = mallows_cp(kernel, data.targets, ridges, noise)
    return RidgeCriteria(np.array(risk), found.criterion - noise, np.array(in_sample), cp, found.degrees_of_freedom)


def free_criteria(data: ManyTasks) -> FreeCriteria:
    """The limit of gradient flow on the criterion from W = I, for a design of rank n.

    The infimum is a projection on the leading eigenvectors of Y Y^T; the flow interpolates what it leaves of Y.
    """
    weight = 2 * data.noise_variance
    eigenvalues, vectors = np.linalg.eigh(data.targets @ data.targets.T / data.targets.shape[1])
    kept = vectors[:, eigenvalues > weight]
    smoothed = kept @ (kept.T @ data.targets)
    fit = data.design.T @ np.linalg.solve(data.design @ data.design.T, smoothed)
    criterion = float(degrees_of_freedom_criterion_infimum(data.targets, weight)) - data.noise_variance
    return FreeCriteria(data.excess_risk(fit), criterion)

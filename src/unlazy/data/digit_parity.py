"""Odd against even 8 x 8 digits: the images, their moments, and Gaussian rows with the same moments."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np


class Digits(NamedTuple):
    """Centred pixels/16 that are not constant, and 1 for odd, -1 for even digits."""

    inputs: np.ndarray
    labels: np.ndarray
    class_means: np.ndarray
    """Of even and odd digits."""
    class_covariances: np.ndarray
    class_shares: np.ndarray

    @property
    def targets(self) -> np.ndarray:
        """The labels, centred."""
        return self.labels - self.labels.mean()


class ParityMoments(NamedTuple):
    """Covariance of the pixels, their covariance with the label, and its variance."""

    covariance: np.ndarray
    cross_moment: np.ndarray
    target_variance: float


@cache
def digits() -> Digits:
    from unlazy.data.real import load

    table = load("digit_classes")
    rows = table.inputs[:, np.ptp(table.inputs, axis=0) > 0] / 16
    rows = rows - rows.mean(axis=0)
    labels = np.where(table.targets.argmax(axis=1) % 2 == 1, 1.0, -1.0)
    parts = [rows[labels == sign] for sign in (-1, 1)]
    covariances = np.stack([np.cov(part.T, bias=True) for part in parts])
    shares = np.array([len(part) for part in parts]) / len(rows)
    return Digits(rows, labels, np.stack([part.mean(axis=0) for part in parts]), covariances, shares)


@cache
def digit_moments() -> ParityMoments:
    pool = digits()
    inputs, targets, n = pool.inputs, pool.targets, len(pool.inputs)
    return ParityMoments(inputs.T @ inputs / n, inputs.T @ targets / n, float(np.mean(targets**2)))


def gaussian_regression(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """n Gaussian rows and targets with the moments of the digits."""
    root, weights, noise = _gaussian_model()
    rows = rng.standard_normal((n, len(root))) @ root
    return rows, rows @ weights + noise * rng.standard_normal(n)


def gaussian_clusters(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """n rows of two Gaussian clusters with the moments of even and odd digits, and their labels."""
    pool, (even, odd) = digits(), _class_roots()
    cluster = (rng.random(n) < pool.class_shares[1]).astype(int)
    normal = rng.standard_normal((n, pool.inputs.shape[1]))
    rows = np.where(cluster[:, None] == 1, normal @ odd, normal @ even) + pool.class_means[cluster]
    return rows, 2.0 * cluster - 1


@cache
def _gaussian_model() -> tuple[np.ndarray, np.ndarray, float]:
    """R with R^T R the covariance, the best linear weights, and the deviation of the noise."""
    covariance, cross, square = digit_moments()
    weights = np.linalg.solve(covariance, cross)
    return np.linalg.cholesky(covariance).T, weights, float(np.sqrt(square - cross @ weights))


@cache
def _class_roots() -> list[np.ndarray]:
    """R with R^T R the covariance of each class."""
    found = [np.linalg.eigh(covariance) for covariance in digits().class_covariances]
    return [(vectors * np.sqrt(np.maximum(values, 0))).T for values, vectors in found]

"""The directions along which classes differ in their means, and how much of what was learned lies along them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError

# standard errors above which the held-out class means differ along a direction
_RESOLVED = 3.0


class ClassMeans(NamedTuple):
    """Held-out class means, and the directions along which they differ by more than their sampling noise."""

    unit: float
    """What the entries of X were divided by."""
    means: np.ndarray
    """(classes, d)"""
    deviations: np.ndarray
    """Held-out rows minus the mean of their class."""
    codes: np.ndarray
    counts: np.ndarray
    contrasts: np.ndarray
    """(classes, directions): weights of the class means, orthonormal and of sum 0."""
    energies: np.ndarray
    """|sum_c contrast_c mean_c|^2 without the sampling noise of the means, by direction."""

    @property
    def directions(self) -> int:
        return self.energies.size

    def share(self, rows: np.ndarray) -> float:
        """The share of |rows|^2 in the span of the population's class-mean differences; NaN if the rows are 0."""
        largest = np.abs(rows).max()
        if largest == 0:
            return np.nan
        rows = rows / largest
        along = rows @ self.means.T
        squares = np.sum((self.deviations @ rows.T) ** 2, axis=1)
        noise = np.bincount(self.codes, squares, self.counts.size) / (self.counts * (self.counts - 1))
        raw = np.sum((along @ self.contrasts) ** 2, axis=0)
        energy = (raw - (self.contrasts**2).T @ noise) / self.energies
        return float(np.clip(energy.sum() / np.sum(rows**2), 0.0, 1.0))


def class_means(rows: np.ndarray, codes: np.ndarray, classes: int) -> ClassMeans:
    """Estimate them; the noise of a mean is removed from its squares, which would else shrink every share."""
    unit = float(np.abs(rows).max()) or 1.0
    rows = rows / unit
    counts = np.bincount(codes, minlength=classes)
    means = np.stack([rows[codes == code].mean(axis=0) for code in range(classes)])
    deviations = rows - means[codes]
    traces = np.bincount(codes, np.sum(deviations**2, axis=1), classes) / (counts - 1)
    centre = np.eye(classes) - 1 / classes
    gram = centre @ (means @ means.T - np.diag(traces / counts)) @ centre
    energies, contrasts = np.linalg.eigh(gram)
    error = np.sqrt(2 * _squared_covariance(deviations, len(rows) - classes)) * ((contrasts**2).T @ (1 / counts))
    # rounding: the constant vector is an eigenvector of eigenvalue 0
    level = np.maximum(_RESOLVED * error, 1e-12 * np.abs(energies).max())
    kept = np.flatnonzero((energies > level) & (np.abs(contrasts.sum(axis=0)) < 1e-6))[::-1]
    if not kept.size:
        raise InputError(
            f"X_val must tell the classes apart by their means, got {len(rows)} rows whose class means differ by no "
            "more than their sampling noise: give more held-out rows"
        )
    return ClassMeans(unit, means, deviations, codes, counts, contrasts[:, kept], energies[kept])


def _squared_covariance(deviations: np.ndarray, freedom: int) -> float:
    """tr S^2 of the covariance S within classes, without the bias (tr S)^2 / freedom of its estimate."""
    small = deviations.T @ deviations if deviations.shape[1] < len(deviations) else deviations @ deviations.T
    trace = np.trace(small) / freedom
    squared = np.sum(small**2) / freedom**2
    unbiased = (squared - trace**2 / freedom) * freedom**2 / max((freedom - 1) * (freedom + 2), 1)
    return float(max(unbiased, trace**2 / deviations.shape[1]))

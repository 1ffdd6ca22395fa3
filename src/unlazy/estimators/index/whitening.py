"""Rows whose covariance is about the identity, and the way back from their directions to the columns of X."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.estimators.common.scaling import Scaled

# of an eigenvalue of the correlation matrix against the largest: less is rounding or a collinear column
_LEAST_EIGENVALUE = 1e-9
_ROWS_PER_COLUMN = 2


class Whitening(NamedTuple):
    """z = map^T s for standardised rows s; z has as many entries as the correlation matrix has rank."""

    map: np.ndarray
    """(d, rank)."""
    mean: np.ndarray
    """Of the columns of X."""
    log_scale: np.ndarray
    """log of their standard deviations, 0 for constant columns, whose rows of `map` are 0."""

    @property
    def rank(self) -> int:
        return self.map.shape[1]

    @property
    def scale(self) -> np.ndarray:
        return np.exp(self.log_scale)

    def unit_directions(self, directions: np.ndarray) -> np.ndarray:
        """Directions of z, (rank, k), as unit vectors in the space of X, (k, d)."""
        rows = (self.map @ directions).T
        with np.errstate(divide="ignore"):
            logs = np.log(np.abs(rows)) - self.log_scale
        largest = logs.max(axis=1, keepdims=True)
        units = np.sign(rows) * np.exp(logs - np.where(np.isfinite(largest), largest, 0.0))
        norms = np.linalg.norm(units, axis=1, keepdims=True)
        return units / np.where(norms > 0, norms, 1.0)


def whiten(scaled: Scaled) -> tuple[Whitening, np.ndarray]:
    """The whitening of standardised rows, and the rows z (n, rank).

    The correlation matrix is shrunk to the identity by Ledoit and Wolf (2004) with the weight

        min(1, sum_i |s_i s_i^T - S|^2 / (n^2 |S - (tr S / d) I|^2)),

    since the inverse root of a sample covariance amplifies noise when n is a few d. Eigenvectors on which the rows do
    not vary, those of constant and collinear columns, are left out.
    """
    rows = scaled.rows
    n = len(rows)
    varying = np.isfinite(scaled.log_deviation)
    covariance = rows.T @ rows / n
    average = np.trace(covariance) / max(int(varying.sum()), 1)
    total = float(np.sum(covariance**2))
    spread = total - average**2 * varying.sum()
    noise = (np.sum(np.einsum("ij,ij->i", rows, rows) ** 2) / n - total) / n
    weight = float(np.clip(noise / spread, 0.0, 1.0)) if spread > 0 else 1.0
    values, vectors = np.linalg.eigh(covariance)
    kept = values > _LEAST_EIGENVALUE * max(values[-1], np.finfo(float).tiny)
    values, vectors = values[kept], vectors[:, kept]
    vectors[~varying] = 0.0
    shrunk = (1 - weight) * values + weight * average
    found = Whitening(vectors / np.sqrt(shrunk), scaled.mean, np.where(varying, scaled.log_deviation, 0.0))
    return found, rows @ found.map


def check_enough_rows(n: int, rank: int) -> None:
    """Refuse rows from which no direction can be found."""
    if not rank:
        raise InputError("X must have a column that is not constant, got constant columns only")
    if n < _ROWS_PER_COLUMN * rank:
        raise InputError(
            f"X must have at least twice as many rows as independent columns, got n_samples = {n} with {rank} of "
            "them: use ridge regression or OneStepRegressor, or PCA to fewer columns first"
        )

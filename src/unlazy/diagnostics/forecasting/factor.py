"""Learning curves of ridge regression on many rows with few columns: their covariance in place of a kernel matrix.

With N centred rows Phi (N, p), p < N, the kernel matrix Phi Phi^T has the eigenvalues of Phi^T Phi and N - p zeros, of
which one belongs to the intercept, so that the curve of `learning_curve.spectral` and the leave-one-out errors of all
rows follow from one p x p decomposition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.diagnostics.curves import (
    Curve,
    forecast_deviation,
    forecast_interval,
    is_useful,
    is_vouched_for,
    upper_factor,
)
from unlazy.diagnostics.learning_curve.spectral import PoolSpectrum, spectral_curve
from unlazy.numerics.spectral_sums import Spectrum

_PENALTIES = 60
# as in `learning_curve.kernel`: the coefficient of variation of leverages where one effective penalty is not enough
_UNEVEN = 0.2


class _LeftOut(NamedTuple):
    """Of all rows at one effective penalty."""

    error: float
    ratio: float
    """To generalised cross-validation."""
    deviation: float
    """Of the error's logarithm."""
    unevenness: float
    tail: float
    """As in `learning_curve.rows`."""


class FactorCurve:
    """Rows `factor` (N, p) with targets (N, outputs) and an intercept; the rank is that of the centred columns."""

    def __init__(self, factor: np.ndarray, targets: np.ndarray):
        factor, targets = factor - factor.mean(axis=0), targets - targets.mean(axis=0)
        values, vectors = np.linalg.eigh(factor.T @ factor)
        kept = values > len(values) * np.finfo(np.float64).eps * values[-1]
        self._values = values[kept]
        self._rows = (factor @ vectors[:, kept]) / np.sqrt(self._values)
        self._targets = targets
        self._projections = self._rows.T @ targets
        energies = np.sum(self._projections**2, axis=1)
        scale = float(self._values[-1])
        self._spectrum = PoolSpectrum(
            len(factor) - 1,
            scale,
            Spectrum(self._values / scale, np.ones(self._values.size), energies, 0.0),
            max(float(np.sum(targets**2) - energies.sum()), 0.0),
        )

    def predict(self, n: np.ndarray, penalty: float) -> Curve:
        """Errors with n rows: the spectral curve times leave-one-out error over generalised cross-validation.

        Their deviation is that of the mean of the squared leave-one-out errors, at the pool for more rows than it has.
        """
        found = spectral_curve(self._spectrum, n, np.full(n.shape, penalty), np.full(n.shape, np.inf), intercept=True)
        rows = [self._left_out(kappa) for kappa in found.kappa]
        _, ratio, deviation, unevenness, tail = (np.array(column) for column in zip(*rows, strict=True))
        error = found.test_error * ratio
        size, more = len(self._targets), n > len(self._targets)
        at_pool, now = np.full((2, n.size), np.nan), self._left_out(penalty)
        at_pool[:, more] = np.array([[now.error], [now.deviation]])
        share = np.sum(self._values / (self._values + penalty)) / size
        deviation = np.where(more, forecast_deviation(now.deviation, share, np.maximum(n / size, 1)), deviation)
        above = upper_factor(np.where(more, now.tail, tail))
        reliable = ~(unevenness > _UNEVEN) & is_useful(deviation, above) & is_vouched_for(error, self._targets)
        interval = forecast_interval(error, deviation, above, at_pool[0], at_pool[1])
        return Curve(n, error, interval, np.isfinite(error), reliable)

    def penalty_path(self) -> tuple[np.ndarray, np.ndarray]:
        """Penalties and leave-one-out errors."""
        penalties = np.geomspace(1e-9 * self._values[-1], 10 * self._values.sum(), _PENALTIES)
        return penalties, np.array([self._left_out(penalty).error for penalty in penalties])

    def noise_variance(self, penalty: float) -> float:
        """SSE / (N - degrees of freedom)."""
        learned = self._values / (self._values + penalty)
        residuals = self._targets - self._rows @ (learned[:, None] * self._projections)
        return float(np.sum(residuals**2) / max(len(self._targets) - 1 - learned.sum(), 1.0))

    def _left_out(self, kappa: float) -> _LeftOut:
        learned = self._values / (self._values + kappa)
        unused = 1 - 1 / len(self._rows) - np.einsum("ij,j,ij->i", self._rows, learned, self._rows)
        residuals = self._targets - self._rows @ (learned[:, None] * self._projections)
        squares = np.sum(residuals**2, axis=1)
        errors = squares / np.maximum(unused, 1e-12) ** 2
        mean, uneven = float(errors.mean()), float(unused.std() / unused.mean())
        gcv = float(squares.mean() / unused.mean() ** 2)
        if not (mean > 0 and gcv > 0):
            return _LeftOut(mean, 1.0, 0.0, uneven, 1.0)
        spread = float(errors.std() / mean)
        return _LeftOut(mean, mean / gcv, spread / np.sqrt(len(errors)), uneven, 1 + spread**2)

"""Data in units in which numbers of any size are harmless."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError

_LARGEST_LOG = 350.0
_ROUNDING = 4 * np.finfo(np.float64).eps


class Scaled(NamedTuple):
    """Columns in units of their standard deviation, targets in units of theirs over all tasks; both centred."""

    rows: np.ndarray
    """In the precision in which a metric is learned."""
    exact_rows: np.ndarray
    """In double precision."""
    targets: np.ndarray
    mean: np.ndarray
    log_deviation: np.ndarray
    """log of each column's standard deviation; -inf for a constant column, whose rows are 0."""
    target_mean: np.ndarray
    log_target_deviation: float

    def weights(self, exponent: float, groups: np.ndarray | None = None) -> np.ndarray:
        """variance_j^exponent up to a factor, as a metric in the units of `rows`: times variance_j.

        Features of a group share the geometric mean of their variances in the first of these factors.
        """
        varying = np.isfinite(self.log_deviation)
        weights = np.zeros(len(self.mean))
        if not varying.any():
            return weights
        log_variance = 2 * self.log_deviation[varying]
        shared = log_variance
        if groups is not None:
            labels = groups[varying]
            shared = (np.bincount(labels, log_variance) / np.maximum(np.bincount(labels), 1))[labels]
        log_weight = log_variance + exponent * shared
        weights[varying] = np.exp(np.clip(log_weight - log_weight.max(), -600.0, 0.0))
        return weights

    def relative_deviations(self) -> np.ndarray:
        """Standard deviations relative to the largest."""
        return np.sqrt(self.weights(0.0))

    def original_coefficients(self, coefficients: np.ndarray) -> np.ndarray:
        """Coefficients (d, tasks) of the original X and y."""
        return self.in_units(coefficients, self.log_target_deviation - self._log_units()[:, None])

    def original_metric(self, metric: np.ndarray) -> np.ndarray:
        """The metric (d,) of the original X and y."""
        return self.in_units(metric, 2 * (self.log_target_deviation - self._log_units()))

    def _log_units(self) -> np.ndarray:
        return np.where(np.isfinite(self.log_deviation), self.log_deviation, 0.0)

    def in_units(self, values: np.ndarray, log_unit: np.ndarray | float) -> np.ndarray:
        """values exp(log_unit), or a refusal where that overflows."""
        with np.errstate(over="ignore", divide="ignore"):
            result = np.sign(values) * np.exp(np.log(np.abs(values)) + log_unit)
        if not np.isfinite(result).all():
            raise InputError("X and y must be of sizes whose ratio squared is a finite number; rescale one of them")
        return result


def scale_data(design: np.ndarray, targets: np.ndarray, dtype: str) -> Scaled:
    """Centre and scale X (n, d) and y (n, tasks); refuse targets that are all constant."""
    rows, mean, log_deviation = _standardise(design)
    largest = float(np.abs(targets).max())
    centred = targets / (largest or 1.0)
    target_mean = centred.mean(axis=0)
    centred = centred - target_mean
    deviation = float(np.sqrt(np.mean(centred**2)))
    if deviation <= _ROUNDING:
        raise InputError("y must have a target that is not constant, got constant targets only")
    log_target_deviation = float(np.log(deviation) + np.log(largest))
    if abs(log_target_deviation) > _LARGEST_LOG:
        raise InputError(f"y must have a variance that is a finite number > 0, got targets of size {largest:g}")
    return Scaled(
        rows.astype(dtype, copy=False),
        rows,
        centred / deviation,
        mean,
        log_deviation,
        target_mean * largest,
        log_target_deviation,
    )


def _standardise(design: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    largest = np.abs(design).max(axis=0)
    largest[largest == 0] = 1.0
    rows = design / largest
    mean = rows.mean(axis=0)
    rows -= mean
    deviation = np.sqrt(np.einsum("ij,ij->j", rows, rows) / len(rows))
    constant = deviation <= _ROUNDING
    rows[:, constant] = 0.0
    rows /= np.where(constant, 1.0, deviation)
    with np.errstate(divide="ignore"):
        log_deviation = np.where(constant, -np.inf, np.log(deviation) + np.log(largest))
    return rows, mean * largest, log_deviation

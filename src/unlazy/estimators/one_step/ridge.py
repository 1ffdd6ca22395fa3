"""Ridge regression on features [F, z], of which z is the same in all candidates."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np


class Readout(NamedTuple):
    """Predictions are F b + intercept."""

    coefficients: np.ndarray
    intercept: float


class LinearKernel:
    """The rows z that all features share, and their products."""

    def __init__(self, rows: np.ndarray):
        self.rows = rows

    @cached_property
    def products(self) -> np.ndarray:
        """z z^T, (n, n)."""
        return self.rows @ self.rows.T


class RidgeFold:
    """Ridge regression on the training rows of a fold with an intercept, (1/n) |y - F b|^2 + alpha |b|^2.

    One decomposition of the smaller Gram matrix gives the predictions of all ridges. Its rounding errors are far below
    the least ridge that the estimators allow.
    """

    def __init__(self, kernel: LinearKernel, labels: np.ndarray, train: np.ndarray, held: np.ndarray):
        self.kernel, self.train, self.held = kernel, train, held
        self.mean = labels[train].mean()
        self.labels = labels[train] - self.mean

    @cached_property
    def _rows(self) -> np.ndarray:
        rows = self.kernel.rows[self.train]
        return rows - rows.mean(axis=0)

    @cached_property
    def _gram(self) -> np.ndarray:
        return self._rows.T @ self._rows

    def predictions(self, features: np.ndarray, alphas: np.ndarray) -> np.ndarray:
        """Of the held-out rows for every ridge, (rows, alphas); `features` are F of all rows."""
        n = len(self.train)
        wide = n < features.shape[1] + self.kernel.rows.shape[1]
        matrix, projected, held = self._dual(features) if wide else self._primal(features)
        if not np.isfinite(matrix).all():
            return np.full((len(held), len(alphas)), np.inf)
        values, vectors = np.linalg.eigh(matrix / n)
        shrunk = (vectors.T @ projected / n)[:, None] / (np.maximum(values, 0.0)[:, None] + alphas)
        return self.mean + held @ (vectors @ shrunk)

    def _dual(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Products of the centred training rows, labels, products of held-out with training rows."""
        train = features[self.train]
        own = train @ train.T + self.kernel.products[np.ix_(self.train, self.train)]
        cross = features[self.held] @ train.T + self.kernel.products[np.ix_(self.held, self.train)]
        means = own.mean(axis=0)
        cross -= cross.mean(axis=1, keepdims=True) + means - means.mean()
        return own - means - means[:, None] + means.mean(), self.labels, cross

    def _primal(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Products of the centred columns, their products with the labels, and the held-out rows."""
        train = features[self.train]
        centre = train.mean(axis=0)
        train -= centre
        mixed = train.T @ self._rows
        matrix = np.block([[train.T @ train, mixed], [mixed.T, self._gram]])
        projected = np.concatenate([train.T @ self.labels, self._rows.T @ self.labels])
        shift = self.kernel.rows[self.train].mean(axis=0)
        held = np.hstack([features[self.held] - centre, self.kernel.rows[self.held] - shift])
        return matrix, projected, held


def left_out_errors(design: np.ndarray, labels: np.ndarray, alphas: np.ndarray) -> np.ndarray:
    """Mean squared error of every row predicted from all others, for every ridge of `read_out`."""
    n = len(design)
    left, values, _ = np.linalg.svd(design - design.mean(axis=0), full_matrices=False)
    shrinking = values[:, None] ** 2 / (values[:, None] ** 2 + n * alphas)
    centred = labels - labels.mean()
    residuals = centred[:, None] - left @ (shrinking * (left.T @ centred)[:, None])
    leverages = 1 / n + left**2 @ shrinking
    # a row that the fit follows exactly says nothing of the error without it
    free = np.where(leverages < 1 - 1e-10, 1 - leverages, np.nan)
    errors = np.mean((residuals / free) ** 2, axis=0)
    return np.where(np.isnan(errors), np.inf, errors)


def read_out(design: np.ndarray, labels: np.ndarray, alpha: float) -> Readout:
    """b and the intercept that minimise (1/n) |y - F b - intercept|^2 + alpha |b|^2."""
    n, width = design.shape
    centre, mean = design.mean(axis=0), float(labels.mean())
    centred = design - centre
    if n < width:
        dual = np.linalg.solve(centred @ centred.T / n + alpha * np.eye(n), (labels - mean) / n)
        coefficients = centred.T @ dual
    else:
        gram = centred.T @ centred / n
        coefficients = np.linalg.solve(gram + alpha * np.eye(width), centred.T @ (labels - mean) / n)
    return Readout(coefficients, float(mean - centre @ coefficients))

"""Ridge regression on features [F, z], of which z is the same in all candidates."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from unlazy.numerics.ridge import decompose, ridge_coefficients, ridge_path

_BLOCK_ROWS = 4000


class ReadOut(NamedTuple):
    """b and the intercept that minimise (1/n) |y - F b - intercept|^2 + ridge |b|^2."""

    coefficients: np.ndarray
    intercept: float
    ridge: float


class LinearKernel:
    """The rows z that all features share, and their products."""

    def __init__(self, rows: np.ndarray):
        self.rows = rows

    @cached_property
    def products(self) -> np.ndarray:
        """z z^T, (n, n)."""
        return self.rows @ self.rows.T


class RidgeFold:
    """Ridge regression on the training rows of a fold with an intercept, (1/n) |y - F b|^2 + ridge |b|^2.

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

    def predictions(self, features: np.ndarray, ridges: np.ndarray) -> np.ndarray:
        """Of the held-out rows for every ridge, (rows, ridges); `features` are F of all rows."""
        n = len(self.train)
        wide = n < features.shape[1] + self.kernel.rows.shape[1]
        matrix, projected, held = self._dual(features) if wide else self._primal(features)
        if not np.isfinite(matrix).all():
            return np.full((len(held), len(ridges)), np.inf)
        values, vectors = np.linalg.eigh(matrix / n)
        shrunk = (vectors.T @ projected / n)[:, None] / (np.maximum(values, 0.0)[:, None] + ridges)
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


def left_out_errors(design: np.ndarray, labels: np.ndarray, ridges: np.ndarray) -> np.ndarray:
    """Mean squared error of every row predicted from all others, for every ridge of `read_out`."""
    path = ridge_path(decompose(design - design.mean(axis=0)), labels - labels.mean(), ridges, centred=True)
    return np.mean(path.loo_residuals**2, axis=1)


def read_out(design: np.ndarray, labels: np.ndarray, ridge: float) -> ReadOut:
    centre, mean = design.mean(axis=0), float(labels.mean())
    coefficients = ridge_coefficients(design - centre, labels - mean, len(design) * ridge)
    return ReadOut(coefficients, float(mean - centre @ coefficients), ridge)


def read_out_many(
    features: Callable[[np.ndarray], np.ndarray], rows: np.ndarray, labels: np.ndarray, ridges: np.ndarray
) -> ReadOut:
    """`read_out` of the features of many rows, made in blocks, with the ridge of least generalised cross-validation."""
    n = len(rows)
    # near enough to the mean that nothing is lost where it is subtracted from the products
    near, mean = features(rows[:_BLOCK_ROWS]).mean(axis=0), float(labels.mean())
    gram, pull, total = np.zeros((near.size, near.size)), np.zeros(near.size), np.zeros(near.size)
    for first in range(0, n, _BLOCK_ROWS):
        block = slice(first, first + _BLOCK_ROWS)
        made = features(rows[block]) - near
        gram += made.T @ made
        pull += made.T @ (labels[block] - mean)
        total += made.sum(axis=0)
    gram -= np.outer(total, total) / n
    values, vectors = np.linalg.eigh(gram / n)
    values = np.maximum(values, 0.0)
    projected = vectors.T @ pull / n
    learned = values / (values + ridges[:, None])
    energies = projected**2 / np.maximum(values, np.finfo(np.float64).tiny)
    left = np.var(labels) - (learned * (2 - learned)) @ energies
    best = int(np.argmin(left / (1 - (1 + learned.sum(axis=1)) / n) ** 2))
    coefficients = vectors @ (projected / (values + ridges[best]))
    return ReadOut(coefficients, float(mean - (near + total / n) @ coefficients), float(ridges[best]))

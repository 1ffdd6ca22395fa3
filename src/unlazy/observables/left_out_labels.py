"""What a kernel says of the label of each row from the other rows alone: kernel ridge with exact leave-one-out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_symmetric
from unlazy.numerics.ridge import left_out_residuals
from unlazy.observables.feature_kernels import centred, feature_kernel
from unlazy.observables.margins import hits, margins

PENALTIES = np.logspace(-6, 2, 25)
"""Of which one is chosen, in units of the kernel's mean eigenvalue."""


class LeftOutLabels(NamedTuple):
    """Answers of kernel ridge for every row, fitted to the other rows."""

    scores: np.ndarray
    """(n, classes)"""
    margins: np.ndarray
    """Score of the given label less the largest other one: negative where the other rows speak against it."""
    error: float
    """The share of the rows whose label is not the answer."""
    squared_error: float
    """Per row, of the class indicators."""
    penalty: float


class ReadoutGain(NamedTuple):
    """What a readout gains if features are learned: shares of rows that a left-out fit answers wrongly."""

    initial_error: float
    final_error: float
    gain: float
    """initial_error - final_error"""
    deviation: float
    """Standard error of the gain, from the differences on single rows."""


def indicators(codes: np.ndarray, classes: int) -> np.ndarray:
    """(n, classes): 1 in the column of the row's class, else 0."""
    return (np.arange(classes) == np.asarray(codes)[:, None]).astype(np.float64)


def left_out_labels(kernel: ArrayLike, codes: ArrayLike, classes: int | None = None) -> LeftOutLabels:
    """Kernel ridge of the class indicators on a kernel (n, n) with an intercept, each row answered by the others.

        score_i = y_i - (G y)_i / (G_ii - 1/(n c)),     G = (H K H + c I)^-1,     H = I - 1/n,

    exact for every penalty c, of which the one with the least squared error is taken. `codes` are classes 0, 1, ....
    """
    matrix = check_symmetric("kernel", kernel)
    n = len(matrix)
    labels = check_array("codes", codes, low=0, whole=True).astype(int)
    if labels.shape != (n,) or n < 3:
        raise InputError(f"codes must be one class for each of at least 3 rows of the kernel, got {labels.shape}")
    count = int(labels.max()) + 1 if classes is None else classes
    targets = indicators(labels, count)
    spread = targets - targets.mean(axis=0)
    inner = centred(matrix)
    unit = np.trace(inner) / n
    if not unit > 0:
        raise InputError("kernel must tell some rows apart, got one that is constant")
    eigenvalues, vectors = np.linalg.eigh(inner / unit)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    found = left_out_residuals(eigenvalues, vectors, spread, PENALTIES, n)
    errors, best, penalty = np.inf, spread, np.nan
    for level, (residuals, _) in zip(PENALTIES, found, strict=True):
        squared = float(np.sum(residuals**2) / n)
        if squared < errors:
            errors, best, penalty = squared, residuals, level * unit
    scores = targets - best
    own = margins(scores, labels)
    return LeftOutLabels(scores, own, float(1 - hits(own).mean()), errors, penalty)


def fresh_readout_gain(initial: ArrayLike, final: ArrayLike, codes: ArrayLike) -> ReadoutGain:
    """How much less a fresh linear readout of the final features errs than one of the initial ones, on the same rows.

    Both are ridge with leave-one-out (`left_out_labels`) on features (n, ...). Use rows that were not trained on: in
    the features of training rows their labels have leaked, and even a left-out fit on them errs too little.
    """
    labels = np.asarray(codes)
    wrong = [1 - hits(left_out_labels(feature_kernel(part), labels).margins) for part in (initial, final)]
    gains = wrong[0] - wrong[1]
    return ReadoutGain(
        float(wrong[0].mean()),
        float(wrong[1].mean()),
        float(gains.mean()),
        float(gains.std(ddof=1) / np.sqrt(len(gains))),
    )

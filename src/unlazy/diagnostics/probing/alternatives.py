"""Other learners on the same rows as a network: ridge on kernels, linear or of its own features."""

from __future__ import annotations

import numpy as np

from unlazy.observables.left_out_labels import PENALTIES, indicators, left_out_labels
from unlazy.observables.margins import hits, margins

_GAMMAS = (1 / 16, 1 / 4, 1.0, 4.0)


def held_out_misses(kernel: np.ndarray, codes: np.ndarray, codes_val: np.ndarray) -> np.ndarray:
    """Whether kernel ridge fitted to n rows answers each held-out row wrongly, for a kernel (n, n + held out).

    The penalty for one half of the held-out rows is the one that does best on the other half: leave-one-out on the
    training rows would choose wrongly where their labels have leaked into the kernel.
    """
    n, classes = len(codes), int(max(codes.max(), codes_val.max())) + 1
    inner, outer = kernel[:, :n], kernel[:, n:]
    means = inner.mean(axis=1)
    inner = inner - means - means[:, None] + means.mean()
    outer = outer - means[:, None] - outer.mean(axis=0) + means.mean()
    targets = indicators(codes, classes)
    eigenvalues, vectors = np.linalg.eigh(inner)
    eigenvalues = np.maximum(eigenvalues, 0)
    unit = eigenvalues.sum() / n or 1.0
    projected, across = vectors.T @ (targets - targets.mean(axis=0)), outer.T @ vectors
    scores = np.stack(
        [targets.mean(axis=0) + across @ (projected / (eigenvalues + level * unit)[:, None]) for level in PENALTIES]
    )
    wrong = np.stack([1 - hits(margins(one, codes_val)) for one in scores])
    squared = np.sum((scores - indicators(codes_val, classes)) ** 2, axis=2)
    half = np.arange(len(codes_val)) % 2 == 0
    choice = [int(np.argmin(squared[:, part].mean(axis=1))) for part in (~half, half)]
    return np.where(half, wrong[choice[0]], wrong[choice[1]])


def linear_kernel(rows: np.ndarray, left: int) -> np.ndarray:
    """(left, n) inner products of flat rows."""
    flat = np.asarray(rows, np.float64).reshape(len(rows), -1)
    return flat[:left] @ flat.T / flat.shape[1]


def rbf_kernel(rows: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(left, n): an rbf kernel, of four length scales the one that predicts the left rows' labels best from others."""
    flat = np.asarray(rows, np.float64).reshape(len(rows), -1)
    left = len(codes)
    squares = np.sum(flat**2, axis=1)
    distances = np.maximum(squares[:left, None] + squares - 2 * flat[:left] @ flat.T, 0.0)
    unit = distances.mean() / 2 or 1.0
    found = [np.exp(-gamma * distances / unit) for gamma in _GAMMAS]
    return min(found, key=lambda one: left_out_labels(one[:, :left], codes).squared_error)

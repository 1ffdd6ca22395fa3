"""Kernel ridge regression on more rows than a matrix of all pairs allows: those of a fit stand for the others."""

from __future__ import annotations

import numpy as np

from unlazy.estimators.metric_machine.members import PENALTIES, Fit

_BLOCK = 4096
_JUDGED = 2000
_ROUNDING = 1e-10


def fit_all(found: Fit, rows: np.ndarray, targets: np.ndarray, random: np.random.RandomState) -> Fit:
    """The same machine fitted to all rows with functions of the kernel at the rows that it has (Nystroem).

    Normal equations are added up in blocks; their penalty has the least leave-one-out error on some of the rows.
    """
    eigenvalues, vectors = np.linalg.eigh(found.matrix(found.metric.rows))
    kept = eigenvalues > _ROUNDING * eigenvalues[-1]
    back = vectors[:, kept] / np.sqrt(eigenvalues[kept])
    m = len(back)
    gram, moments = np.zeros((m, m)), np.zeros((m, targets.shape[1]))
    for start in range(0, len(rows), _BLOCK):
        here = slice(start, start + _BLOCK)
        block = found.matrix(found.metric.placed(rows[here]))
        gram += block.T @ block
        moments += block.T @ targets[here]
    values, turned = np.linalg.eigh(back.T @ gram @ back)
    values, turned = np.maximum(values, 0.0), back @ turned
    projected = turned.T @ moments
    judged = random.permutation(len(rows))[:_JUDGED]
    features = found.matrix(found.metric.placed(rows[judged])) @ turned
    best: tuple[float, float, np.ndarray] | None = None
    for penalty in PENALTIES:
        inverse = 1 / (values + penalty)
        left_out = np.maximum(1 - features**2 @ inverse, np.finfo(np.float64).eps)
        residuals = (targets[judged] - features @ (inverse[:, None] * projected)) / left_out[:, None]
        loss = float(np.sum(residuals**2))
        if best is None or loss < best[0]:
            best = loss, float(penalty), residuals
    assert best is not None
    _, penalty, residuals = best
    return found._replace(penalty=penalty, dual=turned @ (projected / (values + penalty)[:, None]), residuals=residuals)

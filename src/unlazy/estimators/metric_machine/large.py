"""Kernel ridge regression on more rows than taught the metric: some of the rows stand for the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.estimators.metric_machine.rows import EncodedRows
from unlazy.training.one_step.metric_machine.members import Fit, downhill, fit_in

MOST_CENTRES = 3500
_WORK = 1.8e11
"""Rows times the square of the centres, beyond which there are fewer."""
_LEAST_CENTRES = 1000
_JUDGED = 1000
_ROUNDING = 1e-9


Sums = tuple[np.ndarray, np.ndarray]
"""Normal equations: upper half of the matrix, right-hand sides."""


class ProjectedFit(NamedTuple):
    coefficients: np.ndarray
    residuals: np.ndarray
    """Of the judged rows, left out."""


def fit_all(found: Fit, rows: EncodedRows, targets: np.ndarray, random: np.random.RandomState) -> Fit:
    """The same machine fitted to all rows.

    With all of them as centres where they are few. Else with the kernel's functions at some of the rows (Nystroem):
    normal equations are added up in blocks, and their penalty has the least leave-one-out error on some rows.
    """
    n = len(rows)
    count = int(np.clip(np.sqrt(_WORK / n), _LEAST_CENTRES, MOST_CENTRES))
    if n <= count:
        return fit_in(found.metric.at(rows.take(np.arange(n))), found.kernel, targets, found.penalty)
    machine = found._replace(metric=found.metric.at(rows.take(np.sort(random.permutation(n)[:count]))))
    return _projected(machine, rows, targets, np.sort(random.permutation(n)[:_JUDGED]))


def _projected(machine: Fit, rows: EncodedRows, targets: np.ndarray, judged: np.ndarray) -> Fit:
    from scipy.linalg import blas, cho_solve, lapack, solve_triangular

    inside = machine.matrix(machine.metric.rows)
    # K = R^T R in an order in which centres that others stand for come last, and go
    factor, order, rank, _ = lapack.dpstrf(inside, tol=_ROUNDING * inside.diagonal().max())
    root = np.asfortranarray(np.triu(factor[:rank, :rank]))
    machine = machine._replace(metric=machine.metric._replace(rows=machine.metric.rows[order[:rank] - 1]))

    def features_of(some: np.ndarray) -> np.ndarray:
        """k(z, centres) R^-1, turned"""
        return blas.dtrsm(1.0, root, machine.matrix(machine.metric.placed(some)).T, trans_a=1, overwrite_b=1)

    outputs = targets.shape[1]

    def zero() -> Sums:
        return np.zeros((rank, rank), order="F"), np.zeros((rank, outputs))

    def add(sums: Sums, some: np.ndarray, some_targets: np.ndarray) -> Sums:
        block = features_of(some)
        return blas.dsyrk(1.0, block, 1.0, sums[0], overwrite_c=1), sums[1] + block @ some_targets

    normal, projected = rows.total(add, zero, targets)
    normal = np.asfortranarray(normal)
    features = features_of(rows.take(judged))

    def solve(penalty: float) -> ProjectedFit | None:
        shifted = np.array(normal, order="F")
        shifted.ravel(order="K")[:: len(normal) + 1] += penalty
        factor, failed = lapack.dpotrf(shifted, overwrite_a=1)
        if failed:
            return None
        coefficients = cho_solve((factor, False), projected)
        leverages = np.sum(solve_triangular(factor, features, trans=1) ** 2, axis=0)
        left = np.maximum(1 - leverages, np.finfo(np.float64).eps)
        return ProjectedFit(coefficients, (targets[judged] - features.T @ coefficients) / left[:, None])

    found = downhill(solve, lambda one: float(np.sum(one.residuals**2)), machine.penalty)
    assert found is not None
    penalty, one = found
    return machine._replace(penalty=penalty, dual=solve_triangular(root, one.coefficients), residuals=one.residuals)

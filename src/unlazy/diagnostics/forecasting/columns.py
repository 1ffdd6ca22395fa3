"""Which columns would not be missed: errors of left-out rows without each column of the table.

The learner keeps its penalty and length scale. For ridge regression everything follows from one decomposition: with
P = (X^T X + c)^-1 and the columns S that are left out,

    (X^T X + c)^-1 without S  =  P - P_S (P_SS)^-1 P_S^T,

for kernel ridge regression from the kernel of the other columns. Errors are those of rows left out one by one; the
rise of their mean has the standard error of its differences, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.diagnostics.curves import QUANTILE

if TYPE_CHECKING:
    from unlazy.diagnostics.forecasting.method import Method
    from unlazy.diagnostics.table import LearningTable

# a rise below this share of the error is none to speak of
SMALL_RISE = 0.02
MISSED, NOT_MISSED, UNSURE = "missed", "not missed", "cannot be told"
_MOST_NUMBERS = 20_000_000


class ColumnLoss(NamedTuple):
    """What leaving out a column, or several, does to the error, in units of the target's variance."""

    columns: tuple[str, ...]
    rise: float
    low: float
    high: float
    """Of the 95% interval of the rise."""
    verdict: str
    """Missed: the rise is above 0; not missed: it is below 2% of the error; else it cannot be told."""


class WithoutColumns(NamedTuple):
    method: str
    rows: int
    """That were left out one by one."""
    error: float
    """With all columns."""
    alone: tuple[ColumnLoss, ...]
    """Of each column of the table, the largest rise first."""
    together: ColumnLoss | None
    """Of columns that are not missed even if they are left out at once: one after the other, the smallest rise first,
    as long as that holds. None if there is none."""


def without_columns(methods: Sequence[Method], table: LearningTable, targets: np.ndarray) -> WithoutColumns:
    """The answer of ridge or kernel ridge regression, whichever has the smaller error now."""
    from unlazy.diagnostics.forecasting.method import KERNEL, RIDGE

    known = [method for method in methods if method.name in (RIDGE, KERNEL) and method.penalty > 0]
    if not known:
        raise InputError("columns needs ridge or kernel-ridge with a penalty above 0 among the methods, got neither")
    found = [_of_method(method, table, targets) for method in known]
    return min(found, key=lambda one: one.error)


def _of_method(method: Method, table: LearningTable, targets: np.ndarray) -> WithoutColumns:
    from unlazy.diagnostics.forecasting.method import RIDGE
    from unlazy.diagnostics.learning_curve.pool import subsample

    sources = np.array(table.sources)
    if method.name == RIDGE:
        rows = subsample(len(table.inputs), max(_MOST_NUMBERS // table.inputs.shape[1], 1), 0)
        errors = _ridge(table.inputs[rows], targets[rows], method.penalty)
    else:
        rows = subsample(len(table.inputs), method.pool, 0)
        errors = _kernel(table.inputs[rows], targets[rows], method.penalty, float(method.gamma or 1.0))
    whole = errors(np.zeros(len(sources), dtype=bool))
    names = tuple(dict.fromkeys(table.sources))

    def loss(left_out: tuple[str, ...]) -> ColumnLoss:
        rises = errors(np.isin(sources, left_out)) - whole
        rise, spread = float(rises.mean()), QUANTILE * float(rises.std() / np.sqrt(len(rises)))
        low, high = rise - spread, rise + spread
        level = SMALL_RISE * float(whole.mean())
        verdict = NOT_MISSED if high < level else MISSED if low > 0 else UNSURE
        return ColumnLoss(left_out, rise, low, high, verdict)

    alone = sorted((loss((name,)) for name in names), key=lambda one: -one.rise) if len(names) > 1 else []
    together: ColumnLoss | None = None
    for one in reversed(alone):
        if one.verdict == NOT_MISSED and (together is None or len(together.columns) < len(names) - 1):
            joint = one if together is None else loss((*together.columns, *one.columns))
            together = joint if joint.verdict == NOT_MISSED else together
    return WithoutColumns(method.name, len(rows), float(whole.mean()), tuple(alone), together)


def _ridge(inputs: np.ndarray, targets: np.ndarray, penalty: float) -> Callable[[np.ndarray], np.ndarray]:
    """Squared errors of rows left out, as a function of which columns are left out."""
    n = len(inputs)
    rows, labels = inputs - inputs.mean(axis=0), targets - targets.mean(axis=0)
    inverse = np.linalg.inv(rows.T @ rows + penalty * np.eye(rows.shape[1]))
    mapped = rows @ inverse
    coefficients = inverse @ (rows.T @ labels)
    fitted, used = rows @ coefficients, np.einsum("ij,ij->i", mapped, rows)

    def errors(out: np.ndarray) -> np.ndarray:
        inner = np.linalg.inv(inverse[np.ix_(out, out)])
        part = mapped[:, out] @ inner
        residuals = labels - fitted + part @ coefficients[out]
        unused = 1 - 1 / n - used + np.einsum("ij,ij->i", part, mapped[:, out])
        return np.sum(residuals**2, axis=1) / np.maximum(unused, 1e-12) ** 2

    return errors


def _kernel(
    inputs: np.ndarray, targets: np.ndarray, penalty: float, gamma: float
) -> Callable[[np.ndarray], np.ndarray]:
    """The same for the rbf kernel."""
    from sklearn.metrics.pairwise import rbf_kernel
    from sklearn.preprocessing import KernelCenterer

    n, labels = len(inputs), targets - targets.mean(axis=0)

    def errors(out: np.ndarray) -> np.ndarray:
        if out.all():
            return np.sum((labels * n / (n - 1)) ** 2, axis=1)
        kernel = KernelCenterer().fit_transform(rbf_kernel(inputs[:, ~out], gamma=gamma))
        inverse = np.linalg.inv(kernel + penalty * np.eye(n))
        unused = penalty * np.diagonal(inverse) - 1 / n
        return np.sum((penalty * inverse @ labels) ** 2, axis=1) / np.maximum(unused, 1e-12) ** 2

    return errors


def as_json(found: WithoutColumns) -> dict[str, Any]:
    return {
        "method": found.method,
        "rows_used": found.rows,
        "test_error": found.error,
        "alone": [_loss_json(one) for one in found.alone],
        "together": None if found.together is None else _loss_json(found.together),
    }


def _loss_json(one: ColumnLoss) -> dict[str, Any]:
    return {**one._asdict(), "columns": list(one.columns)}

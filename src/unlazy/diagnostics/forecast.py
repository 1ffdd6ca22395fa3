"""What more rows of a user's table would bring: `LearningCurve` on a file, told in a sentence and a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.diagnostics.learning_curve import LearningCurve
from unlazy.diagnostics.table import Table, prepare, read_table
from unlazy.errors import InputError, check_array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = "0.25x,0.5x,1x,2x,5x,10x"


@dataclass(frozen=True)
class Forecast:
    """Errors of kernel ridge regression on a table, with fewer and with more rows than it has."""

    table: Table
    targets: tuple[str, ...]
    curve: LearningCurve
    prediction: Any
    """A `CurvePrediction` at the sizes asked for, in units of the variance of the target (its mean over several)."""

    @property
    def rows(self) -> int:
        return len(self.table.inputs)

    def sentence(self) -> str:
        """The forecast for twice the rows."""
        now, twice = (self.curve.predict(n=factor * self.rows) for factor in (1, 2))
        if not twice.in_range:
            return (
                "twice the rows are too far beyond these for a forecast at this ridge; a larger --ridge may reach them"
            )
        fall = "fall" if twice.error < now.error else "stay, or rise,"
        low, high = twice.interval
        doubt = "" if twice.reliable else "; these rows are uneven, take it with caution"
        return (
            f"with twice the rows the error should {fall} from {now.error:.3f} to {twice.error:.3f} "
            f"({low:.3f}-{high:.3f}) of the target's variance{doubt}"
        )

    def as_json(self) -> dict[str, Any]:
        found = self.prediction
        return {
            "rows": self.rows,
            "columns": list(self.table.columns),
            "targets": list(self.targets),
            "notes": list(self.table.notes),
            "kernel": self.curve.kernel,
            "ridge": self.curve.ridge,
            "sentence": self.sentence(),
            "sizes": found.n,
            "error": found.error,
            "low": found.interval.low,
            "high": found.interval.high,
            "r2": found.r2,
            "in_range": found.in_range,
            "reliable": found.reliable,
        }

    def __str__(self) -> str:
        found = self.prediction
        names = ", ".join(self.targets)
        lines = [f"note: {note}" for note in self.table.notes]
        lines.append(
            f"{self.rows} rows, {self.table.inputs.shape[1]} inputs, target {names}; {self.curve.kernel} kernel, "
            f"ridge {self.curve.ridge:.3g}"
        )
        lines += ["", self.sentence(), "", f"{'rows':>9}  {'error':>6}  {'95% interval':>13}  {'R2':>6}"]
        for n, error, low, high, r2, in_range, reliable in zip(
            found.n, found.error, *found.interval, found.r2, found.in_range, found.reliable, strict=True
        ):
            if in_range:
                doubt = "" if reliable else "  uneven rows: take it with caution"
                lines.append(f"{n:>9.0f}  {error:>6.3f}  {f'{low:.3f}-{high:.3f}':>13}  {r2:>6.3f}{doubt}")
            else:
                lines.append(f"{n:>9.0f}  out of range at this ridge")
        return "\n".join(lines)

    def figure(self) -> Figure:
        """The curve, the errors against the ridge, and how the target lies in the kernel's eigenbasis."""
        return self.curve.plot()


def forecast(
    data: str | os.PathLike,
    target: str | Sequence[str],
    *,
    kernel: str = "rbf",
    ridge: float | None = None,
    sizes: str | Sequence[float] = SIZES,
) -> Forecast:
    """Forecast the error of kernel ridge regression on the table in a CSV or Parquet file.

    Targets are scaled to variance 1, so that an error of 0.3 is 30% of what the mean leaves unexplained. `ridge` is
    that of least leave-one-out error unless given. `sizes` are numbers of rows, or multiples like "2x" of the file's.
    """
    names = (target,) if isinstance(target, str) else tuple(target)
    table = prepare(read_table(data), names)
    wanted = _sizes(sizes, len(table.inputs))
    scaled = table.targets / table.targets.std(axis=0) / np.sqrt(len(names))
    curve = LearningCurve(kernel, ridge=1.0 if ridge is None else ridge).fit(table.inputs, scaled)
    if ridge is None:
        curve.set_params(ridge=curve.best_ridge().ridge)
    return Forecast(table, names, curve, curve.predict(n=wanted))


def _sizes(sizes: str | Sequence[float], rows: int) -> np.ndarray:
    words = sizes.split(",") if isinstance(sizes, str) else [str(size) for size in sizes]
    numbers = []
    for word in (word.strip() for word in words):
        try:
            numbers.append(float(word[:-1]) * rows if word.endswith("x") else float(word))
        except ValueError:
            raise InputError(f"sizes must be numbers of rows or multiples like 2x, got {word!r}") from None
    return np.unique(np.maximum(np.round(check_array("sizes", numbers, above=0, ndim=1)), 2))

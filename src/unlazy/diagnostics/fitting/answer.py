"""Fit a column of a table by the method that predicts it best, and say what was found."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError, check_array, check_choice, check_whole
from unlazy.diagnostics.fitting import pages
from unlazy.diagnostics.fitting.candidates import CLASSES, CONSTANT, LINEAR, NUMBERS, candidates
from unlazy.diagnostics.fitting.contest import Contest, HeldOutResult, contest, row_losses
from unlazy.diagnostics.fitting.repeats import equal_rows, held_together
from unlazy.diagnostics.fitting.target import class_target, kind_of, number_target
from unlazy.diagnostics.table import check_names, check_target_names, input_encoder, read_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_FEWEST_ROWS = 30
_FEWEST_OF_CLASS = 6
_SHUFFLED_ROWS, _SHUFFLES = 500, 3
_LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True)
class ExplainedShare:
    """A share of what the constant prediction misses, of squared error or log loss, with its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class FittedTable:
    """The chosen model, fitted to all rows, and how each method did on rows that it had not seen.

    `scores` are R^2 of numbers, and the like share of the log loss for classes: 1 is perfect, 0 is no better than a
    constant. `score` is that of the choice itself: of each held-out row by the method that the other half of the
    held-out rows would have chosen, which no choice can flatter. `importances` are the losses of score when one column
    of held-out rows is shuffled.
    """

    target: str
    kind: str
    n: int
    model: Any
    chosen: str
    score: ExplainedShare
    gain: ExplainedShare | None
    """By how much `score` exceeds that of a linear model on the same rows; None where a simple model is chosen."""
    as_good: tuple[str, ...]
    """Other methods whose losses on the same rows are not clearly higher than those of the chosen one."""
    scores: dict[str, ExplainedShare]
    errors: dict[str, float]
    """Root mean squared errors, or shares of wrong classes."""
    seconds: dict[str, float]
    skipped: dict[str, str]
    importances: dict[str, ExplainedShare]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        return pages.text(self)

    def figure(self) -> Figure:
        """Scores of the methods, and what the chosen one needs."""
        return pages.figure_of(self)

    def save(self, file: str | os.PathLike) -> None:
        """Write all of it as a page (.html) that needs no network."""
        pages.save(self, file)

    def as_json(self) -> dict[str, Any]:
        """Everything but the model."""
        return pages.as_json(self)


def fit(
    table: pd.DataFrame | str | os.PathLike,
    target: str,
    *,
    kind: str | None = None,
    budget: float = 300.0,
    random_state: int = 0,
    progress: Callable[[str], None] | None = None,
) -> FittedTable:
    """Which method predicts the column `target` best, and a model of it fitted to all rows.

    Linear models, boosted trees and the project's estimators are compared on held-out rows: three folds of up to 2000
    rows, one quarter (at most 10,000) of more. A linear model is kept unless another is better by a standard error.
    Rows with equal inputs are held out together and judged once; classes are predicted with the target's own values.

    Parameters
    ----------
    table : DataFrame, or the path of a CSV, TSV or Parquet file; text, dates and gaps as they are
    kind : "numbers" or "classes"; by default classes are texts, switches, and up to 10 different whole numbers
    budget : seconds; a method that will not be done in them is left out or broken off, and a note says so
    progress : called with a line before each method
    """
    frame: Any = table if hasattr(table, "columns") else read_table(table)
    check_array("budget", budget, low=0, ndim=0)
    if kind is not None:
        check_choice("kind", kind, (NUMBERS, CLASSES))
    check_whole("random_state", random_state, 0, _LARGEST_SEED)
    names = [str(name) for name in frame.columns]
    check_names(names)
    check_target_names([target], names)
    frame = frame.set_axis(names, axis=1)
    notes = list(frame.attrs.get("notes", ()))
    known = frame[target].notna()
    if not known.all():
        notes.append(f"{int((~known).sum())} rows without a target are left out")
    frame = frame[known].reset_index(drop=True)
    if len(frame) < _FEWEST_ROWS:
        raise InputError(f"the table must have at least {_FEWEST_ROWS} rows with a target, got {len(frame)}")
    kind = kind or kind_of(frame[target], target)
    if kind == CLASSES:
        values = class_target(frame[target], target, not known.all(), notes)
    else:
        values = number_target(frame[target], target)
    if len(np.unique(values)) < 2:
        raise InputError(f"target column {target!r} is constant: {values[0].item()!r:.40} in every row")
    inputs = frame.drop(columns=[target])
    encoder = input_encoder(inputs)
    same = equal_rows(encoder.transform(inputs))
    if kind == CLASSES:
        kept = _common(values, same, target, notes)
        values, inputs, same = values[kept], inputs[kept].reset_index(drop=True), same[kept]
    same, repeats = held_together(same, values, _FEWEST_OF_CLASS if kind == CLASSES else 0)
    notes += [*encoder.notes(), *repeats]
    said = progress or (lambda _: None)
    tried = candidates(kind, len(np.unique(values)), random_state)
    found = contest(tried, inputs, values, same, kind, budget, random_state, said)
    said(f"{found.chosen}: all rows")
    best = next(one for one in found.results if one.candidate.name == found.chosen)
    base = found.results[0].losses
    return FittedTable(
        target=target,
        kind=kind,
        n=len(values),
        model=best.candidate.build().fit(inputs, values),
        chosen=found.chosen,
        score=_score(found.choice_losses, base),
        gain=_gain(found, base),
        as_good=tuple(one.candidate.name for one in found.results if one is not best and _as_good(one, best)),
        scores={one.candidate.name: _score(one.losses, base) for one in found.results},
        errors={
            one.candidate.name: float(np.mean(one.wrong) if kind == CLASSES else np.sqrt(np.mean(one.losses)))
            for one in found.results
        },
        seconds={one.candidate.name: one.seconds for one in found.results},
        skipped=found.skipped,
        importances=_importances(found, inputs, values, kind, random_state),
        notes=tuple(notes),
    )


def _common(values: np.ndarray, same: np.ndarray, name: str, notes: list[str]) -> np.ndarray:
    """Whether each row is of a class with enough different inputs to be in every fold."""
    levels, places = np.unique(values, return_inverse=True)
    pairs = np.unique(np.column_stack([places, same]), axis=0)
    enough = np.bincount(pairs[:, 0], minlength=len(levels)) >= _FEWEST_OF_CLASS
    kept = enough[places]
    if kept.sum() < _FEWEST_ROWS or enough.sum() < 2:
        raise InputError(
            f"target column {name!r} must have at least {_FEWEST_ROWS} rows in at least 2 classes of at least "
            f"{_FEWEST_OF_CLASS} different rows, got {kept.sum()} rows in {enough.sum()} such classes, of "
            f"{len(levels)} classes such as {values[0].item()!r:.40}"
        )
    if not enough.all():
        few = ", ".join(map(repr, levels[~enough][:5].tolist()))
        notes.append(f"rows of classes with fewer than {_FEWEST_OF_CLASS} different rows are left out: {few}")
    return kept


def _score(losses: np.ndarray, base: np.ndarray) -> ExplainedShare:
    """1 - sum losses / sum base; the interval is that of a ratio of means."""
    unit = base.mean()
    value = 1 - losses.mean() / unit
    spread = 1.96 * np.std(losses - (1 - value) * base, ddof=1) / unit / np.sqrt(len(base))
    return ExplainedShare(float(value), float(value - spread), float(value + spread))


def _gain(found: Contest, base: np.ndarray) -> ExplainedShare | None:
    linear = next((one.losses for one in found.results if one.candidate.name == LINEAR), None)
    if linear is None or found.chosen in (CONSTANT, LINEAR):
        return None
    return _mean((linear - found.choice_losses) / base.mean())


def _as_good(one: HeldOutResult, best: HeldOutResult) -> bool:
    return _mean(one.losses - best.losses).low <= 0


def _mean(values: np.ndarray) -> ExplainedShare:
    mean, spread = float(values.mean()), 1.96 * float(values.std(ddof=1)) / np.sqrt(len(values))
    return ExplainedShare(mean, float(mean - spread), float(mean + spread))


def _importances(
    found: Contest, inputs: Any, target: np.ndarray, kind: str, random_state: int
) -> dict[str, ExplainedShare]:
    """By how much the score falls when a column is shuffled among held-out rows, with the interval over rows."""
    import pandas as pd

    best = next(one for one in found.results if one.candidate.name == found.chosen)
    random = np.random.default_rng(random_state)
    rows = found.last_fold[random.permutation(len(found.last_fold))[:_SHUFFLED_ROWS]]
    here, truth = inputs.iloc[rows].reset_index(drop=True), target[rows]
    base = found.results[0].losses.mean()

    before, importances = row_losses(best.model, here, truth, kind), {}
    for name in here.columns:
        # all shuffles in one call: encoding a row costs less than encoding a table
        shuffled = pd.concat([here] * _SHUFFLES, ignore_index=True)
        orders = np.concatenate([random.permutation(len(here)) for _ in range(_SHUFFLES)])
        shuffled[name] = here[name].to_numpy()[orders]
        after = row_losses(best.model, shuffled, np.tile(truth, _SHUFFLES), kind).reshape(_SHUFFLES, -1)
        importances[str(name)] = _mean((after.mean(axis=0) - before) / base)
    return dict(sorted(importances.items(), key=lambda pair: -pair[1].value))

"""An honest comparison: every method is judged on rows that it has not seen, and so is the choice between them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from unlazy.diagnostics.fitting.candidates import CLASSES, CONSTANT, LINEAR, NUMBERS, Contender
from unlazy.diagnostics.fitting.repeats import judged_rows, with_copies
from unlazy.diagnostics.fitting.time_limit import OutOfTimeError, time_limit
from unlazy.estimators.common.gate import is_gain

_MOST_FOR_FOLDS, _FOLDS = 2000, 3
_HELD_OUT, _MOST_HELD_OUT = 0.25, 10_000
_LEAST_SHARE = 1e-6


class HeldOutResult(NamedTuple):
    """One method on held-out rows."""

    candidate: Contender
    losses: np.ndarray
    """(held-out rows,): squared errors, or log losses of classes."""
    wrong: np.ndarray
    """Whether the class was wrong; empty for numbers."""
    seconds: float
    model: Any
    """As fitted without the rows of the last fold."""


class Contest(NamedTuple):
    results: list[HeldOutResult]
    skipped: dict[str, str]
    """Which methods gave no result, and why."""
    held: np.ndarray
    """The rows that were held out, in the order of the losses."""
    last_fold: np.ndarray
    """Those that `model` has not seen."""
    chosen: str
    choice_losses: np.ndarray
    """Of each row by the method that the other half of the held-out rows would have chosen."""


def contest(
    tried: Sequence[Contender],
    inputs: Any,
    target: np.ndarray,
    same: np.ndarray,
    kind: str,
    budget: float,
    random_state: int,
    progress: Callable[[str], None],
) -> Contest:
    """Try one method after the other within the seconds of the budget; the first two are always tried.

    Rows that share a number of `same` are held out together, and the first of them is judged.
    """
    folds = _folds(target, same, kind, random_state)
    held = np.concatenate([test for _, test in folds])
    end, results, skipped = time.perf_counter() + budget, [], {}
    for number, candidate in enumerate(tried):
        progress(f"{candidate.name}: {candidate.what} ({number + 1} of {len(tried)})")
        try:
            # what a method says of its settings is no help to whom compares several
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.append(_judged(candidate, inputs, target, kind, folds, end if number > 1 else np.inf))
        except _NoTimeError as error:
            skipped[candidate.name] = f"the budget of {budget:g} s {error}"
        except (ValueError, np.linalg.LinAlgError) as error:
            # a method that cannot take this table must not cost the others
            skipped[candidate.name] = str(error).splitlines()[0]
    if not results:
        raise ValueError("; ".join(f"{name}: {why}" for name, why in skipped.items()))
    losses = np.array([one.losses for one in results])
    names = [one.candidate.name for one in results]
    # neighbours in the target's order are parted, so that both halves are alike
    second = np.argsort(np.argsort(target[held], kind="stable")) % 2 == 1
    choice_losses = np.empty(len(held))
    for half in (second, ~second):
        choice_losses[~half] = losses[names.index(chosen(names, losses[:, half])), ~half]
    return Contest(results, skipped, held, folds[-1][1], chosen(names, losses), choice_losses)


def chosen(names: Sequence[str], losses: np.ndarray) -> str:
    """The method of least mean loss, unless a simpler one, linear or constant, is as good up to a standard error."""
    best = int(np.argmin(losses.mean(axis=1)))
    for simple in (CONSTANT, LINEAR):
        if simple in names:
            place = names.index(simple)
            if place == best or not is_gain(losses[place] - losses[best], 1.0):
                return simple
    return names[best]


def row_losses(model: Any, rows: Any, truth: np.ndarray, kind: str) -> np.ndarray:
    """Squared errors of numbers, log losses of classes."""
    if kind == NUMBERS:
        return (model.predict(rows) - truth) ** 2
    shares = np.maximum(model.predict_proba(rows), _LEAST_SHARE)
    shares /= shares.sum(axis=1, keepdims=True)
    return -np.log(shares[np.arange(len(truth)), np.searchsorted(model.classes_, truth)])


class _NoTimeError(Exception):
    """What the budget was."""


def _judged(
    candidate: Contender,
    inputs: Any,
    target: np.ndarray,
    kind: str,
    folds: list[tuple[np.ndarray, np.ndarray]],
    end: float,
) -> HeldOutResult:
    """The method on the held-out rows, if all folds, and one fit more to all rows, are likely to be done by the end."""
    begin = time.perf_counter()
    left, fits = end - begin, len(folds) + 1
    if left < 0:
        raise _NoTimeError("was spent")
    expected = 0.0 if candidate.seconds is None else fits * candidate.seconds(len(folds[0][0]), inputs.shape[1])
    if expected > left:
        raise _NoTimeError(f"had {left:.0f} s left, and about {expected:.0f} s are expected")
    losses, wrong, model = [], [], None
    try:
        with time_limit(left * len(folds) / fits) if np.isfinite(end) else nullcontext():
            for done, (train, test) in enumerate(folds, 1):
                model = candidate.build().fit(inputs.iloc[train], target[train])
                rows, truth = inputs.iloc[test], target[test]
                losses.append(row_losses(model, rows, truth, kind))
                if kind == CLASSES:
                    wrong.append(model.predict(rows) != truth)
                if done < len(folds) and (time.perf_counter() - begin) * fits / done > left:
                    raise OutOfTimeError
    except OutOfTimeError:
        spent = time.perf_counter() - begin
        raise _NoTimeError(f"had {left:.0f} s left, which are too few: given up after {spent:.0f} s") from None
    found = np.concatenate(losses)
    if not np.isfinite(found).all():
        raise ValueError("a prediction was not finite")
    missed = np.concatenate(wrong) if wrong else np.empty(0)
    return HeldOutResult(candidate, found, missed, time.perf_counter() - begin, model)


def _folds(target: np.ndarray, same: np.ndarray, kind: str, random_state: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Three folds of few rows; of many, one part that is held out. Every class is in every part."""
    from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

    judged = judged_rows(same)
    labels = target[judged]
    if len(target) <= _MOST_FOR_FOLDS:
        splitter = (KFold if kind == NUMBERS else StratifiedKFold)(_FOLDS, shuffle=True, random_state=random_state)
        parts = list(splitter.split(judged, labels))
    else:
        held = min(int(_HELD_OUT * len(judged)), _MOST_HELD_OUT)
        stratify = labels if kind == CLASSES else None
        pair = train_test_split(np.arange(len(judged)), test_size=held, random_state=random_state, stratify=stratify)
        parts = [(pair[0], np.sort(pair[1]))]
    return [(with_copies(judged[train], same), judged[test]) for train, test in parts]

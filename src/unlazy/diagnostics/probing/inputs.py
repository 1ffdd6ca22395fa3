"""The arguments of `probe`, read and checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.words import brief

_FEWEST_ROWS = 20
# values per row above which labels are no classes
_MOST_CLASSES = 0.2
_BYTES_OF_A_MEGABYTE = 2**20


class ProbeData(NamedTuple):
    """Rows that were trained on and rows that were not, with labels as numbers 0, ..., classes - 1."""

    X: np.ndarray | None
    codes: np.ndarray
    X_val: np.ndarray | None
    codes_val: np.ndarray
    truth: np.ndarray | None
    labels: np.ndarray

    @property
    def classes(self) -> int:
        return len(self.labels)


class Checkpoints(NamedTuple):
    """Parameters on the way, the first ones from before training."""

    states: list[Any]
    steps: np.ndarray
    names: list[str]
    """What messages call them."""


class ProbeLimits(NamedTuple):
    rows: int
    """Training rows, and held-out ones, that go into kernels."""
    memory: float
    """In bytes."""


def as_numpy(name: str, value: Any) -> np.ndarray:
    """An array of NumPy, JAX or PyTorch as NumPy's; text and objects are refused."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    try:
        found = np.asarray(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array, got {brief(value)}") from None
    if found.dtype.kind not in "fiub":
        raise InputError(f"{name} must hold real numbers, got {found.dtype}")
    if found.size == 0:
        raise InputError(f"{name} must not be empty, got shape {found.shape}")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise InputError(f"{name} must be finite, got {found[~np.isfinite(found)].flat[0]}")
    return found


def read_data(X: Any, y: Any, X_val: Any, y_val: Any, true_labels: Any) -> ProbeData:
    """Check rows and labels against each other."""
    rows, held_out = (None if part is None else _rows(name, part) for name, part in (("X", X), ("X_val", X_val)))
    given, given_val = _labels("y", y, rows), _labels("y_val", y_val, held_out)
    if rows is not None and held_out is not None:
        if rows.shape[1:] != held_out.shape[1:]:
            raise InputError(f"X_val must have rows like X, got shapes {held_out.shape} and {rows.shape}")
        _refuse_repeats(rows, held_out)
    for name, part in (("X", given), ("X_val", given_val)):
        if len(part) < _FEWEST_ROWS:
            raise InputError(f"{name} must have at least {_FEWEST_ROWS} rows, got {len(part)}")
    labels, codes_val, counts = np.unique(given_val, return_inverse=True, return_counts=True)
    if len(labels) < 2:
        raise InputError(f"y_val must hold at least 2 classes, got only {labels[0]}")
    if len(labels) > max(2, _MOST_CLASSES * len(given_val)):
        raise InputError(f"y_val must hold classes, got {len(labels)} values in {len(given_val)} rows")
    if counts.min() < 2:
        raise InputError(f"y_val must hold every class at least twice, got {labels[counts.argmin()]} once")
    truth = None
    if true_labels is not None:
        truth = _codes("true_labels", _labels("true_labels", true_labels, given), labels)
    codes = _codes("y", given, labels)
    if len(np.unique(codes)) < 2:
        raise InputError(f"y must hold at least 2 classes, got only {given[0]}")
    if truth is not None and (codes != truth).all():
        raise InputError("true_labels must agree with y in some row, got none that does")
    return ProbeData(rows, codes, held_out, codes_val, truth, labels)


def _rows(name: str, value: Any) -> np.ndarray:
    found = as_numpy(name, value)
    if found.ndim < 2:
        raise InputError(f"{name} must have at least 2 dimensions, rows first, got shape {found.shape}")
    return found


def _labels(name: str, value: Any, rows: np.ndarray | None) -> np.ndarray:
    found = as_numpy(name, value)
    if found.ndim != 1 or (rows is not None and len(found) != len(rows)):
        count = "n" if rows is None else len(rows)
        raise InputError(f"{name} must have shape ({count},), one class for each row, got shape {found.shape}")
    return found


def _codes(name: str, given: np.ndarray, labels: np.ndarray) -> np.ndarray:
    strange = given[~np.isin(given, labels)]
    if strange.size:
        raise InputError(f"{name} must hold classes of y_val, got {strange[0]}")
    return np.searchsorted(labels, given)


def _refuse_repeats(rows: np.ndarray, held_out: np.ndarray) -> None:
    seen = {row.tobytes() for row in np.ascontiguousarray(rows)}
    repeated = sum(row.tobytes() in seen for row in np.ascontiguousarray(held_out.astype(rows.dtype)))
    if repeated > len(held_out) / 2:
        raise InputError(
            f"X_val must hold rows that were not trained on, got {repeated} of {len(held_out)} that are rows of X: the "
            "labels of training rows have leaked into the features, errors and forecasts from them may be far too low"
        )


def read_limits(rows: int, budget: float) -> ProbeLimits:
    """`budget` is in megabytes."""
    return ProbeLimits(
        check_whole("rows", rows, 50), float(check_array("budget", budget, low=1, ndim=0)) * _BYTES_OF_A_MEGABYTE
    )


def read_steps(steps: ArrayLike | None, count: int) -> np.ndarray:
    """Increasing numbers, by default 0, 1, 2, ..."""
    if steps is None:
        return np.arange(float(count))
    found = np.atleast_1d(check_array("steps", steps, low=0))
    if found.shape != (count,) or (np.diff(found) <= 0).any():
        raise InputError(f"steps must be {count} increasing numbers, one for each checkpoint, got {brief(steps)}")
    return found


def read_checkpoints(checkpoints: Any) -> list[Any]:
    """At least two, the initial one first."""
    if isinstance(checkpoints, dict | str) or not isinstance(checkpoints, Sequence):
        raise InputError(f"checkpoints must be a list, the initial one first, got a {type(checkpoints).__name__}")
    if len(checkpoints) < 2:
        raise InputError(
            f"checkpoints must be at least two, the one before training first, got {len(checkpoints)}: what was "
            "learned is the difference"
        )
    return list(checkpoints)


def chosen_rows(count: int, most: int, seed: int) -> np.ndarray:
    """At most so many of the rows, in their order, at random."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))

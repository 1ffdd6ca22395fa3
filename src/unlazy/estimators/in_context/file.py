"""What an in-context regressor learned, in a NumPy archive: arrays and one JSON text, no pickled objects."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.estimators.in_context.attention import LearnedAttention
from unlazy.estimators.in_context.process import CUBIC, GAUSSIAN, LINEAR, Process
from unlazy.estimators.in_context.tasks import Scales

_FORMAT, _VERSION = "unlazy in-context regressor", 1
NUMBERS = ("n_tasks", "n_steps", "effective_rank", "effective_tasks", "cv_mse")
# what each mode learns, and the kinds of its process
_MODES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "eb": (Process, (LINEAR,)),
    "subspace_kernel": (Process, (CUBIC, GAUSSIAN)),
    "linear_attention": (LearnedAttention, ()),
}
# what a damaged archive raises; a RuntimeError claims encryption or an unknown compression
_UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    EOFError,
    RuntimeError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
)


class State(NamedTuple):
    """Everything that pretraining leaves behind."""

    mode: str
    settings: dict[str, Any]
    """The parameters of the regressor."""
    scales: Any
    """`Scales`, None while they are being learned."""
    learned: Any
    """`Process` or `LearnedAttention`."""
    metric: np.ndarray
    """(d, d) in standardised features."""
    numbers: dict[str, float]
    """Those of `NUMBERS`."""


def write_state(
    path: str | os.PathLike,
    state: State,
    errors: dict[str, float],
    context: tuple[np.ndarray, np.ndarray] | None,
) -> None:
    """Write the file under exactly this name."""
    texts = {
        "format": _FORMAT,
        "version": _VERSION,
        "mode": state.mode,
        "settings": state.settings,
        "numbers": state.numbers,
        "errors": errors,
        "kind": state.learned.kind if isinstance(state.learned, Process) else None,
        "has_context": context is not None,
    }
    arrays: dict[str, Any] = {"metric": state.metric}
    arrays |= {f"scales.{name}": value for name, value in state.scales._asdict().items()}
    arrays |= {f"learned.{name}": value for name, value in state.learned._asdict().items() if name != "kind"}
    if context is not None:
        arrays |= {"context.X": context[0], "context.y": context[1]}
    try:
        with Path(path).open("wb") as file:
            np.savez(file, description=np.array(json.dumps(texts)), **arrays)
    except OSError as error:
        raise InputError(f"path {os.fspath(path)!r} cannot be written: {error.strerror or error}") from None


def read_state(
    path: str | os.PathLike,
) -> tuple[State, dict[str, float], tuple[np.ndarray, np.ndarray] | None]:
    """The state, the errors of the modes and the context of a file of `write_state`, or one line on what it is not."""
    try:
        with np.load(Path(path), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        texts = json.loads(str(arrays.pop("description")))
        if texts["format"] != _FORMAT:
            raise KeyError(texts["format"])
        version = texts["version"]
    except OSError as error:
        # an unreadable zip file is an OSError too, without a number
        if error.errno is None:
            raise InputError(f"path {os.fspath(path)!r} is no file of InContextRegressor.save") from None
        raise InputError(f"path {os.fspath(path)!r} cannot be read: {error.strerror}") from None
    except _UNREADABLE:
        raise InputError(f"path {os.fspath(path)!r} is no file of InContextRegressor.save, or is damaged") from None
    if version != _VERSION:
        raise InputError(f"path {os.fspath(path)!r} must be of version {_VERSION}, got {version!r}")
    try:
        return _assembled(texts, arrays)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"path {os.fspath(path)!r} is a damaged file of InContextRegressor.save") from None


def _assembled(
    texts: dict[str, Any], arrays: dict[str, np.ndarray]
) -> tuple[State, dict[str, float], tuple[np.ndarray, np.ndarray] | None]:
    if any(array.dtype != np.float64 or not np.isfinite(array).all() for array in arrays.values()):
        raise ValueError
    learned_type, kinds = _MODES[texts["mode"]]
    scales = Scales(**{name: _field(arrays, f"scales.{name}") for name in Scales._fields})
    extra = {"kind": texts["kind"]} if kinds else {}
    if kinds and texts["kind"] not in kinds:
        raise ValueError
    names = [name for name in learned_type._fields if name != "kind"]
    learned = learned_type(**extra, **{name: _field(arrays, f"learned.{name}") for name in names})
    d = len(scales.mean)
    rows = learned.root if isinstance(learned, Process) else learned.whitening
    shapes = [
        (scales.deviation, (d,)),
        (arrays["metric"], (d, d)),
        (learned.mean, (d + 1,)),
        (rows, (d + 1, rows.shape[1])),
    ]
    if isinstance(learned, LearnedAttention):
        shapes.append((learned.weights, (rows.shape[1], rows.shape[1] + 1)))
    context = (arrays["context.X"], arrays["context.y"]) if texts["has_context"] else None
    if context is not None:
        shapes += [(context[0], (context[1].size, d)), (context[1], (context[1].size,))]
    if any(array.shape != shape for array, shape in shapes):
        raise ValueError
    numbers = {name: float(texts["numbers"][name]) for name in NUMBERS}
    errors = {str(name): float(value) for name, value in texts["errors"].items()}
    state = State(texts["mode"], dict(texts["settings"]), scales, learned, arrays["metric"], numbers)
    return state, errors, context


def _field(arrays: dict[str, np.ndarray], name: str) -> Any:
    array = arrays[name]
    return float(array) if array.ndim == 0 else array

"""`probe` from files: a script that makes the model, checkpoints, and a table of rows. Nothing is unpickled."""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unlazy.checks import InputError, suggest
from unlazy.diagnostics.probing.answer import probed
from unlazy.diagnostics.probing.inputs import Checkpoints, read_checkpoints, read_data, read_limits, read_steps
from unlazy.diagnostics.probing.report import NetworkReport
from unlazy.words import brief

_INITIAL = ("init", "start", "before")
_NEEDED = ("X", "y", "X_val", "y_val")


def probe_files(
    source: str | os.PathLike,
    checkpoints: str | None = None,
    table: str | os.PathLike | None = None,
    *,
    rows: int = 500,
    budget: float = 512,
    progress: Callable[[str], None] | None = None,
) -> NetworkReport:
    """`probe` for `source`, "run.py:make_model" or a folder of saved activations, with checkpoints and rows from files.

    `run.py` is run as the code that it is; `make_model()` returns a PyTorch module, or a JAX function of (params, X),
    or a pair of such a function and parameters into whose structure the saved arrays are put in their order.
    `checkpoints` is a pattern such as "ckpt/*.pt" of PyTorch's files, read with `weights_only=True`, or of .npz files;
    they are sorted by the last number in their names, which is the step, after one whose name has "init" or "start".
    `table` is a .npz file with the arrays X, y, X_val, y_val and, if known, true_labels. A folder has one .npz file for
    each checkpoint (see `probe`), and X and X_val may then be missing.
    """
    arrays = _read_npz(_table_file(table))
    missing = [name for name in _NEEDED if name not in arrays]
    place = Path(source)
    folder = place.is_dir()
    if missing and not (folder and set(missing) <= {"X", "X_val"}):
        raise InputError(f"{table} must have the arrays {', '.join(_NEEDED)}, it lacks {', '.join(missing)}")
    limits = read_limits(rows, budget)
    data = read_data(*(arrays.get(name) for name in (*_NEEDED, "true_labels")))
    if folder:
        if checkpoints is not None:
            raise InputError("checkpoints must not be given with a folder of activations, whose files they are")
        files, steps = _sorted(sorted(place.glob("*.npz")), f"{place}/*.npz")
        states: list[Any] = [_read_npz(file) for file in files]
        return probed(None, _named(states, steps, files), data, limits, progress)
    if checkpoints is None:
        raise InputError("checkpoints must be given for a model, such as 'ckpt/*.pt'")
    files, steps = _sorted([Path(file) for file in glob.glob(checkpoints)], checkpoints)
    model, template = _made(str(source))
    states = [_read_state(file, template) for file in files]
    return probed(model, _named(states, steps, files), data, limits, progress)


def _named(states: list[Any], steps: list[float] | None, files: Sequence[Path]) -> Checkpoints:
    return Checkpoints(read_checkpoints(states), read_steps(steps, len(states)), [str(file) for file in files])


def _table_file(table: str | os.PathLike | None) -> Path:
    if table is None:
        raise InputError(f"the rows must be a .npz file with the arrays {', '.join(_NEEDED)}")
    return Path(table)


def _read_npz(file: Path) -> dict[str, np.ndarray]:
    if not file.is_file():
        raise InputError(f"there is no file {file}")
    try:
        found = np.load(file, allow_pickle=False)
        if not isinstance(found, np.lib.npyio.NpzFile):
            raise InputError(f"{file} must be a .npz file with named arrays, got a single one")
        with found:
            return {name: found[name] for name in found.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file} is no .npz file of plain arrays: {error}") from None


def _sorted(files: Sequence[Path], pattern: str) -> tuple[list[Path], list[float] | None]:
    """By step, and the steps if every name tells one."""
    if not files:
        raise InputError(f"checkpoints must be files, but none is like {pattern}")

    def step(file: Path) -> float:
        if any(word in file.stem.lower() for word in _INITIAL):
            return -1.0
        numbers = re.findall(r"\d+", file.stem)
        return float(numbers[-1]) if numbers else np.inf

    found = sorted(files, key=lambda file: (step(file), file.name))
    steps = [max(step(file), 0.0) for file in found]
    told = np.isfinite(steps).all() and (np.diff(steps) > 0).all()
    return found, steps if told else None


def _read_state(file: Path, template: Any) -> Any:
    if file.suffix == ".npz":
        found = _read_npz(file)
        return found if template is None else _filled(template, list(found.values()), file)
    try:
        import torch
    except ModuleNotFoundError:
        raise InputError(f"{file} needs PyTorch, which is not installed: pip install 'unlazy[torch]'") from None
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        # what a damaged file, or one with other objects than tensors, raises is anything
        text = str(error).partition("\n")[0]
        raise InputError(f"{file} is no checkpoint of tensors alone: {type(error).__name__}: {text}") from None


def _filled(template: Any, arrays: list[np.ndarray], file: Path) -> Any:
    import equinox as eqx
    import jax

    trained, rest = eqx.partition(template, eqx.is_array)
    leaves, structure = jax.tree.flatten(trained)
    if [np.shape(leaf) for leaf in leaves] != [array.shape for array in arrays]:
        raise InputError(f"{file} must have {len(leaves)} arrays of the parameters' shapes, it has others")
    return eqx.combine(jax.tree.unflatten(structure, arrays), rest)


def _made(source: str) -> tuple[Any, Any]:
    """The model that a function in a user's file makes, and the parameters that a JAX function comes with."""
    file, _, name = source.rpartition(":")
    if not file.endswith(".py") or not name:
        raise InputError(f"source must be a folder of activations or like run.py:make_model, got {brief(source)}")
    path = Path(file)
    spec = importlib.util.spec_from_file_location(f"unlazy_user_{path.stem}", path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise InputError(f"there is no Python file {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
        make = getattr(module, name, None)
        if not callable(make):
            known = [each for each in vars(module) if callable(getattr(module, each)) and not each.startswith("_")]
            raise InputError(f"{file} has no function {name!r}{suggest(name, known)}")
        made = make()
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{source} raised {type(error).__name__}: {error}") from error
    model, template = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if hasattr(model, "eval") and hasattr(model, "state_dict"):
        # a model that was just made is in training mode
        model = model.eval()
    elif not callable(model):
        raise InputError(f"{source} must return a PyTorch module or a JAX function, got a {type(model).__name__}")
    return model, template

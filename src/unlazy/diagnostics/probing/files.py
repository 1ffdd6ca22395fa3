"""`probe` from files: a script that makes the model, checkpoints, and a table of rows. Nothing is unpickled."""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unlazy.checks import InputError, suggest
from unlazy.diagnostics.probing.answer import probed
from unlazy.diagnostics.probing.inputs import Checkpoints, read_checkpoints, read_data, read_limits, read_steps
from unlazy.diagnostics.probing.report import NetworkReport
from unlazy.diagnostics.probing.stored import check_checkpoint, read_npz, read_tensors
from unlazy.words import brief

_INITIAL = ("init", "start", "before")
_NEEDED = ("X", "y", "X_val", "y_val")


def probe_files(
    source: str | os.PathLike,
    checkpoints: str | Sequence[str] | None = None,
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
    Of several patterns or names the files are taken in the order given, each once. `table` is a .npz file with the
    arrays X, y, X_val, y_val and, if known, true_labels. A folder has one .npz file for each checkpoint (see `probe`),
    and X and X_val may then be missing. All files are looked at before the script is run.
    """
    if table is None:
        raise InputError(f"the rows must be a .npz file with the arrays {', '.join(_NEEDED)}")
    limits, place = read_limits(rows, budget), Path(source)
    folder = place.is_dir()
    if folder and checkpoints:
        raise InputError("checkpoints must not be given with a folder of activations, whose files they are")
    if not folder:
        _check_script(str(source))
        if not checkpoints:
            raise InputError("checkpoints must be given for a model, such as 'ckpt/*.pt'")
    asked = [f"{glob.escape(str(place))}/*.npz"] if folder else checkpoints
    files, steps = _found([asked] if isinstance(asked, str) else asked or ())
    for file in files:
        check_checkpoint(file)
    arrays = read_npz(Path(table))
    missing = [name for name in _NEEDED if name not in arrays]
    if missing and not (folder and set(missing) <= {"X", "X_val"}):
        raise InputError(f"{table} must have the arrays {', '.join(_NEEDED)}, it lacks {', '.join(missing)}")
    data = read_data(*(arrays.get(name) for name in (*_NEEDED, "true_labels")))
    model, template = (None, None) if folder else _made(str(source))
    states = [_read_state(file, template) for file in files]
    return probed(model, Checkpoints(states, steps, [str(file) for file in files]), data, limits, progress)


def _found(patterns: Sequence[str]) -> tuple[list[Path], np.ndarray]:
    """The files, those of each pattern by step, and the steps: 0, 1, 2, ... if not every name tells one."""
    found: dict[Path, float] = {}
    for pattern in patterns:
        named = Path(pattern)
        files = [named] if named.is_file() else [Path(file) for file in glob.glob(pattern) if Path(file).is_file()]
        if not files:
            hint = f": {pattern} is a folder, give '{named / '*.pt'}'" if named.is_dir() else ""
            raise InputError(f"checkpoints must be files, but none is like {pattern}{hint}")
        for file in sorted(files, key=lambda file: (_step(file), file.name)):
            found.setdefault(file, _step(file))
    read_checkpoints(list(found))
    steps = np.maximum(list(found.values()), 0.0)
    told = np.isfinite(steps).all() and (np.diff(steps) > 0).all()
    return list(found), read_steps(steps if told else None, len(found))


def _step(file: Path) -> float:
    """The last number in the name, -1 before training; infinite if the name tells none."""
    if any(word in file.stem.lower() for word in _INITIAL):
        return -1.0
    numbers = re.findall(r"\d+", file.stem)
    return float(numbers[-1]) if numbers else np.inf


def _read_state(file: Path, template: Any) -> Any:
    if file.suffix != ".npz":
        return read_tensors(file)
    found = read_npz(file)
    return found if template is None else _filled(template, list(found.values()), file)


def _filled(template: Any, arrays: list[np.ndarray], file: Path) -> Any:
    import equinox as eqx
    import jax

    trained, rest = eqx.partition(template, eqx.is_array)
    leaves, structure = jax.tree.flatten(trained)
    if [np.shape(leaf) for leaf in leaves] != [array.shape for array in arrays]:
        raise InputError(f"{file} must have {len(leaves)} arrays of the parameters' shapes, it has others")
    return eqx.combine(jax.tree.unflatten(structure, arrays), rest)


def _check_script(source: str) -> None:
    """Refuse a source whose file, or whose function's name in it, is missing, without running it."""
    file, _, name = source.rpartition(":")
    if not file.endswith(".py") or not name:
        raise InputError(f"source must be a folder of activations or like run.py:make_model, got {brief(source)}")
    if not Path(file).is_file():
        raise InputError(f"there is no Python file {file}")
    text = Path(file).read_text(encoding="utf-8", errors="replace")
    if not re.search(rf"\b{re.escape(name)}\b", text) and "import *" not in text:
        known = re.findall(r"^(?:def|class) +([a-zA-Z]\w*)", text, re.MULTILINE)
        raise InputError(f"{file} has no function {name!r}{suggest(name, known)}")


def _made(source: str) -> tuple[Any, Any]:
    """The model that a function in a user's file makes, and the parameters that a JAX function comes with."""
    file, _, name = source.rpartition(":")
    path = Path(file)
    spec = importlib.util.spec_from_file_location(f"unlazy_user_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
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

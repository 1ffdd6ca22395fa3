"""Fitted models as files that run no code when they are read (skops)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from unlazy.checks import InputError, check_writable

_TRUSTED = ("unlazy.", "sklearn.", "numpy.", "pandas.", "scipy.", "builtins.")


def save_model(model: Any, file: str | os.PathLike) -> None:
    """Write a fitted model to a file that `load_model` reads."""
    path = check_model_file(file)
    check_writable(path)
    part = path.with_name(f"{path.name}.part")
    _skops().dump(model, part)
    part.replace(path)


def load_model(file: str | os.PathLike) -> Any:
    """The model of a file; one that holds anything but parts of unlazy, scikit-learn and NumPy is refused."""
    path = check_model_file(file)
    if not path.is_file():
        raise InputError(f"model file {path} does not exist")
    skops = _skops()
    strangers = [name for name in skops.get_untrusted_types(file=path) if not name.startswith(_TRUSTED)]
    if strangers:
        raise InputError(f"model file {path} must hold only parts of unlazy and scikit-learn, got {strangers[0]}")
    return skops.load(path, trusted=skops.get_untrusted_types(file=path))


def check_model_file(file: str | os.PathLike) -> Path:
    path = Path(file)
    if path.suffix != ".skops":
        raise InputError(f"model file must end in .skops, got {path.name!r}")
    _skops()
    return path


def _skops() -> Any:
    try:
        from skops import io
    except ImportError:
        raise InputError("model files need skops: pip install 'unlazy[models]'") from None
    return io

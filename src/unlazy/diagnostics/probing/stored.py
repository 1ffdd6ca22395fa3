"""Arrays and checkpoints from files that others wrote. Nothing is unpickled; what a file is instead is said."""

from __future__ import annotations

import pickletools
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from unlazy.checks import InputError

_NPZ, _TORCH, _PICKLE = "a .npz file", "a file of torch.save", "a pickle"
_HOW = "write it by torch.save(model.state_dict(), file)"
_REFUSED_CLASS = re.compile(r"GLOBAL ([\w.]+)")
"""In PyTorch's error."""
_FIRST_BYTES = 4096


def check_npz(file: Path) -> None:
    """Refuse what is no .npz file by its first bytes."""
    if not file.is_file():
        raise InputError(f"there is no file {file}")
    kind = _kind(file)
    if kind != _NPZ:
        raise InputError(f"{file} must be a .npz file of plain arrays, as np.savez writes it, got {kind}")


def read_npz(file: Path) -> dict[str, np.ndarray]:
    check_npz(file)
    found, name = {}, ""
    try:
        with np.load(file, allow_pickle=False) as stored:
            for name in stored.files:
                found[name] = stored[name]
    except (OSError, zipfile.BadZipFile, EOFError):
        raise InputError(f"{file} must be a .npz file of plain arrays, got a damaged one") from None
    except ValueError:
        raise InputError(f"{file} must hold plain arrays, got objects in {name}: nothing is unpickled") from None
    return found


def check_checkpoint(file: Path) -> None:
    """Refuse what is no checkpoint by its first bytes, before PyTorch is there."""
    if file.suffix == ".npz":
        check_npz(file)
        return
    kind = _kind(file)
    if kind not in (_TORCH, _PICKLE):
        raise InputError(f"{file} must be a checkpoint of tensors, got {kind}: {_HOW}")
    if kind == _TORCH:
        _refuse_modules(file)


def read_tensors(file: Path) -> Any:
    """What `torch.save` wrote, if it is tensors alone."""
    try:
        import torch
    except ModuleNotFoundError:
        raise InputError(f"{file} needs PyTorch, which is not installed: pip install 'unlazy[torch]'") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        # what a damaged file, or one with other objects than tensors, raises is anything
        refused = _REFUSED_CLASS.search(str(error))
        got = f"an object of the class {refused[1]}" if refused else f"{_kind(file)} that is damaged or holds others"
        raise InputError(_other_object(file, got)) from None


def _refuse_modules(file: Path) -> None:
    """Refuse a pickled module by the names of classes in the file, of which nothing is made."""
    try:
        with zipfile.ZipFile(file) as archive:
            text = archive.read(next(name for name in archive.namelist() if name.endswith("/data.pkl")))
        named = [str(name).replace(" ", ".") for code, name, _ in pickletools.genops(text) if code.name == "GLOBAL"]
    except (ValueError, zipfile.BadZipFile):
        # PyTorch says what is wrong with it
        return
    modules = [name for name in named if name.startswith("torch.nn.modules.")]
    if modules:
        # of a user's class that holds layers the name comes first
        own = named[0] if named[0].partition(".")[0] not in ("torch", "collections") else modules[0]
        raise InputError(_other_object(file, f"an object of the class {own}"))


def _other_object(file: Path, got: str) -> str:
    return f"{file} must be a checkpoint of tensors, got {got}; nothing is unpickled: {_HOW}"


def _kind(file: Path) -> str:
    """What a file is, by its first bytes and the names in an archive."""
    with file.open("rb") as stream:
        start = stream.read(_FIRST_BYTES)
    if not start:
        return "an empty file"
    if zipfile.is_zipfile(file):
        try:
            with zipfile.ZipFile(file) as archive:
                names = archive.namelist()
        except zipfile.BadZipFile:
            return "a damaged archive"
        if all(name.endswith(".npy") for name in names):
            return _NPZ
        if any(name.endswith("/constants.pkl") for name in names):
            return "a TorchScript archive"
        return _TORCH if any(name.endswith("/data.pkl") for name in names) else "a zip archive"
    if start.startswith(b"PK\x03\x04"):
        return "a file that ends too early"
    if start.startswith(b"\x93NUMPY"):
        return "a .npy file, a single array"
    if start.startswith(b"\x80"):
        return _PICKLE
    if start[8:9] == b"{" and b'"dtype"' in start:
        return "a safetensors file"
    # a character may be cut at the end
    text = start.decode("utf-8", "replace").rstrip("\ufffd")
    readable = all(sign.isprintable() or sign in "\r\n\t\f" for sign in text) and "\ufffd" not in text
    return "a text file" if readable else "a file of another kind"

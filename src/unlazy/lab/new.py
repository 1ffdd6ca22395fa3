"""The file of a new study, with the questions that its author answers."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from unlazy.checks import InputError, check_writable, write_at_once
from unlazy.lab import registry
from unlazy.words import brief

_TEMPLATE = Path(__file__).with_name("new_study.txt")


def new_study(name: str, folder: Path = Path()) -> Path:
    """Write the file of a study of this name into a folder, and say where it is.

    The file runs as it stands, on a small example; its comments ask what to write in its place.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise InputError(
            f"the name of a study must be small letters and digits with single dashes between, such as my-result; "
            f"got {brief(name)}"
        )
    if name in registry.names():
        raise InputError(f"there is a study {name} already; 'unlazy show {name}' shows it")
    module = name.replace("-", "_")
    if keyword.iskeyword(module):
        raise InputError(f"the name of a study becomes that of a file, and {name} is a word of Python; choose another")
    file = Path(folder) / f"{module}.py"
    if file.exists():
        raise InputError(f"{file} exists; nothing was written")
    check_writable(file)
    text = _TEMPLATE.read_text(encoding="utf-8")
    write_at_once(text.replace("CLASS", _class_name(name)).replace("FILE", file.name), file)
    return file


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))

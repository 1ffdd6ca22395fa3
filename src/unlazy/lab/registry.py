"""Finding studies: those of the package by name, a user's own by file. A study `some-name` is in `some_name.py`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType

from unlazy.checks import InputError, suggest
from unlazy.lab.study import Study, check_definition
from unlazy.words import brief

STUDIES = "unlazy.studies"


def folder() -> Path:
    """Where the package's studies are."""
    spec = importlib.util.find_spec(STUDIES)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))


def names() -> dict[str, str]:
    """The package's studies and their modules, without importing any; `shared` is what studies of a topic share."""
    files = sorted(file for file in folder().glob("*/[!_]*.py") if file.stem != "shared")
    return {f.stem.replace("_", "-"): f"{STUDIES}.{f.parent.name}.{f.stem}" for f in files}


def topic_of() -> dict[str, str]:
    """The topics of the package's studies by name, which are their folders."""
    return {name: module.split(".")[-2] for name, module in names().items()}


def topics() -> list[str]:
    """The topics."""
    return sorted(set(topic_of().values()))


def find(study: str | type[Study]) -> type[Study]:
    """The study class for a name, `file.py:Class` or a class."""
    if isinstance(study, type) and issubclass(study, Study):
        return check_definition(study)
    if not isinstance(study, str):
        raise InputError(f"study must be a name, 'file.py:Class' or a Study class, got {brief(study)}")
    if ".py" in study:
        return _from_file(study)
    modules = names()
    if study not in modules:
        raise InputError(f"there is no study {brief(study)}{suggest(study, modules)}; 'unlazy list' shows them all")
    return check_definition(_study_in(importlib.import_module(modules[study]), study))


def names_of(selected: list[str] | None = None) -> list[str]:
    """The names of all studies of the package, or of those of the selected topics."""
    known = topics()
    if not (selected is None or isinstance(selected, list | tuple)):
        raise InputError(f"topics must be a list of {', '.join(known)}, got {brief(selected)}")
    for topic in selected or ():
        if topic not in known:
            raise InputError(f"topic must be one of {', '.join(known)}; got {brief(topic)}{suggest(topic, known)}")
    return [name for name, topic in topic_of().items() if not selected or topic in selected]


def all_studies(selected: list[str] | None = None) -> list[type[Study]]:
    """All studies of the package, or those of the selected topics."""
    return [find(name) for name in names_of(selected)]


def reference(cls: type[Study]) -> str:
    """What the command line calls a study: its name, or the file and class of a user's own."""
    if cls.__module__.startswith(STUDIES):
        return cls.name
    return f"{inspect.getfile(cls)}:{cls.__name__}"


def _study_in(module: ModuleType, name: str) -> type[Study]:
    for _, cls in inspect.getmembers(module, inspect.isclass):
        if issubclass(cls, Study) and cls.__module__ == module.__name__ and getattr(cls, "name", "") == name:
            return cls
    raise InputError(f"{module.__name__} has no study named {name!r}")


def _from_file(reference: str) -> type[Study]:
    """The class in `file.py:Class`; the class may be left out if the file has one study."""
    file, _, class_name = reference.rpartition(":") if ".py:" in reference else (reference, "", "")
    path = Path(file)
    if not path.is_file():
        raise InputError(f"study file {brief(file)} does not exist")
    module_name = f"unlazy_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"study file {file!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    _enter(path.parent.resolve())
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"study file {file!r} cannot be imported: {type(error).__name__}: {error}") from error
    found = {
        n: c
        for n, c in inspect.getmembers(module, inspect.isclass)
        if issubclass(c, Study) and c.__module__ == module_name
    }
    if not class_name and len(found) == 1:
        class_name = next(iter(found))
    if class_name not in found:
        listed = ", ".join(found) or "no study"
        asked = f"no study class {class_name!r}{suggest(class_name, found)}" if class_name else "not exactly one study"
        raise InputError(f"{file} has {asked}; it has {listed}; name one as {file}:Class")
    study = check_definition(found[class_name])
    if study.name in names():
        raise InputError(f"{file}: {study.name} is the name of a study of the package; choose another")
    return study


_KEPT: dict[Path, set[str]] = {}
"""The folders of users' studies, and the modules that were loaded before: those are the caller's own."""


def is_users(file: Path) -> bool:
    """Whether a file stands beside a user's study that was loaded here."""
    return file.resolve().parent in _KEPT


def _enter(folder: Path) -> None:
    """Let modules beside a study's file be imported, also from inside `simulate`, and as they are on disk now."""
    if str(folder) in sys.path:
        sys.path.remove(str(folder))
    sys.path.insert(0, str(folder))
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        for parent in Path(file).parents if file else ():
            if parent in _KEPT and name not in _KEPT[parent] and not name.startswith("unlazy"):
                sys.modules.pop(name, None)
    _KEPT.setdefault(folder, set(sys.modules))
    importlib.invalidate_caches()

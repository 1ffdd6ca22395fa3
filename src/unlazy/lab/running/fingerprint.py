"""The fingerprint of a study: a hash of the code that its simulation runs, so that old results never pass for new ones.

The syntax trees of the study and of the modules it imports are hashed without comments and docstrings. Of the study's
own file only what `simulate` can reach counts, and of what it shares with other studies of the package only what that
uses: a new criterion, figure or prediction recomputes nothing. The laboratory and the plotting code do not touch
results and are left out.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path

from unlazy.checks import InputError, stamp
from unlazy.doors import contents
from unlazy.lab.study import Study, remembered

PACKAGE = "unlazy"
_UNRELATED = {"lab", "plotting", "checks", "reporting"}
_NOT_SIMULATION = {
    "name", "topic", "question", "sources", "outputs", "presets", "claims", "departs", "history", "lines", "caption",
    "chunk_width", "agreement", "predict", "broadcasts", "derive", "figure", "validate", "coordinates", "memory",
    "files", "theory_for",
}  # fmt: skip
_FIELDS = {"static", "value", "path"}


@remembered
def fingerprint(study: type[Study]) -> str:
    """The hash of everything that the study's simulation depends on in unlazy and beside the study's file.

    It is taken once per class: a file that is edited later does not change the code that this process has loaded.
    """
    file = _file(study)
    captured = set(study.simulate.__code__.co_freevars) - {"__class__"}
    if captured:
        raise InputError(
            f"simulate of {study.name} uses {sorted(captured)[0]!r} of the function around the class, which no stored "
            "result would know; make it a parameter of the study"
        )
    if study.loaded and study.loaded != stamp(file):
        raise InputError(f"{file} was changed after this process had loaded it; load study {study.name} again")
    own = _simulation(study)
    digest = hashlib.sha256(_dump(own).encode())
    for name, path in sorted(dependencies(study).items()):
        shared = _shared(name, path, own)
        digest.update(f"\n{name}\n{_code(path).text if shared is None else _dump(shared)}".encode())
    return digest.hexdigest()[:24]


def dependencies(study: type[Study]) -> dict[str, Path]:
    """The modules of unlazy, and of the study's author, that the simulation imports, directly or not."""
    file, own = _file(study), _simulation(study)
    found: dict[str, Path] = {}
    queue = list(_imports(_import_statements(own), study.__module__, file, study))
    while queue:
        name, path = queue.pop()
        if name not in found and path.resolve() != file.resolve():
            found[name] = path
            shared = _shared(name, path, own)
            statements = _code(path).imports if shared is None else _import_statements(shared)
            queue.extend(_imports(statements, name, path, study))
    return found


def _simulation(study: type[Study]) -> ast.Module:
    """The study's own file, reduced to what its simulation runs."""
    qualified = study.__qualname__
    statements = [
        _simulated_class(s) if isinstance(s, ast.ClassDef) and s.name == qualified else s
        for s in _code(_file(study)).tree.body
    ]
    return _reachable(statements, [qualified.split(".")[0]])


def _shared(name: str, path: Path, own: ast.Module) -> ast.Module | None:
    """What studies of the package share, reduced to what the simulation names of it; None for what counts whole."""
    if not name.startswith(f"{PACKAGE}.studies."):
        return None
    folder, _, module = name.rpartition(".")
    wanted: list[str] = []
    for node in _import_statements(own):
        if isinstance(node, ast.ImportFrom) and node.module == name:
            wanted += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == folder:
            aliases = {alias.asname or alias.name for alias in node.names if alias.name == module}
            uses = [n for n in ast.walk(own) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)]
            wanted += [use.attr for use in uses if isinstance(use.value, ast.Name) and use.value.id in aliases]
    return _reachable(_code(path).tree.body, wanted) if wanted and "*" not in wanted else None


def _file(study: type[Study]) -> Path:
    try:
        return Path(inspect.getfile(study))
    except (TypeError, OSError):
        raise InputError(f"study {study.name} must stand in a file, so that changes of its code are seen") from None


def _package() -> Path:
    return Path(str(sys.modules[PACKAGE].__file__)).parent


class _Code:
    """A file's syntax tree without docstrings, those of attributes included, and without what is for type checkers."""

    def __init__(self, file: Path) -> None:
        self.tree = ast.parse(file.read_text(encoding="utf-8"))
        self.tree.body = [s for s in self.tree.body if not _for_type_checkers(s)]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                node.body = [
                    s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
                ]

    @cached_property
    def text(self) -> str:
        return _dump(self.tree)

    @cached_property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        return _import_statements(self.tree)


def _code(file: Path) -> _Code:
    # The package's own files are read once, as they are loaded once; others as they are now.
    return _read(file, () if file.is_relative_to(_package()) else stamp(file))


@cache
def _read(file: Path, version: tuple[int, ...]) -> _Code:
    return _Code(file)


def _for_type_checkers(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING" and not statement.orelse


def _dump(tree: ast.AST) -> str:
    return ast.dump(tree, annotate_fields=False)


def _reachable(statements: Sequence[ast.stmt], names: Iterable[str]) -> ast.Module:
    """The statements of a module reduced to those that define the names, and what these refer to.

    Statements that define no name, such as a loop, are kept with what they refer to. A class inside a function stands
    for the whole function.
    """
    definitions: dict[str, list[ast.stmt]] = {}
    queue = list(names)
    for statement in statements:
        for name in _defined(statement):
            definitions.setdefault(name, []).append(statement)
        if not _defined(statement):
            queue.extend(_names(statement))
    wanted = set()
    while queue:
        name = queue.pop()
        if name not in wanted:
            wanted.add(name)
            queue.extend(used for statement in definitions.get(name, ()) for used in _names(statement))
    body = [_import_of(s, wanted) for s in statements if not _defined(s) or wanted & set(_defined(s))]
    return ast.Module(body=[s for s in body if s is not None], type_ignores=[])


def _import_of(statement: ast.stmt, wanted: set[str]) -> ast.stmt | None:
    """An import of what is wanted alone, nothing of one from the laboratory; other statements as they are."""
    if not isinstance(statement, ast.Import | ast.ImportFrom) or not _defined(statement):
        return statement
    place = (getattr(statement, "module", None) or "").split(".")
    if place[0] == PACKAGE and set(place[1:2]) & _UNRELATED:
        return None
    kept = copy.copy(statement)
    kept.names = [a for a in statement.names if (a.asname or a.name).split(".")[0] in wanted]
    return kept


def _names(statement: ast.stmt) -> list[str]:
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        # A star import may define anything.
        names = [(alias.asname or alias.name).split(".")[0] for alias in statement.names]
        return [] if names == ["*"] else names
    if isinstance(statement, ast.Assign):
        return [n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    return []


def _simulated_class(study: ast.ClassDef) -> ast.ClassDef:
    """A study class as the simulation sees it: without claims, figure and the like, unless it refers to them itself."""
    kept = [_as_simulated(s) for s in study.body if not _beside_simulation(s)]
    # An attribute of another object may have a claim's name, but a claim is nothing that a simulation can call.
    rest = [s for s in study.body if _beside_simulation(s) and not _is_claim(s)]
    while True:
        used = {node.attr for s in kept for node in ast.walk(s) if isinstance(node, ast.Attribute)}
        reached = [s for s in rest if used & set(_defined(s))]
        if not reached:
            seen = copy.copy(study)
            seen.body = kept
            return seen
        kept += reached
        rest = [s for s in rest if s not in reached]


def _beside_simulation(statement: ast.stmt) -> bool:
    names = _defined(statement)
    return _is_claim(statement) or (bool(names) and set(names) <= _NOT_SIMULATION)


def _is_claim(statement: ast.stmt) -> bool:
    calls = [d for d in getattr(statement, "decorator_list", ()) if isinstance(d, ast.Call)]
    return any(_called(call) == "claim" for call in calls)


def _called(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def _as_simulated(statement: ast.stmt) -> ast.stmt:
    """A field is its name, kind and pairing; its default and label stand in no program."""
    if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.value, ast.Call)):
        return statement
    call = statement.value
    if _called(call) not in _FIELDS:
        return statement
    pairing = [k for k in call.keywords if k.arg == "paired"]
    field = ast.Call(func=call.func, args=[], keywords=pairing)
    return ast.AnnAssign(statement.target, statement.annotation, field, statement.simple)


def _import_statements(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """All imports of a tree, those inside functions too."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def _imports(
    statements: list[ast.Import | ast.ImportFrom], module: str, file: Path, study: type[Study]
) -> Iterator[tuple[str, Path]]:
    """The modules of unlazy, or of the study's author, that the statements import, with their files."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in statements:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            base = node.module or ""
            if node.level:
                parent = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
                base = f"{parent}.{base}".strip(".")
            names = [module for alias in node.names for module in _behind_doors(base, alias.name)]
        for name in names:
            if name == PACKAGE and isinstance(node, ast.Import):
                # Whatever it then uses of the package cannot be told.
                yield from _whole_package()
            if name == PACKAGE or (name.startswith(PACKAGE + ".") and name.split(".")[1] in _UNRELATED):
                continue
            found = _find(name, study)
            if found is not None:
                yield name, found


def _behind_doors(base: str, name: str) -> list[str]:
    """The modules that `from base import name` needs: the doors of unlazy's folders are passed through."""
    while base.startswith(PACKAGE + ".") and (listed := _door(base)) and name in listed and listed[name] != base:
        base = listed[name]
    return [f"{base}.{name}"] if base.startswith(PACKAGE + ".") and _door(base) else [base, f"{base}.{name}"]


@cache
def _door(package: str) -> dict[str, str]:
    return contents(package)


def _whole_package() -> Iterator[tuple[str, Path]]:
    root = _package()
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if len(parts) > 1 and parts[0] not in {*_UNRELATED, "studies", "app"}:
            yield ".".join((PACKAGE, *parts)).removesuffix(".__init__"), path


def _find(name: str, study: type[Study]) -> Path | None:
    """The file of a module of unlazy, of the study's own package, or beside the study's file."""
    top, own = name.split(".")[0], study.__module__.split(".")
    if top == PACKAGE:
        root = _package().parent
    elif top == own[0]:
        root = _file(study).parents[len(own) - 1]
    else:
        root = _file(study).parent
    base = root.joinpath(*name.split("."))
    for candidate in (base.with_name(base.name + ".py"), base / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None

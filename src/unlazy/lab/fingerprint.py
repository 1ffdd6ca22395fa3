"""The fingerprint of a study: a hash of the code that its simulation runs, so that old results never pass for new ones.

The syntax trees of the study and of the modules it imports are hashed without comments and docstrings. Of the study's
own file only what `simulate` can reach counts: a new criterion, figure or prediction recomputes nothing. The laboratory
and the plotting code do not touch results and are left out.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from unlazy.lab.study import Study

PACKAGE = "unlazy"
_UNRELATED = {"lab", "plotting", "errors"}
_NOT_SIMULATION = {
    *("name", "topic", "question", "sources", "outputs", "presets", "claims", "lines", "chunk_width"),
    *("predict", "derive", "figure", "validate", "coordinates"),
}


def fingerprint(study: type[Study]) -> str:
    """The hash of everything that the study's simulation depends on in unlazy and beside the study's file."""
    file = Path(inspect.getfile(study))
    tree = _reachable(_parse(file), study.__qualname__)
    digest = hashlib.sha256(_dump(tree).encode())
    seen: dict[str, str] = {}
    queue = list(_imports(tree, study.__module__, file))
    while queue:
        path, name = queue.pop()
        if name not in seen:
            status = path.stat()
            seen[name], imports = _dependency(path, name, status.st_mtime_ns, status.st_size)
            queue.extend(imports)
    for name, text in sorted(seen.items()):
        digest.update(f"\n{name}\n{text}".encode())
    return digest.hexdigest()[:24]


@cache
def _dependency(path: Path, name: str, mtime: int, size: int) -> tuple[str, list[tuple[Path, str]]]:
    """What a module adds to a fingerprint, and what it imports; time and size make an edited file a new entry."""
    tree = _parse(path)
    return _dump(tree), list(_imports(tree, name, path))


def _parse(file: Path) -> ast.Module:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = body[1:]
    return tree


def _dump(tree: ast.AST) -> str:
    return ast.dump(tree, annotate_fields=False)


def _reachable(tree: ast.Module, class_name: str) -> ast.Module:
    """The module reduced to the study class, without what does not touch the simulation, and what that refers to."""
    definitions: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef) and statement.name == class_name:
            statement.body = [kept for s in statement.body if (kept := _simulation_part(s)) is not None]
        for name in _defined(statement):
            definitions.setdefault(name, []).append(statement)
    wanted, queue = set(), [class_name]
    while queue:
        name = queue.pop()
        if name in wanted:
            continue
        wanted.add(name)
        for statement in definitions.get(name, ()):
            queue.extend(node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
    body = [s for s in tree.body if not _defined(s) or wanted & set(_defined(s))]
    return ast.Module(body=body, type_ignores=[])


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in statement.names]
    if isinstance(statement, ast.Assign):
        return [n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    return []


def _simulation_part(statement: ast.stmt) -> ast.stmt | None:
    """A statement of the study class as the simulation sees it: a field is its name, kind and pairing."""
    names = _defined(statement)
    if names and set(names) <= _NOT_SIMULATION:
        return None
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.value, ast.Call):
        call = statement.value
        pairing = [k for k in call.keywords if k.arg == "paired"]
        field = ast.Call(func=call.func, args=[], keywords=pairing)
        return ast.AnnAssign(statement.target, statement.annotation, field, statement.simple)
    return statement


def _imports(tree: ast.AST, module: str, file: Path) -> Iterator[tuple[Path, str]]:
    """The files of unlazy, or beside `file`, that the tree imports anywhere, with their module names."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
                base = f"{parent}.{base}".strip(".")
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        for name in names:
            if name == PACKAGE or (name.startswith(PACKAGE + ".") and name.split(".")[1] in _UNRELATED):
                continue
            found = _find(name, file)
            if found is not None:
                yield found, name


def _find(name: str, beside: Path) -> Path | None:
    parts = name.split(".")
    if parts[0] == PACKAGE:
        root = Path(str(sys.modules[PACKAGE].__file__)).parent
        parts = parts[1:]
    else:
        root = beside.parent
    base = root.joinpath(*parts)
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.is_file() and candidate.resolve() != beside.resolve():
            return candidate
    return None

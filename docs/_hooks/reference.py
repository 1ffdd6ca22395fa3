"""The reference: pages that name every public object, and the command line as typer knows it."""

from __future__ import annotations

import ast
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import typer
from text import code, plain, prose, table

PACKAGES = {
    "estimators": "Estimators",
    "diagnostics": "Diagnostics",
    "optim": "Training strategies",
    "lab": "Studies and claims",
}
"""Packages whose `__init__` is the list of what is public."""

MODULES = {
    "functions": "Functions",
    "numerics": "Numerical methods",
    "data": "Data",
    "models": "Models",
    "training": "Training",
    "observables": "Observables",
}
"""Packages whose modules are public one by one, on one page."""


@cache
def pages() -> dict[str, str]:
    """The Markdown of all generated pages by the name of their file under `reference/`."""
    made = {f"{name}.md": _package(name, title) for name, title in PACKAGES.items()}
    made |= {f"{name}.md": _all_modules(name, title) for name, title in MODULES.items()}
    modules = _modules("theory")
    made["theory.md"] = _theory_index(modules)
    made |= {f"theory/{file.stem}.md": _module(file) for file in modules}
    made["cli.md"] = command_line()
    return made


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec("unlazy")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / package


def _modules(package: str) -> list[Path]:
    """The public modules of a package that say what they are, its public packages included."""
    found = [*_folder(package).glob("[!_]*.py"), *(p.parent for p in _folder(package).glob("[!_]*/__init__.py"))]
    return sorted(file for file in found if public_names(file))


def public_names(module: Path) -> list[str]:
    """The names in a module's `__all__`, or its functions and classes without a leading underscore."""
    file = module / "__init__.py" if module.is_dir() else module
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for node in body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return ast.literal_eval(node.value)
    return [
        node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]


def _about(module: Path) -> str:
    file = module / "__init__.py" if module.is_dir() else module
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def _directives(path: str, names: list[str], level: int) -> list[str]:
    # What one calls comes before what it returns; estimators and parts of studies are the classes themselves.
    if path not in ("unlazy.estimators", "unlazy.lab"):
        names = sorted(names, key=lambda name: name[0].isupper())
    return [f"::: {path}.{name}\n    options:\n      heading_level: {level}" for name in names]


def _package(name: str, title: str) -> str:
    file = _folder(name) / "__init__.py"
    directives = _directives(f"unlazy.{name}", public_names(file), 2)
    parts = [f"# {title}", code(f"unlazy.{name}"), prose(_about(file)), *directives]
    return "\n\n".join(parts) + "\n"


def _all_modules(name: str, title: str) -> str:
    parts = [f"# {title}", prose(_about(_folder(name) / "__init__.py"))]
    for module in _modules(name):
        path = f"unlazy.{name}.{module.stem}"
        parts += [f"## {plain(path)}", prose(_about(module)), *_directives(path, public_names(module), 3)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _module(file: Path) -> str:
    path = f"unlazy.theory.{file.stem}"
    title = file.stem.replace("_", " ").capitalize()
    parts = [f"# {title}", code(path), prose(_about(file)), *_directives(path, public_names(file), 2)]
    return "\n\n".join(parts) + "\n"


def _theory_index(modules: list[Path]) -> str:
    rows = [
        f"- [{plain('unlazy.theory.' + file.stem)}](theory/{file.stem}.md): {plain(_about(file).splitlines()[0])}"
        for file in modules
    ]
    return "# Theory functions\n\nNumbers without training, a module per subject.\n\n" + "\n".join(rows) + "\n"


def command_line() -> str:
    """Every command with its arguments and options."""
    from unlazy.cli import app

    root = typer.main.get_command(app)
    parts = ["# Command line", plain(root.help or "")]
    parts += _commands("unlazy", root.commands)
    return "\n\n".join(parts) + "\n"


def _commands(prefix: str, commands: dict[str, Any]) -> list[str]:
    parts = []
    for name, command in commands.items():
        arguments = [p.metavar or p.name.upper() for p in command.params if p.param_type_name == "argument"]
        usage = " ".join([prefix, name, *arguments, "[options]"])
        parts += [f"## {prefix} {name}", plain(command.help or ""), f"```console\n{usage}\n```"]
        context = typer.Context(command, info_name=name)
        records = [p.get_help_record(context) for p in command.params]
        rows = [[code(spelling), plain(meaning)] for spelling, meaning in filter(None, records)]
        if rows:
            parts.append(table(("argument or option", "meaning"), rows))
        parts += _commands(f"{prefix} {name}", getattr(command, "commands", {}))
    return parts

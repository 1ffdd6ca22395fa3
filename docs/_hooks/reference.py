"""The reference: pages that name every public object, and the command line as typer knows it."""

from __future__ import annotations

import ast
import importlib.util
import re
import runpy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import typer
from text import block, code, plain, prose, said, table

from unlazy.doors import contents
from unlazy.plotting.style import svg
from unlazy.reporting.html.report import topic_title

PLOTS = Path(__file__).parents[1] / "_plots"

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
    made |= {f"{name}.md": _modules(name, title) for name, title in MODULES.items()}
    topics = sorted(file.parent.name for file in _folder("theory").glob("*/__init__.py"))
    made["theory.md"] = _theory_index(topics)
    made |= {f"theory/{topic}.md": _topic(topic) for topic in topics}
    made["cli.md"] = command_line()
    return made


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec("unlazy")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.joinpath(*package.split("."))


def _file(module: str) -> Path:
    found = importlib.util.find_spec(module)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin)


def home(package: str, name: str) -> str:
    """The module that has a name which a folder's door lists; doors within are passed through."""
    listed = contents(package).get(name, package)
    return package if listed == package else home(listed, name)


def public_names(module: str) -> list[str]:
    """The names that a folder's `__init__` lists, or a module's functions and classes without a leading underscore."""
    listed = sorted(name for name, place in contents(module).items() if place != module)
    body = ast.parse(_file(module).read_text(encoding="utf-8")).body
    own = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return listed or [name for name in own if not name.startswith("_")]


def _about(module: str) -> str:
    return ast.get_docstring(ast.parse(_file(module).read_text(encoding="utf-8"))) or ""


def _directives(path: str, names: list[str], level: int) -> list[str]:
    # What one calls comes before what it returns; estimators and parts of studies are the classes themselves.
    if path not in ("unlazy.estimators", "unlazy.lab"):
        names = sorted(names, key=lambda name: name[0].isupper())
    return [f"::: {home(path, name)}.{name}\n    options:\n      heading_level: {level}" for name in names]


def _package(name: str, title: str) -> str:
    path = f"unlazy.{name}"
    parts = [f"# {title}", code(path), prose(_about(path)), *_directives(path, public_names(path), 2)]
    return "\n\n".join(parts) + "\n"


def _modules(name: str, title: str) -> str:
    """Every module of a package and of the folders in it."""
    folder = _folder(name)
    files = sorted(folder.rglob("[!_]*.py"))
    modules = [".".join((f"unlazy.{name}", *file.relative_to(folder).with_suffix("").parts)) for file in files]
    return "\n\n".join([f"# {title}", prose(_about(f"unlazy.{name}")), *_sections(dict.fromkeys(modules))]) + "\n"


def _sections(modules: Mapping[str, list[str] | None]) -> list[str]:
    """A section per module with the given names, or all that are public."""
    parts = []
    for path, names in modules.items():
        if shown := public_names(path) if names is None else names:
            parts += [f"## {plain(path)}", prose(_about(path)), *_directives(path, shown, 3)]
    return [part for part in parts if part]


def _topic(topic: str) -> str:
    path = f"unlazy.theory.{topic}"
    modules: dict[str, list[str] | None] = {}
    for name in public_names(path):
        place = home(path, name)
        modules[place] = [*(modules.get(place) or []), name]
    title = topic.replace("_", " ").capitalize()
    parts = [f"# {title}", code(path), prose(_about(path)), *_picture(topic), *_sections(dict(sorted(modules.items())))]
    return "\n\n".join(parts) + "\n"


def _picture(topic: str) -> list[str]:
    """What a topic's functions draw, and the code that draws it."""
    file = PLOTS / f"{topic}.py"
    about, _, source = file.read_text(encoding="utf-8").partition("\n\n")
    drawn = svg(runpy.run_path(str(file))["figure"], salt=f"reference-{topic}")
    picture = f'<figure class="result">{drawn}<figcaption>{plain(about.strip(chr(34)))}</figcaption></figure>'
    return ["## A picture", picture, block(source, "python")]


def _theory_index(topics: list[str]) -> str:
    parts = [
        "# Theory functions",
        "Numbers without training, topic by topic: every function in a line. Each name is also in `unlazy.theory` "
        "itself, and the [notes](../theory/index.md) say what the topics are about.",
    ]
    for topic in topics:
        path = f"unlazy.theory.{topic}"
        rows = [
            f"| [{code(name)}](theory/{topic}.md#{home(path, name)}.{name}) | {said(_first_sentence(path, name))} |"
            for name in sorted(public_names(path), key=lambda name: (name[0].isupper(), name))
        ]
        parts += [
            f"## [{plain(topic_title(topic).capitalize())}](theory/{topic}.md)",
            plain(_about(path)),
            "\n".join(["| function or result | what it is |", "| --- | --- |", *rows]),
        ]
    return "\n\n".join(parts) + "\n"


def _first_sentence(path: str, name: str) -> str:
    body = ast.parse(_file(home(path, name)).read_text(encoding="utf-8")).body
    found = next((node for node in body if getattr(node, "name", "") == name), None)
    written = (ast.get_docstring(found) or "") if isinstance(found, ast.FunctionDef | ast.ClassDef) else ""
    return re.split(r"(?<=[.?!])\s", " ".join(written.split("\n\n")[0].replace("`", "").split()), maxsplit=1)[0].rstrip(
        ":"
    )


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

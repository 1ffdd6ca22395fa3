"""Run a marimo notebook; write its cells with their outputs, and the numbers that its names stand for in the end.

python run_notebook.py NOTEBOOK.py OUT.json
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import html
import importlib.util
import inspect
import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import marimo as mo
import numpy as np


class Recorder:
    """Remembers what marimo's builders were given, as their results are widgets for marimo's own page."""

    def __init__(self) -> None:
        self.given: dict[int, tuple[Any, str, Any]] = {}
        for name in ("md", "vstack", "hstack", "callout", "accordion", "center", "left", "right", "plain", "lazy"):
            self._record(name)

    def _record(self, name: str) -> None:
        build = getattr(mo, name)

        def recorded(first: Any, *rest: Any, **options: Any) -> Any:
            built = build(first, *rest, **options)
            # The object is kept, so that its id stays its own.
            self.given[id(built)] = (built, name, first)
            return built

        setattr(mo, name, recorded)

    def outputs(self, value: Any, salt: str) -> list[dict[str, str]]:
        """What a page without marimo can show of a value."""
        if value is None:
            return []
        if id(value) in self.given:
            _, name, content = self.given[id(value)]
            if name == "md":
                return [{"kind": "markdown", "content": inspect.cleandoc(content)}]
            if isinstance(content, dict):
                parts = [(f"**{title}**", part) for title, part in content.items()]
                return [o for i, pair in enumerate(parts) for p in pair for o in self.outputs(p, f"{salt}-{i}")]
            several = content if isinstance(content, list | tuple) else [content]
            return [o for i, part in enumerate(several) for o in self.outputs(part, f"{salt}-{i}")]
        return [show(value, salt)]


def show(value: Any, salt: str) -> dict[str, str]:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    if isinstance(value, Axes):
        value = value.figure
    if isinstance(value, Figure):
        from unlazy.plotting.style import svg

        return {"kind": "svg", "content": svg(value, salt=salt)}
    if type(value).__module__.startswith("marimo"):
        return {"kind": "control", "content": _control(value)}
    if isinstance(value, str):
        return {"kind": "text", "content": value}
    if isinstance(value, np.generic):
        value = value.item()
    # The HTML of a labelled array folds out with scripts and styles of its own; its text says as much.
    if type(value).__module__.startswith("xarray"):
        return {"kind": "text", "content": repr(value)}
    for method, kind in (("_repr_markdown_", "markdown"), ("_repr_html_", "html"), ("_repr_svg_", "svg")):
        if hasattr(value, method) and (made := getattr(value, method)()):
            return {"kind": kind, "content": made}
    return {"kind": "text", "content": repr(value)}


def _label(value: Any) -> str:
    """The label of a control, which marimo keeps only as JSON in its HTML."""
    found = re.search(r"data-label='(.*?)'", value.text)
    label = json.loads(html.unescape(found[1])) if found else None
    return html.unescape(re.sub(r"<[^>]*>", "", label or "")).strip() or type(value).__name__


def _control(value: Any) -> str:
    """What a control of the notebook is set to, and what else it could be."""
    words = f"{_label(value)}: {getattr(value, 'value', '')}"
    steps = getattr(value, "steps", None)
    if steps:
        return f"{words} (one of {', '.join(f'{step:g}' for step in steps)})"
    if getattr(value, "stop", None) is not None:
        return f"{words} (from {value.start:g} to {value.stop:g})"
    return words


class Cell:
    """A cell as the file has it: its code without marimo's frame around it."""

    def __init__(self, node: ast.FunctionDef | ast.ClassDef | ast.With, lines: list[str]) -> None:
        self.setup = isinstance(node, ast.With)
        self.is_text = self.hidden = False
        if isinstance(node, ast.With):
            first, last = node.items[0].context_expr.end_lineno + 1, node.end_lineno
        elif not any("app.cell" in ast.unparse(decorator) for decorator in node.decorator_list):
            # A function or class that other files can import: all but marimo's decorator is the reader's.
            own = [d for d in node.decorator_list if "app." in ast.unparse(d)]
            first, last = own[0].end_lineno + 1, node.end_lineno
        else:
            body = [n for n in node.body if not isinstance(n, ast.Return)]
            # Comments above the first statement belong to the cell; the statement itself may begin lines below.
            first = _header_end(node, lines) + 1
            last = body[-1].end_lineno if body else first - 1
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call):
                    self.hidden |= any(k.arg == "hide_code" and ast.literal_eval(k.value) for k in decorator.keywords)
            only = body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None
            self.is_text = isinstance(only, ast.Call) and ast.unparse(only.func) == "mo.md"
        self.hidden |= self.is_text
        self.code = textwrap.dedent("\n".join(lines[first - 1 : last])).strip()


def _header_end(node: ast.FunctionDef, lines: list[str]) -> int:
    """The last line of `def name(arguments):`."""
    end = node.lineno
    while not lines[end - 1].rstrip().endswith(":"):
        end += 1
    return end


def cells(text: str) -> list[Cell]:
    """The cells of a notebook in their order."""
    lines, found = text.splitlines(), []
    for node in ast.parse(text).body:
        frames = [ast.unparse(d) for d in getattr(node, "decorator_list", [])]
        if isinstance(node, ast.With):
            frames = [ast.unparse(node.items[0].context_expr)]
        if any(f.startswith(("app.setup", "app.cell", "app.function", "app.class_definition")) for f in frames):
            found.append(Cell(node, lines))
    return found


def numbers(value: Any) -> Any:
    """What JSON can have of a value: numbers, texts, arrays, verdicts and results of runs; None of anything else."""
    from unlazy.lab.running.result import Run

    if isinstance(value, Run):
        verdicts = {verdict.claim.id: verdict.verdict for verdict in value.verdicts}
        return {"verdicts": verdicts, "computed": value.computed, "results": numbers(value.simulated)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: numbers(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(name): numbers(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [numbers(part) for part in value]
    if type(value).__module__.startswith("xarray"):
        return numbers(value.to_dict())
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist() if value.dtype.kind in "fiub" else None
    return value if isinstance(value, str | int | float | bool) else None


def main(notebook: str, out: str) -> None:
    recorder = Recorder()
    spec = importlib.util.spec_from_file_location("notebook", notebook)
    module = importlib.util.module_from_spec(spec)
    sys.modules["notebook"] = module
    with contextlib.redirect_stdout(sys.stderr):
        spec.loader.exec_module(module)
        outputs, names = module.app.run()
    found = cells(Path(notebook).read_text(encoding="utf-8"))
    running = [cell for cell in found if not cell.setup]
    if len(outputs) == len(found):
        running = found
    if len(outputs) != len(running):
        raise SystemExit(f"{notebook} has {len(running)} cells but gave {len(outputs)} outputs")
    values = dict(zip(map(id, running), outputs, strict=True))
    made = []
    for index, cell in enumerate(found):
        shown = recorder.outputs(values.get(id(cell)), f"{Path(notebook).stem}-{index}")
        made.append({"code": "" if cell.hidden else cell.code, "outputs": shown})
    Path(out).write_text(json.dumps({"cells": made, "names": numbers(dict(names))}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

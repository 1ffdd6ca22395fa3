"""Tutorials: each is a marimo notebook, run once, with its text, its code and what the code gave."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from stored import cached, code_of
from text import block, code, plain

from unlazy.lab import registry

NOTEBOOKS = ("first_steps", "your_own_study", "your_own_data", "your_own_network")
_LIBRARIES = ("jaxlib", "marimo", "matplotlib", "numpy", "scikit-learn", "scipy", "torch", "xarray")
_RUNNER = Path(__file__).with_name("run_notebook.py")


def pages(folder: Path, names: Sequence[str] = NOTEBOOKS) -> dict[str, str]:
    """The Markdown of the tutorials by file name."""
    files = [file for name in names if (file := folder / f"{name}.py").is_file()]
    # Python before 3.11.8 cannot make syntax trees in two threads at once; what is made here is remembered.
    for file in files:
        _code(file)
    with ThreadPoolExecutor(2) as pool:
        return dict(pool.map(lambda file: (f"{file.stem}.md", page(file)), files))


def page(file: Path) -> str:
    """A notebook as a page."""
    parts = [_cell(cell) for cell in ran(file)["cells"]]
    # The title comes first, before the imports that open a notebook.
    parts.sort(key=lambda part: not part.startswith("# "))
    title, _, rest = parts[0].partition("\n")
    about = (
        f'<p class="caption">This page is the notebook {code(f"notebooks/{file.name}")} and what it gave when the site '
        f"was built. {code(f'marimo edit notebooks/{file.name}')} opens it.</p>"
    )
    parts[:1] = [title, about, rest.strip()]
    return "\n\n".join(part for part in parts if part) + "\n"


def ran(file: Path) -> dict[str, Any]:
    """What a notebook gives: run now, or before with the same code and the same libraries."""
    libraries = " ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    return cached(f"notebook {file.name} {sys.version} {libraries}", _code(file), partial(run, file))


def _code(file: Path) -> str:
    """The hash of what a notebook depends on: its imports, and the studies that it names."""
    modules = [module for name, module in registry.names().items() if f'"{name}"' in file.read_text(encoding="utf-8")]
    files = [Path(importlib.util.find_spec(module).origin) for module in modules]
    return " ".join(code_of(f, whole=True) for f in [file, _RUNNER, *files])


def run(file: Path) -> dict[str, Any]:
    """A notebook's cells with outputs and its numbers, from a process of its own with a store of its own.

    A warning ends it: readers must not see one.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "UNLAZY_STORE": str(Path(folder) / "store.sqlite"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "error", str(_RUNNER), str(file), f"{folder}/cells.json"]
        print(f"tutorial {file.stem}: running", file=sys.stderr, flush=True)
        # no limit of time: a busy machine takes as long as it takes
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{file.name} did not run:\n{done.stderr[-3000:]}")
        return json.loads((Path(folder) / "cells.json").read_text(encoding="utf-8"))


def _cell(cell: dict[str, Any]) -> str:
    shown = [block(cell["code"], "python")] if cell["code"] else []
    shown += [_output(output) for output in cell["outputs"]]
    return "\n\n".join(shown)


def _output(output: dict[str, str]) -> str:
    kind, content = output["kind"], output["content"]
    if kind == "markdown":
        return content
    if kind == "svg":
        return f'<figure class="result">{content}</figure>'
    if kind == "html":
        return f'<div class="output">{content}</div>'
    if kind == "control":
        return f'<p class="control">{plain(content)}</p>'
    return f'<div class="output" markdown="1">\n\n{block(content, "text")}\n\n</div>'

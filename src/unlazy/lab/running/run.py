"""The Python door: run a study, evaluate its theory, ask what it costs."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.grid import MAIN, ParameterGrid, default_grid, preset_grids
from unlazy.lab.parse import as_text, parse_over, parse_set
from unlazy.lab.running import dataset
from unlazy.lab.running.events import Listener, only_warn
from unlazy.lab.running.laboratory import Laboratory
from unlazy.lab.running.result import Run
from unlazy.lab.running.store import Store
from unlazy.lab.study import Study
from unlazy.words import brief, listed

if TYPE_CHECKING:
    import xarray as xr

    from unlazy.lab.running.cost import Cost

Given = Mapping[str, Any] | Sequence[str] | None
"""Parameters by name, or as the command line has them: `name=value`, `name=a,b,c`, `name=start:stop:steps`."""


class Asked(NamedTuple):
    """What a call asks for: a study's grids by part, and the shell command that repeats it."""

    study: type[Study]
    grids: dict[str, ParameterGrid]
    command: str


def ask(
    study: str | type[Study],
    preset: str = "quick",
    set: Given = None,
    over: Given = None,
    seeds: int | None = None,
    stream: str = MAIN,
    part: str | None = None,
) -> Asked:
    """The grids of a preset of a study with changes; a mistake is told before anything is computed."""
    cls = registry.find(study)
    fixed, axes = _read(cls, set, over)
    grids = preset_grids(cls, preset, set=fixed, over=axes, seeds=seeds, stream=stream, part=part)
    return Asked(cls, grids, command_line(cls, preset, fixed, axes, seeds, stream, part))


def run(
    study: str | type[Study],
    *,
    preset: str = "quick",
    set: Given = None,
    over: Given = None,
    seeds: int | None = None,
    stream: str = MAIN,
    part: str | None = None,
    store: str | os.PathLike | Store | None = None,
    cluster: str | None = None,
    memory: float | None = None,
    progress: Listener = only_warn,
) -> Run:
    """Simulate a study, predict it, and judge its claims.

    `study` is a name, 'file.py:Class' or a Study class. `set` fixes parameters and `over` gives axes, both on top of
    the preset; runs in different streams draw different numbers; `part` runs one part of the preset alone. Results are
    kept in `store` (a file; the user's default if None): the same call again computes only what is missing. `cluster`
    is 'local:N' or a Dask scheduler's address; `memory` is the budget in GiB, a quarter of free memory if None.
    `progress` is called with every `Event`.
    """
    asked = ask(study, preset, set, over, seeds, stream, part)
    with Laboratory(store, cluster, memory, progress) as laboratory:
        laboratory.warn_of_damage()
        return laboratory.run(*asked)


def estimate(
    asked: Asked, *, store: str | os.PathLike | Store | None = None, memory: float | None = None
) -> list[Cost]:
    """What a run would cost, program by program; chunks that were never run are run once for it, and not stored."""
    from unlazy.lab.running.cost import costs

    if not isinstance(asked, Asked):
        raise InputError(f"asked must be what ask() returns, got {brief(asked)}")
    with Laboratory(store, memory=memory) as laboratory:
        return costs(laboratory, asked.study, asked.grids, measure=True)


class Prediction(NamedTuple):
    """A study's theory: by output, an array for every point of the grid, in its order."""

    grid: ParameterGrid
    points: dict[str, list[np.ndarray]]

    @property
    def dataset(self) -> xr.Dataset:
        return dataset.labelled(self.grid, self.points)

    @property
    def notes(self) -> list[str]:
        """What stands for the entries that are no finite numbers, a sentence for all outputs that it is true of."""
        said: dict[str, list[str]] = {}
        for name, column in self.points.items():
            output = self.grid.study.outputs[name]
            never = "it never comes there" if output.undefined == math.inf else "the theory's number is infinite"
            if any(np.isnan(point).any() for point in column):
                said.setdefault(f"–: {output.unpredicted or 'the theory has no number there'}", []).append(name)
            if any(np.isinf(point).any() for point in column):
                said.setdefault(f"inf: {output.infinite or never}", []).append(name)
        return [f"{sentence} ({listed(names)})" for sentence, names in said.items()]


def predict(study: str | type[Study], *, set: Given = None, over: Given = None) -> xr.Dataset:
    """The study's theory around its default parameters, without simulation."""
    return predicted_points(study, set, over).dataset


def predicted_points(study: str | type[Study], set: Given = None, over: Given = None) -> Prediction:
    """What `predict` labels, before it is; xarray takes longer to load than most theory to compute."""
    cls = registry.find(study)
    if not cls.defines("predict"):
        raise InputError(f"{cls.name} has no theory that can be evaluated without simulation; use 'unlazy run'")
    fixed, axes = _read(cls, set, over)
    grid = default_grid(cls, set=fixed, over=axes)
    grid.validate()
    points = dataset.predict_points(grid)
    if points is None:
        known = f"; it has one {cls.theory_in_words()}" if cls.theory_for else ""
        raise InputError(f"{cls.name} has no theory at these parameters{known}")
    return Prediction(grid, points)


def _read(cls: type[Study], set: Given, over: Given) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    for name, given in (("set", set), ("over", over)):
        listed = isinstance(given, list | tuple) and all(isinstance(entry, str) for entry in given)
        if not (given is None or isinstance(given, Mapping) or listed):
            raise InputError(f"{name} must be a dict, or a list of texts like 'name=value', got {brief(given)}")
    fixed = set if isinstance(set, Mapping) else parse_set(cls, set or ())
    return fixed, over if isinstance(over, Mapping) else parse_over(cls, over or ())


def command_line(
    cls: type[Study],
    preset: str,
    set: Mapping[str, Any] | None = None,
    over: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    stream: str = MAIN,
    part: str | None = None,
) -> str:
    """The shell command that repeats a run."""
    import shlex

    words = ["unlazy", "run", registry.reference(cls), "--preset", preset]
    if part is not None:
        words += ["--part", part]
    for name, value in (set or {}).items():
        words += ["--set", f"{name}={as_text(value)}"]
    for name, values in (over or {}).items():
        words += ["--over", f"{name}={as_text(values)}"]
    if seeds is not None:
        words += ["--seeds", str(seeds)]
    if stream != MAIN:
        words += ["--stream", stream]
    return shlex.join(words)

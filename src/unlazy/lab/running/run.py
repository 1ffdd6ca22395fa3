"""The Python door: run a study, or evaluate its theory."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unlazy.checks import InputError
from unlazy.lab import registry
from unlazy.lab.grid import Grid, default_grid, preset_grids
from unlazy.lab.running import dataset
from unlazy.lab.running.laboratory import Laboratory
from unlazy.lab.running.progress import Progress
from unlazy.lab.running.result import Run
from unlazy.lab.running.store import Store
from unlazy.lab.study import Study

if TYPE_CHECKING:
    import xarray as xr


def run(
    study: str | type[Study],
    *,
    preset: str = "quick",
    set: Mapping[str, Any] | None = None,
    over: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    store: str | os.PathLike | Store | None = None,
    cluster: str | None = None,
    memory: float | None = None,
    progress: Progress | None = None,
) -> Run:
    """Simulate a study, predict it, and judge its claims.

    `study` is a name, 'file.py:Class' or a Study class. `set` fixes parameters and `over` gives axes, both on top of
    the preset. Results are kept in `store` (a file; the user's default if None): the same call again computes only what
    is missing. `cluster` is 'local:N' or a Dask scheduler's address; `memory` is the budget in GiB, a quarter of free
    memory if None.
    """
    cls = registry.find(study)
    grids = preset_grids(cls, preset, set=set, over=over, seeds=seeds)
    with Laboratory(store, cluster, memory, progress) as laboratory:
        return laboratory.run(cls, grids, command_line(cls, preset, set, over, seeds))


def predict(
    study: str | type[Study],
    *,
    set: Mapping[str, Any] | None = None,
    over: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """The study's theory around its default parameters, without simulation."""
    cls = registry.find(study)
    result = dataset.predicted(prediction_grid(cls, set or {}, over or {}))
    if result is None:
        raise no_theory(cls)
    return result


def no_theory(cls: type[Study]) -> InputError:
    """What to tell who asks for a prediction at parameters that the theory of a study does not cover."""
    return InputError(f"{cls.name} has no theory at these parameters; its predict says: {inspect.getdoc(cls.predict)}")


def prediction_grid(cls: type[Study], set: Mapping[str, Any], over: Mapping[str, Any]) -> Grid:
    """The checked grid on which a study's theory is asked for."""
    if not cls.defines("predict"):
        raise InputError(f"{cls.name} has no theory that can be evaluated without simulation; use 'unlazy run'")
    grid = default_grid(cls, set=set, over=over)
    grid.validate()
    return grid


def command_line(
    cls: type[Study],
    preset: str,
    set: Mapping[str, Any] | None,
    over: Mapping[str, Any] | None,
    seeds: int | None,
) -> str:
    """The shell command that repeats a run."""
    import shlex

    words = ["unlazy", "run", registry.reference(cls), "--preset", preset]
    for name, value in (set or {}).items():
        words += ["--set", f"{name}={_text(value)}"]
    for name, values in (over or {}).items():
        words += ["--over", f"{name}={_text(values)}"]
    if seeds is not None:
        words += ["--seeds", str(seeds)]
    return shlex.join(words)


def _text(value: Any) -> str:
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return ",".join(_text(v) for v in value)

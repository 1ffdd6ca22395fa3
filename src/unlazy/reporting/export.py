"""Stored results as netCDF, the field's exchange format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from unlazy.checks import InputError, check_writable
from unlazy.lab.grid import MAIN
from unlazy.lab.running.dataset import without_diverged
from unlazy.lab.running.laboratory import Laboratory
from unlazy.lab.running.run import Given, ask
from unlazy.lab.running.store import Store
from unlazy.lab.study import Study
from unlazy.words import brief

if TYPE_CHECKING:
    import xarray as xr


def export(
    study: str | type[Study],
    file: str | os.PathLike,
    *,
    preset: str = "quick",
    set: Given = None,
    over: Given = None,
    seeds: int | None = None,
    stream: str = MAIN,
    part: str | None = None,
    store: str | os.PathLike | None = None,
) -> None:
    """Write the stored results of a run, one group per part; nothing is computed."""
    asked = ask(study, preset, set, over, seeds, stream, part)
    if not isinstance(file, str | os.PathLike):
        raise InputError(f"file must be the name of a file, got {brief(file)}")
    if Path(file).suffix != ".nc":
        raise InputError(f"output must end in .nc, got {str(file)!r}")
    check_writable(Path(file))
    with Store(store, create=False) as opened, Laboratory(opened) as laboratory:
        collectors, work = laboratory.load(asked.study, asked.grids)
        missing = sum(len(w.missing) for w in work)
        if missing:
            total = sum(grid.instances for grid in asked.grids.values())
            raise InputError(
                f"the store lacks {missing} of {total} results of {asked.study.name}; first 'unlazy run' it with the "
                "same options"
            )
        try:
            write_netcdf(file, {n: without_diverged(collector.dataset()) for n, collector in collectors.items()})
        except OSError as error:
            raise InputError(f"output {file} cannot be written: {error}") from None


def write_netcdf(file: str | os.PathLike, groups: Mapping[str, xr.Dataset]) -> None:
    """Write datasets into one file, a group each."""
    for index, (name, dataset) in enumerate(groups.items()):
        # netCDF has no booleans.
        plain = dataset.assign_attrs({k: int(v) for k, v in dataset.attrs.items() if isinstance(v, bool)})
        plain.to_netcdf(file, mode="a" if index else "w", group=name, engine="h5netcdf")

"""Stored results as netCDF, the field's exchange format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from unlazy.checks import InputError
from unlazy.lab.grid import Grid
from unlazy.lab.running.dataset import without_diverged
from unlazy.lab.running.laboratory import Laboratory
from unlazy.lab.study import Study


def write_netcdf(laboratory: Laboratory, study: type[Study], grids: Mapping[str, Grid], file: str | Path) -> None:
    """Write the stored results of the grids, one group per part; nothing is computed."""
    if Path(file).suffix != ".nc":
        raise InputError(f"output must end in .nc, got {str(file)!r}")
    collectors, work = laboratory.load(study, grids)
    missing = sum(len(w.missing) for w in work)
    if missing:
        total = sum(grid.size * grid.seeds for grid in grids.values())
        raise InputError(
            f"the store lacks {missing} of {total} results of {study.name}; first 'unlazy run' it with the same options"
        )
    try:
        for index, (name, collector) in enumerate(collectors.items()):
            dataset = without_diverged(collector.dataset())
            # netCDF has no booleans.
            dataset.attrs = {k: int(v) if isinstance(v, bool) else v for k, v in dataset.attrs.items()}
            dataset.to_netcdf(file, mode="a" if index else "w", group=name, engine="h5netcdf")
    except OSError as error:
        raise InputError(f"output {file} cannot be written: {error}") from None

"""What came of a run."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from unlazy.checks import InputError
from unlazy.lab.claims import VERDICT_COLUMNS, Verdict, tally
from unlazy.lab.grid import Grids
from unlazy.lab.judge import diverged_among
from unlazy.lab.running import dataset
from unlazy.lab.running.lines import lines
from unlazy.lab.study import Part, Study
from unlazy.plotting.drawing import Drawn, draw_panels, plain_panels
from unlazy.plotting.film import moving
from unlazy.plotting.picture import Picture
from unlazy.plotting.style import style

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Run:
    """What came of a run: datasets by part, verdicts, and on demand the figure. Notebooks show its verdicts."""

    study: type[Study]
    grids: Grids
    parts: Mapping[str, Part]
    verdicts: tuple[Verdict, ...]
    computed: int
    seconds: float
    cost: float
    """The seconds of simulation that the results took when they were computed, in this run or before."""
    command: str
    processor_seconds: float = 0.0
    """What this run computed took on the processor, with compilation; 0 where that is not known, as on a cluster."""

    @property
    def core_seconds(self) -> float:
        """What all instances take on the processor, by those that this run computed; else the seconds of simulation."""
        if not self.computed or not self.processor_seconds:
            return self.cost
        return self.processor_seconds * sum(grid.instances for grid in self.grids.values()) / self.computed

    @property
    def simulated(self) -> xr.Dataset | dict[str, xr.Dataset]:
        """The simulation: a Dataset, or one per part where there are several."""
        return _only({name: part.simulated for name, part in self.parts.items()})

    @property
    def predicted(self) -> xr.Dataset | dict[str, xr.Dataset | None] | None:
        """The theory at the simulated points: a Dataset, or one per part where there are several."""
        return _only({name: part.predicted for name, part in self.parts.items()})

    @property
    def divergence(self) -> str:
        """How many runs diverged and how early; empty if none did."""
        return diverged_among(self.parts.values())

    @property
    def as_documented(self) -> bool:
        """Whether every verdict is the one that the study documents."""
        return all(verdict.as_documented for verdict in self.verdicts)

    def drawn(self, apart: bool = False) -> Drawn:
        """The study's figure with its caption; the lab's own where the run has axes that it does not expect.

        With `apart` every panel is a figure of its own, for a page that arranges them.
        """
        pictures = {name: self._picture(name) for name in self.parts}
        with style():
            if self.study.figure is not None and not any(grid.added for grid in self.grids.values()):
                try:
                    return draw_panels(self.study, self.study.figure, pictures, apart)
                except Exception as error:
                    warnings.warn(
                        f"the figure of {self.study.name} does not fit this run ({type(error).__name__}: {error}); "
                        "drawing the plain one",
                        RuntimeWarning,
                        stacklevel=1,
                    )
            added = {name: grid.added for name, grid in self.grids.items()}
            return draw_panels(self.study, plain_panels(self.study, pictures, added), pictures, apart)

    def figure(self) -> Figure:
        """The study's figure."""
        return self.drawn().rows[0][0]

    def film(self) -> Figure:
        """Those panels of the study's figure whose horizontal axis is time, for `plotting.film.save_film`."""
        spec = moving(self.study.figure)
        if spec is None:
            raise InputError(f"{self.study.name} has no panel along time, which a film would need")
        with style():
            return draw_panels(self.study, spec, {name: self._picture(name) for name in self.parts}).rows[0][0]

    def _picture(self, name: str) -> Picture:
        grid, part = self.grids[name], self.parts[name]
        dense = self.study.lines.get(name)
        derived = self.study(**grid.fixed).derive(part.simulated) if self.study.defines("derive") else None
        return Picture(*part, dataset.predicted(grid) if dense is None else lines(grid, dense), derived)

    def __repr__(self) -> str:
        return f"<Run of {self.study.name}: {tally([verdict.verdict for verdict in self.verdicts])}>"

    def _repr_html_(self) -> str:
        """The table of verdicts, for notebooks."""
        rows = [VERDICT_COLUMNS, *((v.claim.id, *v.cells, v.where or "–") for v in self.verdicts)]
        space = ' style="padding: 0.2em 1em 0.2em 0; text-align: left"'
        head, *body = ("<tr>" + "".join(f"<td{space}>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        table = f"<thead>{head.replace('<td', '<th').replace('td>', 'th>')}</thead><tbody>{''.join(body)}</tbody>"
        return f"<p><b>{self.study.name}</b>: {escape(self.study.question)}</p><table>{table}</table>"

    def claims_json(self) -> list[dict[str, Any]]:
        """The claims with their verdicts and what is recorded of them."""
        from unlazy.lab.running.evidence import evidence_json

        return [{**verdict.as_json(), **evidence_json(self.study, verdict.claim)} for verdict in self.verdicts]

    def as_json(self) -> dict[str, Any]:
        """The run in the form of the command line's JSON.

        `parameters` has what is the same in all parts; what varies, or differs between parts, is with the results.
        """
        single = [grid.parameters() for grid in self.grids.values()]
        shared = {n: v for n, v in single[0].items() if all(n in other and other[n] == v for other in single)}
        results, dims = {}, {}
        for (name, part), own in zip(self.parts.items(), single, strict=True):
            arrays: dict[Any, Any] = dict(part.simulated.variables)
            if part.predicted is not None:
                arrays.update({f"predicted_{n}": a for n, a in part.predicted.data_vars.items()})
            dims[name] = {n: list(a.dims) for n, a in arrays.items()}
            rest = {n: v for n, v in own.items() if n not in shared and n not in arrays}
            results[name] = {**rest, **{n: a.values for n, a in arrays.items()}}
        return dataset.as_json(
            {
                "study": self.study.name,
                "parameters": shared,
                "claims": self.claims_json(),
                "diverged": self.divergence,
                "seconds": self.seconds,
                "results": results,
                "dims": dims,
            }
        )


def _only(parts: dict[str, Any]) -> Any:
    return next(iter(parts.values())) if len(parts) == 1 else parts

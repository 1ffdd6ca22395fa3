"""Double loops: particle dual averaging and stochastic dual coordinate ascent with an exact inner loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Change, Output, Study, at_most, between, cite, claim, kept, parameter, slope, static
from unlazy.plotting import style
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.mean_field.shared.tanh_network import BOUND, INPUTS, LOSSES, TARGETS, optimum

STEPS = {
    "averaging": (2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 100, 140, 200, 280, 400),
    "online": (10, 30, 50, 100, 200, 300, 500, 700, 1000),
    "ascent": (10, 30, 100, 200, 300, 600),
}
SMOOTHNESS = {"square": 1.0, "logistic": 0.25}
WARM = 0.1
"""The least temperature at which dual averaging is stable from t = 100 on, rho < 100."""
PAIR = ("confinement", "temperature")
PAIRS = [(0.05, 0.1), (0.1, 0.2), (0.01, 0.05)]


def _tail(part, low, high):
    return part.simulated.gap.where((part.simulated.step >= low) & (part.simulated.step <= high), drop=True)


def _gap(data):
    """The measured gap of the ascent, and the guaranteed one."""
    return data.get("gap", data.get("bound"))


def _runs(axes, data, color):
    axes.plot(data.step, data.gap.transpose("step", "seed"), "-", color=color, alpha=0.25, linewidth=0.8, zorder=1)


def _averaged(axes, averaging, **_):
    """One run for each temperature, which has no randomness, and where theory has the speed change."""
    gaps, radii = averaging.simulated.gap.isel(seed=0), np.atleast_1d(averaging.predicted.radius)
    heats = np.atleast_1d(parameter(averaging.simulated, "temperature"))
    for index, (gap, radius, heat) in enumerate(zip(np.atleast_2d(gaps), radii, heats, strict=True)):
        look: dict[str, Any] = {"color": style.colour(index), "linewidth": 0.8}
        axes.plot(gaps.step, gap, f"{style.marker(index)}-", label=rf"$\lambda_2 = {heat:g}$", **look)
        axes.axvline(radius, linestyle=":", **look)


def _online(axes, online, **_):
    _runs(axes, online.simulated, style.colour(0))
    steps = np.array([200.0, 1000.0])
    axes.plot(steps, float(online.predicted.constant) / steps, "--", color="black", label="theory, $c/t$")


def _ascended(axes, ascent, **_):
    data = ascent.simulated
    for index, one in enumerate([data.sel(loss=loss) for loss in data["loss"]] if "loss" in data.dims else [data]):
        _runs(axes, one, style.colour(index))


@dataclass(frozen=True)
class MfldDoubleLoop(Study):
    """The tanh network of 20 samples whose optimum is exact; the inner loop is quadrature on a grid.

    `averaging` sees all losses at each step, `online` one drawn at random, `ascent` moves one dual coordinate. The gap
    is L(q_t) - L* for dual averaging and D* - D for ascent.
    """

    question = "Do the double loops for mean-field networks converge as fast as their theorems say?"
    sources = cite("nitanda2021particle", "oko2022particle")

    method: str = static("averaging", "method", choices=tuple(STEPS))
    loss: str = static("square", "loss", choices=tuple(LOSSES))
    confinement: float = static(0.05, "confinement", symbol=r"\lambda_1", low=1e-4, high=10, scale="log")
    temperature: float = static(0.1, "temperature", symbol=r"\lambda_2", low=1e-3, high=10, scale="log")
    points: int = static(61, "points along an axis of the grid", low=41, high=401)

    outputs = {
        "gap": Output("gap to the optimum", "", ("step",), scale="log"),
        "bound": Output("guaranteed gap of the ascent", "", ("step",), scale="log", theory_only=True),
        "fall": Output("step at which the gap is first below half its start", "t", undefined=np.nan),
        "constant": Output("limit of t times the online gap", theory_only=True),
        "radius": Output("spectral radius of the naive iteration", r"\rho", theory_only=True),
    }
    history = (
        Change(
            "online-constant",
            "this claim",
            "the slope of `online` is dominated by the end of the unstable phase (from t = 300 to 3000 eight seeds "
            "give -0.6 +- 0.4)",
        ),
        Change(
            "unstable-until",
            "the criterion, after four pairs of confinement and temperature",
            "what the time is compared with, t + 2 > lmax(C)/(n lambda_2), is from the linearisation, before the look",
        ),
    )
    presets = {
        "quick": {
            "averaging": {"method": "averaging", PAIR: PAIRS, "seeds": 2},
            "online": {"method": "online", "seeds": 12},
            "ascent": {"method": "ascent", "loss": ["square", "logistic"], "seeds": 8},
        },
        "full": {
            "averaging": {"method": "averaging", PAIR: [*PAIRS, (0.2, 0.4), (0.025, 0.05)], "points": 121, "seeds": 2},
            "online": {"method": "online", "points": 121, "seeds": 64},
            "ascent": {"method": "ascent", "loss": ["square", "logistic"], "points": 121, "seeds": 64},
        },
    }
    figure = panels(
        Panel(
            "gap",
            x="step",
            part="averaging",
            points=False,
            draw=_averaged,
            log="xy",
            xlabel="outer steps $t$",
            ylabel="$L(q_t)-L^*$",
            title=r"dual averaging; dotted: $t=\rho$",
        ),
        Panel(
            "gap",
            x="step",
            part="online",
            draw=_online,
            log="xy",
            xlabel="outer steps $t$",
            ylabel="$L(q_t)-L^*$",
            title="online: one random loss a step",
        ),
        Panel(
            _gap,
            x="step",
            by="loss",
            part="ascent",
            draw=_ascended,
            log="xy",
            xlabel="outer steps $t$",
            ylabel="$D^*-D$",
            title="coordinate ascent; thick lines: bound",
        ),
        width=3.1,
        caption="Thin lines are single runs; on the left one for each temperature.",
    )

    @claim("nitanda2021particle", "", at_most(-1.0))
    def averaging(averaging):
        """The gap of dual averaging falls at least as 1/t: for t from 100 to 400 its slope is {criterion} (where
        lambda_2 is at least 0.1; at 0.05 it is unstable until then)."""
        gaps = _tail(averaging, 100, 400)
        if "temperature" not in gaps.coords:
            gaps = gaps.expand_dims(temperature=[parameter(averaging.simulated, "temperature")])
        return kept(slope(gaps, "step"), gaps.temperature >= WARM)

    @claim("nitanda2021particle", "", at_most(-0.8), resampled=True)
    def online(online):
        """With one random loss a step the mean gap falls at least about as 1/t: for t from 100 to 1000 its slope is
        {criterion}."""
        return slope(_tail(online, 100, 1000).mean("seed"), "step")

    @claim(OWN, "linearised averaging", between(0.5, 2.0), resampled=True)
    def online_constant(online):
        """Once the unstable phase is over the gap is constant/t: t times the mean gap, averaged over t = 300, 500, 700,
        1000, is {criterion} times the constant of the linearisation."""
        late = _tail(online, 300, 1000) * online.simulated.step
        return late.mean("step").mean("seed") / online.predicted.constant

    @claim(OWN, "linear stability", between(1 / 1.5, 1.5))
    def unstable_until(averaging):
        """Dual averaging first moves away: its gap is below half of its start only from t = rho, the spectral radius of
        the naive iteration mu <- p_mu, within a factor 1.5."""
        return averaging.simulated.fall / averaging.predicted.radius

    @claim("oko2022particle", "", at_most(1.0))
    def ascent(ascent):
        """The mean dual gap of coordinate ascent over (1 - 1/(n + R^2 s/lambda_2))^k of its start is {criterion} at
        every checkpoint k, l'' <= s."""
        return ascent.simulated.gap / ascent.predicted.bound

    def coordinates(self) -> dict[str, Any]:
        return {"step": list(STEPS[self.method])}

    def _start(self) -> np.ndarray | None:
        """g = 0 for the squared loss, as in the paper; for the logistic loss that is the boundary, so u = 0."""
        return TARGETS if self.loss == "square" else None

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.mean_field import double_loop

        found = optimum(self.loss, self.confinement, self.temperature, self.points)
        loop = double_loop.exact_inner(found.grid)
        steps = STEPS[self.method]
        rows = rng.integers(len(INPUTS), size=steps[-1])
        gaps = []
        if self.method == "ascent":
            ascent = double_loop.coordinate_ascent_init(loop, self._start())
            gaps.append(found.objective - ascent.dual)
            for row in rows:
                ascent = double_loop.coordinate_ascent_step(loop, ascent, int(row), BOUND)
                gaps.append(found.objective - ascent.dual)
        else:
            state = double_loop.dual_averaging_init(loop)
            gaps = [np.nan, state.law.objective - found.objective]
            for row in rows[1:]:
                state = double_loop.dual_averaging_step(loop, state, int(row) if self.method == "online" else None)
                gaps.append(state.law.objective - found.objective)
        curve = np.array(gaps)
        start = 0 if self.method == "ascent" else 1
        below = np.flatnonzero(curve[start:] < curve[start] / 2)
        return {"gap": curve[list(steps)], "fall": start + below[0] if below.size else np.nan}

    def predict(self) -> dict[str, Any]:
        from unlazy.theory.mean_field.dual import naive_iteration_radius, online_averaging_constant
        from unlazy.training.mean_field import double_loop

        found = optimum(self.loss, self.confinement, self.temperature, self.points)
        radius = naive_iteration_radius(found)
        if self.method != "ascent":
            return {"radius": radius, "constant": online_averaging_constant(found)}
        start = double_loop.coordinate_ascent_init(double_loop.exact_inner(found.grid), self._start())
        factor = double_loop.ascent_contraction(len(INPUTS), BOUND, self.temperature, SMOOTHNESS[self.loss])
        return {"radius": radius, "bound": (found.objective - start.dual) * factor ** np.array(STEPS["ascent"])}

"""Girsanov's bound of what a wrong score costs: with constant 1 it holds and is sharp, with 1/4 it is false."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, between, path, relative_deviation, static
from unlazy.studies.diffusion.shared.score_errors import PROBLEMS, divergence_from, integral_from, reverse_particles
from unlazy.studies.diffusion.shared.sources import CHEN, OKO

_DIFFUSED = ("variance", "mean", "mixture")
"""The problems whose wrong score is that of another diffused law."""


def _start_divergences(part: Part) -> Any:
    import xarray as xr

    names = [name for name in part.simulated.problem.values if name in _DIFFUSED]
    return xr.DataArray([PROBLEMS[name].start_divergence() for name in names], {"problem": names}, ["problem"])


def _identity(part: Part) -> Any:
    """(int E|s - s_hat|^2 + KL(p_T || q_T)) / KL(p_0 || q_0) - 1 with the integral from draws."""
    start = _start_divergences(part)
    names = list(start.problem.values)
    simulated, predicted = part.simulated.sel(problem=names), part.predicted.sel(problem=names)
    return (simulated.integral + predicted.final_divergence) / start - 1


@dataclass(frozen=True)
class GirsanovBound(Study):
    """The integral is that of the error of the score s in dY = (Y + 2 s) dt + sqrt(2) dB, whose drift has 2 s.

    `not-always-sharp` first asked for a ratio below 0.6 at every T; the exact value is 0.78 at T = 0.25 and 0.15 at 4.
    """

    name = "girsanov-bound"
    topic = "diffusion"
    question = (
        "Is KL(data || samples) of a reverse diffusion with a wrong score at most int E|s - s_hat|^2, or a quarter?"
    )
    caption = (
        "Points: simulation, means over seeds with 99% intervals. Coloured lines: theory, on the right solid for the "
        "integral and dashed for KL, of which points show the integral only. Black lines on the left: the two bounds "
        "in question."
    )
    sources = (CHEN, OKO)

    problem: str = static("variance", "what is wrong with the score", choices=tuple(PROBLEMS))
    time: tuple = path((0.25, 1.0, 4.0), "time T of the diffusion", symbol="T", above=0, high=20, scale="log")
    particles: int = static(16_000, "particles", low=100, high=10_000_000, scale="log")
    steps: int = static(25, "steps of the reverse process", low=10, high=100_000, scale="log")

    outputs = {
        "divergence": Output("KL(data || samples)", r"{\rm KL}", ("time",), scale="log"),
        "integral": Output("integral of the squared score error", "", ("time",), scale="log"),
        "final_divergence": Output("KL(p_T || q_T)", "", ("time",), theory_only=True),
    }
    presets = {
        "quick": {"problem": list(PROBLEMS), "seeds": 14},
        "full": {"problem": list(PROBLEMS), "particles": 200_000, "steps": 200, "seeds": 16},
    }
    claims = (
        Claim(
            "constant-one",
            "Chen et al. 2023",
            "KL <= int E|s - s_hat|^2 dt in every problem and for every T.",
            at_most(1.0),
            theory=lambda part: part.predicted.divergence / part.predicted.integral,
        ),
        Claim(
            "quarter",
            "Oko et al. 2023, talk",
            "KL is at most a quarter of the integral.",
            at_most(0.25),
            check=lambda part: part.simulated.divergence / part.simulated.integral,
            known_negative="1/4 is the constant for the error of the drift 2 s, not of the score s: if s_hat is the "
            "score of another diffused law, KL tends to the whole integral as T grows.",
        ),
        Claim(
            "sharp",
            "de Bruijn's identity",
            "If the wrong score is that of another diffused law, the bound is an equality for long T: at T = 4 the "
            "ratio is at least 0.99.",
            at_least(0.99),
            theory=lambda part: (part.predicted.divergence / part.predicted.integral).sel(
                time=4.0, problem=[name for name in part.predicted.problem.values if name in _DIFFUSED]
            ),
            needs={"time": (4.0,), "problem": _DIFFUSED},
        ),
        Claim(
            "not-always-sharp",
            "Chen et al. 2023",
            "For a score that is nobody's, 1.4 times the true one, the bound is loose: at T = 4 KL is below half of "
            "it.",
            at_most(0.5),
            check=lambda part: (part.simulated.divergence / part.simulated.integral).sel(problem="scaled", time=4.0),
            needs={"problem": ("scaled",), "time": (4.0,)},
        ),
        Claim(
            "identity",
            "de Bruijn's identity",
            "For the score of another diffused law, KL(p_0||q_0) is the integral plus KL(p_T||q_T), within 3%.",
            between(-0.03, 0.03),
            check=_identity,
            needs={"problem": _DIFFUSED},
        ),
        Claim(
            "particles",
            "reverse diffusion",
            "Particles of the reverse process have the divergence of the theory, within 8%.",
            between(-0.08, 0.08),
            check=lambda part: relative_deviation(part.simulated.divergence, part.predicted.divergence),
        ),
    )

    def memory(self) -> int:
        return 400 * self.particles

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        problem = PROBLEMS[self.problem]
        ends = (reverse_particles(problem, rng, t, self.particles, self.steps) for t in self.time)
        divergence = [divergence_from(problem, y) for y in ends]
        integral = [integral_from(problem, rng, t, self.particles // 8) for t in self.time]
        return {"divergence": divergence, "integral": integral}

    def predict(self) -> dict[str, Any]:
        cost = PROBLEMS[self.problem].cost(np.array(self.time))
        return {
            "divergence": cost.divergence,
            "integral": cost.integral,
            "final_divergence": cost.final_divergence,
        }

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, (ratios, parts) = style.panels(2, 1, width=3.8, height=3.0)
        labels = {"variance": "variance", "mean": "mean", "scaled": "1.4 times the score", "mixture": "mixture weights"}
        times = np.geomspace(0.2, 5, 25)
        for index, name in enumerate(main.simulated.problem.values):
            color, marker = style.colour(index), style.marker(index)
            some = main.simulated.sel(problem=name)
            cost = PROBLEMS[str(name)].cost(times)
            style.theory(ratios, times, cost.divergence / cost.integral, color=color)
            ratio = some.divergence / some.integral
            style.simulation(ratios, some.time, ratio, color=color, marker=marker, label=labels[str(name)])
            style.theory(parts, times, cost.integral, color=color)
            style.theory(parts, times, cost.divergence, color=color, dashed=True)
            style.simulation(parts, some.time, some.integral, color=color, marker=marker)
        style.log_scale(ratios, "x")
        style.log_scale(parts)
        ratios.axhline(1, color="black", lw=1)
        ratios.axhline(0.25, color="black", lw=1, ls=":")
        ratios.text(5, 0.26, "the talk's 1/4", ha="right", va="bottom", fontsize=8)
        ratios.set(xlabel=style.label("time", "T"), ylabel="KL / integral of the score error", ylim=(0, 1.45))
        ratios.legend(ncols=2, loc="upper left")
        parts.plot([], [], "-", color="black", label="integral")
        parts.plot([], [], "--", color="black", label="KL")
        parts.legend()
        parts.set(xlabel=style.label("time", "T"), ylabel="nats")
        return figure

"""Girsanov's bound of what a wrong score costs: with constant 1 it holds and is sharp, with 1/4 it is false."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Change, Output, Study, at_least, at_most, cite, claim, over_theory, path, static, within
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.diffusion.shared import tabulated
from unlazy.theory.diffusion.wrong_score import LineMixture, WrongScore


def _normal(mean: float, variance: float) -> LineMixture:
    return LineMixture((1.0,), (mean,), (variance,))


def _two_modes(share: float) -> LineMixture:
    return LineMixture((share, 1 - share), (-1.0, 1.0), (0.15, 0.15))


PROBLEMS = {
    "variance": WrongScore(_normal(0.0, 0.5), _normal(0.0, 0.8)),
    "mean": WrongScore(_normal(0.0, 0.3), _normal(0.2, 0.3)),
    "scaled": WrongScore(_normal(0.0, 0.5), _normal(0.0, 0.5), score_scale=1.4),
    "mixture": WrongScore(_two_modes(0.75), _two_modes(0.5)),
}
DIFFUSED = ["variance", "mean", "mixture"]
"""The problems whose wrong score is that of another diffused law."""


@dataclass(frozen=True)
class GirsanovBound(Study):
    """The integral is that of the error of the score s in dY = (Y + 2 s) dt + sqrt(2) dB, whose drift has 2 s."""

    question = "Is KL(data || samples) of a diffusion with a wrong score at most int E|s - s_hat|^2, or a quarter?"
    sources = cite("chen2023", "oko2023")

    wrong_score: str = static("variance", "what is wrong with the score", choices=tuple(PROBLEMS))
    time: tuple = path((0.25, 1.0, 4.0), "time of the diffusion", symbol="T", above=0, high=20, scale="log")
    particles: int = static(8192, "particles", low=100, high=10_000_000, scale="log")
    reverse_steps: int = static(40, "steps of the reverse process", low=10, high=100_000, scale="log")

    outputs = {
        "divergence": Output("KL(data || samples)", dims=("time",), scale="log"),
        "integral": Output("integral of the squared score error", dims=("time",), scale="log"),
        "final_divergence": Output("KL(p_T || q_T)", dims=("time",), theory_only=True),
    }
    presets = {
        "quick": {"wrong_score": list(PROBLEMS), "seeds": 7},
        "full": {"wrong_score": list(PROBLEMS), "particles": 65_536, "reverse_steps": 200, "seeds": 16},
    }
    lines = {"main": "time"}
    history = (
        Change(
            "not-always-sharp",
            "a ratio of at most 0.5 at T = 4 alone",
            "it first asked for less than 0.6 at every T; the exact value is 0.78 at T = 0.25 and 0.15 at T = 4",
        ),
        Change(
            "particles-divergence",
            "40 steps in place of 25, draws that are even over quantiles, and 5% in place of 8%",
            "25 steps alone are off by 4.6% at T = 4; with independent draws fresh seeds would have been undecided",
        ),
    )
    figure = panels(
        Panel(
            lambda data: data.divergence / data.integral,
            x="time",
            by="wrong_score",
            title="dashed: constant 1, dotted: 1/4",
            ylabel="KL / integral of the score error",
            ylim=(0, 1.2),
            marks=(Level(1, dashed=True), Level(0.25)),
            legend=False,
        ),
        Panel("integral", x="time", by="wrong_score"),
        Panel("divergence", x="time", by="wrong_score", legend=False),
        caption="Scaled: 1.4 times the score; the others are the scores of laws with another variance, mean or weights "
        "of a mixture.",
    )

    @claim("chen2023", "", at_most(1.0), theory=True)
    def constant_one(main):
        """KL is at most int E|s - s_hat|^2 dt in every problem and for every T: the ratio is {criterion}."""
        return main.predicted.divergence / main.predicted.integral

    @claim(
        "oko2023",
        "talk",
        at_most(0.25),
        known_negative="1/4 is the constant for the error of the drift 2 s, not of the score s: if s_hat is the score "
        "of another diffused law, KL tends to the whole integral as T grows.",
    )
    def quarter(main):
        """KL is a quarter of the integral or less: {criterion} times it."""
        return main.simulated.divergence / main.simulated.integral

    @claim(OWN, "de Bruijn's identity", at_least(0.99), theory=True)
    def sharp(main):
        """If the wrong score is that of another diffused law, the bound is an equality for long T: at T = 4 the ratio
        is {criterion}."""
        return (main.predicted.divergence / main.predicted.integral).sel(time=4.0, wrong_score=DIFFUSED)

    @claim(OWN, "how loose the bound may be", at_most(0.5))
    def not_always_sharp(main):
        """For a score that is nobody's, 1.4 times the true one, the bound is loose: at T = 4 KL is {criterion} times
        it."""
        return (main.simulated.divergence / main.simulated.integral).sel(wrong_score="scaled", time=4.0)

    @claim(OWN, "de Bruijn's identity", within(0.03))
    def identity(main):
        """For the score of another diffused law, KL(p_0||q_0) is the integral plus KL(p_T||q_T), {criterion}."""
        simulated, predicted = main.simulated.sel(wrong_score=DIFFUSED), main.predicted.sel(wrong_score=DIFFUSED)
        start = tabulated(lambda name: PROBLEMS[name].divergence(), wrong_score=DIFFUSED)
        return (simulated.integral + predicted.final_divergence) / start - 1

    @claim(OWN, "exact law of the reverse diffusion", within(0.05))
    def particles_divergence(main):
        """Particles of the reverse process have the divergence of the theory, {criterion}."""
        return over_theory(main, "divergence")

    def memory(self) -> int:
        return 400 * self.particles

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.diffusion.particles import divergence_from, integral_from, reverse_particles

        problem = PROBLEMS[self.wrong_score]
        ends = (reverse_particles(rng, problem, t, self.particles, self.reverse_steps) for t in self.time)
        divergence = [divergence_from(problem.truth, y) for y in ends]
        integral = [integral_from(rng, problem, t, self.particles // 8) for t in self.time]
        return {"divergence": divergence, "integral": integral}

    def predict(self) -> dict[str, Any]:
        cost = PROBLEMS[self.wrong_score].cost(np.array(self.time))
        return {name: getattr(cost, name) for name in self.outputs}

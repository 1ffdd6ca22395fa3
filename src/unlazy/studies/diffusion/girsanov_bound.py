"""What a wrong score costs a diffusion model: Girsanov's bound holds with constant 1, and not with 1/4."""

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
LEARNED = "network"
"""The wrong score of a network that is trained on rows of a density of smoothness 2 on [-1, 1]."""


@dataclass(frozen=True)
class GirsanovBound(Study):
    """Samples come from the reverse equation dY = (Y + 2 s) dt + sqrt(2) dB, started at T from the noisy data.

    With the true score s they have the law of the data; with a wrong one they are off by KL(data || samples). The score
    error is the mean square error of s, added up over the time from 0 to T. "variance", "mean" and "mixture" are the
    scores of other laws, "scaled" is 1.4 times the true score, and "network" is trained on n rows as in
    `score-network-rate`; there the divergence is that of the Fokker-Planck equation, from the time 1e-6 on.
    """

    question = "How far from the data are the samples of a diffusion model, if its score is wrong by a known amount?"
    sources = cite("chen2023", "oko2023")

    wrong_score: str = static("variance", "what is wrong with the score", choices=(*PROBLEMS, LEARNED))
    time: tuple = path((0.25, 1.0, 4.0), "time of the diffusion", symbol="T", above=0, high=20, scale="log")
    particles: int = static(8192, "particles", low=100, high=10_000_000, scale="log")
    n: int = static(256, "rows that the network is trained on", low=16, high=1 << 24, scale="log")
    reverse_steps: int = static(40, "steps of the reverse process", low=10, high=100_000, scale="log")

    theory_for = {"wrong_score": tuple(PROBLEMS)}
    outputs = {
        "divergence": Output("KL(data || samples)", dims=("time",), scale="log"),
        "integral": Output("integral of the squared score error", dims=("time",), scale="log"),
        "final_divergence": Output("KL(p_T || q_T)", dims=("time",), theory_only=True),
    }
    presets = {
        "quick": {
            "main": {"wrong_score": list(PROBLEMS), "seeds": 7},
            "learned": {"wrong_score": LEARNED, "n": [64, 256, 1024], "seeds": 24},
        },
        "full": {
            "main": {"wrong_score": list(PROBLEMS), "particles": 65_536, "reverse_steps": 200, "seeds": 16},
            "learned": {"wrong_score": LEARNED, "n": [64, 256, 1024, 4096, 16_384], "seeds": 24},
        },
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
        Change("learned-quarter", "added as a known negative", "after a pilot in another stream"),
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
        Panel(
            lambda data: data.divergence / data.integral,
            x="time",
            by="n",
            part="learned",
            title="trained network",
            ylabel="KL / integral of the score error",
            ylim=(0, 1.2),
            marks=(Level(1, dashed=True), Level(0.25)),
        ),
        Panel("integral", x="time", by="wrong_score"),
        Panel("divergence", x="time", by="wrong_score", legend=False),
        columns=4,
        width=2.9,
        caption="Scaled: 1.4 times the score; the others are the scores of laws with another variance, mean or weights "
        "of a mixture.",
    )

    @claim("chen2023", "", at_most(1.0), theory=True)
    def constant_one(main):
        """The divergence of the samples is at most the score error: {criterion} times it, in every problem and for
        every T."""
        return main.predicted.divergence / main.predicted.integral

    @claim("chen2023", "", at_most(1.0))
    def learned(learned):
        """So it is with the score of a trained network: the divergence is {criterion} times the score error, for every
        number of rows and every T."""
        return learned.simulated.divergence / learned.simulated.integral

    @claim(
        "oko2023",
        "talk",
        at_most(0.25),
        known_negative="1/4 is the constant for the error of the drift 2 s, not of the score s: if the wrong score is "
        "that of another law, the divergence tends to the whole score error as T grows.",
    )
    def quarter(main):
        """The divergence is at most a quarter of the score error, as the talk has it: {criterion} times it."""
        return main.simulated.divergence / main.simulated.integral

    @claim(
        "oko2023",
        "talk",
        at_most(0.25),
        known_negative="For the same reason; with trained networks the divergence is 0.6 to 0.9 of the score error.",
    )
    def learned_quarter(learned):
        """So it is with the score of a trained network: {criterion} times it."""
        return learned.simulated.divergence / learned.simulated.integral

    @claim(OWN, "de Bruijn's identity", at_least(0.99), theory=True)
    def sharp(main):
        """The bound cannot be improved: if the wrong score is that of another law, the divergence at T = 4 is
        {criterion} times the score error."""
        return (main.predicted.divergence / main.predicted.integral).sel(time=4.0, wrong_score=DIFFUSED)

    @claim(OWN, "how loose the bound may be", at_most(0.5))
    def not_always_sharp(main):
        """It can be loose: for 1.4 times the true score, which is that of no law, the divergence at T = 4 is
        {criterion} times the score error."""
        return (main.simulated.divergence / main.simulated.integral).sel(wrong_score="scaled", time=4.0)

    @claim(OWN, "de Bruijn's identity", within(0.03))
    def identity(main):
        """If the wrong score is that of another law q, the score error and KL(p_T||q_T) add up to KL(p_0||q_0),
        {criterion}."""
        simulated, predicted = main.simulated.sel(wrong_score=DIFFUSED), main.predicted.sel(wrong_score=DIFFUSED)
        start = tabulated(lambda name: PROBLEMS[name].divergence(), wrong_score=DIFFUSED)
        return (simulated.integral + predicted.final_divergence) / start - 1

    @claim(OWN, "exact law of the reverse diffusion", within(0.05))
    def particles_divergence(main):
        """Simulated samples have the divergence that the theory says, {criterion}."""
        return over_theory(main, "divergence")

    def memory(self) -> int:
        return 400 * self.particles

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.diffusion.particles import divergence_from, integral_from, reverse_particles

        if self.wrong_score == LEARNED:
            from unlazy.training.diffusion.learned_scores import learned_cost

            return dict(zip(("divergence", "integral"), learned_cost(rng, self.n, self.time), strict=True))
        problem = PROBLEMS[self.wrong_score]
        ends = (reverse_particles(rng, problem, t, self.particles, self.reverse_steps) for t in self.time)
        divergence = [divergence_from(problem.truth, y) for y in ends]
        integral = [integral_from(rng, problem, t, self.particles // 8) for t in self.time]
        return {"divergence": divergence, "integral": integral}

    def predict(self) -> dict[str, Any]:
        if self.wrong_score == LEARNED:
            return {}
        cost = PROBLEMS[self.wrong_score].cost(np.array(self.time))
        return {name: getattr(cost, name) for name in self.outputs}

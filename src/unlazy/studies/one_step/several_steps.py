"""Several gradient steps: small ones are one of their total size, large ones climb the staircase of the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import (
    OWN,
    Output,
    Study,
    at_least,
    at_most,
    changes,
    cite,
    claim,
    enough,
    over_theory,
    path,
    slope,
    static,
    value,
    within,
)
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.one_step import shared
from unlazy.theory.one_step.several_steps import staircase_component
from unlazy.theory.one_step.spiked.features import gradient_step_equivalent

TARGETS = {
    "erf": lambda x: shared.link_function("erf")(x[:, 0]),
    "staircase": lambda x: x[:, 0] + x[:, 0] * x[:, 1],
    "isolated": lambda x: x[:, 0] + (x[:, 1] ** 3 - 3 * x[:, 1]) / np.sqrt(6),
}
"""erf(x_1); x_1 + x_1 x_2; x_1 + He3(x_2) / sqrt(6)."""
RIDGES = [0.01, 0.05, 0.25, 1.0]
FIRST, SECOND = "x_1", "x_2"
BATCHES = ["same", "fresh"]
LARGE = {"activation": "relu", "step_exponent": 0.5}
UNREAD = {**LARGE, "readout": False, "batches": "fresh"}
BOTH = ["staircase", "isolated"]
START = "The network's output is not 0 at the start; in the source it is, by symmetry."
GIANT = f"{START} Runs with one batch for all steps are judged as well as the source's fresh batches."


def _hidden(climb, link, steps):
    """The slope in log d, less -1, of the mean squared weight along x_2."""
    squares = climb.simulated.squared_component.sel(link=link, direction=SECOND, steps=steps, drop=True)
    return slope(squares.mean("seed"), "d", least=4) + 1


def _learned(climb, steps):
    """The mean weight along x_2 of the staircase."""
    return climb.simulated.component.sel(link="staircase", direction=SECOND, steps=steps, drop=True)


@dataclass(frozen=True)
class SeveralStepsStudy(Study):
    question = (
        "Do several gradient steps on the first layer learn what one cannot? Do small steps pass the bound of all "
        "kernels in the end, and do large ones find further directions of the target?"
    )
    sources = cite("ba2022", "dandi2024giant")

    d: int = static(128, "dimension", symbol="d", low=3, high=10_000, scale="log")
    samples_per_dimension: float = static(
        8.0, "samples of a step, and of the readout, per dimension", symbol=r"\psi_1", above=0, high=100
    )
    width_per_dimension: float = static(2.0, "neurons per dimension", symbol=r"\psi_2", above=0, high=100)
    activation: str = static("erf", "activation", choices=("erf", "tanh", "relu"))
    link: str = static("erf", "target", choices=tuple(TARGETS))
    step_exponent: float = static(0.0, "exponent of the step size N^s", symbol="s", low=0, high=1)
    readout: bool = static(True, "whether the second layer is fitted after each number of steps", paired=True)
    batches: str = static("same", "samples of the steps", choices=tuple(BATCHES), paired=True)
    noise_variance: float = value(0.01, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)
    steps: tuple = path((0, 1, 2, 3, 4, 5), "gradient steps", symbol="t", low=0, high=100)

    outputs = {
        "risk": Output("excess risk at the best ridge", "R", ("steps",), scale="log", only={"readout": (True,)}),
        "component": Output("mean weight along a direction", "", ("steps", "direction")),
        "squared_component": Output("mean squared weight along a direction", "", ("steps", "direction"), scale="log"),
        "kernel_bound": Output("what no kernel goes below", r"\|P_{>1}f_*\|^2", theory_only=True),
        "second_component": Output("mean weight along the second direction after two steps", theory_only=True),
    }
    inner = {"direction": [FIRST, SECOND]}
    presets = {
        "quick": {
            "small": {"d": 200, "batches": BATCHES, "seeds": 24},
            "climb": {"d": [32, 64, 128, 256], "link": BOTH, **UNREAD, "seeds": 30},
            "large": {"link": "staircase", **LARGE, "batches": BATCHES, "seeds": 12},
        },
        "full": {
            "small": {"d": 400, "samples_per_dimension": [2.0, 8.0, 32.0], "batches": BATCHES, "seeds": 24},
            "climb": {"d": [32, 64, 128, 256, 512], "link": BOTH, **UNREAD, "seeds": 32},
            "large": {"d": 512, "link": "staircase", **LARGE, "batches": BATCHES, "seeds": 12},
        },
    }
    history = changes(
        "next-steps-climb second-step",
        "the mean weight along x_2, where it was the mean square above that of generic directions",
        "what a batch adds at random is odd in the second layer and averages out; before, the slopes were undecided",
    )
    figure = panels(
        Panel(
            "risk",
            x="steps",
            by="batches",
            part="small",
            title="steps of size 1, erf",
            log="",
            ylim=(0, None),
            marks=(Level(shared.bound("erf"), "bound of all kernels", dashed=True),),
        ),
        Panel(
            lambda data: data.squared_component.sel(direction=SECOND) * data.d,
            x="steps",
            by="d",
            part="climb",
            at={"link": "staircase"},
            title=r"steps of size $N^{1/2}$",
            ylabel="$d$ times mean squared weight on $x_2$",
            log="y",
            theory=False,
        ),
        Panel(
            "risk",
            x="steps",
            by="batches",
            part="large",
            title=r"steps of size $N^{1/2}$, staircase",
            theory=False,
            marks=(Level(1.0, "bound of all kernels", dashed=True),),
        ),
        width=3.2,
    )

    @claim(
        "ba2022",
        "",
        at_least(1.0),
        departs="One setting, n = 8 d and N = 2 d, up to five steps; the theorem is for any finite number.",
    )
    def small_steps_stay_above(small):
        """One to five steps of size 1, on the same batch or on fresh ones, stay above the bound of all kernels. At the
        best ridge the ratio risk / |P_{>1} f|^2 is {criterion}."""
        return small.simulated.risk / shared.bound("erf")

    @claim(OWN, "the output of small steps stays small", within(0.06))
    def small_steps_add_up(small):
        """Small steps add up: t steps of size 1 act as one step of size t, on the same samples or on the t n samples of
        all batches. The risk is that of this one step in theory, {criterion}."""
        return over_theory(small, "risk")

    @claim("dandi2024giant", "", within(0.2, absolute=True), resampled=True, departs=START)
    def one_step_sees_one_direction(climb):
        """One large step on x_1 + x_1 x_2 learns nothing of x_2. The mean squared weight along x_2 falls with d as in
        any direction: the slope of its logarithm against log d is -1, {criterion}."""
        return _hidden(climb, "staircase", 1)

    @claim("dandi2024giant", "", within(0.3, absolute=True), resampled=True, departs=START)
    def isolated_stays_hidden(climb):
        """In x_1 + He_3(x_2) the first direction does not lead to the second. Five steps on fresh batches learn nothing
        of x_2: the slope of the log mean squared weight along x_2 against log d is -1, {criterion}."""
        return _hidden(climb, "isolated", 5)

    @claim("dandi2024giant", "", within(0.2, absolute=True), resampled=True, departs=START)
    def next_steps_climb(climb):
        """The second to fifth large steps on x_1 + x_1 x_2 do learn x_2. After each of them the mean weight along x_2
        does not depend on d: the slope of its logarithm against log d is 0, {criterion}."""
        return slope(_learned(climb, [2, 3, 4, 5]).mean("seed"), "d", least=4)

    @claim(OWN, "two steps of infinitely many neurons", within(0.15))
    def second_step(climb):
        """The second of two steps on fresh batches learns a mean weight along x_2. At the largest d it is that of the
        population, {criterion}."""
        enough(climb.simulated, "d", 4)
        theory = climb.predicted.second_component.sel(link="staircase", drop=True)
        return (_learned(climb, 2) / theory - 1).isel(d=-1)

    @claim("dandi2024giant", "", at_most(1.0), departs=GIANT)
    def second_step_goes_below(large):
        """On x_1 + x_1 x_2 no kernel and no single step passes |P_{>1} f|^2 = 1. From the second step on the risk is
        {criterion}."""
        return large.simulated.risk.sel(steps=[2, 3, 4, 5])

    def validate(self) -> None:
        self.check_some("samples_per_dimension", "width_per_dimension")

    def memory(self) -> int:
        n, width = self._sizes()
        return 4 * (3 * n + 2 * shared.FRESH) * (width + self.d) + 8 * 4 * width**2

    def _sizes(self) -> tuple[int, int]:
        return round(self.samples_per_dimension * self.d), round(self.width_per_dimension * self.d)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.one_step.several_steps import several_steps

        n, width = self._sizes()
        step_size, most = width**self.step_exponent, max(self.steps)
        problem = self.activation, TARGETS[self.link], n, self.d, width, self.noise_variance
        ridges = RIDGES if self.readout else []
        found = several_steps(rng, *problem, step_size, most, self.batches, ridges, fresh=shared.FRESH)._asdict()
        return {name: array[list(self.steps)] for name, array in found.items()}

    def predict(self) -> dict[str, Any]:
        bound = shared.bound("erf") if self.link == "erf" else 1.0
        staircase = self.activation, self.samples_per_dimension, self._sizes()[1] ** (self.step_exponent - 0.5)
        found = {"kernel_bound": bound, "second_component": staircase_component(*staircase, self.noise_variance)}
        if self.link == "erf" and self.step_exponent == 0:
            n, width = self._sizes()
            steps = np.array(self.steps, dtype=float)[:, None]
            samples = n * np.maximum(steps, 1) if self.batches == "fresh" else n
            sizes = n, self.d, width, steps, np.array(RIDGES), self.noise_variance
            theory = gradient_step_equivalent(self.activation, "erf", *sizes, step_samples=samples)
            found["risk"] = theory.risk.min(axis=1)
        return found

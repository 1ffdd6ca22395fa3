"""Giant steps: on batches of n ~ d samples, which directions of a target does a second step find, fresh or reused?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Output, Study, changes, cite, claim, static
from unlazy.lab.claims import between
from unlazy.lab.measures import slope
from unlazy.plotting.panels import Panel, panels
from unlazy.theory.index_models.leaps import leap_exponent

TERMS = {"h3": [[3]], "staircase": [[1, 0], [1, 1]], "product": [[1, 1, 1]]}
"""Hermite degrees of each term, in each direction."""
TARGETS = {
    "h3": lambda z: (z[:, 0] ** 3 - 3 * z[:, 0]) / math.sqrt(6),
    "staircase": lambda z: z[:, 0] + z[:, 0] * z[:, 1],
    "product": lambda z: z[:, 0] * z[:, 1] * z[:, 2],
}
ARMS = {"one": "one step", "fresh": "two, fresh samples", "reused": "two, the same samples"}
SHOWN = tuple(lambda data, arm=arm: data.squared_overlap.sel(arm=arm) for arm in ARMS)
LEARNED = between(-0.5, 0.3)
UNSEEN = between(-1.5, -0.6)


def _slope(main: Any, target: str, arm: str) -> Any:
    overlap = main.simulated.squared_overlap.sel(target=target, arm=arm, drop=True)
    return slope(overlap.mean("seed"), "d", least=4)


@dataclass(frozen=True)
class GiantStepsStudy(Study):
    """Two gradient steps of tanh neurons, n = 8 d, on h_3(z_1), z_1 + z_1 z_2 and z_1 z_2 z_3.

    What is shown is the squared overlap with the last direction of the target, the mean over neurons: of order 1/d
    where nothing is learned, of order 1 where the direction is. The step sizes are such that a step moves the
    pre-activation of a sample by order 1 times its own label. The leaps of the targets are 3, 1 and 3; those of the
    targets and their powers, which a second look at a sample sees, 1, 1 and 2: `unlazy.theory.leap_exponent`.
    """

    question = (
        "Batches have of order d samples. What does a second step learn, and what does it learn only if it sees the "
        "same samples again?"
    )
    sources = cite("dandi2024reuse", "abbe2023")
    departs = (
        "The loss is the correlation loss, which leaves out the network's own output. There is one width and one pair"
        " of step sizes, and two steps stand for any finite number."
    )

    target: str = static("h3", "target", choices=tuple(TARGETS))
    d: int = static(256, "dimension", symbol="d", low=8, high=20_000, scale="log")
    samples_per_dimension: float = static(8.0, "samples over dimension", symbol="n/d", above=0, high=1000)
    width: int = static(32, "neurons", symbol="N", low=1, high=10_000)
    step_size: float = static(0.5, "first step size", symbol=r"\eta_1", above=0, high=1000)
    second_step_size: float = static(4.0, "second step size", symbol=r"\eta_2", above=0, high=1000)

    outputs = {
        "squared_overlap": Output("squared overlap with the last direction", "q", ("arm",), scale="log"),
        "leap": Output("largest leap of the target", theory_only=True),
        "reused_leap": Output("the same of its powers up to the third", theory_only=True),
    }
    inner = {"arm": list(ARMS)}
    presets = {
        "quick": {"target": list(TARGETS), "d": [64, 128, 256, 512], "seeds": 64},
        "full": {"target": list(TARGETS), "d": [64, 128, 256, 512, 1024, 2048], "width": 128, "seeds": 48},
    }
    history = changes("", "samples, step sizes, deviation of the biases, and criteria", "chosen in a pilot at d = 256")
    figure = panels(
        *(
            Panel(
                SHOWN,
                x="d",
                at={"target": target},
                labels=tuple(ARMS.values()),
                line=True,
                ylabel="squared overlap, last direction",
                log="xy",
                legend=target == "h3",
            )
            for target in TARGETS
        ),
        width=3.0,
        height=3.0,
    )

    @claim("dandi2024reuse", "reuse", LEARNED, resampled=True)
    def reuse_learns(main):
        """A second step on the same samples finds the direction of h_3(z_1). The slope of log(squared overlap) against
        log d is {criterion}. An overlap of order 1 has the slope 0."""
        return _slope(main, "h3", "reused")

    @claim("dandi2024reuse", "one pass", UNSEEN, resampled=True)
    def fresh_does_not(main):
        """A second step on fresh samples does not find the direction of h_3(z_1), as the leap is 3. The slope of
        log(squared overlap) against log d is {criterion}. A random direction has -1."""
        return _slope(main, "h3", "fresh")

    @claim("dandi2024reuse abbe2023", "staircase", LEARNED, resampled=True)
    def next_stair(main):
        """On z_1 + z_1 z_2 a second step finds the second direction even on fresh samples. The slope of log(squared
        overlap) against log d is {criterion}."""
        return _slope(main, "staircase", "fresh")

    @claim("dandi2024reuse abbe2023", "staircase", UNSEEN, resampled=True)
    def one_stair_at_a_time(main):
        """On z_1 + z_1 z_2 one step does not find the second direction. The slope of log(squared overlap) against log d
        is {criterion}."""
        return _slope(main, "staircase", "one")

    @claim("dandi2024reuse", "hard targets", UNSEEN, resampled=True)
    def hard_even_with_reuse(main):
        """On z_1 z_2 z_3 even a second step on the same samples finds nothing. The slope of log(squared overlap)
        against log d is {criterion}."""
        return _slope(main, "product", "reused")

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.index_models.giant_steps import giant_steps

        n = round(self.samples_per_dimension * self.d)
        directions = len(TERMS[self.target][0])
        found = giant_steps(
            rng, TARGETS[self.target], directions, self.d, n, self.width, self.step_size, self.second_step_size
        )
        return {"squared_overlap": [squares[-1] for squares in found]}

    def predict(self) -> dict[str, Any]:
        terms = TERMS[self.target]
        return {"leap": leap_exponent(terms).exponent, "reused_leap": leap_exponent(terms, label_powers=3).exponent}

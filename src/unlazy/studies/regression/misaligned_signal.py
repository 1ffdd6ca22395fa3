"""Misaligned signal: the largest coefficient sits on a weak direction, which ridge regression hardly looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.functions.spectra import misaligned_example
from unlazy.lab import OWN, at_least, at_most, between, changes, cite, claim, slope, within
from unlazy.studies.regression import shared

PAPER = "suzuki2024 suzuki2024talk"
STEPS = 12


@dataclass(frozen=True)
class MisalignedSignal(shared.MetricExample):
    question = (
        "The signal sits in one weak direction of the inputs, the n-th of n^2. Ridge regression looks at strong "
        "directions first and misses it. Does a first layer that is learned from many tasks find it?"
    )
    sources = cite("suzuki2024", "suzuki2024talk")

    presets = {
        "quick": {
            "main": {"n": [16, 24, 32, 48, 64], "steps": [STEPS], "seeds": 14},
            "full": {"n": [8, 12, 16, 24], "layer": "full", "steps": [0], "seeds": 32},
            "known": {"n": [16, 24, 32, 48, 64], **shared.UNTRAINED, "seeds": 64},
        },
        "full": {
            "main": {"n": [16, 32, 64, 128], "steps": [6, 12, 40], "seeds": 32},
            "full": {"n": [8, 12, 16, 24, 32], "layer": "full", "steps": [0], "seeds": 64},
            "known": {"n": [16, 32, 64, 128], **shared.UNTRAINED, "seeds": 256},
        },
    }
    history = (
        shared.TUNED,
        *changes(
            "learned-rate",
            "the slope is compared with that of Bayes on the same data; before, it had to be at most -0.45",
            "two-sided, and without the noise of the design that both share",
        ),
    )
    figure = shared.risks_against_size(STEPS, -1 / 2, "$n^{-1/2}$")

    @claim(PAPER, "example (2)", at_least(0.9))
    def ridge_constant(main):
        """The risk of the best ridge does not fall: it is {criterion} at every n."""
        return main.simulated.ridge_risk

    @claim(PAPER, "example (2)", within(0.1, absolute=True), departs=f"{shared.EVIDENCE}.")
    def learned_rate(main):
        """In the metric learned by evidence (12 steps), the risk falls like that of Bayes. The slope of its log risk in
        log n, less that of Bayes on the same data, is 0, {criterion}."""
        return shared.slope_over_bayes(main, "evidence_risk", STEPS)

    @claim(PAPER, "example (2)", within(0.2, absolute=True), departs=f"{shared.NETWORK}.")
    def trained_rate(main):
        """A network with a diagonal W is trained by gradient descent, with label noise and mini-batches of tasks. Its
        risk falls like that of Bayes: the difference of the two slopes is 0, {criterion}."""
        return shared.slope_over_bayes(main, "trained_risk", STEPS)

    @claim(PAPER, "example (2)", at_most(1.0), resampled=True, departs=f"{shared.NETWORK}.")
    def trained_beats_ridge(main):
        """At every n it predicts better than the best ridge: its risk is {criterion} times that of ridge."""
        mean = main.simulated.mean("seed")
        return mean.trained_risk / mean.ridge_risk

    @claim(
        PAPER,
        "example (2)",
        at_most(-0.3),
        known_negative=shared.FULL,
        departs="Nothing restricts W, where the theorem has conditions that the talk does not list.",
    )
    def trained_rate_full(full):
        """The risk of a network with a full d x d matrix W, trained in the same way, falls too: the slope of its log
        risk in log n is {criterion}."""
        return slope(full.simulated.trained_risk, "n", least=4)

    @claim(OWN, "the project's own observation", at_most(1.15), resampled=True)
    def near_bayes(main):
        """At every n, the risk in the metric learned by evidence (12 steps) is {criterion} times the Bayes risk."""
        return shared.learned_ratio(main, STEPS)

    @claim(PAPER, "example (2)", between(-0.52, -0.48), theory=True, departs=shared.BAYES_RATE)
    def bayes_rate(main):
        """The best possible risk falls like n^-1/2: from n = 10^3 to 10^5 its slope is {criterion}."""
        return shared.bayes_slope(MisalignedSignal())

    @claim(OWN, "deterministic equivalent, see ridge-equivalent", within(0.15), resampled=True)
    def theory(known):
        """From n = 16 on, the risks of ridge and Bayes are those of their deterministic equivalents, {criterion}."""
        return shared.theory_deviation(known)

    def population(self, **options: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return misaligned_example(self.n, self.dimension, **options)

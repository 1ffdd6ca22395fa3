"""Harmful overfitting: ridge regression stays at a constant risk where a learned metric goes to zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.functions.spectra import harmful_example
from unlazy.lab import OWN, at_least, at_most, between, changes, cite, claim, path, slope, static, within
from unlazy.studies.regression import shared

PAPER = "suzuki2024 suzuki2024talk"
STEPS = 40


@dataclass(frozen=True)
class HarmfulOverfitting(shared.MetricExample):
    question = (
        "The inputs have d = n^3 directions, nearly all of them weak and alike. Together they drown the signal, and no "
        "ridge learns more than zero as n grows. Can a first layer that is learned from many tasks?"
    )
    sources = cite("suzuki2024", "suzuki2024talk")

    dimension_exponent: float = static(3.0, "exponent c of the dimension d = n^c", symbol="c", low=1, high=4)
    steps: tuple = path((6, 12, 40), "majorise-minimise steps of the metric", symbol="t", low=0, high=10_000)

    presets = {
        "quick": {
            "main": {"n": [10, 14, 20, 28], "steps": [STEPS], "seeds": 20},
            "full": {"n": [4, 5, 6, 8], "layer": "full", "steps": [0], "seeds": 32},
            "known": {"n": [14, 20], **shared.UNTRAINED, "seeds": 192},
        },
        "full": {
            "main": {"n": [10, 14, 20, 28, 40, 56], "steps": [6, 12, 40, 100], "seeds": 16},
            "full": {"n": [4, 6, 8, 10, 12], "layer": "full", "steps": [0], "seeds": 64},
            "known": {"n": [14, 20, 28, 40, 56], **shared.UNTRAINED, "seeds": 256},
        },
    }
    history = (
        shared.TUNED,
        *changes(
            "learned-rate",
            "the slope is compared with that of Bayes on the same data; before, it had to be at most -0.5",
            "two-sided, and without the noise of the design that both share",
        ),
        *changes(
            "theory",
            "from n = 14 on, where it was from n = 10 on",
            "the correction of order 1/n to the Bayes risk is about 8% at n = 10",
        ),
    )
    figure = shared.risks_against_size(STEPS, -2 / 3, "$n^{-2/3}$")

    @claim(PAPER, "example (1)", at_least(0.9))
    def ridge_constant(main):
        """The risk of the best ridge does not fall: it is {criterion} at every n."""
        return main.simulated.ridge_risk

    @claim(PAPER, "example (1)", at_least(0.0))
    def ridge_slope(main):
        """More samples do not help ridge: the slope of its log risk in log n is {criterion}."""
        return slope(main.simulated.ridge_risk, "n")

    @claim(PAPER, "example (1)", within(0.15, absolute=True), departs=f"{shared.EVIDENCE}.")
    def learned_rate(main):
        """In the metric learned by evidence (40 steps), the risk falls like that of Bayes. The slope of its log risk in
        log n, less that of Bayes on the same data, is 0, {criterion}."""
        return shared.slope_over_bayes(main, "evidence_risk", STEPS)

    @claim(PAPER, "example (1)", between(-0.686, -0.647), theory=True, departs=shared.BAYES_RATE)
    def bayes_rate(main):
        """The best possible risk falls like n^-2/3: from n = 10^3 to 10^5 its slope is {criterion}."""
        return shared.bayes_slope(HarmfulOverfitting())

    @claim(PAPER, "example (1)", within(0.2, absolute=True), departs=f"{shared.NETWORK}.")
    def trained_rate(main):
        """A network with a diagonal W is trained by gradient descent, with label noise and mini-batches of tasks. Its
        risk falls like that of Bayes: the difference of the two slopes is 0, {criterion}."""
        return shared.slope_over_bayes(main, "trained_risk", STEPS)

    @claim(PAPER, "example (1)", at_most(1.0), resampled=True, departs=f"{shared.NETWORK}.")
    def trained_beats_ridge(main):
        """At every n it predicts better than the best ridge: its risk is {criterion} times that of ridge."""
        mean = main.simulated.mean("seed")
        return mean.trained_risk / mean.ridge_risk

    @claim(
        PAPER,
        "example (1)",
        at_most(-0.3),
        known_negative=shared.FULL,
        departs="Nothing restricts W, where the theorem has conditions that the talk does not list.",
    )
    def trained_rate_full(full):
        """The risk of a network with a full d x d matrix W, trained in the same way, falls too: the slope of its log
        risk in log n is {criterion}."""
        return slope(full.simulated.trained_risk, "n", least=4)

    @claim(OWN, "the project's own observation", at_most(1.3), resampled=True)
    def near_bayes(main):
        """At every n, the risk in the metric learned by evidence (40 steps) is {criterion} times the Bayes risk."""
        return shared.learned_ratio(main, STEPS)

    @claim(OWN, "deterministic equivalent, see ridge-equivalent", within(0.15), resampled=True)
    def theory(known):
        """From n = 14 on, the risks of ridge and Bayes are those of their deterministic equivalents, {criterion}."""
        return shared.theory_deviation(known)

    def population(self, **options: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return harmful_example(self.n, self.dimension, **options)

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
        "With eigenvalues 1/i up to i = n and 1/n in all of the d = n^3 directions after it, no ridge predicts better "
        "than zero as n grows: does a metric learned from many tasks?"
    )
    sources = cite("suzuki2024", "suzuki2024talk")

    dimension_exponent: float = static(3.0, "exponent c of the dimension d = n^c", symbol="c", low=1, high=4)
    steps: tuple = path((6, 12, 40), "majorise-minimise steps of the metric", symbol="t", low=0, high=10_000)

    presets = {
        "quick": {
            "main": {"n": [10, 14, 20, 28], "steps": [STEPS], "seeds": 28},
            "known": {"n": [14, 20], **shared.KNOWN, "seeds": 128},
        },
        "full": {
            "main": {"n": [10, 14, 20, 28, 40, 56], "steps": [6, 12, 40, 100], "seeds": 16},
            "known": {"n": [14, 20, 28, 40, 56], **shared.KNOWN, "seeds": 256},
        },
    }
    history = (
        *changes(
            "learned-rate degrees-of-freedom-rate",
            "the slope is compared with that of Bayes on the same data, where it was to be at most -0.5",
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
        """The risk of the best ridge is Omega(1): {criterion} at every n."""
        return main.simulated.ridge_risk

    @claim(PAPER, "example (1)", at_least(0.0))
    def ridge_slope(main):
        """More samples do not help ridge: the slope of its log risk in log n is {criterion}."""
        return slope(main.simulated.ridge_risk, "n")

    @claim(PAPER, "example (1)", within(0.15, absolute=True), departs=f"{shared.EVIDENCE}.")
    def learned_rate(main):
        """In the metric learned by evidence (40 steps) the risk goes to zero like that of Bayes (claim bayes-rate): its
        slope less that of Bayes on the same data is 0, {criterion}."""
        return shared.slope_over_bayes(main, "evidence_risk", STEPS)

    @claim(PAPER, "example (1)", within(0.15, absolute=True), departs=f"{shared.DIAGONAL}.")
    def degrees_of_freedom_rate(main):
        """In the metric learned with degrees-of-freedom regularisation (40 steps) it does so too: the difference is 0,
        {criterion}."""
        return shared.slope_over_bayes(main, "degrees_of_freedom_risk", STEPS)

    @claim(PAPER, "example (1)", between(-2 / 3 - 0.02, -2 / 3 + 0.02), theory=True, departs=shared.BAYES_RATE)
    def bayes_rate(main):
        """The best possible risk goes to zero like n^-2/3: between n = 10^3 and 10^5 (d = n^3) the slope of the Bayes
        risk is within 0.02 of -2/3."""
        return shared.bayes_slope(HarmfulOverfitting())

    @claim(OWN, "the project's own observation", at_most(1.3), resampled=True)
    def near_bayes(main):
        """The metric learned by evidence (40 steps) comes near the Bayes risk at every n: {criterion} times it."""
        return shared.learned_ratio(main, STEPS)

    @claim(OWN, "deterministic equivalent, see ridge-equivalent", within(0.15), resampled=True)
    def theory(known):
        """Ridge and Bayes risks are those of their deterministic equivalents {criterion}, at n from 14 on."""
        return shared.theory_deviation(known)

    def population(self, **options: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return harmful_example(self.n, self.dimension, **options)

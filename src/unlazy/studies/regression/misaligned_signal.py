"""Misaligned signal: the largest coefficient sits on a weak direction, which ridge regression hardly looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.functions.spectra import misaligned_example
from unlazy.lab import OWN, at_least, at_most, between, changes, cite, claim, within
from unlazy.studies.regression import shared

PAPER = "suzuki2024 suzuki2024talk"
STEPS = 12


@dataclass(frozen=True)
class MisalignedSignal(shared.MetricExample):
    question = (
        "The n-th of d = n^2 directions, of variance 1/n, carries a coefficient of variance n, all others decay like "
        "1/i: ridge regression misses it; does a metric learned from many tasks find it?"
    )
    sources = cite("suzuki2024", "suzuki2024talk")

    presets = {
        "quick": {
            "main": {"n": [16, 24, 32, 48, 64], "steps": [STEPS], "seeds": 16},
            "known": {"n": [16, 24, 32, 48, 64], **shared.KNOWN, "seeds": 64},
        },
        "full": {
            "main": {"n": [16, 32, 64, 128], "steps": [6, 12, 40], "seeds": 32},
            "known": {"n": [16, 32, 64, 128], **shared.KNOWN, "seeds": 256},
        },
    }
    history = (
        *changes(
            "learned-rate degrees-of-freedom-rate",
            "the slope is compared with that of Bayes on the same data, where it was to be at most -0.45",
            "two-sided, and without the noise of the design that both share",
        ),
    )
    figure = shared.risks_against_size(STEPS, -1 / 2, "$n^{-1/2}$")

    @claim(PAPER, "example (2)", at_least(0.9))
    def ridge_constant(main):
        """The risk of the best ridge is Omega(1): {criterion} at every n."""
        return main.simulated.ridge_risk

    @claim(PAPER, "example (2)", within(0.1, absolute=True), departs=f"{shared.EVIDENCE}.")
    def learned_rate(main):
        """In the metric learned by evidence (12 steps) the risk goes to zero like that of Bayes (claim bayes-rate): its
        slope in n less that of Bayes on the same data is 0, {criterion}."""
        return shared.slope_over_bayes(main, "evidence_risk", STEPS)

    @claim(PAPER, "example (2)", within(0.1, absolute=True), departs=f"{shared.DIAGONAL}.")
    def degrees_of_freedom_rate(main):
        """In the metric learned with degrees-of-freedom regularisation (12 steps) it does so too: the difference is 0,
        {criterion}."""
        return shared.slope_over_bayes(main, "degrees_of_freedom_risk", STEPS)

    @claim(OWN, "the project's own observation", at_most(1.15), resampled=True)
    def near_bayes(main):
        """The metric learned by evidence (12 steps) comes near the Bayes risk at every n: {criterion} times it."""
        return shared.learned_ratio(main, STEPS)

    @claim(PAPER, "example (2)", between(-0.52, -0.48), theory=True, departs=shared.BAYES_RATE)
    def bayes_rate(main):
        """The best possible risk goes to zero like n^-1/2: between n = 10^3 and 10^5 (d = n^2) the slope of the Bayes
        risk is {criterion}."""
        return shared.bayes_slope(MisalignedSignal())

    @claim(OWN, "deterministic equivalent, see ridge-equivalent", within(0.15), resampled=True)
    def theory(known):
        """Ridge and Bayes risks are those of their deterministic equivalents {criterion}, at n from 16 on."""
        return shared.theory_deviation(known)

    def population(self, **options: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return misaligned_example(self.n, self.dimension, **options)

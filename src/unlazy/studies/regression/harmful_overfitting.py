"""Harmful overfitting: ridge regression stays at a constant risk where a learned metric goes to zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Claim, Part, Study, at_least, at_most, between, path, slope, static, value
from unlazy.studies.regression.shared.learned_metric import (
    OUTPUTS,
    bayes_slope,
    learned_ratio,
    predicted_risks,
    simulated_risks,
    size_figure,
    theory_deviation,
)
from unlazy.studies.regression.shared.sources import SUZUKI, TALK

EXAMPLE = "Suzuki & Suzuki 2024; FIMI talk, example (1)"
STEPS = 40


@dataclass(frozen=True)
class HarmfulOverfitting(Study):
    name = "harmful-overfitting"
    topic = "regression"
    question = (
        "With eigenvalues 1/i up to i = n and 1/n in all of the d = n^3 directions after it, no ridge predicts better "
        "than zero as n grows: does a metric learned from many tasks?"
    )
    caption = (
        "Solid lines: theory, continued to sizes that are not simulated. Points: simulation, means over seeds with "
        "99% intervals; learned metrics have no theory. Grey, dashed: only a slope to compare with."
    )
    sources = (SUZUKI, TALK)

    n: int = static(20, "samples, shared by all tasks", symbol="n", low=2, high=100_000, scale="log")
    dimension_exponent: float = static(3.0, "exponent c of the dimension d = n^c", symbol="c", low=1, high=4)
    tasks: int = static(200, "tasks", symbol="m", low=1, high=10_000, scale="log")
    noise_variance: float = value(1.0, "variance of the label noise", symbol=r"\sigma^2", above=0, high=1e6)
    steps: tuple = path((6, 12, 40), "majorise-minimise steps of the metric", symbol="t", low=0, high=10_000)

    outputs = OUTPUTS
    presets = {
        "quick": {
            "main": {"n": [10, 14, 20, 28], "seeds": 16},
            "known": {"n": [10, 14, 20], "tasks": 1, "steps": [0], "seeds": 128},
        },
        "full": {
            "main": {"n": [10, 14, 20, 28, 40, 56], "steps": [6, 12, 40, 100], "seeds": 16},
            "known": {"n": [10, 14, 20, 28, 40, 56], "tasks": 1, "steps": [0], "seeds": 256},
        },
    }
    """Ridge and Bayes are exact expectations over tasks, so that `known` needs one task."""
    lines = {"main": "n"}
    claims = (
        Claim(
            "ridge-constant",
            EXAMPLE,
            "The risk of the best ridge is Omega(1): at least 0.9 at every n.",
            at_least(0.9),
            check=lambda part: part.simulated.ridge_risk,
        ),
        Claim(
            "ridge-slope",
            EXAMPLE,
            "More samples do not help ridge: the slope of its log risk in log n is not negative.",
            at_least(0.0),
            check=lambda part: slope(part.simulated.ridge_risk, "n"),
            needs={"n": 3},
        ),
        Claim(
            "learned-rate",
            EXAMPLE,
            "In the metric learned by evidence (40 steps) the risk goes to zero, at least as fast as n^-1/2.",
            at_most(-0.5),
            check=lambda part: slope(part.simulated.evidence_risk.sel(steps=STEPS), "n"),
            needs={"n": 3, "steps": (STEPS,)},
        ),
        Claim(
            "dof-rate",
            EXAMPLE,
            "In the metric learned with degrees-of-freedom regularisation (40 steps) it does so too.",
            at_most(-0.5),
            check=lambda part: slope(part.simulated.dof_risk.sel(steps=STEPS), "n"),
            needs={"n": 3, "steps": (STEPS,)},
        ),
        Claim(
            "bayes-rate",
            EXAMPLE,
            "The best possible risk goes to zero like n^-2/3: between n = 10^3 and 10^5 (d = n^3) the slope of the "
            "Bayes risk is within 0.02 of -2/3.",
            between(-2 / 3 - 0.02, -2 / 3 + 0.02),
            theory=lambda part: bayes_slope(HarmfulOverfitting(), (1_000, 10_000, 100_000)),
        ),
        Claim(
            "near-bayes",
            "the project's own observation",
            "The metric learned by evidence (40 steps) is within 30% of the Bayes risk at every n.",
            at_most(1.3),
            statistic=lambda part: learned_ratio(part, STEPS),
            needs={"steps": (STEPS,)},
        ),
        Claim(
            "theory",
            "deterministic equivalent, see ridge-equivalent",
            "Ridge and Bayes risks are those of their deterministic equivalents within 15%, at n from 10 on.",
            between(-0.15, 0.15),
            statistic=theory_deviation,
            parts=("known",),
        ),
    )

    @property
    def dimension(self) -> int:
        return int(self.n**self.dimension_exponent + 1e-9)

    def memory(self) -> int:
        return 8 * self.dimension * (5 * self.n + 4 * self.tasks)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draw the tasks once; ridge at its best ridge, Bayes, and both learned metrics fit the same draw."""
        from unlazy.functions.spectra import harmful_example

        spectrum, prior, _ = harmful_example(self.n, self.dimension, written_out=True)
        return simulated_risks(rng, spectrum, prior, self.n, self.tasks, self.noise_variance, self.steps)

    def predict(self) -> dict[str, Any]:
        from unlazy.functions.spectra import harmful_example

        return predicted_risks(*harmful_example(self.n, self.dimension), self.n, self.noise_variance)

    def figure(self, main: Part, known: Part) -> Any:
        return size_figure(self, main, known, STEPS, -2 / 3, "$n^{-2/3}$")

"""The decay of the tasks' prior: how much a metric that is learned over many tasks gains on ridge regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Part, Study, at_least, at_most, between, parameter, path, static, value
from unlazy.studies.regression.shared.learned_metric import (
    OUTPUTS,
    draw_risks,
    predicted_risks,
    simulated_risks,
    theory_deviation,
)
from unlazy.studies.regression.shared.sources import SUZUKI, TALK

if TYPE_CHECKING:
    import xarray as xr

EXPERIMENT = "Suzuki 2024 (FIMI), slide 'Experiment'"
EARLY = 20
"""Steps of power 1/2, which never raise the criterion; they go about as far as 10 steps of power 1."""


def _ratio(part: Part, numerator: str, denominator: str, low: float, high: float, steps: int | None) -> xr.DataArray:
    """The ratio of mean risks for the decays a in [low, high]; steps None is the end of the path."""
    data = part.simulated.mean("seed")
    data = data.isel(steps=-1) if steps is None else data.sel(steps=steps)
    decay = parameter(part.simulated, "prior_exponent")
    return (data[numerator] / data[denominator]).where((decay >= low) & (decay <= high), drop=True)


@dataclass(frozen=True)
class TaskDecay(Study):
    name = "task-decay"
    topic = "regression"
    question = (
        "Two hundred regression tasks share their inputs, and their coefficients decay like j^-a: how close to the "
        "Bayes risk does ridge regression come in a metric that is learned from the tasks, against plain ridge?"
    )
    caption = (
        "Lines: theory, for the best ridge and for Bayes. Points: simulation, means over seeds with 99% intervals; "
        "learned metrics have no theory."
    )
    sources = (SUZUKI, TALK)

    n: int = static(100, "samples, shared by all tasks", symbol="n", low=2, high=2_000, scale="log")
    d: int = static(1000, "dimension", symbol="d", low=1, high=100_000, scale="log")
    tasks: int = static(200, "tasks", symbol="m", low=1, high=10_000, scale="log")
    spectrum_exponent: float = value(1.0, "decay of the covariance eigenvalues j^-b", symbol="b", low=0, high=10)
    prior_exponent: float = value(
        2.0, "decay a of the prior variances j^-a of the coefficients", symbol="a", low=0, high=20, paired=True
    )
    noise_variance: float = value(0.25, "variance of the label noise", symbol=r"\sigma^2", above=0, high=1e6)
    steps: tuple = path((20, 100), "majorise-minimise steps of the metric", symbol="t", low=0, high=10_000)

    outputs = OUTPUTS
    presets = {
        "quick": {
            "main": {"prior_exponent": [0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 10.0], "steps": [20, 40], "seeds": 8},
            "known": {"prior_exponent": [0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 10.0], "tasks": 1, "steps": [0], "seeds": 24},
        },
        "full": {
            "main": {"prior_exponent": np.arange(0, 10.5, 0.5).tolist(), "steps": [10, 20, 100, 200], "seeds": 24},
            "known": {"prior_exponent": np.arange(0, 10.5, 0.5).tolist(), "tasks": 1, "steps": [0], "seeds": 256},
        },
    }
    """Ridge and Bayes are exact expectations over tasks, so that `known` needs one task."""
    lines = {"main": "prior_exponent"}
    claims = (
        Claim(
            "beats-ridge",
            EXPERIMENT,
            "For every decay a >= 0.5 the metric learned by evidence (20 steps) has a smaller risk than the best "
            "ridge.",
            at_most(1.0),
            statistic=lambda part: _ratio(part, "evidence_risk", "ridge_risk", 0.5, np.inf, EARLY),
            needs={"steps": (EARLY,)},
        ),
        Claim(
            "near-bayes",
            EXPERIMENT,
            "For 0.5 <= a <= 2 it is within 10% of the Bayes risk, which needs the prior.",
            at_most(1.1),
            statistic=lambda part: _ratio(part, "evidence_risk", "bayes_risk", 0.5, 2.0, EARLY),
            needs={"steps": (EARLY,)},
        ),
        Claim(
            "near-bayes-fast-decay",
            EXPERIMENT,
            "For 2 < a <= 10, where ridge is 2 to 11 times above the Bayes risk, it is within 60% of it.",
            at_most(1.6),
            statistic=lambda part: _ratio(part, "evidence_risk", "bayes_risk", 2.001, 10.0, EARLY),
            needs={"steps": (EARLY,)},
        ),
        Claim(
            "nothing-to-learn",
            "lemma on the Bayes estimator, same talk",
            "At a = 0 plain ridge is the Bayes estimator, and no learned metric beats it: the ratio of risks is at "
            "least 1.",
            at_least(1.0),
            statistic=lambda part: [
                _ratio(part, name, "ridge_risk", 0.0, 0.0, EARLY) for name in ("evidence_risk", "dof_risk")
            ],
            needs={"prior_exponent": (0.0,), "steps": (EARLY,)},
        ),
        Claim(
            "dof-beats-ridge",
            EXPERIMENT,
            "With degrees-of-freedom regularisation at the end of its path the learned metric beats the best ridge for "
            "a >= 1.5.",
            at_most(1.0),
            statistic=lambda part: _ratio(part, "dof_risk", "ridge_risk", 1.5, np.inf, None),
        ),
        Claim(
            "dof-beats-ridge-slow-decay",
            EXPERIMENT,
            "It does so for 0.5 <= a <= 1 as well.",
            at_most(1.0),
            statistic=lambda part: _ratio(part, "dof_risk", "ridge_risk", 0.5, 1.0, None),
            known_negative=(
                "The criterion R(W) is linear in the resolvent, so that its minimiser keeps a direction entirely or "
                "drops it: with many weak directions the minimiser is nearly ridgeless in those it keeps. Stopping "
                "after a few steps, or the evidence criterion, does not have the problem (claim beats-ridge)."
            ),
        ),
        Claim(
            "theory",
            "deterministic equivalent, see ridge-equivalent",
            "Ridge and Bayes risks are those of their deterministic equivalents within 10%.",
            between(-0.1, 0.1),
            statistic=theory_deviation,
            parts=("known",),
        ),
    )

    def memory(self) -> int:
        return 8 * (4 * self.n * self.d + 4 * self.d * self.tasks)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draw the tasks once; ridge at its best ridge, Bayes, and both learned metrics fit the same draw."""
        from unlazy.functions.spectra import power_law

        spectrum, prior = (power_law(self.d, exponent) for exponent in (self.spectrum_exponent, self.prior_exponent))
        return simulated_risks(rng, spectrum, prior, self.n, self.tasks, self.noise_variance, self.steps)

    def predict(self) -> dict[str, Any]:
        from unlazy.functions.spectra import index_blocks

        index, copies = index_blocks(self.d)
        spectrum, prior = index**-self.spectrum_exponent, index**-self.prior_exponent
        return predicted_risks(spectrum, prior, copies, self.n, self.noise_variance)

    def figure(self, main: Part, known: Part) -> Any:
        from unlazy.plotting import style

        figure, (left, right) = style.panels(2, 1, width=3.7, height=3.3)
        learned = [("evidence", EARLY), ("dof", EARLY), ("dof", int(main.simulated.steps[-1]))]
        draw_risks(left, main, known, "prior_exponent", main.lines, learned)
        relative, exact = (p._replace(simulated=p.simulated / p.predicted.bayes_risk) for p in (main, known))
        draw_risks(right, relative, exact, "prior_exponent", main.lines / main.lines.bayes_risk, learned)
        for axes in (left, right):
            axes.set_xlabel(style.label("decay of the tasks' coefficients", "a"))
        style.log_scale(right, "y")
        right.set_ylabel("excess risk over that of Bayes")
        left.legend()
        return figure

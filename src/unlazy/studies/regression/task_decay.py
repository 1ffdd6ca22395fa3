"""The decay of the tasks' prior: how much a metric that is learned over many tasks gains on ridge regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.functions.spectra import index_blocks, power_law
from unlazy.lab import OWN, Study, at_least, at_most, cite, claim, parameter, path, static, value, within
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.regression import shared

DECAY = "decay of the tasks' coefficients $a$"
EXPERIMENT = "slide 'Experiment'"
CHOSEN = "n, the number of tasks and the noise are this project's choice."
EARLY = 20
"""Steps of power 1/2, which never raise the criterion; they go about as far as 10 steps of power 1."""


def _ratio(part, numerator, denominator, low, high, *, last=False):
    """The ratio of mean risks for the decays a in [low, high], after EARLY steps or at the end of the path."""
    data = part.simulated.mean("seed")
    data = data.isel(steps=-1) if last else data.sel(steps=EARLY)
    decay = parameter(part.simulated, "prior_exponent")
    return (data[numerator] / data[denominator]).where((decay >= low) & (decay <= high), drop=True)


@dataclass(frozen=True)
class TaskDecay(Study):
    question = (
        "Two hundred regression tasks share their inputs, and their coefficients decay like j^-a: how close to the "
        "Bayes risk does ridge regression come in a metric that is learned from the tasks, against plain ridge?"
    )
    sources = cite("suzuki2024", "suzuki2024talk")

    n: int = static(100, "samples, shared by all tasks", symbol="n", low=2, high=2_000, scale="log")
    d: int = static(1000, "dimension", symbol="d", low=1, high=100_000, scale="log")
    tasks: int = static(200, "tasks", symbol="m", low=1, high=10_000, scale="log")
    spectrum_exponent: float = value(1.0, "decay of the covariance eigenvalues j^-b", symbol="b", low=0, high=10)
    prior_exponent: float = value(
        2.0, "decay a of the prior variances j^-a of the coefficients", symbol="a", low=0, high=20, paired=True
    )
    noise_variance: float = value(0.25, "variance of the label noise", symbol=r"\sigma^2", above=0, high=1e6)
    steps: tuple = path((20, 100), "majorise-minimise steps of the metric", symbol="t", low=0, high=10_000)

    outputs = shared.OUTPUTS
    presets = {
        "quick": {
            "main": {"prior_exponent": [0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 10.0], "steps": [20, 40], "seeds": 8},
            "known": {"prior_exponent": [0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 10.0], **shared.KNOWN, "seeds": 64},
        },
        "full": {
            "main": {"prior_exponent": np.arange(0, 10.5, 0.5).tolist(), "steps": [10, 20, 100, 200], "seeds": 24},
            "known": {"prior_exponent": np.arange(0, 10.5, 0.5).tolist(), **shared.KNOWN, "seeds": 256},
        },
    }
    lines = {"main": "prior_exponent"}
    figure = panels(
        Panel(shared.RISKS, x="prior_exponent", at={"steps": EARLY}, labels=shared.LABELS, xlabel=DECAY),
        Panel(
            tuple(lambda data, name=name: data[name] / data.bayes_risk for name in shared.RISKS),
            x="prior_exponent",
            xlabel=DECAY,
            ylabel="excess risk over that of Bayes",
            log="y",
        ),
        width=3.7,
        height=3.3,
        caption="Learned metrics have no theory.",
    )

    @claim("suzuki2024talk", EXPERIMENT, at_most(1.0), resampled=True, departs=f"{shared.EVIDENCE}; {CHOSEN}")
    def beats_ridge(main):
        """For every decay a >= 0.5 the metric learned by evidence (20 steps) has a smaller risk than the best ridge:
        the ratio is {criterion}."""
        return _ratio(main, "evidence_risk", "ridge_risk", 0.5, np.inf)

    @claim(OWN, "the project's own observation", at_most(1.1), resampled=True)
    def near_bayes(main):
        """For 0.5 <= a <= 2 it is {criterion} times the Bayes risk, which needs the prior."""
        return _ratio(main, "evidence_risk", "bayes_risk", 0.5, 2.0)

    @claim(OWN, "the project's own observation", at_most(1.6), resampled=True)
    def near_bayes_fast_decay(main):
        """For 2 < a <= 10, where ridge is 2 to 11 times above the Bayes risk, it is {criterion} times it."""
        return _ratio(main, "evidence_risk", "bayes_risk", 2.001, 10.0)

    @claim("suzuki2024talk", "lemma on the Bayes estimator", at_least(1.0), resampled=True)
    def nothing_to_learn(main):
        """At a = 0 plain ridge is the Bayes estimator, and no learned metric beats it: the ratio of risks is
        {criterion}."""
        main.simulated.sel(prior_exponent=0.0)
        return [_ratio(main, name, "ridge_risk", 0.0, 0.0) for name in ("evidence_risk", "degrees_of_freedom_risk")]

    @claim("suzuki2024talk", EXPERIMENT, at_most(1.0), resampled=True, departs=f"{shared.DIAGONAL}; {CHOSEN}")
    def degrees_of_freedom_beat_ridge(main):
        """With degrees-of-freedom regularisation at the end of its path the learned metric beats the best ridge for
        a >= 1.5: the ratio of risks is {criterion}."""
        return _ratio(main, "degrees_of_freedom_risk", "ridge_risk", 1.5, np.inf, last=True)

    @claim(
        "suzuki2024talk",
        EXPERIMENT,
        at_most(1.0),
        resampled=True,
        known_negative="The criterion R(W) is linear in the resolvent, so that its minimiser keeps a direction "
        "entirely or drops it: with many weak directions the minimiser is nearly ridgeless in those it keeps. "
        "Stopping after a few steps, or the evidence criterion, does not have the problem (claim beats-ridge).",
        departs=f"{shared.DIAGONAL}; {CHOSEN}",
    )
    def degrees_of_freedom_beat_ridge_slow_decay(main):
        """It does so for 0.5 <= a <= 1 as well: the ratio is {criterion}."""
        return _ratio(main, "degrees_of_freedom_risk", "ridge_risk", 0.5, 1.0, last=True)

    @claim(OWN, "deterministic equivalent, see ridge-equivalent", within(0.1), resampled=True)
    def theory(known):
        """Ridge and Bayes risks are those of their deterministic equivalents {criterion}."""
        return shared.theory_deviation(known)

    def memory(self) -> int:
        return 8 * (4 * self.n * self.d + 4 * self.d * self.tasks)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.regression.metric_learning import metric_risks

        spectrum, prior = (power_law(self.d, exponent) for exponent in (self.spectrum_exponent, self.prior_exponent))
        risks = metric_risks(rng, spectrum, prior, self.n, self.tasks, self.noise_variance, shared.RIDGES, self.steps)
        return risks._asdict()

    def predict(self) -> dict[str, Any]:
        index, copies = index_blocks(self.d)
        spectrum, prior = index**-self.spectrum_exponent, index**-self.prior_exponent
        return shared.predicted_risks(spectrum, prior, copies, self.n, self.noise_variance)

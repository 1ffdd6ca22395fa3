"""Logistic regression on two Gaussian clusters against state evolution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import OWN, Change, Output, Part, Study, changes, cite, claim, path, static, value
from unlazy.lab.claims import at_least, within
from unlazy.lab.measures import needs, over_theory, relative_deviation
from unlazy.plotting.panels import Panel, panels
from unlazy.theory.message_passing.state_evolution.mixture import mixture_state_evolution

SOURCE, PLACE = "loureiro2021mixtures", "Gaussian mixtures"
LOGISTIC = (("bias", "fit_intercept"), ("covariances", ("variance_ratio", "tilt")))
"""The parts with logistic fits, and what differs in them."""
LOSSES = {"fit_intercept": False, "loss": ["square", "hinge"]}
AVERAGING = {"fit_intercept": False, "first_probability": 0.5, "penalty": 1e5}
FULL = {"d": 600, "n": [300, 600, 1200, 2400], "seeds": 200}


def _averages(part: Part) -> None:
    """What the closed form needs; clusters that hardly differ have the test error 1/2 whatever the fit is."""
    needs(part.simulated, separation=at_least(0.5), penalty=at_least(1e4))
    needs(part.simulated, variance_ratio=1.0, tilt=0.0, first_probability=0.5, fit_intercept=False)


def _panel(output: str, *parts: tuple[str, Any], **options: Any) -> Panel:
    first, *others = (Panel(output, x="n", by=by, part=part, **options) for part, by in parts)
    return replace(first, also=tuple(others))


@dataclass(frozen=True)
class MixtureClassification(Study):
    """Clusters +-mu with |mu| = separation/sqrt(d); Sigma_1 = I/d, Sigma_2 = variance_ratio/d times a profile with mean
    1.

    The profile is linear in the coordinate, from 1 - tilt to 1 + tilt, and mu spreads evenly over the coordinates. The
    sizes of both classes are fixed. The criteria of test error and training loss are those of
    `generalised-linear-state-evolution`.
    """

    question = "Do the errors of linear classifiers on Gaussian clusters follow from means and covariances alone?"
    sources = cite("loureiro2021mixtures")
    departs = "The sizes of both clusters are fixed, not drawn."

    loss: str = static("logistic", "loss", choices=("square", "logistic", "hinge"))
    fit_intercept: bool = static(True, "whether a bias is fitted", paired=True)
    separation: float = value(1.5, "length of the means over the noise of a coordinate", low=0, high=20)
    first_probability: float = value(0.6, "probability of the first cluster", symbol="p", above=0, high=0.999)
    variance_ratio: float = value(1.0, "mean variance of the second cluster over that of the first", above=0, high=100)
    tilt: float = value(0.0, "unevenness of the second covariance", low=0, high=1)
    penalty: float = value(0.1, "penalty, in sum of losses + (penalty/2)|w|^2", symbol=r"\lambda", above=0, high=1e9)
    d: int = static(300, "dimension", symbol="d", low=2, high=5000)
    n: tuple = path((300, 600), "samples", symbol="n", low=4, high=50_000, scale="log")

    outputs = {
        "test_error": Output("test error", r"\varepsilon", ("n",)),
        "training_loss": Output("training loss", "", ("n",), scale="log"),
        "averaging_error": Output("closed form for a large penalty", "", ("n",), theory_only=True),
    }
    presets = {
        "quick": {
            "bias": {"fit_intercept": [True, False], "n": [300, 600], "seeds": 84},
            "covariances": {("variance_ratio", "tilt"): [(3.0, 0.0), (2.0, 1.0)], "n": [300, 600], "seeds": 84},
            "losses": LOSSES | {"n": [150, 225], "seeds": 208},
            "averaging": AVERAGING | {"n": [150, 600], "seeds": 160},
        },
        "full": {
            "bias": FULL | {"fit_intercept": [True, False]},
            "covariances": FULL | {("variance_ratio", "tilt"): [(3.0, 0.0), (2.0, 1.0), (5.0, 1.0)]},
            "losses": FULL | LOSSES | {"n": [300, 600, 1200]},
            "averaging": FULL | AVERAGING | {"n": [150, 600, 2400]},
        },
    }
    broadcasts = ("penalty",)
    lines = dict.fromkeys(("bias", "covariances", "losses", "averaging"), "n")
    history = (
        *changes(
            "test-error training-loss averaging",
            "84 to 208 seeds, first 48 and 96",
            "fresh seeds would have changed the verdicts in 10, 1 and 33% of runs",
        ),
        Change(
            "",
            "n = 150 was dropped for logistic fits, which are not claimed there, and the seeds raised from 40",
            "the first run was inconclusive at n = 150 in the test error and in the gain of the bias (0.015 above "
            "theory, interval -0.001 to 0.030); the criteria were not changed",
        ),
        Change(
            "test-error",
            "square and hinge fits came later, at n = 300 and 600 with 32 seeds, then at 150 and 300 with 48, now at "
            "150 and 225 with 96",
            "their first run held; sizes were lowered for the sake of time, and the second run was inconclusive; the "
            "criterion was not changed",
        ),
    )
    figure = panels(
        Panel(
            lambda data: data.averaging_error if "averaging_error" in data else data.test_error,
            x="n",
            part="averaging",
            ylabel="test error",
            title="large penalty; line: closed form",
        ),
        _panel("training_loss", *LOGISTIC, log="x", legend=False),
        _panel("test_error", *LOGISTIC, ("losses", "loss"), legend="beside"),
        height=3.1,
    )

    @claim(SOURCE, PLACE, within(0.04))
    def test_error(bias, covariances, losses):
        """The test error is that of state evolution {criterion}, with and without bias, with equal and unequal
        covariances, for three losses."""
        return [over_theory(part, "test_error") for part in (bias, covariances, losses)]

    @claim(SOURCE, PLACE, within(0.08))
    def training_loss(bias, covariances):
        """The training loss of logistic fits is that of state evolution {criterion}."""
        return [over_theory(part, "training_loss") for part in (bias, covariances)]

    @claim(SOURCE, PLACE, within(0.02, absolute=True))
    def gain_of_bias(bias):
        """On clusters of unequal size a bias changes the test error by a factor. This factor is that of state evolution
        {criterion}."""
        simulated, predicted = bias.simulated.test_error, bias.predicted.test_error
        ratio = simulated.sel(fit_intercept=True) / simulated.sel(fit_intercept=False)
        return ratio - predicted.sel(fit_intercept=True) / predicted.sel(fit_intercept=False)

    @claim(OWN, "averaging in closed form", within(0.04))
    def averaging(averaging):
        """With a large penalty, balanced clusters and no bias the fit averages y x. Its test error is Phi(-|mu|^2 /
        sqrt(s2 (|mu|^2 + s2 d/n))), {criterion}."""
        _averages(averaging)
        return relative_deviation(averaging.simulated.test_error, averaging.predicted.averaging_error)

    @claim(OWN, "averaging in closed form", within(1e-5), theory=True)
    def averaging_theory(averaging):
        """At penalty 1e5 state evolution gives the closed form of averaging {criterion}."""
        _averages(averaging)
        return averaging.predicted.test_error / averaging.predicted.averaging_error - 1

    def validate(self) -> None:
        if self.fit_intercept and self.loss != "logistic":
            raise InputError(
                f"fit_intercept must be false with the {self.loss} loss, which is fitted without one, got true"
            )

    def memory(self) -> int:
        return 8 * (4 * max(self.n) * self.d + 4 * self.d**2)

    def _clusters(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means, diagonals of the covariances and probabilities."""
        mean = np.full(self.d, self.separation / self.d)
        profile = 1 + self.tilt * np.linspace(-1, 1, self.d)
        variances = np.stack([np.ones(self.d), self.variance_ratio * profile]) / self.d
        return np.stack([mean, -mean]), variances, np.array([self.first_probability, 1 - self.first_probability])

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """Nested training sets; the test error given the weights is exact."""
        from unlazy.training.message_passing.linear_fits import cluster_fits

        return cluster_fits(
            rng, *self._clusters(), self.n, self.penalty, loss=self.loss, fit_intercept=self.fit_intercept
        )

    def predict(self) -> dict[str, Any]:
        from scipy.special import ndtr

        means, variances, shares = self._clusters()
        samples = np.array(self.n)
        theory = mixture_state_evolution(
            means,
            variances,
            shares,
            [1, -1],
            samples,
            self.penalty,
            loss=self.loss,
            fit_intercept=self.fit_intercept,
        )
        square, noise = self.separation**2 / self.d, 1 / self.d
        averaging = ndtr(-square / np.sqrt(noise * (square + noise * self.d / samples)))
        return {"test_error": theory.test_error, "training_loss": theory.training_loss, "averaging_error": averaging}

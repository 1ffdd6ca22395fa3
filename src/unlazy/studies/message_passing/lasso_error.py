"""The LASSO against its state evolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Output, Study, changes, cite, claim, over_theory, path, static, value, within
from unlazy.plotting.panels import Panel, panels
from unlazy.theory.message_passing.lasso import lasso_state_evolution

CASE = ("nonzero_share", "samples_per_dimension", "noise_variance")
PLACE = "Theorem 1.5 and Corollary 1.6"


@dataclass(frozen=True)
class LassoError(Study):
    """y = A s + noise with A_ij ~ N(0, 1/n), fitted by coordinate descent to a duality gap of 1e-8 |y|^2.

    The nonzero coefficients are quantiles of the normal law, with fixed energy: with their number and energy random the
    error scatters by 20%. The criteria are those of `generalised-linear-state-evolution`, written before the first run.
    """

    question = (
        "Do the error of the LASSO and its number of nonzeros follow from the true nonzeros, the noise and the penalty?"
    )
    sources = cite("bayati2012")

    nonzero_share: float = value(0.1, "share of coefficients that are not 0", symbol=r"\epsilon", above=0, high=1)
    samples_per_dimension: float = value(0.6, "samples per coefficient", symbol="n/d", low=0.05, high=20)
    noise_variance: float = value(0.04, "variance of the noise", symbol=r"\sigma^2", low=0, high=100)
    d: int = static(500, "coefficients", symbol="d", low=10, high=5000)
    l1_penalty: tuple = path(
        (0.2, 0.4, 0.8), "penalty of |s|_1", symbol=r"\lambda", low=1e-3, high=100, scale="log", short="penalty"
    )

    outputs = {
        "test_error": Output("test error", r"\tau^2", ("l1_penalty",), scale="log"),
        "coefficient_error": Output(
            "mean squared error per coefficient", "", ("l1_penalty",), scale="log", short="mean squared error"
        ),
        "selected_share": Output("share of nonzeros", "", ("l1_penalty",)),
        "training_error": Output("mean squared residual", "", ("l1_penalty",), scale="log"),
    }
    presets = {
        "quick": {CASE: [(0.1, 0.8, 0.04), (0.3, 1.5, 0.0)], "seeds": 480},
        "full": {
            CASE: [(0.1, 0.6, 0.04), (0.1, 0.6, 0.0), (0.3, 1.0, 0.0)],
            "d": 1000,
            "l1_penalty": [0.05, 0.1, 0.2, 0.4, 0.8],
            "seeds": 800,
        },
    }
    broadcasts = ("nonzero_share", "noise_variance")
    lines = {"main": "l1_penalty"}
    history = (
        changes("", "in `full` 800 seeds, first 200", "the test error was undecided there")
        + changes(
            "",
            "in `quick` 0.8 and 1.5 samples per coefficient, first 0.6 and 1, and 480 seeds, first 240",
            "fresh seeds would have changed the verdicts on the errors in 20% of runs; with more samples fits take a "
            "third of the time and scatter less; the criteria were not changed",
        )
        + changes(
            "",
            "the nonzero values were fixed, the penalties (0.1, 0.2, 0.4) doubled, the case without noise given 150 "
            "nonzeros in place of 50, and the seeds raised from 40 to 240",
            "the first run was inconclusive in the errors and the nonzeros, a second and a third in the errors; the "
            "criteria were not changed",
        )
    )
    figure = panels(
        Panel("coefficient_error", x="l1_penalty", by=CASE, legend=False),
        Panel("selected_share", x="l1_penalty", by=CASE, legend=False),
        Panel("training_error", x="l1_penalty", by=CASE, legend="beside"),
        width=3.1,
    )

    @claim("bayati2012", PLACE, within(0.04))
    def test_error(main):
        """The squared error on a new row, noise included, is tau^2 of state evolution {criterion}, with and without
        noise."""
        return over_theory(main, "test_error")

    @claim("bayati2012", PLACE, within(0.05))
    def coefficient_error(main):
        """The mean squared error of a coefficient is that of state evolution {criterion}."""
        return over_theory(main, "coefficient_error")

    @claim(
        "bayati2012",
        PLACE,
        within(0.05),
        departs=(
            "The theorem is about Lipschitz functions of the coefficients. The share of nonzeros is no average of "
            "such a function; it comes from the calibration of state evolution."
        ),
    )
    def selected_share(main):
        """The share of nonzero coefficients is that of state evolution {criterion}."""
        return over_theory(main, "selected_share")

    @claim(
        "bayati2012",
        PLACE,
        within(0.08),
        departs=(
            "The theorem is about the coefficients. The residual is that of message passing at its fixed point, from "
            "the proof."
        ),
    )
    def training_error(main):
        """The mean squared residual is that of state evolution {criterion}."""
        return over_theory(main, "training_error")

    def memory(self) -> int:
        return 16 * int(self.samples_per_dimension * self.d + 1) * self.d

    def _values(self) -> np.ndarray:
        """The nonzero coefficients: quantiles of the normal law, with the energy of `nonzero_share`."""
        from scipy.special import ndtri

        count = max(round(self.nonzero_share * self.d), 1)
        values = ndtri((np.arange(count) + 0.5) / count)
        values = np.ones(1) if count == 1 else values
        return values * np.sqrt(self.nonzero_share * self.d / (values @ values))

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.message_passing.linear_fits import lasso_errors

        values = self._values()
        signal = np.append(values, np.zeros(self.d - values.size))
        return lasso_errors(
            rng, signal, max(round(self.samples_per_dimension * self.d), 1), self.l1_penalty, self.noise_variance
        )

    def predict(self) -> dict[str, Any]:
        ratio = max(round(self.samples_per_dimension * self.d), 1) / self.d
        theory = lasso_state_evolution(self.nonzero_share, ratio, np.array(self.l1_penalty), self.noise_variance)
        found = {name: getattr(theory, name) for name in ("coefficient_error", "selected_share", "training_error")}
        return found | {"test_error": theory.effective_noise_deviation**2}

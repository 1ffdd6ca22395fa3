"""Ridge regression in high dimension against its deterministic equivalent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.functions.spectra import power_law
from unlazy.lab import Output, Study, cite, static, value
from unlazy.lab.claims import at_most, changes, claim, within
from unlazy.lab.measures import difference, enough, over_theory, parameter, relative_deviation
from unlazy.numerics.ridge import conditional_risk, decompose, sample_effective_ridge
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.regression import shared
from unlazy.theory.regression.ridge import ridge_equivalent

AVERAGED = (
    "GCV is averaged over target and noise given the design, where the source has that of the drawn labels, and "
    "power-law spectra are outside its assumptions, which bound eigenvalues from below."
)
ISOTROPIC: dict[str, Any] = {"spectrum_exponent": 0.0, "prior_exponent": 0.0, "ridge": [0.0, 0.03, 0.3, 3.0]}
MANY = [100, 200, 400, 600, 800, 1250, 1600, 3200, 6400]
CASE = ("spectrum_exponent", "prior_exponent")
CASES = [(0.0, 0.0), (1.0, 0.5), (0.5, 2.0), (2.0, 0.0)]
MORE_CASES = [(0.0, 0.0), (0.5, 0.0), *CASES[1:], (1.5, -1.0), (1.0, 2.0)]
RIDGES = [0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
MORE_RIDGES = [0.0, *np.logspace(-6, 1, 29).tolist()]


def _test_error(part):
    """The simulated test error, with the label noise."""
    return part.simulated.risk + parameter(part.simulated, "noise_variance")


def _against_ridge(name, log="x", **options):
    """An output against the ridge; a ridge of 0 stands at the left end."""
    axis = {"x": lambda data: data.ridge.clip(min=1e-7), "xlabel": r"ridge $\lambda$ (left end: 0)", "log": log}
    return Panel(name, by=CASE, part="ridges", **axis, **options)


@dataclass(frozen=True)
class RidgeEquivalentStudy(Study):
    question = (
        "Is the risk of ridge regression in high dimension a number that one can compute from the covariance spectrum, "
        "the prior and the sample size, without drawing data?"
    )
    sources = cite("hastie2022", "dobriban2018", "patil2021")
    departs = (
        "Power-law spectra, whose smallest eigenvalues go to 0, are outside the sources' assumptions, which bound them "
        "from below."
    )

    n: int = static(100, "samples", symbol="n", low=1, high=20_000, scale="log")
    d: int = static(400, "dimension", symbol="d", low=1, high=100_000, scale="log")
    spectrum_exponent: float = value(1.0, "decay a of the covariance eigenvalues j^-a", symbol="a", low=0, high=10)
    prior_exponent: float = value(
        0.5, "decay b of the prior variances, proportional to j^-b", symbol="b", low=-10, high=10
    )
    signal_variance: float = value(
        1.0, "variance of the noiseless target, which scales the prior", symbol=r"\rho^2", low=0, high=1e6
    )
    noise_variance: float = value(0.3, "variance of the label noise", symbol=r"\sigma^2", low=0, high=1e6)
    ridge: tuple = shared.ridges((0.0, 1e-3, 1e-2, 0.1, 1.0))

    outputs = {
        **shared.RIDGE_OUTPUTS,
        "training_error": Output("training error", "", ("ridge",)),
        "degrees_of_freedom": Output("degrees of freedom", r"\mathrm{df}_1", ("ridge",)),
        "gcv": Output("generalised cross-validation", "", ("ridge",)),
        "effective_ridge": Output("effective ridge", r"\kappa", ("ridge",), scale="log"),
    }
    presets = {
        "quick": {
            "sizes": {"n": [50, 100, 200, 300, 600, 800, 1600]} | ISOTROPIC | {"seeds": 36},
            "ridges": {CASE: CASES, "ridge": RIDGES, "seeds": 320},
        },
        "full": {
            "sizes": {"n": MANY, "d": 1000} | ISOTROPIC | {"spectrum_exponent": [0.0, 1.0], "seeds": 40},
            "ridges": {CASE: MORE_CASES, "n": [100, 400], "d": 2000, "ridge": MORE_RIDGES, "seeds": 800},
        },
    }
    broadcasts = ("n", "noise_variance")
    history = changes(
        "risk", "5%, where it was 3%", "where few directions decide the correction of order 1/n is 1.5% at n = 100"
    )
    lines = {"sizes": "n", "ridges": "ridge"}
    figure = panels(
        Panel(
            "risk", x="n", by="ridge", part="sizes", at={"spectrum_exponent": 0.0}, title="isotropic", ylim=(0.01, 30)
        ),
        _against_ridge("risk", "xy", title=r"eigenvalues $j^{-a}$, prior $j^{-b}$"),
        _against_ridge("training_error", legend=False),
        _against_ridge("degrees_of_freedom", legend=False),
        columns=2,
        width=3.7,
    )

    @claim("hastie2022 dobriban2018", "", within(0.05))
    def risk(sizes, ridges):
        """The risk of ridge regression, ridge 0 included, is that of its deterministic equivalent, {criterion} in every
        case."""
        return [over_theory(part, "risk") for part in (sizes, ridges)]

    @claim(
        "patil2021",
        "",
        within(0.02),
        departs="The source states that GCV is consistent, from which this follows with the limit of the degrees of "
        "freedom; power-law spectra are outside its assumptions, which bound eigenvalues from below.",
    )
    def training_error(sizes, ridges):
        """The training error is (ridge/effective ridge)^2 times the test error, {criterion} of the test error."""
        return [difference(part, "training_error") / _test_error(part) for part in (sizes, ridges)]

    @claim("dobriban2018", "", within(0.01))
    def degrees_of_freedom(sizes, ridges):
        """The degrees of freedom are n (1 - ridge/effective ridge), {criterion} of n."""
        return [difference(part, "degrees_of_freedom") / parameter(part.simulated, "n") for part in (sizes, ridges)]

    @claim("patil2021", "", within(0.03), departs=AVERAGED)
    def gcv(sizes, ridges):
        """Generalised cross-validation, which needs only the data, estimates the test error at every ridge, 0 included,
        {criterion}."""
        return [relative_deviation(part.simulated.gcv, _test_error(part)) for part in (sizes, ridges)]

    @claim("patil2021", "", at_most(0.01), departs=AVERAGED)
    def gcv_choice(ridges):
        """The ridge that minimises GCV costs little: its test error exceeds that of the best ridge of the path by a
        share of {criterion}."""
        enough(ridges.simulated, "ridge", 3)
        error = _test_error(ridges)
        return error.isel(ridge=ridges.simulated.gcv.argmin("ridge")) / error.min("ridge") - 1

    def memory(self) -> int:
        rank = min(self.n, self.d)
        return 8 * (2 * self.n * self.d + 3 * self.d * rank + 6 * rank**2)

    def simulate(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """The exact expectation over target and noise, given a drawn design."""
        spectrum, prior = self._population()
        design = rng.standard_normal((self.n, self.d)) * np.sqrt(spectrum)
        found = decompose(design)
        given = conditional_risk(found, spectrum, prior, self.noise_variance, self.ridge)
        return {**given._asdict(), "effective_ridge": sample_effective_ridge(found, self.ridge)}

    def _population(self) -> tuple[np.ndarray, np.ndarray]:
        spectrum = power_law(self.d, self.spectrum_exponent)
        shape = power_law(self.d, self.prior_exponent)
        return spectrum, shape * (self.signal_variance / (spectrum @ shape))

    def predict(self) -> dict[str, np.ndarray]:
        spectrum, prior = self._population()
        theory = ridge_equivalent(spectrum, prior, self.n, np.array(self.ridge), self.noise_variance)
        return {name: getattr(theory, name) for name in self.outputs}

"""Ridge regression in high dimension against its deterministic equivalent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Output, Study, cite, path, static, value
from unlazy.lab.claims import at_most, claim, enough, over_theory, parameter, relative_deviation, within
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.regression.shared.cases import named_cases

if TYPE_CHECKING:
    import xarray as xr


def _test_error(part) -> xr.DataArray:
    """The simulated test error, with the label noise."""
    return part.simulated.risk + parameter(part.simulated, "noise_variance")


def _show_zero(axes: Any, ridges, **_) -> None:
    """An axis of ridges that has a place for 0."""
    ridge = np.atleast_1d(parameter(ridges.simulated, "ridge"))
    if (ridge > 0).any():
        axes.set_xscale("symlog", linthresh=ridge[ridge > 0].min(), linscale=0.4)
        axes.set_xlim(0, ridge.max() * 1.5)


def _against_ridge(name: str, ylabel: str, *, log: str = "", title: str = "", legend: bool = False) -> Panel:
    def shown(data: xr.Dataset) -> xr.DataArray:
        return named_cases(data[name], ("spectrum_exponent", "prior_exponent"), "$a = {:g}$, $b = {:g}$".format)

    return Panel(
        shown,
        x="ridge",
        by="case",
        part="ridges",
        title=title,
        xlabel=r"ridge $\lambda$",
        ylabel=ylabel,
        log=log,
        legend=legend,
        draw=_show_zero,
    )


@dataclass(frozen=True)
class RidgeEquivalent(Study):
    question = (
        "Is the risk of ridge regression in high dimension a number that one can compute from the covariance spectrum, "
        "the prior and the sample size, without drawing data?"
    )
    sources = cite("hastie2022", "dobriban2018", "patil2021")

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
    ridge: tuple = path(
        (0.0, 1e-3, 1e-2, 1e-1, 1.0),
        "ridge, in (1/n)|y - Xb|^2 + ridge |b|^2",
        symbol=r"\lambda",
        low=0,
        high=1e12,
        scale="log",
    )

    outputs = {
        "risk": Output("excess risk", r"\bar R", ("ridge",), scale="log"),
        "bias": Output("bias", "B", ("ridge",), scale="log"),
        "variance": Output("variance", "V", ("ridge",), scale="log"),
        "training_error": Output("training error", "", ("ridge",)),
        "degrees_of_freedom": Output("degrees of freedom", r"\mathrm{df}_1", ("ridge",)),
        "gcv": Output("generalised cross-validation", "", ("ridge",)),
        "effective_ridge": Output("effective ridge", r"\kappa", ("ridge",), scale="log"),
    }
    presets = {
        "quick": {
            "sizes": {
                "n": [50, 100, 200, 300, 600, 800, 1600],
                "spectrum_exponent": 0.0,
                "prior_exponent": 0.0,
                "ridge": [0.0, 0.03, 0.3, 3.0],
                "seeds": 12,
            },
            "ridges": {
                ("spectrum_exponent", "prior_exponent"): [(0.0, 0.0), (1.0, 0.5), (0.5, 2.0), (2.0, 0.0)],
                "ridge": [0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0],
                "seeds": 128,
            },
        },
        "full": {
            "sizes": {
                "n": [100, 200, 400, 600, 800, 1250, 1600, 3200, 6400],
                "d": 1000,
                "spectrum_exponent": [0.0, 1.0],
                "prior_exponent": 0.0,
                "ridge": [0.0, 0.03, 0.3, 3.0],
                "seeds": 40,
            },
            "ridges": {
                ("spectrum_exponent", "prior_exponent"): [
                    *[(0.0, 0.0), (0.5, 0.0), (1.0, 0.5), (0.5, 2.0), (2.0, 0.0)],
                    *[(1.5, -1.0), (1.0, 2.0)],
                ],
                "n": [100, 400],
                "d": 2000,
                "ridge": np.concatenate([[0.0], np.logspace(-6, 1, 29)]).tolist(),
                "seeds": 800,
            },
        },
    }
    lines = {"sizes": "n", "ridges": "ridge"}
    figure = panels(
        Panel(
            "risk",
            x="n",
            by="ridge",
            part="sizes",
            at={"spectrum_exponent": 0.0},
            title="isotropic covariance",
            ylim=(0.01, 30),
        ),
        _against_ridge(
            "risk",
            r"excess risk $\bar R$",
            log="y",
            title=r"eigenvalues $j^{-a}$, prior $j^{-b}$",
            legend=True,
        ),
        _against_ridge("training_error", "training error"),
        _against_ridge("degrees_of_freedom", r"degrees of freedom $\mathrm{df}_1$"),
        columns=2,
        width=3.7,
    )

    @claim("hastie2022 dobriban2018", "", within(0.03))
    def risk(sizes, ridges):
        """The risk of ridge regression, ridge 0 included, is that of its deterministic equivalent, {criterion} in every
        case."""
        return [over_theory(part, "risk") for part in (sizes, ridges)]

    @claim("patil2021", "", within(0.02))
    def training_error(sizes, ridges):
        """The training error is (ridge/effective ridge)^2 times the test error, {criterion} of the test error."""
        return [
            (part.simulated.training_error - part.predicted.training_error) / _test_error(part)
            for part in (sizes, ridges)
        ]

    @claim("dobriban2018", "", within(0.01))
    def degrees_of_freedom(sizes, ridges):
        """The degrees of freedom are n (1 - ridge/effective ridge), {criterion} of n."""
        return [
            (part.simulated.degrees_of_freedom - part.predicted.degrees_of_freedom) / parameter(part.simulated, "n")
            for part in (sizes, ridges)
        ]

    @claim("patil2021", "", within(0.03))
    def gcv(sizes, ridges):
        """Generalised cross-validation, which needs only the data, estimates the test error at every ridge, 0 included,
        {criterion}."""
        return [relative_deviation(part.simulated.gcv, _test_error(part)) for part in (sizes, ridges)]

    @claim("patil2021", "", at_most(0.01))
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
        from unlazy.numerics.ridge_path import conditional_risk, decompose

        spectrum, prior = self._population()
        design = rng.standard_normal((self.n, self.d)) * np.sqrt(spectrum)
        decomposition = decompose(design)
        given = conditional_risk(decomposition, spectrum, prior, self.noise_variance, self.ridge)
        return {**given._asdict(), "effective_ridge": _trace_ridge(decomposition.squares, self.n, self.ridge)}

    def _population(self) -> tuple[np.ndarray, np.ndarray]:
        from unlazy.functions.spectra import power_law

        spectrum = power_law(self.d, self.spectrum_exponent)
        shape = power_law(self.d, self.prior_exponent)
        return spectrum, shape * (self.signal_variance / (spectrum @ shape))

    def predict(self) -> dict[str, np.ndarray]:
        from unlazy.theory.regression.ridge import ridge_equivalent

        spectrum, prior = self._population()
        theory = ridge_equivalent(spectrum, prior, self.n, np.array(self.ridge), self.noise_variance)
        return {name: getattr(theory, name) for name in self.outputs}


def _trace_ridge(squares: np.ndarray, n: int, ridges: tuple) -> np.ndarray:
    """The sample's effective ridge 1 / tr (X X^T + n ridge I)^-1, from the nonzero eigenvalues of X X^T."""
    penalty = n * np.asarray(ridges, float)[:, None]
    null = n - squares.size
    with np.errstate(divide="ignore"):
        trace = (1 / (squares + penalty)).sum(axis=1) + (null / penalty[:, 0] if null else 0.0)
    return 1 / trace

"""Ridge regression in high dimension against its deterministic equivalent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import (
    Claim,
    Output,
    Part,
    Source,
    Study,
    at_most,
    between,
    parameter,
    path,
    relative_deviation,
    static,
    value,
)

if TYPE_CHECKING:
    import xarray as xr

HASTIE = "Hastie et al. 2022"
DOBRIBAN = "Dobriban & Wager 2018"
PATIL = "Patil et al. 2021"


def _test_error(part: Part) -> xr.DataArray:
    """The simulated test error, with the label noise."""
    return part.simulated.risk + parameter(part.simulated, "noise_variance")


def _risk_deviation(*parts: Part) -> list[xr.DataArray]:
    return [relative_deviation(part.simulated.risk, part.predicted.risk) for part in parts]


def _training_deviation(*parts: Part) -> list[xr.DataArray]:
    """In units of the test error: at ridge 0 both sides of an interpolating fit are 0."""
    return [(p.simulated.training_error - p.predicted.training_error) / _test_error(p) for p in parts]


def _freedom_deviation(*parts: Part) -> list[xr.DataArray]:
    return [
        (p.simulated.degrees_of_freedom - p.predicted.degrees_of_freedom) / parameter(p.simulated, "n") for p in parts
    ]


def _gcv_deviation(*parts: Part) -> list[xr.DataArray]:
    return [relative_deviation(part.simulated.gcv, _test_error(part)) for part in parts]


def _cost_of_gcv(part: Part) -> xr.DataArray:
    """By how much the ridge that GCV chooses is worse than the best ridge of the path, as a share of the test error."""
    chosen = part.simulated.gcv.argmin("ridge")
    error = _test_error(part)
    return error.isel(ridge=chosen) / error.min("ridge") - 1


@dataclass(frozen=True)
class RidgeEquivalent(Study):
    name = "ridge-equivalent"
    topic = "regression"
    question = (
        "Is the risk of ridge regression in high dimension a number that one can compute from the covariance spectrum, "
        "the prior and the sample size, without drawing data?"
    )
    sources = (
        Source(
            "hastie2022",
            "Hastie, Trevor and Montanari, Andrea and Rosset, Saharon and Tibshirani, Ryan J.",
            2022,
            "Surprises in high-dimensional ridgeless least squares interpolation",
            "The Annals of Statistics 50(2), 949-986",
        ),
        Source(
            "dobriban2018",
            "Dobriban, Edgar and Wager, Stefan",
            2018,
            "High-dimensional asymptotics of prediction: Ridge regression and classification",
            "The Annals of Statistics 46(1), 247-279",
        ),
        Source(
            "patil2021",
            "Patil, Pratik and Wei, Yuting and Rinaldo, Alessandro and Tibshirani, Ryan J.",
            2021,
            "Uniform consistency of cross-validation estimators for high-dimensional ridge regression",
            "Artificial Intelligence and Statistics (AISTATS)",
            kind="inproceedings",
        ),
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
    claims = (
        Claim(
            "risk",
            f"{HASTIE}; {DOBRIBAN}",
            "The risk of ridge regression, ridge 0 included, is that of its deterministic equivalent: the relative "
            "deviation is at most 3% in every case.",
            between(-0.03, 0.03),
            check=_risk_deviation,
            parts=("sizes", "ridges"),
        ),
        Claim(
            "training-error",
            PATIL,
            "The training error is (ridge/effective ridge)^2 times the test error: the deviation is at most 2% of the "
            "test error.",
            between(-0.02, 0.02),
            check=_training_deviation,
            parts=("sizes", "ridges"),
        ),
        Claim(
            "degrees-of-freedom",
            DOBRIBAN,
            "The degrees of freedom are n (1 - ridge/effective ridge): the deviation is at most 1% of n.",
            between(-0.01, 0.01),
            check=_freedom_deviation,
            parts=("sizes", "ridges"),
        ),
        Claim(
            "gcv",
            PATIL,
            "Generalised cross-validation, which needs only the data, estimates the test error at every ridge, 0 "
            "included: the relative deviation is at most 3%.",
            between(-0.03, 0.03),
            check=_gcv_deviation,
            parts=("sizes", "ridges"),
        ),
        Claim(
            "gcv-choice",
            PATIL,
            "The ridge that minimises GCV costs at most 1% more test error than the best ridge of the path.",
            at_most(0.01),
            check=_cost_of_gcv,
            parts=("ridges",),
            needs={"ridge": 3},
        ),
    )

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

    def figure(self, sizes: Part, ridges: Part) -> Any:
        from unlazy.plotting import style

        figure, ((left, right), (below_left, below_right)) = style.panels(2, 2, width=3.7)
        for color, ridge in zip(
            style.shades(sizes.simulated.sizes["ridge"]), sizes.simulated.ridge.values, strict=True
        ):
            line, points = sizes.lines.sel(ridge=ridge), sizes.simulated.sel(ridge=ridge)
            line, points = _first_spectrum(line), _first_spectrum(points)
            style.theory(left, line.n, line.risk, color=color, label=rf"$\lambda = {ridge:g}$")
            style.simulation(left, points.n, points.risk, color=color)
        left.set(
            xscale="log",
            yscale="log",
            xlabel=style.label("samples", "n"),
            ylabel=style.label("excess risk", r"\bar R"),
        )
        left.set_ylim(
            bottom=0.5 * float(sizes.simulated.risk.min()),
            top=3 * float(sizes.simulated.risk.mean("seed").max()),
        )
        left.set_title("risk against sample size, isotropic covariance")
        left.legend()
        for index in range(ridges.simulated.sizes["spectrum_exponent"]):
            line, points = (
                ridges.lines.isel(spectrum_exponent=index),
                ridges.simulated.isel(spectrum_exponent=index),
            )
            if "n" in points.dims:
                line, points = line.isel(n=0), points.isel(n=0)
            text = f"$a = {points.spectrum_exponent.item():g}$, $b = {points.prior_exponent.item():g}$"
            panels = ((right, "risk"), (below_left, "training_error"), (below_right, "degrees_of_freedom"))
            for axes, output in panels:
                style.theory(axes, line.ridge, line[output], color=style.colour(index), label=text)
                style.simulation(
                    axes, points.ridge, points[output], color=style.colour(index), marker=style.marker(index)
                )
        path = ridges.simulated.ridge.values
        for axes in (right, below_left, below_right):
            if (path > 0).any():
                axes.set_xscale("symlog", linthresh=path[path > 0].min(), linscale=0.4)
                axes.set_xlim(0, path.max() * 1.5)
            axes.set_xlabel(style.label("ridge", r"\lambda"))
        right.set(yscale="log", ylabel=style.label("excess risk", r"\bar R"))
        right.set_title(r"eigenvalues $j^{-a}$, prior $j^{-b}$")
        below_left.set_ylabel("training error")
        below_left.legend(loc="upper left")
        below_right.set_ylabel(style.label("degrees of freedom", r"\mathrm{df}_1"))
        return figure


def _first_spectrum(data: xr.Dataset) -> xr.Dataset:
    return data.isel(spectrum_exponent=0) if "spectrum_exponent" in data.dims else data


def _trace_ridge(squares: np.ndarray, n: int, ridges: tuple) -> np.ndarray:
    """The sample's effective ridge 1 / tr (X X^T + n ridge I)^-1, from the nonzero eigenvalues of X X^T."""
    penalty = n * np.asarray(ridges, float)[:, None]
    null = n - squares.size
    with np.errstate(divide="ignore"):
        trace = (1 / (squares + penalty)).sum(axis=1) + (null / penalty[:, 0] if null else 0.0)
    return 1 / trace

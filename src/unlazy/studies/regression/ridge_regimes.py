"""Three regimes of eigenvalue decay: where interpolation is tempered, benign or harmful."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import (
    Claim,
    Output,
    Part,
    Study,
    at_least,
    at_most,
    between,
    parameter,
    path,
    relative_deviation,
    slope,
    static,
    value,
)
from unlazy.studies.regression.shared.sources import BARTLETT, MALLINAR, TALK, TSIGLER

if TYPE_CHECKING:
    import xarray as xr

REGIMES = "Tsigler & Bartlett 2023; Suzuki 2024 (FIMI), slide 'Eigenvalue decay and generalization'"
TEMPERED = "Mallinar et al. 2022"
PARTS = ("kernel", "benign", "harmful")


def _ridgeless(part: Part) -> xr.DataArray:
    return part.simulated.risk.sel(ridge=0)


def _best(part: Part) -> xr.DataArray:
    """The mean risk at the ridge that minimises it."""
    return part.simulated.risk.mean("seed").min("ridge")


def _tempered_limit(part: Part) -> xr.DataArray:
    """The ridgeless variance at the largest n over its limit s2 (a - 1)."""
    variance = part.simulated.variance.sel(ridge=0).isel(n=-1)
    exponent = parameter(part.simulated, "spectrum_exponent")
    return variance / (parameter(part.simulated, "noise_variance") * (exponent - 1)) - 1


def _classified(part: Part) -> xr.DataArray:
    """1 where the curves of the theory have the regime that the exponents say, else 0."""
    from unlazy.theory.regression.benign_overfitting import classify_regime, overfitting_regime

    exponents = parameter(part.predicted, "spectrum_exponent"), parameter(part.predicted, "dimension_exponent")
    sizes, found = np.array([50, 200, 800]), []
    for a, c in zip(*(np.atleast_1d(np.asarray(e, dtype=float)) for e in exponents), strict=True):
        curves = [RidgeRegimes(n=int(n), spectrum_exponent=a, dimension_exponent=c).predict() for n in sizes]
        ridgeless, best, zero = (
            np.array([f(curve) for curve in curves])
            for f in (lambda x: x["risk"][0], lambda x: x["risk"].min(), lambda x: x["zero_risk"])
        )
        found.append(float(classify_regime(sizes, ridgeless, best, zero) == overfitting_regime(a, c)))
    like = part.predicted.zero_risk.isel(n=0) if "n" in part.predicted.dims else part.predicted.zero_risk
    return like.copy(data=np.reshape(found, like.shape))


def _bound_ratio(*parts: Part) -> list[xr.DataArray]:
    return [np.log2(part.predicted.bound / part.simulated.risk) for part in parts]


@dataclass(frozen=True)
class RidgeRegimes(Study):
    name = "ridge-regimes"
    topic = "regression"
    question = (
        "With covariance eigenvalues j^-a in d = n^c dimensions, when does interpolation (ridge 0) generalise, when "
        "does it need a ridge, and when does no ridge help?"
    )
    sources = (TSIGLER, BARTLETT, MALLINAR, TALK)

    n: int = static(100, "samples", symbol="n", low=2, high=20_000, scale="log")
    spectrum_exponent: float = value(0.5, "decay a of the covariance eigenvalues j^-a", symbol="a", low=0, high=10)
    dimension_exponent: float = static(1.5, "exponent c of the dimension d = n^c", symbol="c", above=1, high=4)
    prior_exponent: float = value(2.0, "decay of the prior variances j^-b", symbol="b", low=0, high=10)
    noise_variance: float = value(0.25, "variance of the label noise", symbol=r"\sigma^2", low=0, high=1e6)
    ridge: tuple = path(
        (0.0, *np.logspace(-6, 2, 17).tolist()),
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
        "bound": Output("Tsigler and Bartlett's B + V", "", ("ridge",), scale="log", theory_only=True),
        "zero_risk": Output("excess risk of the zero predictor", r"\bar R", theory_only=True),
    }
    presets = {
        "quick": {
            "kernel": {
                ("spectrum_exponent", "dimension_exponent"): [(2.0, 2.0), (1.5, 2.0)],
                "n": [40, 64, 100],
                "seeds": 96,
            },
            "benign": {
                ("spectrum_exponent", "dimension_exponent"): [(0.5, 1.3), (0.5, 1.5)],
                "n": [25, 50, 100, 200],
                "seeds": 64,
            },
            "harmful": {
                ("spectrum_exponent", "dimension_exponent"): [(0.3, 2.5), (0.5, 3.0)],
                "n": [25, 36, 50],
                "seeds": 12,
            },
        },
        "full": {
            "kernel": {
                ("spectrum_exponent", "dimension_exponent"): [(2.0, 2.0), (1.5, 2.0), (3.0, 2.0)],
                "n": [50, 100, 200],
                "seeds": 200,
            },
            "benign": {
                ("spectrum_exponent", "dimension_exponent"): [(0.5, 1.3), (0.5, 1.5), (0.3, 1.2)],
                "n": [50, 100, 200, 400, 800],
                "seeds": 16,
            },
            "harmful": {
                ("spectrum_exponent", "dimension_exponent"): [(0.3, 2.5), (0.5, 3.0)],
                "n": [30, 40, 50, 65, 80],
                "seeds": 8,
            },
        },
    }
    lines = {"kernel": "n", "benign": "n", "harmful": "n"}
    claims = (
        Claim(
            "kernel-ridgeless",
            f"{REGIMES}; {TEMPERED}",
            "Kernel regime (a > 1): at ridge 0 the risk does not go to zero; the slope of log risk in log n is between "
            "-0.1 and 0.1.",
            between(-0.1, 0.1),
            check=lambda part: slope(_ridgeless(part), "n"),
            parts=("kernel",),
            needs={"n": 3, "ridge": (0.0,)},
        ),
        Claim(
            "kernel-tempered",
            TEMPERED,
            "It is tempered, not catastrophic: the variance at ridge 0 tends to the constant (a - 1) noise variance, "
            "within 15% at the largest n.",
            between(-0.15, 0.15),
            check=_tempered_limit,
            parts=("kernel",),
            needs={"ridge": (0.0,)},
        ),
        Claim(
            "kernel-ridge",
            REGIMES,
            "With the best ridge the risk does go to zero: the slope is at most -0.5.",
            at_most(-0.5),
            statistic=lambda part: slope(_best(part), "n"),
            parts=("kernel",),
            needs={"n": 3, "ridge": 5},
        ),
        Claim(
            "benign",
            REGIMES,
            "Benign overfitting (a < 1, d below n^(1/(1-a))): at ridge 0 the risk goes to zero; the slope is at most "
            "-0.15.",
            at_most(-0.15),
            check=lambda part: slope(_ridgeless(part), "n"),
            parts=("benign",),
            needs={"n": 3, "ridge": (0.0,)},
        ),
        Claim(
            "benign-both",
            REGIMES,
            "Bias and variance at ridge 0 both fall with n.",
            at_most(0.0),
            check=lambda part: [slope(part.simulated[name].sel(ridge=0), "n") for name in ("bias", "variance")],
            parts=("benign",),
            needs={"n": 3, "ridge": (0.0,)},
        ),
        Claim(
            "benign-no-ridge",
            REGIMES,
            "The slow decay acts as the ridge: interpolation costs at most 20% more than the best ridge.",
            at_most(1.2),
            statistic=lambda part: _ridgeless(part).mean("seed") / _best(part),
            parts=("benign",),
            needs={"ridge": (0.0,)},
        ),
        Claim(
            "harmful",
            REGIMES,
            "Harmful overfitting (a < 1, d above n^(1/(1-a))): at ridge 0 the risk stays above 80% of that of the zero "
            "predictor.",
            at_least(0.8),
            check=lambda part: _ridgeless(part) / part.predicted.zero_risk,
            parts=("harmful",),
            needs={"ridge": (0.0,)},
        ),
        Claim(
            "harmful-slope",
            REGIMES,
            "More samples do not help: the slope is at least -0.02.",
            at_least(-0.02),
            check=lambda part: slope(_ridgeless(part), "n"),
            parts=("harmful",),
            needs={"n": 3, "ridge": (0.0,)},
        ),
        Claim(
            "harmful-no-ridge-helps",
            REGIMES,
            "No ridge helps: the best one, too, stays above 80% of the zero predictor's risk.",
            at_least(0.8),
            statistic=lambda part: _best(part) / part.predicted.zero_risk,
            parts=("harmful",),
            needs={"ridge": 5},
        ),
        Claim(
            "classification",
            REGIMES,
            "At n = 50, 200 and 800 the slopes of the theory's curves put every case into the regime of its exponents: "
            "a > 1, d below and d above n^(1/(1-a)).",
            at_least(1.0),
            theory=lambda *parts: [_classified(part) for part in parts],
            parts=PARTS,
        ),
        Claim(
            "tsigler-bartlett",
            "Tsigler & Bartlett 2023, theorem 1",
            "In all regimes and at every ridge, B + V is the risk up to a factor of 4 (2 powers of 2).",
            between(-2.0, 2.0),
            check=_bound_ratio,
            parts=PARTS,
        ),
        Claim(
            "equivalent",
            "deterministic equivalent, see ridge-equivalent",
            "The deterministic equivalent gives the risk itself, within 10% from n = 25 on.",
            between(-0.1, 0.1),
            check=lambda *parts: [relative_deviation(part.simulated.risk, part.predicted.risk) for part in parts],
            parts=PARTS,
        ),
    )

    @property
    def dimension(self) -> int:
        return int(self.n**self.dimension_exponent + 1e-9)

    def memory(self) -> int:
        return 8 * 5 * self.n * self.dimension

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """The exact expectation over target and noise, given a drawn design."""
        from unlazy.functions.spectra import power_law
        from unlazy.numerics.ridge_path import conditional_risk, decompose

        spectrum, prior = (power_law(self.dimension, a) for a in (self.spectrum_exponent, self.prior_exponent))
        design = rng.standard_normal((self.n, self.dimension))
        design *= np.sqrt(spectrum)
        given = conditional_risk(decompose(design), spectrum, prior, self.noise_variance, self.ridge)
        return {"risk": given.risk, "bias": given.bias, "variance": given.variance}

    def predict(self) -> dict[str, Any]:
        from unlazy.functions.spectra import index_blocks
        from unlazy.theory.regression.benign_overfitting import tsigler_bartlett
        from unlazy.theory.regression.ridge import ridge_equivalent

        index, copies = index_blocks(self.dimension)
        spectrum, prior = index**-self.spectrum_exponent, index**-self.prior_exponent
        problem = (spectrum, prior, self.n, np.array(self.ridge), self.noise_variance)
        exact = ridge_equivalent(*problem, multiplicities=copies)
        bound = tsigler_bartlett(*problem, multiplicities=copies)
        return {
            "risk": exact.risk,
            "bias": exact.bias,
            "variance": exact.variance,
            "bound": bound.risk,
            "zero_risk": copies @ (spectrum * prior),
        }

    def figure(self, kernel: Part, benign: Part, harmful: Part) -> Any:
        from unlazy.plotting import style

        figure, panels = style.panels(3, 1, width=2.9, height=3.0)
        titles = ("kernel: needs a ridge", "benign: needs none", "harmful: none helps")
        for axes, part, title in zip(panels, (kernel, benign, harmful), titles, strict=True):
            for index in range(part.simulated.sizes["spectrum_exponent"]):
                line, points = (data.isel(spectrum_exponent=index) for data in (part.lines, part.simulated))
                a, c = points.spectrum_exponent.item(), points.dimension_exponent.item()
                color, marker = style.colour(index), style.marker(index)
                text = f"$a={a:g}$, $d=n^{{{c:g}}}$"
                style.theory(axes, line.n, line.risk.sel(ridge=0), color=color, label=text)
                style.theory(axes, line.n, line.risk.min("ridge"), color=color, dashed=True)
                axes.plot(line.n, line.bound.sel(ridge=0), ":", color=color, linewidth=1)
                style.simulation(axes, points.n, points.risk.sel(ridge=0), color=color, marker=marker)
                best = points.risk.isel(ridge=points.risk.mean("seed").argmin("ridge"))
                style.simulation(axes, points.n, best, color=color, marker=marker)
                if part is harmful:
                    axes.axhline(line.zero_risk.mean().item(), color=color, linewidth=0.6)
            style.log_scale(axes)
            axes.set_xlabel(style.label("samples", "n"))
            axes.set_title(title)
            axes.legend()
        panels[0].set_ylabel(style.label("excess risk", r"\bar R"))
        figure.supxlabel(
            "solid: ridge 0, dashed: best ridge, dotted: Tsigler and Bartlett at ridge 0, thin: zero predictor",
            fontsize=8,
        )
        return figure

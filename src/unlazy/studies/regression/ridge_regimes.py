"""Three regimes of eigenvalue decay: where interpolation is tempered, benign or harmful."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Output, Study, cite, path, static, value
from unlazy.lab.claims import OWN, at_least, at_most, between, claim, enough, over_theory, parameter, slope, within
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.regression.shared.cases import named_cases

if TYPE_CHECKING:
    import xarray as xr

REGIMES = ("tsigler2023 suzuki2024talk", "slide 'Eigenvalue decay and generalization'")


def _ridgeless(part) -> xr.DataArray:
    return part.simulated.risk.sel(ridge=0)


def _best(part) -> xr.DataArray:
    """The mean risk at the ridge that minimises it."""
    return part.simulated.risk.mean("seed").min("ridge")


def _classified(part) -> xr.DataArray:
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


def _by_case(values: xr.DataArray) -> xr.DataArray:
    return named_cases(values, ("spectrum_exponent", "dimension_exponent"), "$a = {:g}$, $d = n^{{{:g}}}$".format)


def _at_best_ridge(data: xr.Dataset) -> xr.DataArray:
    mean = data.risk.mean("seed") if "seed" in data.dims else data.risk
    return data.risk.isel(ridge=mean.argmin("ridge"))


def _panel(part: str, title: str) -> Panel:
    def draw(axes: Any, **parts: Any) -> None:
        """The best ridge dashed, with points, the bound dotted, the zero predictor as a thin line."""
        from unlazy.plotting import style

        points, lines = parts[part].simulated, parts[part].lines
        for index in range(points.sizes.get("spectrum_exponent", 0)):
            color, one = style.colour(index), {"spectrum_exponent": index}
            line, best = lines.isel(one), _at_best_ridge(points.isel(one))
            style.theory(axes, line.n, _at_best_ridge(line), color=color, dashed=True)
            style.simulation(axes, parameter(points, "n"), best, color=color, marker=style.marker(index))
            axes.plot(line.n, line.bound.sel(ridge=0), ":", color=color, linewidth=1)
            if part == "harmful":
                axes.axhline(line.zero_risk.mean().item(), color=color, linewidth=0.6)

    return Panel(
        lambda data: _by_case(data.risk.sel(ridge=0)),
        x="n",
        by="case",
        part=part,
        title=title,
        ylabel=r"excess risk $\bar R$",
        log="xy",
        draw=draw,
    )


@dataclass(frozen=True)
class RidgeRegimes(Study):
    question = (
        "With covariance eigenvalues j^-a in d = n^c dimensions, when does interpolation (ridge 0) generalise, when "
        "does it need a ridge, and when does no ridge help?"
    )
    sources = cite("tsigler2023", "bartlett2020", "mallinar2022", "suzuki2024talk")

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
    figure = panels(
        _panel("kernel", "kernel: needs a ridge"),
        _panel("benign", "benign: needs none"),
        _panel("harmful", "harmful: none helps"),
        height=3.0,
        caption="Solid: ridge 0; dashed: the best ridge; dotted: Tsigler and Bartlett's bound at ridge 0; thin: the "
        "zero predictor.",
    )

    @claim("mallinar2022 tsigler2023 suzuki2024talk", REGIMES[1], between(-0.1, 0.1))
    def kernel_ridgeless(kernel):
        """Kernel regime (a > 1): at ridge 0 the risk does not go to zero; the slope of log risk in log n is
        {criterion}."""
        return slope(_ridgeless(kernel), "n")

    @claim("mallinar2022", "", within(0.15))
    def kernel_tempered(kernel):
        """It is tempered, not catastrophic: the variance at ridge 0 tends to the constant (a - 1) noise variance,
        {criterion} at the largest n."""
        variance = kernel.simulated.variance.sel(ridge=0).isel(n=-1)
        exponent = parameter(kernel.simulated, "spectrum_exponent")
        return variance / (parameter(kernel.simulated, "noise_variance") * (exponent - 1)) - 1

    @claim(*REGIMES, at_most(-0.5), resampled=True)
    def kernel_ridge(kernel):
        """With the best ridge the risk does go to zero: the slope is {criterion}."""
        enough(kernel.simulated, "ridge", 5)
        return slope(_best(kernel), "n")

    @claim(*REGIMES, at_most(-0.15))
    def benign(benign):
        """Benign overfitting (a < 1, d below n^(1/(1-a))): at ridge 0 the risk goes to zero; the slope is
        {criterion}."""
        return slope(_ridgeless(benign), "n")

    @claim(*REGIMES, at_most(0.0))
    def benign_both(benign):
        """Bias and variance at ridge 0 both fall with n: their slopes are {criterion}."""
        return [slope(benign.simulated[name].sel(ridge=0), "n") for name in ("bias", "variance")]

    @claim(*REGIMES, at_most(1.2), resampled=True)
    def benign_no_ridge(benign):
        """The slow decay acts as the ridge: the risk of interpolation is {criterion} times that of the best ridge."""
        return _ridgeless(benign).mean("seed") / _best(benign)

    @claim(*REGIMES, at_least(0.8))
    def harmful(harmful):
        """Harmful overfitting (a < 1, d above n^(1/(1-a))): at ridge 0 the risk stays at that of the zero predictor:
        {criterion} times it."""
        return _ridgeless(harmful) / harmful.predicted.zero_risk

    @claim(*REGIMES, at_least(-0.02))
    def harmful_slope(harmful):
        """More samples do not help: the slope is {criterion}."""
        return slope(_ridgeless(harmful), "n")

    @claim(*REGIMES, at_least(0.8), resampled=True)
    def harmful_no_ridge_helps(harmful):
        """No ridge helps: with the best one, too, the risk is {criterion} times that of the zero predictor."""
        enough(harmful.simulated, "ridge", 5)
        return _best(harmful) / harmful.predicted.zero_risk

    @claim(*REGIMES, at_least(1.0), theory=True)
    def classification(kernel, benign, harmful):
        """At n = 50, 200 and 800 the slopes of the theory's curves put every case into the regime of its exponents,
        a > 1, d below or d above n^(1/(1-a)): the mark of a case, 1 for yes and 0 for no, is {criterion}."""
        return [_classified(part) for part in (kernel, benign, harmful)]

    @claim("tsigler2023", "theorem 1", between(-2.0, 2.0))
    def tsigler_bartlett(kernel, benign, harmful):
        """In all regimes and at every ridge, B + V is the risk up to a factor of 4: log2 of their ratio is
        {criterion}."""
        return [np.log2(part.predicted.bound / part.simulated.risk) for part in (kernel, benign, harmful)]

    @claim(OWN, "deterministic equivalent, see ridge-equivalent", within(0.1))
    def equivalent(kernel, benign, harmful):
        """The deterministic equivalent gives the risk itself, {criterion} from n = 25 on."""
        return [over_theory(part, "risk") for part in (kernel, benign, harmful)]

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

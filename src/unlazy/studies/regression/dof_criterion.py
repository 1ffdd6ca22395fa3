"""The degrees-of-freedom criterion R(W): where it bounds the predictive risk, and where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import OWN, Output, Study, at_most, cite, claim, enough, kept, parameter, path, static, value, within
from unlazy.plotting.panels import Level, Panel, panels

if TYPE_CHECKING:
    import xarray as xr

PAPER = "suzuki2024 suzuki2024talk"
THEOREM = "'Main result' (predictive risk bound)"
DIMS = ("metric_exponent", "ridge")
FACTOR = 1.3


def _over_criterion(part, risk: str, criterion: str) -> xr.DataArray:
    """risk / max{R - s^2, delta}, delta being three standard deviations of R."""
    data = part.simulated
    noise, n, tasks = (parameter(data, name) for name in ("noise_variance", "n", "tasks"))
    resolution = 3 * noise * np.sqrt(2 / (n * tasks))
    return data[risk] / np.maximum(data[criterion], resolution)


def _moderate(part) -> xr.DataArray:
    """The ratio for the metrics with fewer than n/2 degrees of freedom."""
    freedom = part.simulated.degrees_of_freedom.mean("seed")
    return kept(_over_criterion(part, "risk", "criterion"), freedom < parameter(part.simulated, "n") / 2)


def _freedom_share(data: xr.Dataset) -> xr.DataArray:
    return data.degrees_of_freedom.mean("seed") / parameter(data, "n")


def _mark_unrestricted(axes: Any, aligned, **_) -> None:
    mean = aligned.simulated.mean("seed")
    for dim in set(mean.free_risk.dims):
        mean = mean.sel({dim: 2.0}) if dim == "prior_exponent" and 2.0 in mean[dim] else mean.isel({dim: -1})
    axes.plot(mean.free_criterion, mean.free_risk, "X", color="#D55E00", markersize=8, label="unrestricted $W$")
    axes.axline((0.01, 0.01), (1, 1), color="#888888", linewidth=0.9, label="equality")


def _add_isotropic(axes: Any, isotropic=None, **_) -> None:
    if isotropic is None:
        return
    data = isotropic.simulated
    data = data.isel({dim: -1 for dim in data.risk.dims if dim not in ("ridge", "seed")})
    ratio = (data.risk / data.criterion).mean("seed")
    text = "isotropic inputs, $W = I$"
    axes.plot(_freedom_share(data), ratio, "s--", color="#D55E00", linewidth=1.0, markersize=4, label=text)


@dataclass(frozen=True)
class DofCriterion(Study):
    question = (
        "The criterion R(W), a ridge fit plus s'^2/n times its degrees of freedom, is to estimate the predictive risk "
        "from the training data alone: for which first layers W is R(W) - s^2 an upper bound?"
    )
    sources = cite("suzuki2024", "suzuki2024talk")

    n: int = static(100, "samples, shared by all tasks", symbol="n", low=2, high=2_000, scale="log")
    d: int = static(1000, "dimension, at least n", symbol="d", low=2, high=100_000, scale="log")
    tasks: int = static(200, "tasks", symbol="m", low=1, high=10_000, scale="log")
    spectrum_exponent: float = value(1.0, "decay of the covariance eigenvalues j^-b", symbol="b", low=0, high=10)
    prior_exponent: float = value(2.0, "decay a of the prior variances j^-a", symbol="a", low=0, high=20)
    noise_variance: float = value(0.25, "variance of the label noise", symbol=r"\sigma^2", above=0, high=1e6)
    metric_exponent: tuple = path((0.0, 1.0, 2.0, 3.0, 4.0), "decay of the metric j^-k", symbol="k", low=0, high=20)
    ridge: tuple = path(
        tuple(np.logspace(-5, 1, 13).tolist()), "ridge", symbol=r"\lambda", above=0, high=1e6, scale="log"
    )

    outputs = {
        "risk": Output("excess risk", r"\bar R(W)", DIMS, scale="log"),
        "criterion": Output("criterion less the noise, weight 2 s^2", r"R(W) - \sigma^2", DIMS, scale="log"),
        "in_sample_risk": Output("excess risk on the training inputs", "", DIMS, scale="log"),
        "mallows_cp": Output("Mallows' Cp less the noise", r"C_p", DIMS),
        "degrees_of_freedom": Output("degrees of freedom", r"\mathrm{df}", DIMS),
        "free_risk": Output("excess risk at the unrestricted minimiser", r"\bar R(W_*)", scale="log"),
        "free_criterion": Output("criterion there, less the noise", r"R(W_*) - \sigma^2"),
    }
    presets = {
        "quick": {
            "aligned": {"prior_exponent": [1.0, 2.0, 3.0], "seeds": 24},
            "isotropic": {"spectrum_exponent": 0.0, "metric_exponent": [0.0], "seeds": 24},
        },
        "full": {
            "aligned": {
                "prior_exponent": [1.0, 1.5, 2.0, 3.0],
                "metric_exponent": [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0],
                "ridge": np.logspace(-5, 1, 25).tolist(),
                "n": [100, 200],
                "seeds": 32,
            },
            "isotropic": {"spectrum_exponent": 0.0, "metric_exponent": [0.0], "d": [1000, 4000], "seeds": 32},
        },
    }
    figure = panels(
        Panel(
            "risk",
            x=lambda data: data.criterion.mean("seed"),
            by="metric_exponent",
            part="aligned",
            at={"prior_exponent": 2.0},
            title="metrics $j^{-k}$, tasks $j^{-a}$",
            xlabel=r"criterion $R(W) - \sigma^2$",
            log="xy",
            line=True,
            draw=_mark_unrestricted,
        ),
        Panel(
            lambda data: data.risk / data.criterion,
            x=_freedom_share,
            by="metric_exponent",
            part="aligned",
            at={"prior_exponent": 2.0},
            xlabel=r"degrees of freedom $/\,n$",
            ylabel=r"$\bar R(W) / (R(W) - \sigma^2)$",
            log="y",
            marks=(Level(FACTOR), Level(0.5, vertical=True)),
            line=True,
            draw=_add_isotropic,
        ),
        width=3.8,
        height=3.3,
        caption="Along a line the ridge changes. Dotted: the limits that the claims name.",
    )

    @claim(PAPER, THEOREM, at_most(FACTOR))
    def bound(aligned):
        """For diagonal metrics j^-k chosen before the data, with fewer than n/2 degrees of freedom, the risk over
        max{R(W) - s^2, delta} is {criterion}."""
        return _moderate(aligned)

    @claim(PAPER, THEOREM, at_most(1.1))
    def choice(aligned):
        """Minimising R(W) over that family leads to a small risk: {criterion} times the smallest in it."""
        enough(aligned.simulated, "metric_exponent", 3)
        enough(aligned.simulated, "ridge", 5)
        data = aligned.simulated.stack(case=DIMS)
        return data.risk.isel(case=data.criterion.argmin("case")) / data.risk.min("case")

    @claim(OWN, "(I - H)^2 <= I - H and H^2 <= H", at_most(0.04))
    def in_sample(aligned, isotropic):
        """With weight 2 s^2 the criterion bounds the risk on the training inputs for every metric: the risk exceeds it
        by {criterion} of the noise variance."""
        both = (aligned.simulated, isotropic.simulated)
        return [(data.in_sample_risk - data.criterion) / parameter(data, "noise_variance") for data in both]

    @claim(OWN, "Mallows 1973", within(0.04, absolute=True))
    def mallows(aligned, isotropic):
        """Mallows' Cp, with squared residuals, estimates the risk on the training inputs without bias: the mean
        difference is 0 {criterion}, in noise variances."""
        both = (aligned.simulated, isotropic.simulated)
        return [(data.mallows_cp - data.in_sample_risk) / parameter(data, "noise_variance") for data in both]

    @claim(
        PAPER,
        THEOREM,
        at_most(FACTOR),
        known_negative=(
            "A d x d first layer learned from one shared design can reach any hat matrix, and gradient flow from the "
            "identity then predicts by the minimum-norm interpolation of thresholded outputs: the criterion sees the "
            "n x n kernel only, not what happens at new inputs. The theorem needs a class of W with small covering "
            "numbers, such as diagonal metrics."
        ),
    )
    def bound_unrestricted(aligned):
        """The bound holds uniformly over W: at the unrestricted minimiser of R, too, the risk over
        max{R(W) - s^2, delta} is {criterion}."""
        return _over_criterion(aligned, "free_risk", "free_criterion")

    @claim(
        PAPER,
        THEOREM,
        at_most(FACTOR),
        known_negative=(
            "Isotropic inputs in d >> n have a signal of trace d in the kernel: new inputs are orthogonal to the old "
            "ones, so that the risk stays near that of the zero predictor whatever happens in the data. The technical "
            "conditions of the theorem (bounded trace) exclude it."
        ),
    )
    def bound_isotropic(isotropic):
        """The bound holds for the fixed metric W = I and isotropic inputs in d much above n as well, with fewer than
        n/2 degrees of freedom: the ratio is {criterion}."""
        return _moderate(isotropic)

    def validate(self) -> None:
        if self.d < self.n:
            raise InputError(f"d must be >= n = {self.n}, so that every kernel matrix can be reached; got {self.d}")

    def memory(self) -> int:
        return 8 * (4 * self.n * self.d + 4 * self.d * self.tasks)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """One design and its tasks; every metric and ridge of the family, and the limit of free gradient flow."""
        from unlazy.data.many_tasks import diagonal_tasks
        from unlazy.functions.spectra import power_law
        from unlazy.theory.regression.metric import dof_criterion_infimum

        spectrum, prior = (power_law(self.d, a) for a in (self.spectrum_exponent, self.prior_exponent))
        data = diagonal_tasks(rng, spectrum, prior, self.n, self.tasks, self.noise_variance)
        metrics = [power_law(self.d, exponent) for exponent in self.metric_exponent]
        families = [self._family(data, metric) for metric in metrics]
        # The infimum is a projection on the leading eigenvectors of Y Y^T; gradient flow from W = I interpolates what
        # it leaves of the targets.
        weight = 2 * self.noise_variance
        eigenvalues, vectors = np.linalg.eigh(data.targets @ data.targets.T / self.tasks)
        kept = vectors[:, eigenvalues > weight]
        smoothed = kept @ (kept.T @ data.targets)
        free = data.design.T @ np.linalg.solve(data.design @ data.design.T, smoothed)
        return {
            **{name: np.stack([family[name] for family in families]) for name in families[0]},
            "free_risk": data.excess_risk(free),
            "free_criterion": dof_criterion_infimum(data.targets, weight) - self.noise_variance,
        }

    def _family(self, data: Any, metric: np.ndarray) -> dict[str, np.ndarray]:
        """All ridges in one metric M from one decomposition: b_hat = M X^T a, a in the eigenbasis of the kernel."""
        from unlazy.theory.regression.metric import dof_criterion, mallows_cp

        n, noise, ridges = self.n, self.noise_variance, np.array(self.ridge)
        weighted = data.design * metric
        kernel = weighted @ data.design.T
        eigenvalues, vectors = np.linalg.eigh(kernel)
        rotated, truth = vectors.T @ data.targets, data.design @ data.coefficients
        half = (vectors.T @ weighted) * np.sqrt(data.covariance)
        gram, overlap = half @ half.T, half @ (np.sqrt(data.covariance)[:, None] * data.coefficients)
        zero = data.excess_risk(np.zeros_like(data.coefficients))
        risk, in_sample = [], []
        for ridge in ridges:
            dual = rotated / (eigenvalues + n * ridge)[:, None]
            risk.append(zero + np.mean(np.sum(dual * (gram @ dual - 2 * overlap), axis=0)))
            in_sample.append(np.mean((truth - vectors @ (eigenvalues[:, None] * dual)) ** 2))
        criterion = dof_criterion(kernel, data.targets, ridges, 2 * noise)
        return {
            "risk": np.array(risk),
            "criterion": criterion.value - noise,
            "in_sample_risk": np.array(in_sample),
            "mallows_cp": mallows_cp(kernel, data.targets, ridges, noise),
            "degrees_of_freedom": criterion.degrees_of_freedom,
        }

"""The degrees-of-freedom criterion R(W): where it bounds the predictive risk, and where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.functions.spectra import power_law
from unlazy.lab import OWN, Output, Study, at_most, cite, claim, enough, kept, parameter, path, static, value, within
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.regression import shared

PAPER = "suzuki2024 suzuki2024talk"
THEOREM = "'Main result' (predictive risk bound)"
DIMS = ("metric_exponent", "ridge")
FACTOR = 1.3
BOUND = (PAPER, THEOREM, at_most(FACTOR))
ALIGNED: dict[str, Any] = {"part": "aligned", "at": {"prior_exponent": 2.0, "n": 100}}
FAMILY: dict[str, Any] = {"by": "metric_exponent", "line": True, **ALIGNED}
RED = ("#D55E00",)
ISOTROPIC = {"spectrum_exponent": 0.0, "metric_exponent": [0.0]}


def _over_criterion(data, risk, criterion):
    """risk / max{R - s^2, delta}, delta being three standard deviations of R."""
    noise, n, tasks = (parameter(data, name) for name in ("noise_variance", "n", "tasks"))
    return data[risk] / np.maximum(data[criterion], 3 * noise * np.sqrt(2 / (n * tasks)))


def _moderate(data):
    """The ratio for the metrics with fewer than n/2 degrees of freedom."""
    return kept(_over_criterion(data, "risk", "criterion"), _freedom_share(data) < 0.5)


def _freedom_share(data):
    return data.degrees_of_freedom.mean("seed") / parameter(data, "n")


def _mean(name):
    return lambda data: data[name].mean("seed")


def _ratio(data):
    return data.risk / data.criterion


LIMITS = (Level(FACTOR), Level(0.5, vertical=True))
UNRESTRICTED = Panel("free_risk", x=_mean("free_criterion"), labels=("unrestricted $W$",), colours=RED, **ALIGNED)
ISOTROPIC_RATIO = Panel(_ratio, x=_freedom_share, part="isotropic", labels=("isotropic",), colours=RED, line=True)
EQUALITY = Panel(
    lambda data: data.criterion.isel(metric_exponent=-1),
    x=_mean("criterion"),
    **ALIGNED,
    points=False,
    line=True,
    labels=("equality",),
)


@dataclass(frozen=True)
class DegreesOfFreedomCriterion(Study):
    question = (
        "The criterion R(W) is the error of a ridge fit in the metric W^T W plus a price for its degrees of freedom. "
        "It needs the training data alone. For which first layers W does it bound the risk at new inputs?"
    )
    sources = cite("suzuki2024", "suzuki2024talk", "mallows1973")

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
        "quick": {"aligned": {"prior_exponent": [1.0, 2.0, 3.0], "seeds": 40}, "isotropic": {**ISOTROPIC, "seeds": 24}},
        "full": {
            "aligned": {
                "prior_exponent": [1.0, 1.5, 2.0, 3.0],
                "metric_exponent": [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0],
                "ridge": np.logspace(-5, 1, 25).tolist(),
                "n": [100, 200],
                "seeds": 32,
            },
            "isotropic": {**ISOTROPIC, "d": [1000, 4000], "seeds": 32},
        },
    }
    figure = panels(
        Panel(
            "risk",
            x=_mean("criterion"),
            also=(UNRESTRICTED, EQUALITY),
            **FAMILY,
            title="metrics $j^{-k}$, tasks $j^{-a}$",
            xlabel=r"criterion $R(W) - \sigma^2$",
            log="xy",
        ),
        Panel(
            _ratio,
            x=_freedom_share,
            also=(ISOTROPIC_RATIO,),
            marks=LIMITS,
            **FAMILY,
            xlabel=r"degrees of freedom $/\,n$",
            ylabel=r"$\bar R(W) / (R(W) - \sigma^2)$",
            log="y",
        ),
        width=3.8,
        caption="Along a line the ridge changes. Dotted: the limits that the claims name.",
    )

    @claim(
        *BOUND,
        departs="Some diagonal metrics in the true eigenbasis stand for the theorem's uniformity over W; the constant "
        "that it leaves open is 1.3, and there is a limit of n/2 on the degrees of freedom.",
    )
    def bound(aligned):
        """The bound holds for diagonal metrics j^-k that are chosen before the data and have fewer than n/2 degrees of
        freedom: the risk is {criterion} times max{R(W) - s^2, delta}."""
        return _moderate(aligned.simulated)

    @claim(
        PAPER,
        THEOREM,
        at_most(1.1),
        departs="The minimum is over a grid of diagonal metrics in the true eigenbasis, not over d x d matrices W "
        "that are trained, and the factor is this project's.",
    )
    def choice(aligned):
        """The metric of this family with the smallest R(W) has a small risk: {criterion} times the smallest risk in the
        family."""
        enough(aligned.simulated, "metric_exponent", 3)
        enough(aligned.simulated, "ridge", 5)
        data = aligned.simulated.stack(case=DIMS)
        return data.risk.isel(case=data.criterion.argmin("case")) / data.risk.min("case")

    @claim(OWN, "(I - H)^2 <= I - H and H^2 <= H", at_most(0.04))
    def in_sample(aligned, isotropic):
        """With weight 2 s^2, R(W) - s^2 bounds the risk on the training inputs for every metric. The risk exceeds it by
        {criterion} noise variances."""
        both = (aligned.simulated, isotropic.simulated)
        return [(data.in_sample_risk - data.criterion) / parameter(data, "noise_variance") for data in both]

    @claim("mallows1973", "", within(0.04, absolute=True))
    def mallows(aligned, isotropic):
        """Mallows' Cp estimates the risk on the training inputs without bias. The mean difference is 0, {criterion}
        noise variances."""
        both = (aligned.simulated, isotropic.simulated)
        return [(data.mallows_cp - data.in_sample_risk) / parameter(data, "noise_variance") for data in both]

    @claim(
        *BOUND,
        known_negative="A d x d first layer learned from one shared design can reach any hat matrix, and gradient flow "
        "from the identity then predicts by the minimum-norm interpolation of thresholded outputs: the criterion sees "
        "the n x n kernel only, not what happens at new inputs. The theorem needs a class of W with small covering "
        "numbers, such as diagonal metrics.",
        departs="The theorem's conditions on W are left out, and the minimiser is the limit of gradient flow from W = "
        "I in closed form; the study trained-metric trains W.",
    )
    def bound_unrestricted(aligned):
        """The bound holds for all W. At the W that minimises R without restriction, the risk is {criterion} times
        max{R(W) - s^2, delta}."""
        return _over_criterion(aligned.simulated, "free_risk", "free_criterion")

    @claim(
        *BOUND,
        known_negative="Isotropic inputs in d >> n have a signal of trace d in the kernel: new inputs are orthogonal "
        "to the old ones, so that the risk stays near that of the zero predictor whatever happens in the data. The "
        "technical conditions of the theorem (bounded trace) exclude it.",
        departs="W = I on isotropic inputs, where the trace of W Sigma W^T is d, is taken to be outside the theorem's "
        "technical conditions, which the talk does not list.",
    )
    def bound_isotropic(isotropic):
        """The bound holds for W = I and isotropic inputs with d much larger than n. With fewer than n/2 degrees of
        freedom, the risk is {criterion} times max{R(W) - s^2, delta}."""
        return _moderate(isotropic.simulated)

    def validate(self) -> None:
        shared.check_kernels_reached(self.n, self.d)

    def memory(self) -> int:
        return 8 * (4 * self.n * self.d + 4 * self.d * self.tasks)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """One design and its tasks; every metric and ridge of the family, and the limit of free gradient flow."""
        from unlazy.data.many_tasks import diagonal_tasks
        from unlazy.training.regression.metric_criteria import RidgeCriteria, free_criteria, ridge_criteria

        spectrum, prior = (power_law(self.d, a) for a in (self.spectrum_exponent, self.prior_exponent))
        data = diagonal_tasks(rng, spectrum, prior, self.n, self.tasks, self.noise_variance)
        families = [ridge_criteria(data, power_law(self.d, k), self.ridge) for k in self.metric_exponent]
        stacked = {name: np.stack([getattr(one, name) for one in families]) for name in RidgeCriteria._fields}
        free = free_criteria(data)
        return {**stacked, "free_risk": free.risk, "free_criterion": free.criterion}

"""What kernels cannot learn: with n of order d every kernel is linear regression, and one large step is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Output, Study, at_least, at_most, cite, claim, enough, parameter, static, value, within
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.one_step import shared
from unlazy.theory.one_step import linear_kernels as linear

LARGE = "step N^1/2"
NETWORKS = {"random features": None, "step 1": 0.0, LARGE: 0.5}
"""Ridge regression on features, with the exponent of the step size N^s."""
SQUARED_BANDWIDTHS = {"RBF, bandwidth 1": 1.0, "RBF, bandwidth 2": 4.0}
KERNELS = ("tangent kernel", *SQUARED_BANDWIDTHS, "linear")
LEARNERS = (*NETWORKS, *KERNELS)
OTHERS = tuple(name for name in LEARNERS if name != LARGE)
FEATURE_RIDGES = np.geomspace(1e-4, 10, 11).tolist()
KERNEL_RIDGES = np.geomspace(1e-9, 100, 45).tolist()


def _with_many_samples(main):
    """Simulation and theory at n = 8 d."""
    enough(main.simulated, "n", 2)
    return (data.sel(n=8 * parameter(data, "d")) for data in (main.simulated, main.predicted))


def _over_bound(main, learners):
    simulated, predicted = _with_many_samples(main)
    return simulated.risk.sel(learner=list(learners)) / predicted.kernel_bound


def _panel(learners, **options):
    def shown(data):
        return data.risk.sel(learner=list(learners))

    return Panel(
        shown,
        x=lambda data: parameter(data, "n") / parameter(data, "d"),
        by="learner",
        at={"link": "tanh3"},
        xlabel=r"samples per dimension $n/d$",
        ylabel="excess risk at the best ridge",
        log="xy",
        ylim=(0.02, 0.5),
        marks=(shared.KERNEL_BOUND,),
        **options,
    )


@dataclass(frozen=True)
class KernelLimit(Study):
    question = (
        "With n of order d samples, do the conjugate, tangent and Gaussian kernels learn anything that linear "
        "regression does not, at any ridge? And does one large gradient step?"
    )
    sources = cite("ba2022")

    n: int = static(1024, "samples of the step, and as many fresh ones of the readout", symbol="n", low=20, scale="log")
    d: int = static(128, "dimension", symbol="d", low=2, high=10_000, scale="log")
    width: int = static(256, "neurons", symbol="N", low=1, high=20_000, scale="log")
    activation: str = static("erf", "activation", choices=shared.ACTIVATIONS)
    link: str = static("erf", "link of the target", choices=tuple(shared.LINKS))
    noise_variance: float = value(0.01, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)

    outputs = {
        "risk": Output("excess risk at the best ridge", "R", ("learner",), scale="log"),
        "outermost_gain": Output("gain of the outermost ridges over the others", "", ("learner",)),
        "with_all_samples": Output("risk of the best kernel on 2n samples", "", theory_only=True),
        "kernel_bound": Output("what no kernel goes below", r"\|P_{>1}f_*\|^2", theory_only=True),
    }
    inner = {"learner": list(LEARNERS)}
    presets = {
        "quick": {"n": [256, 1024], "seeds": 44},
        "full": {"n": [512, 1024, 2048, 4096], "d": 256, "width": 512, "link": ["erf", "tanh3"], "seeds": 16},
    }
    lines = {"main": "n"}
    figure = panels(
        _panel(NETWORKS, title="two-layer network, second layer fitted"),
        _panel(KERNELS, title="kernels"),
        width=3.6,
        height=3.2,
    )

    @claim(
        "ba2022",
        "",
        at_least(1.0),
        departs=(
            "One setting, n = 8 d, after one step, with the tangent kernel of infinite width. The theorem is for any "
            "finite number of steps of order one and for tangent features of finite width."
        ),
    )
    def kernels_stay_above(main):
        """Nothing that is a kernel learns more than a linear function from n = 8 d samples. This is asked of linear
        regression, the tangent kernel, Gaussian kernels of two widths, random features and a step of order one, each at
        the best ridge on the test data. The ratio risk / |P_{>1} f|^2 is {criterion}."""
        return _over_bound(main, OTHERS)

    @claim(
        "ba2022",
        "",
        at_most(1.0),
        departs=(
            "One setting, n = 8 d, at the best ridge for the test data. The theorem bounds the risk by 10 tau* and "
            "terms that vanish as n/d grows."
        ),
    )
    def large_step_goes_below(main):
        """With n = 8 d samples the features after one step of size N^(1/2) learn more than a linear function. The ratio
        risk / |P_{>1} f|^2 is {criterion}."""
        return _over_bound(main, (LARGE,))

    @claim(
        "ba2022",
        "",
        at_most(1.0),
        departs=(
            "Two Gaussian kernels, the tangent kernel, linear regression, random features and a small step stand for "
            "all kernels, in one setting, n = 8 d."
        ),
    )
    def beats_every_kernel(main):
        """With n = 8 d samples for the second layer the features after one large step beat the best of the kernels on
        the same samples. The step itself had n samples of its own. The ratio of the risks is {criterion}."""
        simulated, _ = _with_many_samples(main)
        return simulated.risk.sel(learner=LARGE, drop=True) / simulated.risk.sel(learner=list(OTHERS)).min("learner")

    @claim(OWN, "by deterministic equivalents of both", at_most(1.0), theory=True)
    def beats_kernels_with_all_samples(main):
        """In theory these features also beat the best kernel that is given the samples of the step too, 2n in all. The
        ratio of the risks is {criterion}."""
        _, theory = _with_many_samples(main)
        return theory.risk.sel(learner=LARGE, drop=True) / theory.with_all_samples

    @claim(OWN, "equivalent of kernels that are linear at n of order d", within(0.1), resampled=True)
    def kernels_are_linear(main):
        """At n of order d a kernel acts as linear regression with the ridge that its diagonal adds, and the nonlinear
        part of the target acts as noise. This gives the risk of every kernel {criterion}."""
        chosen = list(KERNELS)
        return main.simulated.risk.sel(learner=chosen).mean("seed") / main.predicted.risk.sel(learner=chosen) - 1

    @claim(OWN, "precondition of the claims above", at_most(0.01))
    def ridges_wide_enough(main):
        """The grid of ridges is wide enough. The two outermost ridges at either end change the best risk by a share of
        {criterion}."""
        return main.simulated.outermost_gain

    def memory(self) -> int:
        return 8 * (6 * self.n**2 + 3 * shared.FRESH * self.n + (3 * self.n + 5000) * (self.width + self.d))

    def _step_sizes(self) -> list[float]:
        return [0.0 if exponent is None else float(self.width) ** exponent for exponent in NETWORKS.values()]

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.one_step.rivals import rival_risks

        sizes = self.n, self.d, self.width, self.noise_variance, self._step_sizes(), tuple(SQUARED_BANDWIDTHS.values())
        ridges: dict[str, Any] = {"feature_ridges": FEATURE_RIDGES, "kernel_ridges": KERNEL_RIDGES}
        link = shared.link_function(self.link)
        return rival_risks(rng, self.activation, link, *sizes, fresh=shared.FRESH, **ridges)._asdict()

    def predict(self) -> dict[str, Any]:
        step_sizes = np.array(self._step_sizes())[:, None]
        networks = shared.predicted_risks(self, step_sizes, FEATURE_RIDGES[2:-2])["risk"].min(axis=1)
        link, rest = shared.LINKS[self.link], (self.d, KERNEL_RIDGES, self.noise_variance)
        gaussian = map(linear.gaussian_kernel_part, SQUARED_BANDWIDTHS.values())
        parts = [linear.tangent_kernel_part(self.activation), *gaussian, linear.LinearPart(1.0, 0.0)]
        risk = linear.linear_kernel_risk
        kernels, more = ([risk(p, link, n, *rest).min() for p in parts] for n in (self.n, 2 * self.n))
        return {"risk": [*networks, *kernels], "with_all_samples": min(more), "kernel_bound": shared.bound(self.link)}

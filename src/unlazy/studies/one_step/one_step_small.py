"""Steps of order one help, but never below the bound of all kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Output, Study, at_least, at_most, cite, claim, parameter, path, static, value, within
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.one_step import shared
from unlazy.theory.one_step.gradient_step import one_step_risk


def _gain(risk):
    """The change of the risk against no step, on the same data."""
    return (risk - risk.sel(step_size=0)).where(risk.step_size > 0, drop=True)


@dataclass(frozen=True)
class OneStepSmall(Study):
    question = (
        "A gradient step of order one moves the weights by order one. Does it improve the features, and can it reach "
        "below the best kernel?"
    )
    sources = cite("ba2022")

    n: int = static(1200, "samples of the step, and as many fresh ones of the readout", symbol="n", low=2, scale="log")
    d: int = static(400, "dimension", symbol="d", low=2, high=10_000, scale="log")
    width: int = static(800, "neurons", symbol="N", low=1, high=20_000, scale="log")
    activation: str = static("erf", "activation", choices=shared.ACTIVATIONS)
    link: str = static("erf", "link of the target", choices=tuple(shared.LINKS))
    ridge: float = value(1e-3, "ridge of the readout", symbol=r"\lambda", above=0, high=1e6, scale="log")
    noise_variance: float = value(0.01, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)
    step_size: tuple = path((0.0, 1.0, 2.0, 3.0), "step size", symbol=r"\eta", low=0, high=1e6)

    outputs = {
        "risk": Output("excess risk", "R", ("step_size",)),
        "training_error": Output("training error", "", ("step_size",)),
        "kernel_bound": Output("what no kernel goes below", r"\|P_{>1}f_*\|^2", theory_only=True),
    }
    presets = {
        "quick": {"d": 200, "width": 400, "n": 600, "seeds": 60},
        "full": {"n": [400, 800, 1200, 2400, 4800], "step_size": [0.0, 0.5, 1.0, 2.0, 3.0, 5.0], "seeds": 32},
    }
    broadcasts = ("n", "d", "width", "ridge", "noise_variance")
    lines = {"main": "step_size"}
    figure = panels(
        Panel("risk", x="step_size", by="n", ylim=(0, None), marks=(shared.KERNEL_BOUND,)), width=4.6, height=3.2
    )

    @claim("ba2022", "", at_most(0.0))
    def helps(main):
        """A step of order one lowers the risk. On the same data and network the change of the risk is {criterion}."""
        risk = main.simulated.risk
        risk.sel(step_size=1.0)  # a step of order one: untested without
        return _gain(risk)

    @claim("ba2022", "", within(0.015, absolute=True))
    def by_how_much(main):
        """The step lowers the risk by as much as the theory says, {criterion}."""
        return _gain(main.simulated.risk) - _gain(main.predicted.risk)

    @claim(
        "ba2022",
        "",
        at_least(1.0),
        departs="One step at one ridge; the theorem is for all ridges and any finite number of steps.",
    )
    def bound(main):
        """The risk never goes below |P_{>1} f|^2. At every step size the ratio risk / |P_{>1} f|^2 is {criterion}."""
        return main.simulated.risk / main.predicted.kernel_bound

    @claim(
        "ba2022",
        "",
        at_least(1.0),
        theory=True,
        departs="The formula of the limit after one step is evaluated on a grid, for one activation and link; the "
        "theorem is for any finite number of steps.",
    )
    def bound_in_theory(main):
        """Nor does the risk of the theory, for step sizes up to 10^6, ridges from 10^-6 to 10, and n from d/2 to 64 d.
        The ratio risk / |P_{>1} f|^2 is {criterion}."""
        names = "activation", "link", "width", "d", "noise_variance"
        activation, link, width, d, noise_variance = (parameter(main.predicted, name) for name in names)
        ridges, sizes = np.geomspace(1e-6, 10, 15)[:, None], np.geomspace(0.5, 64, 15)[:, None, None]
        numbers = float(width) / float(d), ridges, float(noise_variance)
        steps = np.append(0.0, np.geomspace(0.1, 1e6, 15))
        risk = one_step_risk(str(activation), shared.LINKS[str(link)], sizes, *numbers, step_size=steps).risk
        return risk.min() / shared.bound(str(link))

    def memory(self) -> int:
        return shared.memory(self)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        return shared.simulated_risks(rng, self, self.step_size)

    def predict(self) -> dict[str, Any]:
        functions = (self.activation, shared.LINKS[self.link])
        numbers = (self.n / self.d, self.width / self.d, self.ridge, self.noise_variance)
        theory = one_step_risk(*functions, *numbers, step_size=np.array(self.step_size))
        return {"risk": theory.risk, "training_error": theory.training_error, "kernel_bound": shared.bound(self.link)}

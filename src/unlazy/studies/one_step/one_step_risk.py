"""The risk after one gradient step of size N^alpha: only the largest step beats the bound of all kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, between, parameter, path, static, value
from unlazy.studies.one_step.shared.gradient_step import (
    ACTIVATIONS,
    BA,
    BA_TEXT,
    CUI,
    CUI_TEXT,
    DANDI,
    LINKS,
    bound,
    predicted_step_risks,
    step_risks,
)

if TYPE_CHECKING:
    import xarray as xr

INITIAL = -1.0
"""The value of alpha that stands for no step at all."""


def _over_bound(part: Part, exponent: float) -> xr.DataArray:
    """The risk at n = 8 d over |P_{>1} g|^2."""
    d = parameter(part.simulated, "d")
    return part.simulated.risk.sel(exponent=exponent, n=8 * d) / part.predicted.bound.sel(n=8 * d)


def _gain_of_larger_steps(part: Part) -> xr.DataArray:
    """The relative change of the risk from each step size to the next, on the same data."""
    risk = part.simulated.risk.where(part.simulated.n >= parameter(part.simulated, "d"), drop=True)
    return risk.diff("exponent") / risk.shift(exponent=1).isel(exponent=slice(1, None))


@dataclass(frozen=True)
class OneStepRisk(Study):
    name = "one-step-risk"
    topic = "one_step"
    question = (
        "After one gradient step of size N^alpha on the first layer, what is the risk of ridge regression on the "
        "features, and from which alpha on is it below what any kernel can reach?"
    )
    sources = (BA, CUI, DANDI)

    n: int = static(1024, "samples of the step, and as many fresh ones of the readout", symbol="n", low=2, scale="log")
    d: int = static(256, "dimension", symbol="d", low=2, high=10_000, scale="log")
    features: int = static(512, "neurons", symbol="N", low=1, high=20_000, scale="log")
    activation: str = static("erf", "activation", choices=ACTIVATIONS)
    link: str = static("erf", "link of the target", choices=tuple(LINKS))
    ridge: float = value(1e-3, "ridge of the readout", symbol=r"\lambda", above=0, high=1e6, scale="log")
    noise_variance: float = value(0.01, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)
    exponent: tuple = path(
        (INITIAL, 0.0, 0.25, 0.5),
        "exponent alpha of the step size N^alpha; -1 is no step",
        symbol=r"\alpha",
        low=-1,
        high=1,
    )

    outputs = {
        "risk": Output("excess risk", "R", ("exponent",), scale="log"),
        "training_error": Output("training error", "", ("exponent",), scale="log"),
        "bound": Output("what no kernel goes below", r"\|P_{>1}f_*\|^2", theory_only=True),
    }
    presets = {
        "quick": {"n": [256, 1024, 2048], "seeds": 24},
        "full": {
            "n": [512, 1024, 2048, 4096, 6144, 8192],
            "d": 1024,
            "features": 2048,
            "exponent": [INITIAL, 0.0, 0.125, 0.25, 0.375, 0.5],
            "seeds": 8,
        },
    }
    lines = {"main": "n"}
    claims = (
        Claim(
            "theory",
            f"{CUI_TEXT}; the project's equations",
            "The spiked-random-feature equivalent gives the risk at every n and step size, within 10%.",
            between(-0.1, 0.1),
            statistic=lambda part: part.simulated.risk.mean("seed") / part.predicted.risk - 1,
        ),
        Claim(
            "larger-steps",
            BA_TEXT,
            "For n >= d the larger step has the smaller risk.",
            at_most(0.0),
            check=_gain_of_larger_steps,
            needs={"exponent": 3, "n": 3},
        ),
        Claim(
            "below-the-bound",
            BA_TEXT,
            "With n = 8 d samples the step of size N^(1/2) goes below |P_{>1} f|^2, the bound of all kernels.",
            at_most(1.0),
            check=lambda part: _over_bound(part, 0.5),
            needs={"exponent": (0.5,), "n": 3},
        ),
        Claim(
            "small-steps-stay-above",
            BA_TEXT,
            "With n = 8 d samples random features and a step of order one stay above it.",
            at_least(1.0),
            check=lambda part: [_over_bound(part, exponent) for exponent in (INITIAL, 0.0)],
            needs={"exponent": (INITIAL, 0.0), "n": 3},
        ),
    )

    def memory(self) -> int:
        return 8 * (3 * self.n + 5000) * (self.features + self.d) + 8 * 4 * min(self.n, self.features) ** 2

    def _sizes(self) -> list[float]:
        return [0.0 if alpha == INITIAL else float(self.features) ** alpha for alpha in self.exponent]

    def _setting(self) -> tuple[Any, ...]:
        return (
            self.activation,
            self.link,
            self.n,
            self.d,
            self.features,
            self.noise_variance,
            self._sizes(),
            (self.ridge,),
        )

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """All step sizes share the network, its gradient and the data."""
        return {name: array[:, 0] for name, array in step_risks(rng, *self._setting()).items()}

    def predict(self) -> dict[str, Any]:
        found = {name: array[:, 0] for name, array in predicted_step_risks(*self._setting()).items()}
        return {**found, "bound": bound(self.link)}

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, axes = style.panels(1, 1, width=5.2, height=3.5)
        exponents = main.simulated.exponent.values
        d = float(parameter(main.simulated, "d"))
        for index, (color, alpha) in enumerate(zip(style.shades(len(exponents)), exponents, strict=True)):
            line, points = main.lines.sel(exponent=alpha), main.simulated.sel(exponent=alpha)
            text = "no step" if alpha == INITIAL else rf"$\eta = N^{{{alpha:g}}}$"
            style.theory(axes, line.n / d, line.risk, color=color, label=text)
            style.simulation(axes, points.n / d, points.risk, color=color, marker=style.marker(index))
        axes.axhline(float(main.predicted.bound.mean()), color="#000000", linestyle="--", linewidth=0.9)
        style.log_scale(axes)
        axes.set(xlabel=style.label("samples per dimension", r"\psi_1 = n/d"), ylabel=style.label("excess risk", "R"))
        axes.set_title(r"dashed: $\|P_{>1}f_*\|^2$, the bound of all kernels")
        axes.legend()
        return figure

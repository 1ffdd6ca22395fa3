"""Steps of order one help, but never below the bound of all kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, between, parameter, path, static, value
from unlazy.studies.one_step.shared.gradient_step import ACTIVATIONS, BA, BA_TEXT, LINKS, bound, step_risks

if TYPE_CHECKING:
    import xarray as xr


def _gain(risk: xr.DataArray) -> xr.DataArray:
    """The change of the risk against no step, on the same data."""
    return (risk - risk.sel(step_size=0)).where(risk.step_size > 0, drop=True)


@dataclass(frozen=True)
class OneStepSmall(Study):
    name = "one-step-small"
    topic = "one_step"
    question = (
        "Does a gradient step of order one, which moves the weights by order one, improve the features, and can it "
        "reach below the best kernel?"
    )
    sources = (BA,)

    n: int = static(1200, "samples of the step, and as many fresh ones of the readout", symbol="n", low=2, scale="log")
    d: int = static(400, "dimension", symbol="d", low=2, high=10_000, scale="log")
    features: int = static(800, "neurons", symbol="N", low=1, high=20_000, scale="log")
    activation: str = static("erf", "activation", choices=ACTIVATIONS)
    link: str = static("erf", "link of the target", choices=tuple(LINKS))
    ridge: float = value(1e-3, "ridge of the readout", symbol=r"\lambda", above=0, high=1e6, scale="log")
    noise_variance: float = value(0.01, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)
    step_size: tuple = path((0.0, 1.0, 2.0, 3.0), "step size", symbol=r"\eta", low=0, high=1e6)

    outputs = {
        "risk": Output("excess risk", "R", ("step_size",)),
        "training_error": Output("training error", "", ("step_size",)),
        "bound": Output("what no kernel goes below", r"\|P_{>1}f_*\|^2", theory_only=True),
    }
    presets = {
        "quick": {"d": 200, "features": 400, "n": 600, "seeds": 24},
        "full": {"n": [400, 800, 1200, 2400, 4800], "step_size": [0.0, 0.5, 1.0, 2.0, 3.0, 5.0], "seeds": 32},
    }
    lines = {"main": "step_size"}
    claims = (
        Claim(
            "helps",
            BA_TEXT,
            "A step of order one lowers the risk, on the same data and network.",
            at_most(0.0),
            check=lambda part: _gain(part.simulated.risk),
            needs={"step_size": (0.0, 1.0)},
        ),
        Claim(
            "by-how-much",
            BA_TEXT,
            "The gain is that of the theory, within 0.015.",
            between(-0.015, 0.015),
            check=lambda part: _gain(part.simulated.risk) - _gain(part.predicted.risk),
            needs={"step_size": (0.0,)},
        ),
        Claim(
            "bound",
            BA_TEXT,
            "It never goes below |P_{>1} f|^2: the risk stays above it at every step size.",
            at_least(1.0),
            check=lambda part: part.simulated.risk / part.predicted.bound,
        ),
        Claim(
            "bound-in-theory",
            BA_TEXT,
            "Nor does the theory at any step size up to 10^6, any ridge from 10^-6 to 10 and any n from d/2 to 64 d.",
            at_least(1.0),
            theory=lambda part: _least_over_bound(part),
        ),
    )

    def memory(self) -> int:
        return 8 * (3 * self.n + 5000) * (self.features + self.d) + 8 * 4 * min(self.n, self.features) ** 2

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """All step sizes share the network, its gradient and the data."""
        found = step_risks(
            rng, self.activation, self.link, self.n, self.d, self.features, self.noise_variance, self.step_size,
            (self.ridge,),
        )  # fmt: skip
        return {name: array[:, 0] for name, array in found.items()}

    def predict(self) -> dict[str, Any]:
        from unlazy.theory.one_step.gradient_step import one_step_risk

        theory = one_step_risk(
            self.activation,
            LINKS[self.link],
            self.n / self.d,
            self.features / self.d,
            self.ridge,
            self.noise_variance,
            step_size=np.array(self.step_size),
        )
        return {"risk": theory.risk, "training_error": theory.training_error, "bound": bound(self.link)}

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, axes = style.panels(1, 1, width=4.6, height=3.2)
        line, points = main.lines, main.simulated
        sizes = np.atleast_1d(parameter(points, "n"))
        for index, (color, n) in enumerate(zip(style.shades(len(sizes)), sizes, strict=True)):
            curve, dots = (data.sel(n=n) if "n" in data.dims else data for data in (line, points))
            style.theory(axes, curve.step_size, curve.risk, color=color, label=f"$n = {n}$")
            style.simulation(axes, dots.step_size, dots.risk, color=color, marker=style.marker(index))
        axes.axhline(float(np.mean(main.predicted.bound)), color="#000000", linestyle="--", linewidth=0.9)
        axes.set(xlabel=style.label("step size", r"\eta"), ylabel=style.label("excess risk", "R"))
        axes.set_ylim(0)
        axes.set_title(r"dashed: $\|P_{>1}f_*\|^2$, the bound of all kernels")
        axes.legend()
        return figure


def _least_over_bound(part: Part) -> xr.DataArray:
    """The smallest risk of the theory over the bound, over a wide grid of step sizes, ridges and sizes."""
    import xarray as xr

    from unlazy.theory.one_step.gradient_step import one_step_risk

    setting = {
        name: parameter(part.predicted, name) for name in ("activation", "link", "features", "d", "noise_variance")
    }
    risk = one_step_risk(
        str(setting["activation"]),
        LINKS[str(setting["link"])],
        np.geomspace(0.5, 64, 15)[:, None, None],
        float(setting["features"]) / float(setting["d"]),
        np.geomspace(1e-6, 10, 15)[:, None],
        float(setting["noise_variance"]),
        step_size=np.append(0.0, np.geomspace(0.1, 1e6, 15)),
    ).risk
    return xr.DataArray(risk.min() / bound(str(setting["link"])))

"""The best learning rate of the first step, predicted without training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_least, between, parameter, path, static, value
from unlazy.studies.one_step.shared.gradient_step import (
    ACTIVATIONS,
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


def _cost_of_prediction(part: Part) -> xr.DataArray:
    """The mean risk at the step size that the theory calls best, over the smallest mean risk on the grid."""
    risk = part.simulated.risk.mean("seed")
    return risk.isel(relative_step=part.predicted.risk.argmin("relative_step")) / risk.min("relative_step")


def _rise(part: Part) -> xr.DataArray:
    """The mean risks at both ends of the grid over the smallest one."""
    risk = part.simulated.risk.mean("seed")
    return risk.isel(relative_step=[0, -1]) / risk.min("relative_step")


@dataclass(frozen=True)
class BestStepSize(Study):
    name = "best-step-size"
    topic = "one_step"
    question = "How large should the first gradient step be, and can one say so without training?"
    sources = (CUI, DANDI)

    n: int = static(1600, "samples of the step, and as many fresh ones of the readout", symbol="n", low=2, scale="log")
    d: int = static(200, "dimension", symbol="d", low=2, high=10_000, scale="log")
    features: int = static(400, "neurons", symbol="N", low=1, high=20_000, scale="log")
    activation: str = static("erf", "activation", choices=ACTIVATIONS)
    link: str = static("tanh3", "link of the target", choices=tuple(LINKS))
    ridge: float = value(0.03, "ridge of the readout", symbol=r"\lambda", above=0, high=1e6, scale="log")
    noise_variance: float = value(0.01, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)
    relative_step: tuple = path(
        (0.5, 1.0, 2.0, 4.0, 8.0, 16.0), "step size over sqrt(N)", symbol=r"\eta/\sqrt{N}", low=0, high=1e4, scale="log"
    )

    outputs = {
        "risk": Output("excess risk", "R", ("relative_step",), scale="log"),
        "training_error": Output("training error", "", ("relative_step",), scale="log"),
    }
    presets = {
        "quick": {"seeds": 36},
        "full": {
            "d": 500,
            "features": 1000,
            "n": 4000,
            "relative_step": [0.25, 0.5, 1, 2, 3, 4, 6, 8, 16, 32],
            "seeds": 16,
        },
    }
    lines = {"main": "relative_step"}
    claims = (
        Claim(
            "u-shape",
            CUI_TEXT,
            "The risk is U-shaped in the step size: at both ends of the grid it is at least 10% above its minimum.",
            at_least(1.1),
            statistic=_rise,
            needs={"relative_step": 5},
        ),
        Claim(
            "choice",
            CUI_TEXT,
            "The step size that theory calls best is the best one on the grid, or costs at most 2% more.",
            between(1.0, 1.02),
            statistic=_cost_of_prediction,
            needs={"relative_step": 5},
        ),
        Claim(
            "theory",
            "the project's equations",
            "The equivalent gives the risk within 10% at every step size.",
            between(-0.1, 0.1),
            statistic=lambda part: part.simulated.risk.mean("seed") / part.predicted.risk - 1,
        ),
    )

    def memory(self) -> int:
        return 8 * (3 * self.n + 5000) * (self.features + self.d) + 8 * 4 * min(self.n, self.features) ** 2

    def _setting(self) -> tuple[Any, ...]:
        sizes = [relative * np.sqrt(self.features) for relative in self.relative_step]
        return (self.activation, self.link, self.n, self.d, self.features, self.noise_variance, sizes, (self.ridge,))

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """All step sizes share the network, its gradient and the data."""
        return {name: array[:, 0] for name, array in step_risks(rng, *self._setting()).items()}

    def predict(self) -> dict[str, Any]:
        return {name: array[:, 0] for name, array in predicted_step_risks(*self._setting()).items()}

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, axes = style.panels(1, 1, width=4.8, height=3.3)
        line, points = main.lines, main.simulated
        for index, (name, text) in enumerate((("risk", "excess risk"), ("training_error", "training error"))):
            style.theory(axes, line.relative_step, line[name], color=style.colour(index), label=text)
            style.simulation(
                axes, points.relative_step, points[name], color=style.colour(index), marker=style.marker(index)
            )
        axes.axhline(bound(str(parameter(points, "link"))), color="#000000", linestyle="--", linewidth=0.9)
        style.log_scale(axes)
        axes.set(xlabel=style.label("step size", r"\eta/\sqrt{N}"), ylabel="error")
        axes.set_title(r"dashed: $\|P_{>1}f_*\|^2$, the bound of all kernels")
        axes.legend()
        return figure

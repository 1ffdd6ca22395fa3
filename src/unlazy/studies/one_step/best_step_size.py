"""The best size of the first step, predicted without training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Output, Study, at_least, between, cite, claim, enough, path, static, value, within
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.one_step import shared


@dataclass(frozen=True)
class BestStepSize(Study):
    question = "How large should the first gradient step be, and can one say so without training?"
    sources = cite("cui2024", "dandi2024spectrum")

    n: int = static(1600, "samples of the step, and as many fresh ones of the readout", symbol="n", low=2, scale="log")
    d: int = static(200, "dimension", symbol="d", low=2, high=10_000, scale="log")
    width: int = static(400, "neurons", symbol="N", low=1, high=20_000, scale="log")
    activation: str = static("erf", "activation", choices=shared.ACTIVATIONS)
    link: str = static("tanh3", "link of the target", choices=tuple(shared.LINKS))
    ridge: float = value(0.03, "ridge of the readout", symbol=r"\lambda", above=0, high=1e6, scale="log")
    noise_variance: float = value(0.01, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)
    relative_step_size: tuple = path(
        (0.5, 1.0, 2.0, 4.0, 8.0, 16.0), "step size over sqrt(N)", symbol=r"\eta/\sqrt{N}", low=0, high=1e4, scale="log"
    )

    outputs = {
        "risk": Output("excess risk", "R", ("relative_step_size",), scale="log"),
        "training_error": Output("training error", "", ("relative_step_size",), scale="log"),
    }
    presets = {
        "quick": {"seeds": 72},
        "full": {
            "d": 500,
            "width": 1000,
            "n": 4000,
            "relative_step_size": [0.25, 0.5, 1, 2, 3, 4, 6, 8, 16, 32],
            "seeds": 16,
        },
    }
    lines = {"main": "relative_step_size"}
    figure = panels(
        Panel(
            ("risk", "training_error"),
            x="relative_step_size",
            ylabel="error",
            legend="lower left",
            marks=(shared.KERNEL_BOUND,),
        ),
        width=4.8,
        height=3.3,
    )

    @claim(OWN, "observation", at_least(1.1), resampled=True)
    def u_shape(main):
        """The risk is U-shaped in the step size. At both ends of the grid it is {criterion} times its minimum."""
        enough(main.simulated, "relative_step_size", 5)
        risk = main.simulated.risk.mean("seed")
        return risk.isel(relative_step_size=[0, -1]) / risk.min("relative_step_size")

    @claim(OWN, "the equivalent of spiked random features as a guide", between(1.0, 1.02), resampled=True)
    def choice(main):
        """The step size that theory calls best is the best one on the grid, or nearly so. Its risk is {criterion} times
        the smallest."""
        enough(main.simulated, "relative_step_size", 5)
        risk = main.simulated.risk.mean("seed")
        return risk.isel(relative_step_size=main.predicted.risk.argmin("relative_step_size")) / risk.min(
            "relative_step_size"
        )

    @claim(OWN, "deterministic equivalent of spiked random features", within(0.1), resampled=True)
    def theory(main):
        """The deterministic equivalent gives the risk at every step size {criterion}."""
        return main.simulated.risk.mean("seed") / main.predicted.risk - 1

    def memory(self) -> int:
        return shared.memory(self)

    def _step_sizes(self) -> list[float]:
        return [relative * np.sqrt(self.width) for relative in self.relative_step_size]

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        return shared.simulated_risks(rng, self, self._step_sizes())

    def predict(self) -> dict[str, Any]:
        return shared.predicted_risks(self, self._step_sizes(), self.ridge)

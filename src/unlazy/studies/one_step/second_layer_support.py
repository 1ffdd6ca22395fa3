"""What the second layer's values have to do with what one gradient step can learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_most, between, path, static, value
from unlazy.studies.one_step.shared.gradient_step import (
    ACTIVATIONS,
    CUI,
    DANDI,
    DANDI_TEXT,
    LINKS,
    predicted_step_risks,
    step_risks,
)

if TYPE_CHECKING:
    import xarray as xr

SUPPORTS: dict[str, tuple[float, ...] | None] = {
    "constant": (1.0,),
    "signs": (-1.0, 1.0),
    "two values": (0.5, 1.3228756555),
    "normal": None,
}
"""Values of sqrt(N) a_i, all with mean square 1."""


def _ratio(part: Part, better: str, worse: str, relative_step: float) -> xr.DataArray:
    risk = part.simulated.risk.mean("seed").sel(relative_step=relative_step)
    return risk.sel(support=better) / risk.sel(support=worse)


@dataclass(frozen=True)
class SecondLayerSupport(Study):
    name = "second-layer-support"
    topic = "one_step"
    question = (
        "After one gradient step the neurons differ along the learned direction only by their second-layer weights: "
        "does a richer set of these weights learn more of a nonlinear target?"
    )
    caption = "Short bars: theory. Points: simulation, means over seeds with 99% intervals."
    sources = (DANDI, CUI)

    support: str = static("normal", "values of the second layer", choices=tuple(SUPPORTS), paired=True)
    n: int = static(2048, "samples of the step, and as many fresh ones of the readout", symbol="n", low=2, scale="log")
    d: int = static(256, "dimension", symbol="d", low=2, high=10_000, scale="log")
    features: int = static(512, "neurons", symbol="N", low=1, high=20_000, scale="log")
    activation: str = static("erf", "activation", choices=ACTIVATIONS)
    link: str = static("tanh3", "link of the target", choices=tuple(LINKS))
    ridge: float = value(0.03, "ridge of the readout", symbol=r"\lambda", above=0, high=1e6, scale="log")
    noise_variance: float = value(0.01, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)
    relative_step: tuple = path(
        (1.0, 4.0), "step size over sqrt(N)", symbol=r"\eta/\sqrt{N}", low=0, high=1e4, scale="log"
    )

    outputs = {
        "risk": Output("excess risk", "R", ("relative_step",), scale="log"),
        "training_error": Output("training error", "", ("relative_step",), scale="log"),
    }
    presets = {
        "quick": {"support": list(SUPPORTS), "seeds": 14},
        "full": {"support": list(SUPPORTS), "relative_step": [0.5, 1.0, 2.0, 4.0, 8.0], "seeds": 24},
    }
    claims = (
        Claim(
            "richer-is-better",
            DANDI_TEXT,
            "At the step size sqrt(N) normal second-layer weights give a smaller risk than two values, and these than "
            "a constant.",
            at_most(1.0),
            statistic=lambda part: [
                _ratio(part, "normal", "two values", 1.0),
                _ratio(part, "two values", "constant", 1.0),
            ],
            needs={"support": tuple(SUPPORTS), "relative_step": (1.0,)},
        ),
        Claim(
            "signs-are-no-richer",
            DANDI_TEXT,
            "With an odd activation two signs are one function: the risk is that of a constant, within 10%.",
            between(0.9, 1.1),
            statistic=lambda part: _ratio(part, "signs", "constant", 1.0),
            needs={"support": tuple(SUPPORTS), "relative_step": (1.0,)},
        ),
        Claim(
            "richer-is-better-at-large-steps",
            DANDI_TEXT,
            "At the step size 4 sqrt(N) normal weights are better than a constant as well.",
            at_most(1.0),
            statistic=lambda part: _ratio(part, "normal", "constant", 4.0),
            needs={"support": tuple(SUPPORTS), "relative_step": (4.0,)},
            known_negative=(
                "At large steps the order is the other way round: neurons of one spike then share the one function "
                "that fits the link, while normal weights spread them over spikes that are too small and too large."
            ),
        ),
        Claim(
            "theory",
            "the project's equations",
            "The equivalent gives the risk, on average over sets and step sizes within 10%.",
            between(-0.1, 0.1),
            check=lambda part: (part.simulated.risk / part.predicted.risk - 1).mean(["support", "relative_step"]),
            needs={"support": 2},
        ),
    )

    def memory(self) -> int:
        return 8 * (3 * self.n + 5000) * (self.features + self.d) + 8 * 4 * min(self.n, self.features) ** 2

    def _setting(self) -> tuple[Any, ...]:
        sizes = [relative * np.sqrt(self.features) for relative in self.relative_step]
        return (self.activation, self.link, self.n, self.d, self.features, self.noise_variance, sizes, (self.ridge,))

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        found = step_risks(rng, *self._setting(), support=SUPPORTS[self.support])
        return {name: array[:, 0] for name, array in found.items()}

    def predict(self) -> dict[str, Any]:
        found = predicted_step_risks(*self._setting(), support=SUPPORTS[self.support])
        return {name: array[:, 0] for name, array in found.items()}

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, axes = style.panels(1, 1, width=4.8, height=3.2)
        points, theory = main.simulated, main.predicted
        names = [str(name) for name in points.support.values]
        places = np.arange(len(names))
        for index, step in enumerate(points.relative_step.values):
            color = style.colour(index)
            shift = 0.12 * (index - (points.sizes["relative_step"] - 1) / 2)
            label = rf"$\eta = {step:g}\,\sqrt{{N}}$"
            for place, risk in zip(places, theory.risk.sel(relative_step=step).values, strict=True):
                axes.plot([place + shift - 0.14, place + shift + 0.14], [risk, risk], color=color, linewidth=1.4)
            style.simulation(axes, places + shift, points.risk.sel(relative_step=step), color=color, label=label)
        axes.set_xticks(places, names)
        axes.set(ylabel=style.label("excess risk", "R"), xlabel="second-layer weights")
        axes.set_title("bars: theory, points: simulation")
        axes.set_ylim(0)
        axes.legend()
        return figure

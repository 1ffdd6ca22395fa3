"""What the second layer's values have to do with what one gradient step can learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Output, Study, at_most, between, cite, claim, enough, path, static, value, within
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.one_step import shared

SUPPORTS: dict[str, tuple[float, ...] | None] = {
    "constant": (1.0,),
    "signs": (-1.0, 1.0),
    "two values": (0.5, 1.3228756555),
    "normal": None,
}
"""Values of sqrt(N) a_i, all with mean square 1."""


def _ratio(main, better, worse, relative_step_size):
    risk = main.simulated.risk.mean("seed").sel(support=list(SUPPORTS), relative_step_size=relative_step_size)
    return risk.sel(support=better) / risk.sel(support=worse)


@dataclass(frozen=True)
class SecondLayerSupport(Study):
    question = (
        "After one gradient step the neurons differ along the learned direction only by their second-layer weights. "
        "Does a richer set of these weights learn more of a nonlinear target?"
    )
    sources = cite("dandi2024spectrum", "cui2024")

    support: str = static("normal", "values of the second layer", choices=tuple(SUPPORTS), paired=True)
    n: int = static(2048, "samples of the step, and as many fresh ones of the readout", symbol="n", low=2, scale="log")
    d: int = static(256, "dimension", symbol="d", low=2, high=10_000, scale="log")
    width: int = static(512, "neurons", symbol="N", low=1, high=20_000, scale="log")
    activation: str = static("erf", "activation", choices=shared.ACTIVATIONS)
    link: str = static("tanh3", "link of the target", choices=tuple(shared.LINKS))
    ridge: float = value(0.03, "ridge of the readout", symbol=r"\lambda", above=0, high=1e6, scale="log")
    noise_variance: float = value(0.01, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)
    relative_step_size: tuple = path(
        (1.0, 4.0), "step size over sqrt(N)", symbol=r"\eta/\sqrt{N}", low=0, high=1e4, scale="log"
    )

    outputs = {
        "risk": Output("excess risk", "R", ("relative_step_size",), scale="log"),
        "training_error": Output("training error", "", ("relative_step_size",), scale="log"),
    }
    presets = {
        "quick": {"support": list(SUPPORTS), "seeds": 24},
        "full": {"support": list(SUPPORTS), "relative_step_size": [0.5, 1.0, 2.0, 4.0, 8.0], "seeds": 24},
    }
    figure = panels(Panel("risk", x="support", by="relative_step_size", log="", ylim=(0, None)), width=4.8, height=3.2)

    @claim(
        "dandi2024spectrum",
        "",
        at_most(1.0),
        resampled=True,
        departs=(
            "The source speaks of the functions that features can express, for finitely many values and a batch much "
            "larger than d. Here risks are compared, at n = 8 d, and one set is normal."
        ),
    )
    def richer_is_better(main):
        """At the step size sqrt(N) normal second-layer weights give a smaller risk than two values, and two values a
        smaller one than a constant. The ratio of the risks is {criterion} in both comparisons."""
        return [_ratio(main, "normal", "two values", 1.0), _ratio(main, "two values", "constant", 1.0)]

    @claim(
        "dandi2024spectrum",
        "",
        between(0.9, 1.1),
        resampled=True,
        departs=(
            "The source speaks of the functions that features can express, for a batch much larger than d. Here risks"
            " are compared, at n = 8 d."
        ),
    )
    def signs_are_no_richer(main):
        """With an odd activation two opposite signs are one function. The ratio of the risk with signs to the risk with
        a constant is {criterion}."""
        return _ratio(main, "signs", "constant", 1.0)

    @claim(
        OWN,
        "the claim richer-is-better at a larger step",
        at_most(1.0),
        resampled=True,
        known_negative=(
            "At large steps the order is reversed. Neurons of one spike then share the one function that fits the "
            "link. Normal weights spread them over spikes that are too small and too large."
        ),
    )
    def richer_is_better_at_large_steps(main):
        """At the step size 4 sqrt(N) too, normal weights give a smaller risk than a constant. The ratio of the risks is
        {criterion}."""
        return _ratio(main, "normal", "constant", 4.0)

    @claim(OWN, "deterministic equivalent of spiked random features", within(0.1))
    def theory(main):
        """The deterministic equivalent gives the risk {criterion}, on average over sets and step sizes."""
        enough(main.simulated, "support", 2)
        return (main.simulated.risk / main.predicted.risk - 1).mean(["support", "relative_step_size"])

    def memory(self) -> int:
        return shared.memory(self)

    def _step_sizes(self) -> list[float]:
        return [relative * np.sqrt(self.width) for relative in self.relative_step_size]

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        return shared.simulated_risks(rng, self, self._step_sizes(), SUPPORTS[self.support])

    def predict(self) -> dict[str, Any]:
        return shared.predicted_risks(self, self._step_sizes(), self.ridge, SUPPORTS[self.support])

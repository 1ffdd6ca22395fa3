"""Spiked random features: what a readout generalises to when its neurons share a direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Output, Study, at_most, cite, claim, parameter, static, value, within
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.one_step import shared
from unlazy.theory.one_step.spiked.features import spiked_features_equivalent

LINKS = {
    "tanh3": lambda x: np.tanh(3 * x),
    "mixed": lambda x: x + 0.5 * (x**3 - 3 * x) / np.sqrt(6) + 0.3 * (x**2 - 1),
    "sin2": lambda x: np.sin(2 * x),
}
"""tanh(3 x); x + 0.5 He3/sqrt(6) + 0.3 He2; sin(2 x)."""


@dataclass(frozen=True)
class SpikedFeatures(Study):
    question = (
        "Random features whose weights all have a part along one direction near the target: is the error of ridge "
        "regression on them a number that one can compute, for any activation, link and set of spikes?"
    )
    sources = cite("cui2024", "dandi2024spectrum")

    n: int = static(1600, "samples", symbol="n", low=2, scale="log")
    d: int = static(400, "dimension", symbol="d", low=2, high=10_000, scale="log")
    width: int = static(600, "neurons", symbol="N", low=4, high=20_000, scale="log")
    activation: str = static("tanh", "activation", choices=("tanh", "erf", "relu", "softplus"))
    link: str = static("tanh3", "link of the target", choices=tuple(LINKS))
    spikes: str = static("four groups", "spikes of the neurons", choices=tuple(shared.PLANTED))
    cosine: float = value(0.8, "cosine of the direction with the target", symbol=r"\zeta", low=0, high=1)
    ridge: float = value(0.01, "ridge of the readout", symbol=r"\lambda", above=0, high=1e6, scale="log")
    noise_variance: float = value(0.09, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)

    outputs = {
        "risk": Output("excess risk", "R", scale="log"),
        "training_error": Output("training error", "", scale="log"),
    }
    presets = {
        "quick": {
            "main": {("activation", "link"): [("tanh", "tanh3"), ("relu", "sin2")], "n": [300, 1600], "seeds": 32},
            "spikes": {"spikes": ["none", "four groups"], "seeds": 12},
        },
        "full": {
            "main": {
                ("activation", "link"): [("tanh", "mixed"), ("relu", "sin2"), ("erf", "tanh3")],
                "n": [300, 500, 800, 1600, 3200],
                "seeds": 48,
            },
            "spikes": {"spikes": list(shared.PLANTED), "seeds": 48},
        },
    }
    lines = {"main": "n"}
    figure = panels(
        Panel(
            "risk",
            x="n",
            by=("activation", "link"),
            title="four groups of neurons",
            marks=(Level(lambda data: data.attrs["width"], "$n = N$", vertical=True),),
        ),
        width=4.8,
        height=3.3,
    )

    @claim(
        "cui2024",
        "",
        within(0.1),
        departs="The neurons have four different spikes, where the source has one for all; as there the spikes are "
        "planted, no gradient step is taken, and the equations are this project's.",
    )
    def risk(main):
        """The risk is that of the deterministic equivalent, {criterion}."""
        return main.simulated.risk / main.predicted.risk - 1

    @claim(OWN, "deterministic equivalent of spiked random features", within(0.03))
    def training_error(main):
        """So is the training error, {criterion} of the test error."""
        missed = main.simulated.training_error - main.predicted.training_error
        return missed / (main.predicted.risk + parameter(main.simulated, "noise_variance"))

    @claim(
        "cui2024",
        "",
        at_most(0.8),
        resampled=True,
        departs="The spikes are planted, in one setting, and the share is this project's; the source compares a "
        "network after its gradient step with that before.",
    )
    def spikes_help(spikes):
        """Spikes along a direction near the target lower the risk: over that without, it is {criterion}."""
        risk = spikes.simulated.risk.mean("seed")
        return risk.sel(spikes="four groups") / risk.sel(spikes="none")

    def memory(self) -> int:
        return shared.memory(self)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.one_step.gradient_step import draw_samples, features_readout
        from unlazy.training.one_step.planted import planted_weights

        weights = planted_weights(rng, shared.PLANTED[self.spikes], self.d, self.width, self.cosine)
        data = draw_samples(rng, self.n, self.d, LINKS[self.link], self.noise_variance)
        test = draw_samples(rng, shared.FRESH, self.d, LINKS[self.link], 0.0)
        found = features_readout(self.activation, weights, data, test, (self.ridge,))
        return {"risk": found.risk[0], "training_error": found.training_error[0]}

    def predict(self) -> dict[str, Any]:
        groups = shared.planted_groups(self.spikes)
        sizes = (self.n, self.d, self.width, self.ridge, self.noise_variance)
        found = spiked_features_equivalent(self.activation, LINKS[self.link], groups, self.cosine, *sizes)
        return {"risk": found.risk, "training_error": found.training_error}

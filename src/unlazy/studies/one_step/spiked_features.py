"""Spiked random features: what a readout generalises to when its neurons share a direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Change, Output, Study, at_most, cite, claim, parameter, static, value, within
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.one_step import shared
from unlazy.theory.one_step.spiked.features import gradient_step_equivalent, spiked_features_equivalent

LINKS = {
    "tanh3": lambda x: np.tanh(3 * x),
    "mixed": lambda x: x + 0.5 * (x**3 - 3 * x) / np.sqrt(6) + 0.3 * (x**2 - 1),
    "sin2": lambda x: np.sin(2 * x),
}
"""tanh(3 x); x + 0.5 He3/sqrt(6) + 0.3 He2; sin(2 x)."""
TRAINED = {"untrained": 0, "one step": 1, "four steps": 4}
"""Gradient steps of size sqrt(N) on the same 5 d samples."""
NORMAL = "The second layer is normal, where the source's has equal weights"
SMALL = {"d": 200, "width": 300, "n": [150, 300, 1000]}


@dataclass(frozen=True)
class SpikedFeatures(Study):
    question = (
        "The weights of random features all have a part along one direction near the target. It was planted, or "
        "gradient steps put it there. Can one compute the error of ridge regression on such features?"
    )
    sources = cite("cui2024", "dandi2024spectrum")

    n: int = static(1600, "samples", symbol="n", low=2, scale="log")
    d: int = static(400, "dimension", symbol="d", low=2, high=10_000, scale="log")
    width: int = static(600, "neurons", symbol="N", low=4, high=20_000, scale="log")
    activation: str = static("tanh", "activation", choices=("tanh", "erf", "relu", "softplus"))
    link: str = static("tanh3", "link of the target", choices=tuple(LINKS))
    spikes: str = static(
        "four groups", "spikes of the neurons, planted or trained", choices=(*shared.PLANTED, *TRAINED)
    )
    cosine: float = value(0.8, "cosine of a planted direction with the target", symbol=r"\zeta", low=0, high=1)
    ridge: float = value(0.01, "ridge of the readout", symbol=r"\lambda", above=0, high=1e6, scale="log")
    noise_variance: float = value(0.09, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)

    theory_for = {"spikes": (*shared.PLANTED, *(name for name, size in TRAINED.items() if size <= 1))}
    outputs = {
        "risk": Output("excess risk", "R", scale="log"),
        "training_error": Output("training error", "", scale="log"),
        "measured_risk": Output("risk by measured overlaps", predicts="risk", only={"spikes": tuple(TRAINED)}),
    }
    presets = {
        "quick": {
            "main": {("activation", "link"): [("tanh", "tanh3"), ("relu", "sin2")], "n": [300, 1600], "seeds": 24},
            "trained": {"spikes": ["untrained", "one step"], **SMALL, "seeds": 44},
            "several": {"spikes": "four steps", **SMALL, "seeds": 24},
        },
        "full": {
            "main": {
                ("activation", "link"): [("tanh", "mixed"), ("relu", "sin2"), ("erf", "tanh3")],
                "n": [300, 500, 800, 1600, 3200],
                "seeds": 48,
            },
            "trained": {"spikes": ["untrained", "one step"], "n": [300, 600, 2000], "seeds": 48},
            "several": {"spikes": "four steps", "n": [300, 600, 2000], "seeds": 48},
        },
    }
    lines = {"main": "n", "trained": "n"}
    history = (
        Change("step-helps", "an untrained network", "planted spikes of 0 leave no weight along their direction"),
    )
    figure = panels(
        Panel(
            "risk",
            x="n",
            by=("activation", "link"),
            title="four planted groups of neurons",
            marks=(Level(lambda data: data.attrs["width"], "$n = N$", vertical=True),),
        ),
        Panel(
            "risk",
            x="n",
            by="spikes",
            part="trained",
            title="a real gradient step",
            marks=(Level(lambda data: data.attrs["width"], "$n = N$", vertical=True),),
        ),
        width=3.9,
        height=3.3,
    )

    @claim(
        "cui2024",
        "",
        within(0.1),
        departs=(
            "The neurons have four different spikes; the source has one for all. The spikes are planted, and the "
            "equations are this project's."
        ),
    )
    def risk(main):
        """The risk is that of the deterministic equivalent, {criterion}."""
        return main.simulated.risk / main.predicted.risk - 1

    @claim(OWN, "deterministic equivalent of spiked random features", within(0.03))
    def training_error(main):
        """The training error is that of the deterministic equivalent. The difference is {criterion} of the test
        error."""
        missed = main.simulated.training_error - main.predicted.training_error
        return missed / (main.predicted.risk + parameter(main.simulated, "noise_variance"))

    @claim("cui2024", "", within(0.15), departs=f"{NORMAL}; the equations are this project's.")
    def trained(trained):
        """After a real step of size N^(1/2) on 5 d samples the step size alone gives the learning curve, its peak at n
        = N included, {criterion}. The measured overlaps of the neurons give it as well."""
        data = trained.simulated.sel(spikes="one step")
        return [data.risk / trained.predicted.risk.sel(spikes="one step") - 1, data.risk / data.measured_risk - 1]

    @claim(OWN, "observation", at_most(0.95))
    def more_than_one_direction(several):
        """After four steps on the same samples neurons lean to the target also outside their common direction. At n =
        1000 the ratio of the risk to the theory with measured overlaps is {criterion}."""
        data = several.simulated.sel(n=1000)
        return data.risk / data.measured_risk

    @claim(
        "cui2024",
        "",
        at_most(0.8),
        resampled=True,
        departs=("The second layer is normal. The factor is this project's."),
    )
    def step_helps(trained):
        """The step lowers the risk. At n = 1000 the ratio of the risk to the one without the step is {criterion}."""
        risk = trained.simulated.risk.sel(n=1000).mean("seed")
        return risk.sel(spikes="one step") / risk.sel(spikes="untrained")

    def memory(self) -> int:
        return shared.memory(self)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.one_step.gradient_step import draw_samples, features_readout
        from unlazy.training.one_step.planted import planted_weights
        from unlazy.training.one_step.trained_features import trained_layer

        link, measured = LINKS[self.link], np.array(np.nan)
        if self.spikes in TRAINED:
            sizes = 5 * self.d, self.d, self.width, self.noise_variance, float(np.sqrt(self.width))
            layer = trained_layer(rng, self.activation, link, *sizes, TRAINED[self.spikes])
            overlaps, weights = (layer.neuron_groups, layer.cosine), layer.weights
            measured = spiked_features_equivalent(self.activation, link, *overlaps, *self._readout()).risk
        else:
            weights = planted_weights(rng, shared.PLANTED[self.spikes], self.d, self.width, self.cosine)
        data = draw_samples(rng, self.n, self.d, link, self.noise_variance)
        test = draw_samples(rng, shared.FRESH, self.d, link, 0.0)
        found = features_readout(self.activation, weights, data, test, (self.ridge,))
        return {"risk": found.risk[0], "training_error": found.training_error[0], "measured_risk": measured}

    def _readout(self) -> tuple[int, int, int, float, float]:
        return self.n, self.d, self.width, self.ridge, self.noise_variance

    def predict(self) -> dict[str, Any]:
        """Without a look at the weights; several large steps have no theory of their own."""
        functions = self.activation, LINKS[self.link]
        if self.spikes in TRAINED:
            if TRAINED[self.spikes] > 1:
                return {}
            step_size = TRAINED[self.spikes] * np.sqrt(self.width)
            sizes = self.n, self.d, self.width, step_size, self.ridge, self.noise_variance
            found = gradient_step_equivalent(*functions, *sizes, step_samples=5 * self.d)
        else:
            groups = shared.planted_groups(self.spikes)
            found = spiked_features_equivalent(*functions, groups, self.cosine, *self._readout())
        return {"risk": found.risk, "training_error": found.training_error}

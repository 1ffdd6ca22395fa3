"""Label noise in two-time-scale training as regularisation by degrees of freedom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Output, Study, cite, static, value
from unlazy.lab.claims import OWN, at_least, at_most, between, claim, within
from unlazy.lab.measures import relative_deviation
from unlazy.plotting import style
from unlazy.plotting.panels import Level, Panel, panels

DERIVED = "the project's own derivation"
CONSTANT = (
    "The constant is this project's derivation: the talk's version of the lemma has ridge s^2 in the place of v (claim "
    "slide-constant)."
)
ENDS = (
    "The source states the expected objective and convergence to its optimum; here the ends of finite runs, whose "
    "gradient goes through the second layer, are compared in degrees of freedom"
)
INFERRED = (
    "The talk does not state it: it is inferred from label noise being a penalty on degrees of freedom, and judged in "
    "one setting, with a share that is this project's; the study label-noise-map has a range of settings."
)
IMPROVES = ("suzuki2024talk", "suggested by the talk", at_most(-0.05))
LINEAR = ("identity", 0.1, 0.75)
"""Activation, ridge and step size. At the ridge 1e-3 of the other network all directions of a linear one are
saturated: its degrees of freedom are its dimension, with noise or without."""
ARMS = {
    "none": {},
    "DoF penalty": {"noise_penalty": "degrees_of_freedom"},
    "label noise": {"gradient": "through"},
    "frozen penalty": {"noise_penalty": "frozen"},
    "frozen label noise": {"gradient": "frozen"},
}
"""What is added to the objective: nothing, an exact penalty, or noise with one of the two gradients."""
IDENTITY: dict[Any, Any] = {"activation": ["tanh", "identity"], "tasks": 4, "steps": 0, "draws": 400}
NOISE = ("ridge", "label_noise_variance")
NOISES = [(0.05, 0.02), (0.05, 0.1), (0.05, 0.5), (0.3, 0.1)]
MORE_NOISES = [(0.05, v) for v in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)] + [(r, 0.1) for r in (0.001, 0.01, 0.3, 3.0)]
RIDGE = "ridge of the second layer a/M^(1/2), in (1/n)|y - f|^2 + (ridge/M)|a|^2"
ADDED = "variance of the noise added to the labels"
ADDED_AS = "variance v of the noise that training adds to the labels, uniform of half-width (3v)^1/2"
CHOSEN: dict[str, Any] = {"scale": "log", "paired": True}
NETWORK = ("activation", "ridge", "step_size")


def _freedom(part, arm):
    """The degrees of freedom at the end of training."""
    return part.simulated.degrees_of_freedom.isel(step=-1).sel(arm=arm, drop=True)


def _risk_change(data):
    noise, none = (data.risk.isel(step=-1).sel(arm=arm, drop=True) for arm in ("label noise", "none"))
    return relative_deviation(noise, none)


def _relative_risk(data):
    noisy = data.risk.sel(arm=["label noise", "frozen label noise"])
    return noisy / data.risk.sel(arm="none", drop=True)


def _arms(*arms):
    return lambda data: data.degrees_of_freedom.sel(arm=list(arms))


def _training(activation) -> dict[str, Any]:
    return {"x": "step", "by": "arm", "part": "training", "at": {"activation": activation}, "xlabel": "steps"}


def _freedom_panel(activation, **options):
    """Label noise as points, training on exact objectives as lines."""
    exact, noisy = _arms("none", "DoF penalty", "frozen penalty"), _arms("label noise", "frozen label noise")
    colours = ("black", style.colour(0), style.colour(1))
    lines = Panel(exact, points=False, line=True, colours=colours, **_training(activation))
    return Panel(noisy, also=(lines,), ylabel="degrees of freedom", **_training(activation), **options)


IN_PENALTIES = tuple(
    lambda data, name=name: data[name] / data.noise_penalty for name in ("uniform_noise_gap", "slide_penalty")
)
SLIDE = ("uniform noise", r"the slide's $(\lambda s^2/n)\,\mathrm{DoF}$")


@dataclass(frozen=True)
class LabelNoiseDegreesOfFreedom(Study):
    question = (
        "The second layer is fitted to labels with fresh noise while the first layer learns. Is this a penalty on the "
        "degrees of freedom of the learned kernel, and with which constant?"
    )
    sources = cite("takakura2024", "suzuki2024", "suzuki2024talk")

    n: int = static(80, "training samples", symbol="n", low=2, high=5_000, scale="log")
    d: int = static(10, "input dimension", symbol="d", low=2, high=10_000)
    width: int = static(200, "neurons", symbol="M", low=1, high=100_000, scale="log")
    tasks: int = static(10, "tasks that share the first layer", symbol="m", low=1, high=1_000)
    steps: int = static(600, "steps of mean-field Langevin dynamics", low=0, high=1_000_000, scale="log")
    draws: int = static(256, "draws of uniform label noise per task, for the gap", low=1, high=100_000)
    activation: str = static(
        "tanh", "activation: identity is the linear network", choices=("tanh", "identity", "erf", "relu"), paired=True
    )
    ridge: float = value(1e-3, RIDGE, symbol=r"\lambda", low=1e-5, high=100, short="ridge", **CHOSEN)
    label_noise_variance: float = value(0.25, ADDED_AS, symbol="v", low=1e-4, high=1e4, short=ADDED, **CHOSEN)
    noise_variance: float = value(0.25, "variance of the noise in the data", symbol=r"\sigma^2", low=0, high=100)
    step_size: float = value(0.1, "step size", symbol=r"\eta", above=0, high=100, scale="log", paired=True)
    weight_decay: float = value(2e-3, "weight decay of the first layer", low=0, high=100, paired=True)
    temperature: float = value(2e-4, "temperature of the Langevin noise", low=0, high=100, paired=True)

    outputs = {
        "noise_gap": Output("gap E G - F, noise averaged exactly", r"\mathbb{E}\,G-F", scale="log"),
        "uniform_noise_gap": Output("gap, mean over drawn uniform noise", r"\mathbb{E}\,G-F", scale="log"),
        "noise_penalty": Output("penalty (v/n) DoF", r"(v/n)\,\mathrm{DoF}", scale="log", predicts="noise_gap"),
        "slide_penalty": Output(
            "the slide's penalty, half-width s with s^2 = 3v", r"(\lambda s^2/n)\,\mathrm{DoF}", scale="log"
        ),
        "through_error": Output("gradient through the second layer: distance from that of its penalty", scale="log"),
        "frozen_error": Output("gradient, second layer frozen: distance from that of its penalty", scale="log"),
        "frozen_distance": Output("gradient, second layer frozen: distance from that of (v/n) DoF", scale="log"),
        "degrees_of_freedom": Output("degrees of freedom", r"\mathrm{DoF}", ("arm", "step")),
        "clean_objective": Output("objective without noise", "F", ("arm", "step"), scale="log"),
        "risk": Output("risk", "", ("arm", "step"), scale="log"),
    }
    presets = {
        "quick": {
            "identity": IDENTITY | {NOISE: NOISES, "n": 30, "width": 100, "seeds": 16},
            "training": {NETWORK: [("tanh", 1e-3, 0.05), LINEAR], "n": 40, "width": 100, "steps": 250, "seeds": 24},
        },
        "full": {
            "identity": IDENTITY | {NOISE: MORE_NOISES, "seeds": 16},
            "training": {NETWORK: [("tanh", 1e-3, 0.1), LINEAR], "seeds": 24},
        },
    }
    figure = panels(
        Panel(
            IN_PENALTIES,
            x="ridge",
            part="identity",
            at={"activation": "tanh"},
            labels=SLIDE,
            ylabel=r"gap in units of $(v/n)\,\mathrm{DoF}$",
            log="xy",
            marks=(Level(1.0),),
        ),
        _freedom_panel("tanh", legend="lower left"),
        _freedom_panel("identity", legend=False),
        Panel(_relative_risk, ylabel="risk relative to no noise", legend=False, **_training("tanh")),
        columns=2,
        width=3.4,
        caption="Lines are means over seeds too, of training on an exact objective. Frozen: the "
        "gradient holds the second layer fixed; its penalty is (v/n)[log det(I + K/(n ridge)) - DoF].",
    )

    @claim("takakura2024", "", within(1e-9, absolute=True), departs=CONSTANT)
    def expectation(identity, training):
        """Noise of variance v on the labels of the second layer adds (v/n) DoF to the expected objective of the first,
        exactly: the average over the noise vectors +-(nv)^1/2 e_i has a relative deviation of 0 {criterion}, at the
        start and after training."""
        return [
            relative_deviation(part.simulated.noise_gap, part.simulated.noise_penalty) for part in (identity, training)
        ]

    @claim("takakura2024", "", within(0.03), departs=CONSTANT)
    def uniform_noise(identity, training):
        """Noise that is drawn uniformly on [-s, s] adds (v/n) DoF with v = s^2/3, {criterion}."""
        return [
            relative_deviation(part.simulated.uniform_noise_gap, part.simulated.noise_penalty)
            for part in (identity, training)
        ]

    @claim(
        "suzuki2024talk",
        "slide on label noise as regularisation",
        between(0.9, 1.1),
        known_negative="The clean objective is quadratic in the second layer and noise e moves its optimum by H^T G e, "
        "so that the gap is (1/n) e^T K G e, with mean (v/n) DoF and no factor ridge; uniform noise has v = s^2/3. "
        "The ratio is 1/(3 ridge), which is 1 at ridge 1/3 only (claim expectation).",
    )
    def slide_constant(identity):
        """Uniform noise on [-s, s] adds (ridge s^2/n) DoF: the ratio of the gap to this is {criterion}."""
        return identity.simulated.uniform_noise_gap / identity.simulated.slide_penalty

    @claim(OWN, DERIVED, at_most(1e-9))
    def gradient_through(identity, training):
        """Differentiated through the closed form of the second layer, the noise part of the expected gradient is that
        of (v/n) DoF: the relative distance is {criterion}."""
        return [part.simulated.through_error for part in (identity, training)]

    @claim(OWN, DERIVED, at_most(1e-9))
    def gradient_frozen(identity, training):
        """With the second layer held fixed it is that of (v/n)[log det(I + K/(n ridge)) - DoF]: the relative distance
        is {criterion}."""
        return [part.simulated.frozen_error for part in (identity, training)]

    @claim(OWN, DERIVED, at_least(0.2))
    def frozen_is_not_degrees_of_freedom(identity, training):
        """With the second layer held fixed it is not that of (v/n) DoF: the distance, relative to that gradient, is
        {criterion}."""
        return [part.simulated.frozen_distance for part in (identity, training)]

    @claim("takakura2024", "", within(0.02), departs=f"{ENDS}.")
    def training(training):
        """Mean-field Langevin dynamics with label noise and with the exact penalty (v/n) DoF end at the same degrees of
        freedom, {criterion}, for the mean-field and the linear network."""
        return relative_deviation(_freedom(training, "label noise"), _freedom(training, "DoF penalty"))

    @claim("takakura2024", "", at_least(0.05), departs=f"{ENDS}, with a share that is this project's.")
    def fewer_degrees_of_freedom(training):
        """Both end at fewer degrees of freedom than training without noise, by a share of {criterion}: the agreement of
        the claim above is not that of two numbers that never moved."""
        free, *fewer = (_freedom(training, arm) for arm in ("none", "label noise", "DoF penalty"))
        return [(free - left) / free for left in fewer]

    @claim(OWN, DERIVED, within(0.02))
    def training_frozen(training):
        """Label noise with the second layer held fixed in the gradient ends at the degrees of freedom of training with
        its own penalty, {criterion}."""
        return relative_deviation(_freedom(training, "frozen label noise"), _freedom(training, "frozen penalty"))

    @claim(
        *IMPROVES,
        known_negative="Not reproduced here. Fewer degrees of freedom are not yet a lower risk: at n = 80 the "
        "noise takes 18% of them and changes the risk by -2.0%, 99% interval [-4.1%, 0.0%] over 24 seeds; at n "
        "= 40 by 1.4%, [-2.7%, 5.5%] over 8 seeds.",
        departs=INFERRED,
    )
    def risk(training):
        """Label noise improves the mean-field network: against training without noise its risk changes by a
        share of {criterion}."""
        return _risk_change(training.simulated.sel(activation="tanh"))

    @claim(
        *IMPROVES,
        known_negative="The effect is real but small: at n = 80 the noise changes the risk by -2.2%, 99% "
        "interval [-2.5%, -1.8%] over 24 seeds.",
        departs=INFERRED,
    )
    def risk_linear(training):
        """Label noise improves the linear network: against training without noise its risk changes by a share
        of {criterion}."""
        return _risk_change(training.simulated.sel(activation="identity"))

    def validate(self) -> None:
        if (product := self.step_size * self.weight_decay) > 1:
            raise InputError(f"step_size * weight_decay must be <= 1, or the weights grow; got {product:g}")

    def coordinates(self) -> dict[str, Any]:
        return {"arm": list(ARMS), "step": np.unique(np.linspace(0, self.steps, 13).astype(int)).tolist()}

    def simulate(self, key: Any) -> dict[str, Any]:
        """Train all arms on the same data and randomness; measure gap and gradients on the network without noise."""
        from unlazy.training.regression.noise_arms import train_arms

        options = {name: number for name, number in self.as_dict().items() if name != "steps"}
        return train_arms(key, ARMS, self.coordinates()["step"], **options)

"""Label noise in two-time-scale training as regularisation by degrees of freedom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import (
    Claim,
    Output,
    Part,
    Source,
    Study,
    at_least,
    at_most,
    between,
    parameter,
    relative_deviation,
    static,
    value,
)
from unlazy.studies.regression.shared.sources import SUZUKI
from unlazy.studies.regression.shared.sources import TALK as FIMI

if TYPE_CHECKING:
    import xarray as xr

TAKAKURA = "Takakura & Suzuki 2024"
TALK = "Suzuki 2024, slide on label noise as regularisation"
SUGGESTED = "suggested by the talk, Suzuki 2024"
OWN = "the project's own derivation"
LINEAR = ("identity", 0.1, 0.75)
"""Activation, ridge and learning rate. At the ridge 1e-3 of the other network all directions of a linear one are
saturated: its degrees of freedom are its dimension, with noise or without."""
ARMS: dict[str, dict[str, str]] = {
    "none": {},
    "DoF penalty": {"penalty": "dof"},
    "label noise": {"gradient": "through"},
    "frozen penalty": {"penalty": "frozen"},
    "frozen label noise": {"gradient": "frozen"},
}
"""What is added to the objective: nothing, an exact penalty, or noise with one of the two gradients."""
LEGEND = {
    "none": "no noise",
    "DoF penalty": r"penalty $(v/n)\,\mathrm{DoF}$",
    "label noise": "label noise, gradient through",
    "frozen penalty": r"penalty $(v/n)[\log\det(I+K/n\lambda)-\mathrm{DoF}]$",
    "frozen label noise": "label noise, gradient frozen",
}


def _formula_deviation(output: str, *parts: Part) -> list[xr.DataArray]:
    return [relative_deviation(p.simulated[output], p.simulated.penalty) for p in parts]


def _outputs(output: str, *parts: Part) -> list[xr.DataArray]:
    return [p.simulated[output] for p in parts]


def _slide_ratio(part: Part) -> xr.DataArray:
    return part.simulated.uniform_gap / part.simulated.slide_penalty


def _final(part: Part, output: str, arm: str) -> xr.DataArray:
    return part.simulated[output].isel(step=-1).sel(arm=arm, drop=True)


def _noise_against_penalty(part: Part, prefix: str, exact: str) -> xr.DataArray:
    name = "degrees_of_freedom"
    return relative_deviation(_final(part, name, f"{prefix}label noise"), _final(part, name, exact))


def _lost_freedom(part: Part) -> list[xr.DataArray]:
    """By which share the final degrees of freedom are below those of training without noise, for noise and penalty."""
    name = "degrees_of_freedom"
    free = _final(part, name, "none")
    return [(free - _final(part, name, arm)) / free for arm in ("label noise", "DoF penalty")]


def _test_error_change(part: Part, activation: str) -> xr.DataArray:
    chosen = part._replace(simulated=part.simulated.sel(activation=activation))
    return relative_deviation(_final(chosen, "test_error", "label noise"), _final(chosen, "test_error", "none"))


@dataclass(frozen=True)
class LabelNoiseDof(Study):
    name = "label-noise-dof"
    topic = "regression"
    question = (
        "If the second layer is fitted to labels with fresh noise while the first layer learns, is this regularisation "
        "by the degrees of freedom of the learned kernel, and with which constant?"
    )
    caption = (
        "Points: runs with label noise, means over seeds with 99% intervals. Lines: means over seeds too, in the "
        "first panel of the penalty that theory puts for the gap, in the others of training on the exact objective."
    )
    sources = (
        Source(
            "takakura2024",
            "Takakura, Shokichi and Suzuki, Taiji",
            2024,
            "Mean-field analysis on two-layer neural networks from a kernel perspective",
            "International Conference on Machine Learning (ICML)",
            kind="inproceedings",
        ),
        SUZUKI,
        FIMI,
    )

    n: int = static(80, "training samples", symbol="n", low=2, high=5_000, scale="log")
    dimension: int = static(10, "input dimension", symbol="p", low=2, high=10_000)
    width: int = static(200, "neurons", symbol="M", low=1, high=100_000, scale="log")
    tasks: int = static(10, "tasks that share the first layer", symbol="m", low=1, high=1_000)
    steps: int = static(600, "steps of mean-field Langevin dynamics", low=0, high=1_000_000, scale="log")
    draws: int = static(256, "draws of uniform label noise per task, for the gap", low=1, high=100_000)
    activation: str = static(
        "tanh", "activation: identity is the linear network", choices=("tanh", "identity", "erf", "relu"), paired=True
    )
    ridge: float = value(
        1e-3,
        r"ridge of the second layer, in (1/n)|y - f|^2 + (ridge/M)|a|^2",
        symbol=r"\lambda",
        low=1e-5,
        high=100,
        scale="log",
        paired=True,
    )
    label_variance: float = value(
        0.25,
        "variance v of the noise that training adds to the labels, uniform of half-width (3v)^1/2",
        symbol="v",
        low=1e-4,
        high=1e4,
        scale="log",
        paired=True,
    )
    data_variance: float = value(0.25, "variance of the noise in the data", symbol=r"\sigma^2", low=0, high=100)
    learning_rate: float = value(0.1, "learning rate", symbol=r"\eta", above=0, high=100, scale="log", paired=True)
    weight_decay: float = value(2e-3, "weight decay of the first layer", low=0, high=100, paired=True)
    temperature: float = value(2e-4, "temperature of the Langevin noise", low=0, high=100, paired=True)

    outputs = {
        "gap": Output("gap E G - F, noise averaged exactly", r"\mathbb{E}\,G-F", scale="log"),
        "uniform_gap": Output("gap, mean over drawn uniform noise", r"\mathbb{E}\,G-F", scale="log"),
        "penalty": Output("penalty (v/n) DoF", r"(v/n)\,\mathrm{DoF}", scale="log", predicts="gap"),
        "slide_penalty": Output(
            "the slide's penalty for half-width s = (3v)^1/2", r"(\lambda s^2/n)\,\mathrm{DoF}", scale="log"
        ),
        "through_error": Output("gradient through the second layer: distance from that of its penalty", scale="log"),
        "frozen_error": Output("gradient, second layer frozen: distance from that of its penalty", scale="log"),
        "frozen_distance": Output("gradient, second layer frozen: distance from that of (v/n) DoF", scale="log"),
        "degrees_of_freedom": Output("degrees of freedom", r"\mathrm{DoF}", ("arm", "step")),
        "clean_objective": Output("objective without noise", "F", ("arm", "step"), scale="log"),
        "test_error": Output("excess test error", "", ("arm", "step"), scale="log"),
    }
    presets = {
        "quick": {
            "identity": {
                "activation": ["tanh", "identity"],
                ("ridge", "label_variance"): [(0.05, 0.02), (0.05, 0.1), (0.05, 0.5), (0.3, 0.1)],
                "n": 30,
                "width": 100,
                "tasks": 4,
                "steps": 0,
                "draws": 400,
                "seeds": 8,
            },
            "training": {
                ("activation", "ridge", "learning_rate"): [("tanh", 1e-3, 0.05), LINEAR],
                "n": 40,
                "width": 100,
                "steps": 250,
                "seeds": 8,
            },
        },
        "full": {
            "identity": {
                "activation": ["tanh", "identity"],
                ("ridge", "label_variance"): [
                    *[(0.05, variance) for variance in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)],
                    *[(ridge, 0.1) for ridge in (0.001, 0.01, 0.3, 3.0)],
                ],
                "tasks": 4,
                "steps": 0,
                "draws": 400,
                "seeds": 16,
            },
            "training": {("activation", "ridge", "learning_rate"): [("tanh", 1e-3, 0.1), LINEAR], "seeds": 24},
        },
    }
    claims = (
        Claim(
            "expectation",
            TAKAKURA,
            "Noise of variance v on the labels of the second layer adds (v/n) DoF to the expected objective of the "
            "first, exactly: the average over the noise vectors +-(nv)^1/2 e_i has a relative deviation of at most "
            "1e-9, at the start and after training.",
            between(-1e-9, 1e-9),
            check=lambda *parts: _formula_deviation("gap", *parts),
            parts=("identity", "training"),
        ),
        Claim(
            "uniform-noise",
            TAKAKURA,
            "Noise that is drawn uniformly on [-s, s] adds (v/n) DoF with v = s^2/3, within 3%.",
            between(-0.03, 0.03),
            check=lambda *parts: _formula_deviation("uniform_gap", *parts),
            parts=("identity", "training"),
        ),
        Claim(
            "slide-constant",
            TALK,
            "Uniform noise on [-s, s] adds (ridge s^2/n) DoF: the ratio of the gap to this is 1, within 10%.",
            between(0.9, 1.1),
            check=_slide_ratio,
            parts=("identity",),
            known_negative=(
                "The clean objective is quadratic in the second layer and noise e moves its optimum by H^T G e, so "
                "that the gap is (1/n) e^T K G e, with mean (v/n) DoF and no factor ridge; uniform noise has "
                "v = s^2/3. The ratio is 1/(3 ridge), which is 1 at ridge 1/3 only (claim expectation)."
            ),
        ),
        Claim(
            "gradient-through",
            OWN,
            "Differentiated through the closed form of the second layer, the noise part of the expected gradient is "
            "that of (v/n) DoF: the relative distance is at most 1e-9.",
            at_most(1e-9),
            check=lambda *parts: _outputs("through_error", *parts),
            parts=("identity", "training"),
        ),
        Claim(
            "gradient-frozen",
            OWN,
            "With the second layer held fixed it is that of (v/n)[log det(I + K/(n ridge)) - DoF]: the relative "
            "distance is at most 1e-9.",
            at_most(1e-9),
            check=lambda *parts: _outputs("frozen_error", *parts),
            parts=("identity", "training"),
        ),
        Claim(
            "frozen-is-not-dof",
            OWN,
            "With the second layer held fixed it is not that of (v/n) DoF: the distance, relative to that gradient, is "
            "at least 0.2.",
            at_least(0.2),
            check=lambda *parts: _outputs("frozen_distance", *parts),
            parts=("identity", "training"),
        ),
        Claim(
            "training",
            TAKAKURA,
            "Mean-field Langevin dynamics with label noise and with the exact penalty (v/n) DoF end at the same "
            "degrees of freedom, within 2%, for the mean-field and the linear network.",
            between(-0.02, 0.02),
            check=lambda part: _noise_against_penalty(part, "", "DoF penalty"),
            parts=("training",),
        ),
        Claim(
            "fewer-degrees-of-freedom",
            TAKAKURA,
            "Both end at fewer degrees of freedom than training without noise, by at least 5%: the agreement of the "
            "claim above is not that of two numbers that never moved.",
            at_least(0.05),
            check=_lost_freedom,
            parts=("training",),
        ),
        Claim(
            "training-frozen",
            OWN,
            "Label noise with the second layer held fixed in the gradient ends at the degrees of freedom of training "
            "with its own penalty, within 2%.",
            between(-0.02, 0.02),
            check=lambda part: _noise_against_penalty(part, "frozen ", "frozen penalty"),
            parts=("training",),
        ),
        Claim(
            "test-error",
            SUGGESTED,
            "Label noise improves the mean-field network: its test error is at least 5% below that of training without "
            "noise.",
            at_most(-0.05),
            check=lambda part: _test_error_change(part, "tanh"),
            parts=("training",),
            needs={"activation": ("tanh",)},
            known_negative=(
                "Not reproduced here. Fewer degrees of freedom are not yet a lower test error: at n = 80 the noise "
                "takes 18% of them and changes the test error by -2.0%, 99% interval [-4.1%, 0.0%] over 24 seeds; at "
                "n = 40 by 1.4%, [-2.7%, 5.5%] over 8 seeds."
            ),
        ),
        Claim(
            "test-error-linear",
            SUGGESTED,
            "Label noise improves the linear network: its test error is at least 5% below that of training without "
            "noise.",
            at_most(-0.05),
            check=lambda part: _test_error_change(part, "identity"),
            parts=("training",),
            needs={"activation": ("identity",)},
            known_negative=(
                "The effect is real but small: at n = 80 the noise changes the test error by -2.2%, 99% interval "
                "[-2.5%, -1.8%] over 24 seeds."
            ),
        ),
    )

    def validate(self) -> None:
        if self.learning_rate * self.weight_decay > 1:
            raise InputError(
                "learning_rate * weight_decay must be <= 1, or the weights grow without bound; got "
                f"{self.learning_rate:g} * {self.weight_decay:g}"
            )

    def coordinates(self) -> dict[str, Any]:
        return {"arm": list(ARMS), "step": self._record_at()}

    def _record_at(self) -> list[int]:
        return np.unique(np.linspace(0, self.steps, 13).astype(int)).tolist()

    def simulate(self, key: Any) -> dict[str, Any]:
        """Train all arms on the same data and randomness; measure gap and gradients on the network without noise."""
        import jax
        import jax.numpy as jnp

        from unlazy.observables.degrees_of_freedom import degrees_of_freedom
        from unlazy.training.regression import two_timescale as dynamics

        data_key, start_key, step_key, noise_key = jax.random.split(key, 4)
        inputs, labels, fresh, targets = _data(data_key, self.n, self.dimension, self.tasks, self.data_variance)
        start = dynamics.init(start_key, self.dimension, self.width)

        @jax.jit
        def measure(state: dynamics.State) -> dict[str, Any]:
            hidden = dynamics.hidden_layer(state.first_layer, inputs, self.activation)
            fitted = dynamics.second_layer(hidden, labels, self.ridge)
            outputs = dynamics.hidden_layer(state.first_layer, fresh, self.activation) @ fitted / self.width
            return {
                "degrees_of_freedom": degrees_of_freedom(dynamics.intrinsic_kernel(hidden), self.ridge),
                "clean_objective": dynamics.objective(hidden, labels, self.ridge),
                "test_error": jnp.mean((outputs - targets) ** 2),
            }

        steps = [
            dynamics.build_step(
                inputs,
                labels,
                ridge=self.ridge,
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                temperature=self.temperature,
                noise_variance=self.label_variance if "gradient" in arm else 0.0,
                penalty_variance=self.label_variance if "penalty" in arm else 0.0,
                activation=self.activation,
                **arm,
            )
            for arm in ARMS.values()
        ]
        branches = [lambda s=step: dynamics.evolve(step_key, start, s, self._record_at(), measure) for step in steps]
        # A loop over the arms: XLA runs loops that do not wait for each other at once, and can deadlock.
        ends, records = jax.lax.map(lambda arm: jax.lax.switch(arm, branches), jnp.arange(len(branches)))
        first_layer = ends.first_layer[list(ARMS).index("none")]
        effect = dynamics.noise_effect(first_layer, inputs, labels, self.ridge, self.label_variance, self.activation)
        hidden = dynamics.hidden_layer(first_layer, inputs, self.activation)
        repeated = jnp.tile(labels, self.draws)
        noisy = repeated + dynamics.label_noise(noise_key, repeated.shape, self.label_variance)
        drawn = dynamics.objective(hidden, repeated, self.ridge, fitted_labels=noisy)
        return {
            **effect._asdict(),
            "uniform_gap": drawn - dynamics.objective(hidden, labels, self.ridge),
            "slide_penalty": 3 * self.ridge * effect.penalty,
            **records,
        }

    def figure(self, identity: Part, training: Part) -> Any:
        from unlazy.plotting import style

        figure, panels = style.panels(2, 2, width=3.7)
        gap, *trained, error = panels.flat
        _draw_gap(gap, identity.simulated)
        networks = [training.simulated.isel(activation=i) for i in range(training.simulated.sizes["activation"])]
        for axes, network in zip(trained, networks, strict=False):
            _draw_training(axes, network, network.degrees_of_freedom)
            axes.set(ylabel=style.label("degrees of freedom", r"\mathrm{DoF}"))
        errors = networks[0].test_error
        _draw_training(error, networks[0], errors / errors.sel(arm="none", drop=True))
        error.set(ylabel="test error relative to no noise")
        for axes in trained[len(networks) :]:
            axes.set_visible(False)
        figure.legend(*error.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return figure


def _network(activation: str) -> str:
    return "linear network" if activation == "identity" else f"mean-field network, {activation}"


def _draw_gap(axes: Any, simulated: xr.Dataset) -> None:
    """The gap against the variance of the noise, at the ridge with the most variances."""
    from unlazy.plotting import style

    ridges, counts = np.unique(simulated.ridge.values, return_counts=True)
    ridge = ridges[counts.argmax()]
    shown = simulated.isel(ridge=np.flatnonzero(simulated.ridge.values == ridge)).sortby("label_variance")
    for index, activation in enumerate(shown.activation.values):
        network, color = shown.isel(activation=index), style.colour(2 + index)
        variance = network.label_variance
        style.theory(axes, variance, network.penalty.mean("seed"), color=color, label=_network(activation))
        style.theory(axes, variance, network.slide_penalty.mean("seed"), color=color, dashed=True)
        style.simulation(axes, variance, network.uniform_gap, color=color, marker=style.marker(2 + index))
    style.log_scale(axes)
    axes.set(
        xlabel=style.label("variance of the label noise", "v"),
        ylabel=style.label("gap", r"\mathbb{E}\,G-F"),
    )
    axes.set_title(rf"lines: $(v/n)\,\mathrm{{DoF}}$, dashed: the slide, $\lambda={ridge:g}$")
    axes.legend()


def _draw_training(axes: Any, network: xr.Dataset, curves: xr.DataArray) -> None:
    """Curves along training: exact objectives as lines, label noise as points."""
    from unlazy.plotting import style

    for color, arms in (("#000000", ["none"]), (style.colour(0), list(ARMS)[1:3]), (style.colour(1), list(ARMS)[3:])):
        line = curves.sel(arm=arms[0]).mean("seed")
        style.theory(axes, line.step, line, color=color, label=LEGEND[arms[0]], dashed=arms[0] == "frozen penalty")
        for arm in arms[1:]:
            points = curves.sel(arm=arm)
            marker = style.marker(list(ARMS).index(arm) // 2 - 1)
            style.simulation(axes, points.step, points, color=color, marker=marker, label=LEGEND[arm])
    axes.set(xlabel="steps")
    axes.set_title(rf"{_network(network.activation.item())}, $\lambda={parameter(network, 'ridge'):g}$")


def _data(key: Any, n: int, dimension: int, tasks: int, variance: Any) -> tuple[Any, ...]:
    """Gaussian inputs and tasks that are sums of three tanh units in the plane of the first two coordinates.

    Training inputs and noisy labels, fresh inputs and their noiseless targets.
    """
    import jax
    import jax.numpy as jnp

    from unlazy.random import normal

    input_key, unit_key, noise_key, fresh_key = jax.random.split(key, 4)
    inputs, fresh = normal(input_key, (n, dimension)), normal(fresh_key, (500, dimension))
    units = normal(unit_key, (2, 3 * tasks))
    train, targets = (jnp.tanh(x[:, :2] @ units).reshape(len(x), 3, tasks).sum(axis=1) for x in (inputs, fresh))
    return inputs, train + jnp.sqrt(variance) * normal(noise_key, (n, tasks)), fresh, targets

"""Mixup: mixtures of samples let a network learn a feature that few samples carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Claim, Output, Part, Source, Study, at_least, at_most, parameter, static, value
from unlazy.studies.signal_noise.shared.checks import check_dimension, check_even
from unlazy.studies.signal_noise.shared.sources import TUTORIAL
from unlazy.studies.signal_noise.shared.strategies import (
    RUN_OUTPUTS,
    at,
    end_of_run,
    feature_design,
    fresh_feature_errors,
    widths,
)

if TYPE_CHECKING:
    pass

ZOU = "Zou et al. 2023, theorem on mixup"
PLAIN = "Zou et al. 2023, theorem on standard training"
ARMS = {"share": (0.6, 1.0)}


@dataclass(frozen=True)
class Mixup(Study):
    """ReLU^2, patches [y v or y v', xi] with |v| = |v'|, v' in few samples only.

    A step of mixup sees the patches lambda x_i + (1 - lambda) x_j and the loss lambda l(y_i) + (1 - lambda) l(y_j) for
    a fresh random partner j of every sample; lambda = 1 is plain gradient descent. The sizes were the first tried,
    but for the width: at m = 6 one run in thirty starts with no neuron of some class on the feature's side, and never
    learns it.
    """

    name = "mixup"
    topic = "signal_noise"
    question = "Does mixup learn a rare feature that plain gradient descent replaces by memorised noise?"
    caption = (
        "Points: simulation, means over seeds with 99% intervals, shifted a little aside. Dashed: guessing. There is "
        "no theory here."
    )
    sources = (
        Source(
            "zou2023mixup",
            "Zou, Difan and Cao, Yuan and Li, Yuanzhi and Gu, Quanquan",
            2023,
            "The benefits of mixup for feature learning",
            "International Conference on Machine Learning",
            kind="inproceedings",
        ),
        TUTORIAL,
    )
    chunk_width = 32

    share: float = value(
        0.6, "share of a sample in its mixture, 1 without mixup", symbol=r"\lambda", low=0.5, high=1, paired=True
    )
    strength: float = value(
        4.0, "n SNR^2 of either feature", symbol=r"n\,\mathrm{SNR}^2", above=0, high=1e6, scale="log"
    )
    rare: int = value(2, "samples that carry the rare feature", symbol="n'", low=1, high=5000)
    d: float = value(1000.0, "dimension", symbol="d", low=2, high=1e12, scale="log")
    learning_rate: float = value(
        0.3, "learning rate, times sigma^2 d/(nm)", symbol=r"\eta", above=0, high=100, scale="log", paired=True
    )
    initial_scale: float = value(0.01, "initial deviation of a weight, times sqrt(d)", above=0, high=100, scale="log")
    width: int = static(10, "neurons of each sign", symbol="m", low=1, high=4096, scale="log")
    n: int = static(40, "training samples", symbol="n", low=2, high=10_000)
    steps: int = static(1500, "updates", low=1, high=10_000_000, scale="log")

    outputs = {
        "common_error": Output("error on samples with the common feature"),
        "rare_error": Output("error on samples with the rare feature"),
        "common_signal": Output("coefficient of the common feature", r"\max\gamma", scale="log"),
        "rare_signal": Output("coefficient of the rare feature", r"\max\gamma'", scale="log"),
        **RUN_OUTPUTS,
    }
    presets = {
        "quick": {"share": [0.6, 0.8, 1.0], "width": [10, 20], "seeds": 10},
        "full": {
            "share": [0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0],
            "width": [10, 20, 40],
            "steps": 4000,
            "seeds": 24,
        },
    }
    claims = (
        Claim(
            "plain-rare",
            PLAIN,
            "Plain gradient descent does not learn the rare feature: its error there is at least 0.4.",
            at_least(0.4),
            check=lambda part: at(part, "rare_error", share=1.0),
            needs=ARMS,
        ),
        Claim(
            "plain-fit",
            "precondition",
            "It fits its training samples: the training loss is at most 0.05.",
            at_most(0.05),
            check=lambda part: at(part, "training_loss", share=1.0),
            needs=ARMS,
        ),
        Claim(
            "mixup-rare",
            ZOU,
            "Mixup with lambda = 0.6 learns it from the same samples: its error is at most 0.02.",
            at_most(0.02),
            check=lambda part: at(part, "rare_error", share=0.6),
            needs=ARMS,
        ),
        Claim(
            "common",
            ZOU,
            "Both learn the common feature: the error is at most 0.01.",
            at_most(0.01),
            check=lambda part: part.simulated.common_error.sel(share=[0.6, 1.0]),
            needs=ARMS,
        ),
        Claim(
            "mixup-balance",
            "Zou et al. 2023 (mixing teaches the rare feature through the common one)",
            "With mixup the rare feature's largest coefficient is at least a third of the common one's.",
            at_least(1 / 3),
            check=lambda part: at(part, "rare_signal", share=0.6) / at(part, "common_signal", share=0.6),
            needs=ARMS,
        ),
    )

    def validate(self) -> None:
        check_even("n", self.n)
        check_dimension(self.d, samples=self.n, width=self.width, shared=2)
        if self.rare % 2 or self.rare > self.n:
            raise InputError(f"rare must be even and at most n = {self.n}, half of it in each class; got {self.rare}")

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.training.signal_noise.token_gram.drawing import draw, paired_second_layer
        from unlazy.training.signal_noise.token_gram.engine import train
        from unlazy.training.signal_noise.token_gram.network import Network, relu_power
        from unlazy.training.signal_noise.token_gram.observables import signal_coefficients
        from unlazy.training.signal_noise.token_gram.rules import gradient_descent
        from unlazy.training.signal_noise.token_gram.views import mixup

        draw_key, train_key, test_key = jax.random.split(key, 3)
        index = jnp.arange(self.n)
        design = feature_design(jnp.stack([index >= self.rare, index < self.rare], axis=1).astype(float))
        length = jnp.sqrt(self.strength * self.d / self.n)
        problem = draw(
            draw_key,
            design,
            jnp.stack([length, length]),
            paired_second_layer(self.width),
            dimension=self.d,
            scale=self.initial_scale / jnp.sqrt(self.d),
        )
        network = Network(relu_power(2))
        rule = gradient_descent(self.learning_rate * self.n * self.width / self.d, view=mixup(self.share))
        state = train(train_key, problem, network, rule, self.steps).state
        kinds = jnp.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
        errors = fresh_feature_errors(test_key, problem, state, network, kinds)
        learned = signal_coefficients(problem, state.weights).max(0)
        return {
            "common_error": errors[0],
            "rare_error": errors[1],
            "common_signal": learned[0],
            "rare_signal": learned[1],
            **end_of_run(problem, state),
        }

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, (error, signal, loss) = style.panels(3, 1, width=2.9, height=2.8)
        features = (("rare", "rare feature"), ("common", "common feature"))
        for index, (width, points) in enumerate(widths(main.simulated)):
            shares = np.atleast_1d(parameter(points, "share")) + 0.024 * (index - 0.5)
            marker, text = style.marker(index), f"$m = {width}$"
            for row, (name, feature) in enumerate(features):
                places = shares + 0.012 * (row - 0.5)
                options: Any = {"color": style.colour(row), "marker": marker}
                style.simulation(error, places, points[f"{name}_error"], **options)
                style.simulation(signal, places, points[f"{name}_signal"], **options, label=f"{feature}, {text}")
            options = {"color": style.colour(2), "marker": marker, "label": f"noise, {text}"}
            style.simulation(signal, shares, points.noise_coefficient, **options)
            style.simulation(loss, shares, points.training_loss, color=style.colour(3), marker=marker, label=text)
        for axes in (error, signal, loss):
            axes.set_xlabel(style.label("share in a mixture", r"\lambda"))
        style.log_scale(signal, "y")
        style.log_scale(loss, "y")
        error.axhline(0.5, color="#000000", linestyle="--", linewidth=0.9)
        error.set(ylabel="test error", ylim=(-0.03, 0.55), title=r"$\lambda = 1$: without mixup; dashed: guessing")
        signal.set_ylabel("largest coefficient")
        loss.set_ylabel("training loss, unmixed")
        figure.legend(*signal.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        loss.legend()
        return figure

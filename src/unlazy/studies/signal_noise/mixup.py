"""Mixup: mixtures of samples let a network learn a feature that few samples carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unlazy.checks import InputError
from unlazy.lab import OWN, Change, Output, Study, at_least, at_most, cite, claim, static, value
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.signal_noise.shared.checks import check_dimension, check_even
from unlazy.studies.signal_noise.shared.strategies import (
    RUN_OUTPUTS,
    end_of_run,
    feature_design,
    fresh_feature_errors,
)


def _row(**width: int) -> tuple[Panel, ...]:
    """The panels of one width, the last one unless it is given."""
    features: Any = {"x": "share", "at": width, "labels": ("common feature", "rare feature", "noise")}
    guessing = Level(0.5, "guessing", dashed=True)
    errors = ("common_error", "rare_error")
    coefficients = ("common_signal", "rare_signal", "noise_coefficient")
    return (
        Panel(errors, ylabel="test error", ylim=(-0.03, 0.55), marks=(guessing,), legend="center left", **features),
        Panel(coefficients, ylabel="largest coefficient", legend="lower left", **features),
        Panel("training_loss", x="share", at=width, ylabel="training loss, unmixed"),
    )


@dataclass(frozen=True)
class Mixup(Study):
    """ReLU^2, patches [y v or y v', xi] with |v| = |v'|, v' in few samples only.

    A step of mixup sees the patches lambda x_i + (1 - lambda) x_j and the loss lambda l(y_i) + (1 - lambda) l(y_j) for
    a fresh random partner j of every sample; lambda = 1 is plain gradient descent.
    """

    question = "Does mixup learn a rare feature that plain gradient descent replaces by memorised noise?"
    sources = cite("zou2023mixup", "han2025tutorial")
    history = (
        Change(
            "",
            "the width, while all other sizes were the first tried",
            "at m = 6 one run in thirty starts with no neuron of some class on the feature's side, and never learns it",
        ),
    )
    chunk_width = 32

    share: float = value(
        0.6,
        "share of a sample in its mixture, 1 without mixup",
        symbol=r"\lambda",
        low=0.5,
        high=1,
        paired=True,
        short="share in a mixture",
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
    figure = panels(*_row(width=10), *_row(), caption="A share of 1 is training without mixup.")

    @claim("zou2023mixup", "theorem on standard training", at_least(0.4))
    def plain_rare(main):
        """Plain gradient descent does not learn the rare feature: its error there is {criterion}."""
        return main.simulated.rare_error.sel(share=1.0)

    @claim(OWN, "precondition of plain-rare", at_most(0.05))
    def plain_fit(main):
        """It fits its training samples: the training loss is {criterion}."""
        return main.simulated.training_loss.sel(share=1.0)

    @claim("zou2023mixup", "theorem on mixup", at_most(0.02))
    def mixup_rare(main):
        """Mixup with lambda = 0.6 learns it from the same samples: its error is {criterion}."""
        return main.simulated.rare_error.sel(share=0.6)

    @claim("zou2023mixup", "theorem on mixup", at_most(0.01))
    def common(main):
        """Both learn the common feature: the error is {criterion}."""
        return main.simulated.common_error.sel(share=[0.6, 1.0])

    @claim("zou2023mixup", "mixing teaches the rare feature through the common one", at_least(1 / 3))
    def mixup_balance(main):
        """With mixup the rare feature's largest coefficient over the common one's is {criterion}."""
        return main.simulated.rare_signal.sel(share=0.6) / main.simulated.common_signal.sel(share=0.6)

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

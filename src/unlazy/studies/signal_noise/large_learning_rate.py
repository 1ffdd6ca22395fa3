"""Large learning rates: oscillation along the strong feature leaves room to learn the weak one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Change, Output, Study, at_least, at_most, cite, claim, static, value, within
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.signal_noise.shared.checks import check_dimension, check_even, check_room
from unlazy.studies.signal_noise.shared.strategies import (
    RUN_OUTPUTS,
    end_of_run,
    feature_design,
    fresh_feature_errors,
)

EDGE = Level(lambda data: data.attrs["n"] / (data.attrs["n"] - data.attrs["weak"]), "edge of stability", vertical=True)


@dataclass(frozen=True)
class LargeLearningRate(Study):
    """ReLU^2 and squared loss, patches [y u or 0, y v, xi], |u| = 2|v|; the strong feature u misses in a few samples.

    At a small rate f reaches the labels through u alone; what remains for samples without u is fitted by their noise.
    Above the edge of stability of that solution (see `predict`) f oscillates about the labels and goes on moving along
    v, until the solution is stable. The learning rate is in units of m/|u|^2.
    """

    question = "Does a learning rate so large that training oscillates learn a weak feature that a small one leaves?"
    sources = cite("lu2024oscillation", "han2025tutorial")
    history = (
        Change("", "n SNR_v^2", "three values were tried"),
        Change("flat", "the claim", "that training ends at the edge was seen at 1.5 m/|u|^2; the other rates test it"),
        Change(
            "oscillation",
            "the loss may rise at any time, where first late training was asked for",
            "late in training it does not rise: that is the claim oscillation-lasts",
        ),
    )
    chunk_width = 32

    learning_rate: float = value(
        1.5,
        "learning rate, times |u|^2/m",
        symbol=r"\eta|u|^2/m",
        above=0,
        high=1e3,
        scale="log",
        paired=True,
        short="learning rate",
    )
    strength: float = value(
        3.0, "n SNR^2 of the weak feature", symbol=r"n\,\mathrm{SNR}_v^2", above=0, high=1e6, scale="log"
    )
    ratio: float = value(2.0, "length of the strong feature over that of the weak", symbol="|u|/|v|", above=0, high=1e3)
    weak: int = value(4, "samples without the strong feature", symbol="n'", low=0, high=5000)
    d: float = value(1000.0, "dimension", symbol="d", low=2, high=1e12, scale="log")
    initial_scale: float = value(0.01, "initial deviation of a weight, times sqrt(d)", above=0, high=100, scale="log")
    width: int = static(10, "neurons of each sign", symbol="m", low=1, high=4096, scale="log")
    n: int = static(40, "training samples", symbol="n", low=2, high=10_000)
    steps: int = static(1200, "updates", low=1, high=10_000_000, scale="log")

    outputs = {
        "weak_error": Output("error on samples without the strong feature", short="error without the strong feature"),
        "both_error": Output("error on samples with both features"),
        "strong_signal": Output("coefficient of the strong feature", r"\max\gamma_u", scale="log"),
        "weak_signal": Output("coefficient of the weak feature", r"\max\gamma_v", scale="log"),
        "strong_output": Output(
            "part of the output that is due to the strong feature", "f_u", short="output due to the strong feature"
        ),
        "rises": Output("share of the steps at which the training loss rises"),
        "late_rises": Output("the same in the last tenth of the steps"),
        "edge": Output("largest stable learning rate", r"\eta_*|u|^2/m", theory_only=True),
        **RUN_OUTPUTS,
    }
    presets = {
        "quick": {"learning_rate": [0.1, 0.5, 1.0, 1.3, 1.5], "width": [10, 20], "seeds": 24},
        "full": {
            "learning_rate": [0.05, 0.1, 0.2, 0.5, 0.8, 1.0, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0],
            "width": [10, 20, 40],
            "steps": 1500,
            "seeds": 32,
        },
    }
    lines = {"main": "learning_rate"}
    figure = panels(
        Panel("weak_error", x="learning_rate", by="width", ylim=(-0.03, 0.5), marks=(EDGE,), legend="lower left"),
        Panel(
            "strong_output",
            x="learning_rate",
            by="width",
            title="line: the largest that is stable",
            ylim=(0, 1.1),
            marks=(EDGE,),
            legend="lower left",
        ),
        Panel(
            lambda data: np.log10(data.training_loss.clip(min=1e-30)),
            x="learning_rate",
            by="width",
            ylabel=r"training loss, $\log_{10}$",
            marks=(EDGE,),
            legend="lower left",
        ),
        *(
            Panel(
                ("weak_signal", "strong_signal", "noise_coefficient"),
                x="learning_rate",
                at=width,
                labels=("weak feature", "strong feature", "noise"),
                ylabel="largest coefficient",
                marks=(EDGE,),
                legend="center left",
            )
            for width in ({"width": 10}, {})
        ),
    )

    @claim("lu2024oscillation", "theorem on small learning rates", at_least(0.2))
    def small_rate(main):
        """Small learning rates (0.1, 0.5 m/|u|^2) leave the weak feature: the error without the strong one is
        {criterion}."""
        return main.simulated.weak_error.sel(learning_rate=[0.1, 0.5])

    @claim(OWN, "precondition of small-rate", at_most(0.05))
    def small_fit(main):
        """At the rate 0.5 m/|u|^2 the training samples are fitted: the training loss is {criterion}."""
        return main.simulated.training_loss.sel(learning_rate=0.5)

    @claim("lu2024oscillation", "theorem on large learning rates", at_most(0.05))
    def large_rate(main):
        """Above the edge of stability, at 1.5 m/|u|^2, the error is {criterion}, from the same samples and start."""
        return main.simulated.weak_error.sel(learning_rate=1.5)

    @claim("lu2024oscillation", "theorem on large learning rates", at_least(1.0))
    def weak_feature(main):
        """There the weak feature's largest coefficient is at least twice that at the rate 0.1: the mean logarithm to
        base 2 of their ratio is {criterion}."""
        signal = main.simulated.weak_signal
        return np.log2(signal.sel(learning_rate=1.5) / signal.sel(learning_rate=0.1))

    @claim(OWN, "derivation of the edge of stability", at_least(0.2))
    def below_edge(main):
        """Below the edge of stability, at m/|u|^2, the error is {criterion}."""
        return main.simulated.weak_error.sel(learning_rate=1.0)

    @claim(OWN, "derivation of the edge of stability", at_least(0.75))
    def oscillation(main):
        """The training loss rises now and then if and only if the learning rate is above the edge: in a share of
        {criterion} of the runs."""
        main.simulated.sel(learning_rate=[0.1, 1.5])  # On both sides of the edge.
        return (main.simulated.rises > 0) == (main.predicted.edge < main.simulated.learning_rate)

    @claim(
        "lu2024oscillation",
        "training oscillates",
        at_least(0.75),
        known_negative=(
            "The oscillation ends itself: as the weak feature takes over a part of the output, the curvature along "
            "the strong one falls below 2/eta (claim flat), and gradient descent converges."
        ),
    )
    def oscillation_lasts(main):
        """Above the edge the loss still oscillates in the last tenth of training: in a share of {criterion} of the
        runs."""
        return main.simulated.late_rises.sel(learning_rate=1.5) > 0

    @claim(OWN, "derivation of the edge of stability", within(0.05), resampled=True)
    def flat(main):
        """Training above the edge ends at it: at 1.3 and 1.5 m/|u|^2 the strong feature's part of the output is the
        largest that is stable, {criterion} (median)."""
        deviation = main.simulated.strong_output / main.predicted.strong_output - 1
        return deviation.sel(learning_rate=[1.3, 1.5]).median("seed")

    def validate(self) -> None:
        check_even("n", self.n)
        check_dimension(self.d, samples=self.n, width=self.width, shared=2)
        check_room(self, weak="n")

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.training.signal_noise.token_gram.drawing import draw, paired_second_layer
        from unlazy.training.signal_noise.token_gram.engine import train
        from unlazy.training.signal_noise.token_gram.network import SQUARED, Network, relu_power
        from unlazy.training.signal_noise.token_gram.observables import signal_coefficients
        from unlazy.training.signal_noise.token_gram.rules import gradient_descent

        draw_key, train_key, test_key = jax.random.split(key, 3)
        strong_ones = (jnp.arange(self.n) >= self.weak).astype(float)
        design = feature_design(
            strong_ones[:, None] * jnp.array([1.0, 0.0]), jnp.tile(jnp.array([0.0, 1.0]), (self.n, 1))
        )
        weak = jnp.sqrt(self.strength * self.d / self.n)
        strong = self.ratio * weak
        problem = draw(
            draw_key,
            design,
            jnp.stack([strong, weak]),
            paired_second_layer(self.width),
            dimension=self.d,
            scale=self.initial_scale / jnp.sqrt(self.d),
        )
        network = Network(relu_power(2), SQUARED)
        rule = gradient_descent(self.learning_rate * self.width / strong**2)
        # An odd stride: losses that go up and down by turns are seen at both.
        pairs = [(t, t + 1) for t in range(0, self.steps, 2 * (self.steps // 400) + 1)]
        recorded = sorted({t for pair in pairs for t in pair})
        trained = train(
            train_key,
            problem,
            network,
            rule,
            self.steps,
            record=lambda state: state.loss,
            record_at=recorded,
        )
        places = {t: place for place, t in enumerate(recorded)}
        before, after = (trained.records[jnp.array([places[pair[i]] for pair in pairs])] for i in (0, 1))
        rising = (after > 1.01 * before + 1e-9).astype(float)
        late = jnp.array([pair[0] >= 0.9 * self.steps for pair in pairs], float)
        state = trained.state
        kinds = jnp.zeros((2, 3, 2)).at[:, 1, 1].set(1.0).at[1, 0, 0].set(1.0)
        errors = fresh_feature_errors(test_key, problem, state, network, kinds)
        learned = signal_coefficients(problem, state.weights).max(0)

        def along(sign: float) -> Any:
            return problem.second_layer @ network.activation(sign * state.weights.preactivations[:, 0])

        return {
            "weak_error": errors[0],
            "both_error": errors[1],
            "strong_signal": learned[0],
            "weak_signal": learned[1],
            "strong_output": (along(1.0) - along(-1.0)) / 2,
            "rises": rising.mean(),
            "late_rises": (rising * late).sum() / late.sum(),
            **end_of_run(problem, state),
        }

    def predict(self) -> dict[str, Any]:
        """The edge of stability eta_* of the solution that uses the strong feature alone, in units of m/|u|^2.

        There f_u = (1/m) sum_r z_r^2 = 1 on the samples of a class that carry u, a part s = (n - n')/(2n) of all. The
        gradient of f has the square 4 sum_r z_r^2 |u|^2/m^2 = 4 f_u |u|^2/m, so that the loss has the curvature
        4 s f_u |u|^2/m, and descent is stable for eta < 2/(4s) m/|u|^2 = n/(n - n') m/|u|^2. Where the weak feature
        gives the rest of the output, f_v = 1 - f_u, the square is 4 (f_u |u|^2 + f_v |v|^2)/m, and the largest stable
        f_u follows. Noise is neglected.
        """
        edge = self.n / max(self.n - self.weak, 1e-300)
        part = 1 / self.ratio**2
        stable = (edge / self.learning_rate - part) / (1 - part) if self.ratio > 1 else 1.0
        return {"edge": edge, "strong_output": min(1.0, max(0.0, stable))}

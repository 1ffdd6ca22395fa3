"""Benign overfitting of XOR data: a ReLU network learns features of both signs where no linear classifier can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
from unlazy.studies.signal_noise.shared.checks import check_dimension
from unlazy.studies.signal_noise.shared.sources import KOU, TUTORIAL
from unlazy.studies.signal_noise.shared.strategies import RUN_OUTPUTS, end_of_run, widths

LOW, HIGH = 1.6, 160.0
BENIGN = "Meng et al. 2024, main theorem (upper bound)"
HARMFUL = "Meng et al. 2024, main theorem (lower bound)"


@dataclass(frozen=True)
class XorOverfitting(Study):
    """ReLU; patches [+-u, xi] with y = 1 and [+-v, xi] with y = -1, all four alike often, |u| = |v| = |mu|.

    The mean of both classes is 0, so that linear classifiers guess. Lambda = n |mu|^4/(sigma^4 d) as for [y mu, xi].
    The paper also flips labels; here none are. Criteria and theory were written before the first run.
    """

    name = "xor-overfitting"
    topic = "signal_noise"
    question = "When does a ReLU network that fits XOR data, which no linear classifier can, generalise?"
    sources = (
        Source(
            "meng2024xor",
            "Meng, Xuran and Zou, Difan and Cao, Yuan",
            2024,
            "Benign overfitting in two-layer ReLU convolutional neural networks for XOR data",
            "International Conference on Machine Learning",
            kind="inproceedings",
        ),
        KOU,
        TUTORIAL,
    )
    chunk_width = 32

    level: float = value(
        16.0, "signal level n |mu|^4/(sigma^4 d)", symbol=r"\Lambda", low=0, high=1e9, scale="log", paired=True
    )
    cosine: float = value(0.0, "cosine between the features", symbol=r"\cos\theta", low=0, high=0.999, paired=True)
    d: float = value(1e6, "dimension", symbol="d", low=2, high=1e12, scale="log")
    learning_rate: float = value(
        0.4, "learning rate, times sigma^2 d/(nm)", symbol=r"\eta", above=0, high=0.5, scale="log", paired=True
    )
    initial_scale: float = value(1e-3, "initial deviation of a weight, times sqrt(d)", above=0, high=100, scale="log")
    target: float = value(0.02, "training loss at which training stops", above=0, high=0.5, paired=True)
    width: int = static(20, "neurons of each sign", symbol="m", low=1, high=4096, scale="log")
    n: int = static(40, "training samples", symbol="n", low=4, high=10_000)
    steps: int = static(2000, "most updates", low=1, high=10_000_000, scale="log", paired=True)

    outputs = {
        "error": Output("test error", scale="log"),
        "test_loss": Output("test loss", scale="log"),
        "updates": Output("updates made", scale="log"),
        **RUN_OUTPUTS,
    }
    presets = {
        "quick": {"level": [LOW, 16.0, 48.0, HIGH], "cosine": [0.0, 0.5], "width": [20, 40], "seeds": 16},
        "full": {
            "level": [0.5, LOW, 5.0, 16.0, 30.0, 48.0, 90.0, HIGH, 300.0],
            "cosine": [0.0, 0.3, 0.5, 0.7],
            "width": [20, 40, 80],
            "n": 80,
            "seeds": 32,
        },
    }
    lines = {"main": "level"}
    claims = (
        Claim(
            "fit",
            "precondition",
            "All runs reach the training loss 0.02.",
            at_most(0.0201),
            check=lambda part: part.simulated.training_loss,
        ),
        Claim(
            "benign",
            BENIGN,
            "Where Lambda is large (160, orthogonal features) the network that fits its samples generalises: the test "
            "error is at most 0.02.",
            at_most(0.02),
            check=lambda part: part.simulated.error.sel(level=HIGH, cosine=0.0),
            needs={"level": (HIGH,), "cosine": (0.0,)},
        ),
        Claim(
            "harmful",
            HARMFUL,
            "Where it is small (1.6) the test error is at least 0.1, for either angle between the features.",
            at_least(0.1),
            check=lambda part: part.simulated.error.sel(level=LOW),
            needs={"level": (LOW,)},
        ),
        Claim(
            "angle",
            "Meng et al. 2024, main theorem (the condition has a factor (1 - cos)^2)",
            "Correlated features are harder: at Lambda = 16 the error is larger with cosine 1/2 than with 0, by at "
            "least 0.01.",
            at_least(0.01),
            check=lambda part: (error := part.simulated.error.sel(level=16.0)).sel(cosine=0.5) - error.sel(cosine=0.0),
            needs={"level": (16.0,), "cosine": (0.0, 0.5)},
        ),
        Claim(
            "theory",
            "the project's heuristic",
            "The error is that of the one-feature problem at Lambda (1 - cos^2)^2/16, within 20% at Lambda = 1.6 and "
            "16, with nothing measured.",
            between(-0.2, 0.2),
            check=lambda part: relative_deviation(part.simulated.error, part.predicted.error).sel(level=[LOW, 16.0]),
            needs={"level": (LOW, 16.0)},
        ),
    )

    def validate(self) -> None:
        check_dimension(self.d, samples=self.n, width=self.width, shared=2)
        if self.n % 4:
            raise InputError(f"n must be a multiple of 4, for as many samples in each of four clusters; got {self.n}")

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.training.signal_noise.token_gram.drawing import draw, paired_second_layer
        from unlazy.training.signal_noise.token_gram.engine import train
        from unlazy.training.signal_noise.token_gram.fresh import fresh_errors
        from unlazy.training.signal_noise.token_gram.network import Network, relu_power
        from unlazy.training.signal_noise.token_gram.problem import Design, Patch
        from unlazy.training.signal_noise.token_gram.rules import gradient_descent

        draw_key, train_key, test_key = jax.random.split(key, 3)
        clusters = jnp.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
        classes = jnp.array([1.0, -1.0, 1.0, -1.0])
        labels = jnp.tile(classes, self.n // 4)
        design = Design(
            patches=(Patch(shared=jnp.tile(clusters, (self.n // 4, 1))), Patch(own=jnp.ones((self.n, 1)))),
            labels=labels,
            classes=labels,
            weights=jnp.full(self.n, 1 / self.n),
        )
        square = jnp.sqrt(self.level * self.d / self.n)
        gram = square * (jnp.eye(2) + self.cosine * (1 - jnp.eye(2)))
        problem = draw(
            draw_key,
            design,
            gram,
            paired_second_layer(self.width),
            dimension=self.d,
            scale=self.initial_scale / jnp.sqrt(self.d),
        )
        network = Network(relu_power(1))
        rule = gradient_descent(self.learning_rate * self.n * self.width / self.d)
        state = train(train_key, problem, network, rule, self.steps, stop_loss=self.target).state
        fresh = fresh_errors(
            test_key,
            problem,
            state.weights,
            network,
            shared=jnp.stack([clusters, jnp.zeros((4, 2))], axis=1),
            own=jnp.broadcast_to(jnp.array([[0.0], [1.0]]), (4, 2, 1)),
            labels=classes,
            draws=1000,
        )
        return {
            "error": fresh.error.mean(),
            "test_loss": fresh.loss.mean(),
            "updates": state.step,
            **end_of_run(problem, state),
        }

    def predict(self) -> dict[str, Any]:
        """The error of [y mu, xi] at Lambda (1 - cos^2)^2/16.

        A neuron of the class of u is driven along u by the cluster on its side alone, n/4 samples and not n/2, and only
        half of the neurons are on the side of a fresh sample: the signal's part of the output is a quarter of what it
        is for [y mu, xi], and Lambda enters by its root. The other class keeps <w, v> at 0, so that w grows along the
        part of u orthogonal to v. What noise does is the same.
        """
        from unlazy.theory.signal_noise.relu_overfitting import small_start_error

        level = self.level * (1 - self.cosine**2) ** 2 / 16
        return {
            "error": small_start_error(
                level, self.n, self.d, self.initial_scale, loss=self.target, step=self.learning_rate
            ).error
        }

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, (left, right) = style.panels(2, 1, width=3.6, height=2.9)
        for index, (width, points) in enumerate(widths(main.simulated)):
            for row, cosine in enumerate(np.atleast_1d(parameter(points, "cosine"))):
                line = points.sel(cosine=cosine) if "cosine" in points.dims else points
                theory = main.lines.error.sel(cosine=cosine) if "cosine" in main.lines.dims else main.lines.error
                theory = theory.isel(width=0) if "width" in theory.dims else theory
                color = style.colour(row)
                if index == 0:
                    style.theory(left, theory.level, theory, color=color)
                    style.theory(right, theory.level * (1 - cosine**2) ** 2, theory, color=color)
                options: Any = {"color": color, "marker": style.marker(index)}
                label = rf"$\cos\theta = {cosine:g}$, $m = {width}$"
                style.simulation(left, line.level, line.error, **options, label=label)
                effective = line.level * (1 - cosine**2) ** 2
                style.simulation(right, effective, line.error, **options)
        for axes in (left, right):
            style.log_scale(axes)
            axes.set(ylabel="test error", ylim=(1e-3, 0.7))
        left.set(
            xlabel=style.label("signal level", r"\Lambda"), title=r"lines: one feature at $\Lambda\sin^4\theta/16$"
        )
        right.set_xlabel(r"$\Lambda\sin^4\theta$")
        left.legend(loc="lower left")
        return figure

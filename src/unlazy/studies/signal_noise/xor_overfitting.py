"""Benign overfitting of XOR data: a ReLU network learns features of both signs where no linear classifier can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unlazy.checks import InputError
from unlazy.lab import OWN, Output, Study, at_least, at_most, cite, claim, over_theory, static, value, within
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.signal_noise.shared.checks import check_dimension
from unlazy.studies.signal_noise.shared.strategies import RUN_OUTPUTS, end_of_run

LOW, HIGH = 1.6, 160.0


@dataclass(frozen=True)
class XorOverfitting(Study):
    """ReLU; patches [+-u, xi] with y = 1 and [+-v, xi] with y = -1, all four alike often, |u| = |v| = |mu|.

    The mean of both classes is 0, so that linear classifiers guess. Lambda = n |mu|^4/(sigma^4 d) as for [y mu, xi].
    Criteria and theory were written before the first run.
    """

    question = "When does a ReLU network that fits XOR data, which no linear classifier can, generalise?"
    sources = cite("meng2024xor", "kou2023", "han2025tutorial")
    departs = "The paper also flips labels; here none are flipped."
    chunk_width = 32

    level: float = value(
        16.0,
        "signal level n |mu|^4/(sigma^4 d)",
        symbol=r"\Lambda",
        low=0,
        high=1e9,
        scale="log",
        paired=True,
        short="signal level",
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
    figure = panels(
        Panel("error", x="level", by="cosine", at={"width": 20}, ylim=(1e-3, 0.7), legend="lower left"),
        Panel("error", x="level", by="cosine", ylim=(1e-3, 0.7), legend="lower left"),
        Panel(
            "error",
            x=lambda data: data.level * (1 - data.cosine**2) ** 2,
            by="cosine",
            xlabel=r"$\Lambda\sin^4\theta$",
            log="xy",
            ylim=(1e-3, 0.7),
            legend="lower left",
        ),
        caption="The theory is that of one feature at the signal level Lambda (1 - cos^2)^2/16.",
    )

    @claim(OWN, "precondition of the claims below", at_most(0.0201))
    def fit(main):
        """All runs reach the training loss 0.02: it is {criterion}."""
        return main.simulated.training_loss

    @claim("meng2024xor", "main theorem (upper bound)", at_most(0.02))
    def benign(main):
        """Where Lambda is large (160, orthogonal features) the network that fits its samples generalises: the test
        error is {criterion}."""
        return main.simulated.error.sel(level=HIGH, cosine=0.0)

    @claim("meng2024xor", "main theorem (lower bound)", at_least(0.1))
    def harmful(main):
        """Where it is small (1.6) the test error is {criterion}, for either angle between the features."""
        return main.simulated.error.sel(level=LOW)

    @claim("meng2024xor", "main theorem (the condition has a factor (1 - cos)^2)", at_least(0.01))
    def angle(main):
        """Correlated features are harder: at Lambda = 16 the error is larger with cosine 1/2 than with 0, by
        {criterion}."""
        error = main.simulated.error.sel(level=16.0)
        return error.sel(cosine=0.5) - error.sel(cosine=0.0)

    @claim(OWN, "heuristic that reduces XOR data to one feature", within(0.2))
    def theory(main):
        """The error is that of the one-feature problem at Lambda (1 - cos^2)^2/16, {criterion} at Lambda = 1.6 and 16,
        with nothing measured."""
        return over_theory(main, "error").sel(level=[LOW, 16.0])

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

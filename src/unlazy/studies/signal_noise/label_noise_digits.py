"""The two stages of learning with wrong labels, on real digits: first the classes, then the mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import DIVERGED_AT, Output, Study, at_least, at_most, cite, claim, static, value
from unlazy.plotting.panels import Panel, panels

HELD_OUT = 1000
DIGITS = 1797


def _best(main):
    """The data at the step of the highest held-out accuracy of each run."""
    return main.simulated.isel(step=main.simulated.held_out_accuracy.argmax("step"))


def _panel(**options):
    return Panel(
        ("clean_fit", "flipped_fit", "flipped_recovered", "held_out_accuracy"),
        x=lambda data: data.step + 1,
        labels=("right labels fitted", "wrong labels fitted", "seen through", "held-out accuracy"),
        xlabel="step + 1",
        ylabel="share of images",
        log="x",
        ylim=(-0.03, 1.03),
        legend=False,
        **options,
    )


@dataclass(frozen=True)
class LabelNoiseDigits(Study):
    """A two-layer ReLU network, both layers trained by Adam on digits of which some carry a wrong label.

    The sizes are those of the first run that was tried; the claims were written before it.
    """

    question = (
        "Do the two stages of learning with wrong labels, first the classes and then the single mistakes, show on real "
        "images?"
    )
    sources = cite("han2025labels", "han2025tutorial")
    precision = "float32"

    width: int = static(128, "neurons", symbol="m", low=1, high=65_536, scale="log")
    samples: int = static(200, "training samples", symbol="n", low=20, high=DIGITS - HELD_OUT)
    flipped: float = value(0.3, "share of the training labels that are wrong", symbol=r"\tau", low=0.01, high=0.8)
    learning_rate: float = value(5e-3, "learning rate of Adam", symbol=r"\eta", above=0, high=1, scale="log")
    steps: int = static(600, "steps of full-batch training", low=10, high=1_000_000, scale="log")

    outputs = {
        "clean_fit": Output("right labels that are fitted", "", ("step",)),
        "flipped_fit": Output("wrong labels that are fitted", "", ("step",)),
        "flipped_recovered": Output("wrongly labelled images that are given their true label", "", ("step",)),
        "held_out_accuracy": Output("accuracy on held-out digits", "", ("step",)),
        "training_loss": Output("training loss", "", ("step",), scale="log"),
        "diverged_at": DIVERGED_AT,
    }
    presets = {
        "quick": {"width": [64, 256], "seeds": 12},
        "full": {"width": [64, 256, 1024], "samples": 700, "flipped": [0.1, 0.2, 0.3, 0.4], "steps": 3000, "seeds": 32},
    }
    figure = panels(
        _panel(at={"width": 64, "flipped": 0.3}),
        _panel(at={"flipped": 0.3}, draw=lambda axes, **_: axes.legend(loc=(0.53, 0.26))),
        width=3.7,
        height=3.3,
    )

    @claim("han2025labels", "on real data", at_most(0.25))
    def first_stage(main):
        """At the step of the highest held-out accuracy the share of the wrong labels that is fitted is {criterion}."""
        return _best(main).flipped_fit

    @claim("han2025labels", "on real data", at_least(0.5))
    def sees_through(main):
        """There the share of the wrongly labelled training images that are given their true label is {criterion}."""
        return _best(main).flipped_recovered

    @claim("han2025labels", "on real data", at_least(0.95))
    def second_stage(main):
        """At the end the share of the wrong labels that is fitted is {criterion}."""
        return main.simulated.flipped_fit.isel(step=-1)

    @claim("han2025labels", "on real data", at_least(0.1))
    def early_stopping(main):
        """From the best step to the end the held-out accuracy falls by {criterion}."""
        return _best(main).held_out_accuracy - main.simulated.held_out_accuracy.isel(step=-1)

    def validate(self) -> None:
        if round(self.flipped * self.samples) < 1:
            raise InputError(f"flipped must be at least 1/samples = {1 / self.samples:g}, got {self.flipped}")

    def coordinates(self) -> dict[str, Any]:
        return {"step": self._record_at()}

    def _record_at(self) -> list[int]:
        return [0, *np.unique(np.geomspace(3, self.steps, 12).round().astype(int)).tolist()]

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp
        import optax

        from unlazy.data.real import load
        from unlazy.random import normal
        from unlazy.training.loop import train

        digits = load("digit_classes")
        images = jnp.asarray(digits.inputs / 16 - 0.3, jnp.float32)
        classes = jnp.asarray(digits.targets.argmax(1))
        order_key, flip_key, first_key, second_key = jax.random.split(key, 4)
        order = jax.random.permutation(order_key, len(images))
        known, fresh = order[: self.samples], order[-HELD_OUT:]
        x, truth = images[known], classes[known]
        # The order is random, so that the first samples are a random part.
        wrong = jnp.arange(self.samples) < jnp.round(self.flipped * self.samples)
        labels = jnp.where(wrong, (truth + jax.random.randint(flip_key, truth.shape, 1, 10)) % 10, truth)
        start = {
            "first": 0.05 * normal(first_key, (images.shape[1], self.width)),
            "second": 0.05 * normal(second_key, (self.width, 10)),
        }

        def network(weights: Any, inputs: Any) -> Any:
            return jax.nn.relu(inputs @ weights["first"]) @ weights["second"]

        def loss(weights: Any) -> Any:
            return optax.softmax_cross_entropy_with_integer_labels(network(weights, x), labels).mean()

        def share(hits: Any, among: Any) -> Any:
            return jnp.sum(hits & among) / jnp.sum(among)

        def record(weights: Any) -> dict[str, Any]:
            guess = network(weights, x).argmax(1)
            return {
                "clean_fit": share(guess == labels, ~wrong),
                "flipped_fit": share(guess == labels, wrong),
                "flipped_recovered": share(guess == truth, wrong),
                "held_out_accuracy": jnp.mean(network(weights, images[fresh]).argmax(1) == classes[fresh]),
                "training_loss": loss(weights),
            }

        run = train(
            start,
            loss,
            optax.adam(self.learning_rate),
            self.steps,
            trained=lambda weights: weights,
            record=record,
            record_at=self._record_at(),
        )
        return {**run.records, "diverged_at": run.diverged_at}

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
REAL = ("han2025labels", "on real data")


def _best(main):
    """The data at the step of the highest held-out accuracy of each run."""
    return main.simulated.isel(step=main.simulated.held_out_accuracy.argmax("step"))


def _panel(**options):
    shown = ("clean_fit", "flipped_fit", "flipped_recovered", "held_out_accuracy")
    labels = ("right labels fitted", "wrong labels fitted", "seen through", "held-out accuracy")
    axis: dict[str, Any] = {"x": lambda data: data.step + 1, "xlabel": "step + 1", "log": "x"}
    return Panel(shown, labels=labels, ylabel="share of images", ylim=(-0.03, 1.03), **axis, **options)


@dataclass(frozen=True)
class LabelNoiseDigits(Study):
    """A two-layer ReLU network, both layers trained by Adam on digits of which some carry a wrong label.

    The sizes are those of the first run that was tried; the claims were written before it.
    """

    question = "Do the two stages of learning with wrong labels, the classes, then the mistakes, show on real images?"
    sources = cite("han2025labels", "han2025tutorial")
    departs = "Two layers, trained by Adam on digits of 8 x 8 pixels, where the source has a VGG on CIFAR-10."
    precision = "float32"

    width: int = static(128, "neurons", symbol="m", low=1, high=65_536, scale="log")
    n: int = static(200, "training samples", symbol="n", low=20, high=DIGITS - HELD_OUT)
    flip_probability: float = value(
        0.3, "share of the training labels that are wrong", symbol=r"\tau", low=0.01, high=0.8
    )
    step_size: float = value(5e-3, "step size of Adam", symbol=r"\eta", above=0, high=1, scale="log")
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
        "full": {
            "width": [64, 256, 1024],
            "n": 700,
            "flip_probability": [0.1, 0.2, 0.3, 0.4],
            "steps": 3000,
            "seeds": 32,
        },
    }
    figure = panels(
        _panel(at={"width": 64, "flip_probability": 0.3}, legend=False),
        _panel(at={"flip_probability": 0.3}, legend="beside"),
    )

    @claim(*REAL, at_most(0.25))
    def first_stage(main):
        """At the step of the highest held-out accuracy the share of the wrong labels that is fitted is {criterion}."""
        return _best(main).flipped_fit

    @claim(*REAL, at_least(0.5))
    def sees_through(main):
        """There the share of the wrongly labelled training images that are given their true label is {criterion}."""
        return _best(main).flipped_recovered

    @claim(*REAL, at_least(0.95))
    def second_stage(main):
        """At the end the share of the wrong labels that is fitted is {criterion}."""
        return main.simulated.flipped_fit.isel(step=-1)

    @claim(*REAL, at_least(0.1))
    def early_stopping(main):
        """From the best step to the end the held-out accuracy falls by {criterion}."""
        return _best(main).held_out_accuracy - main.simulated.held_out_accuracy.isel(step=-1)

    def validate(self) -> None:
        if round(self.flip_probability * self.n) < 1:
            raise InputError(f"flip_probability must be at least 1/n = {1 / self.n:g}, got {self.flip_probability}")

    def coordinates(self) -> dict[str, Any]:
        return {"step": [0, *np.unique(np.geomspace(3, self.steps, 12).round().astype(int)).tolist()]}

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax.numpy as jnp

        from unlazy.data.real import load
        from unlazy.training.signal_noise.wrong_labels import wrong_label_run

        digits = load("digit_classes")
        images, classes = jnp.asarray(digits.inputs / 16 - 0.3, jnp.float32), jnp.asarray(digits.targets.argmax(1))
        steps = self.coordinates()["step"]
        return wrong_label_run(key, images, classes, held_out=HELD_OUT, record_at=steps, **self.as_dict())

"""Real images of which some carry a wrong label: first their classes are learned, then the mistakes; what helps?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.data.images import DATASETS, image_files
from unlazy.lab import DIVERGED_AT, Output, Study, at_least, at_most, cite, claim, static, value
from unlazy.plotting.panels import Panel, panels

REAL = ("han2025labels", "on CIFAR-10")
STRATEGIES = ("fresh_flip_probability", "radius")
FRESH_FLIPS, UPHILL = (0.2, 0.0), (0.0, 0.1)
MANY = 0.4
"""The share of wrong labels under which strategies are compared."""


def _best(main):
    """The data at the step of the highest accuracy on fresh images of each run."""
    return main.simulated.isel(step=main.simulated.held_out_accuracy.argmax("step"))


def _saved(main, strategies, strategy):
    """What a strategy keeps at the end of what early stopping would have kept, as a share of means over runs."""
    plain = main.simulated.held_out_accuracy.sel(flip_probability=MANY)
    rows = [strategies.simulated[name].values.tolist() for name in STRATEGIES]
    row = list(zip(*rows, strict=True)).index(strategy)
    end = strategies.simulated.held_out_accuracy.isel({STRATEGIES[0]: row, "step": -1}).mean("seed")
    lost = plain.max("step").mean("seed") - plain.isel(step=-1).mean("seed")
    return (end - plain.isel(step=-1).mean("seed")) / lost


def _along(**options):
    axis: dict[str, Any] = {"x": lambda data: data.step + 1, "xlabel": "step + 1", "log": "x", "line": True}
    return Panel(ylabel="share of images", ylim=(-0.03, 1.03), **axis, **options)


def _stages(flip_probability, **options):
    shown = ("clean_fit", "flipped_fit", "flipped_recovered", "held_out_accuracy")
    labels = ("right labels fitted", "wrong labels fitted", "seen through", "accuracy on fresh images")
    return _along(show=shown, labels=labels, at={"flip_probability": flip_probability}, **options)


@dataclass(frozen=True)
class LabelNoiseImages(Study):
    """A convolutional network of three blocks and a readout, all trained by stochastic gradient descent with momentum.

    Its step size 0.01 and momentum 0.9 are those of VGG, the radius 0.1 is that of Foret et al. for wrong labels, and
    the fresh flips are those of the study label-noise-gradient-descent. `--set dataset=cifar10 --set folder=...` asks
    the same of CIFAR-10.
    """

    question = (
        "Are the classes of real images learned before their wrong labels, and what keeps these from being learned?"
    )
    sources = cite("han2025labels", "han2025tutorial", "huang2025labels", "foret2021")
    departs = "Three convolutions on digits of 14 x 14 pixels, where the source has a VGG on CIFAR-10."
    precision = "float32"

    dataset: str = static("mnist", "images", choices=DATASETS)
    folder: str = static("", "folder of the images' files; without one 5,000 digits", paired=True)
    shrink: int = static(2, "pixels a side that are averaged into one", low=1, high=4)
    width: int = static(8, "channels of the first block", low=1, high=512, scale="log")
    n: int = static(500, "training images", symbol="n", low=20, high=50_000, scale="log")
    fresh: int = static(500, "fresh images", low=10, high=10_000, paired=True)
    flip_probability: float = value(
        MANY, "share of the training labels that are wrong", symbol=r"\tau", low=0.01, high=0.8
    )
    fresh_flip_probability: float = value(
        0.0, "probability of another wrong label in one step", symbol="p", low=0, high=0.8, paired=True
    )
    radius: float = value(0.0, "radius of sharpness-aware steps", symbol=r"\rho", low=0, high=10, paired=True)
    batch_size: int = static(32, "images of a step", low=1, high=10_000, scale="log", paired=True)
    step_size: float = value(0.01, "step size", symbol=r"\eta", above=0, high=1, scale="log", paired=True)
    steps: int = static(800, "steps", low=10, high=1_000_000, scale="log", paired=True)

    outputs = {
        "clean_fit": Output("right labels that are fitted", "", ("step",)),
        "flipped_fit": Output("wrong labels that are fitted", "", ("step",)),
        "flipped_recovered": Output("wrongly labelled images that are given their true label", "", ("step",)),
        "held_out_accuracy": Output("accuracy on fresh images", "", ("step",)),
        "training_loss": Output("training loss", "", ("step",), scale="log"),
        "diverged_at": DIVERGED_AT,
    }
    presets = {
        "quick": {
            "main": {"flip_probability": [0.2, MANY], "seeds": 6},
            "strategies": {STRATEGIES: [FRESH_FLIPS, UPHILL], "seeds": 6},
        },
        "full": {
            "main": {"flip_probability": [0.2, 0.3, MANY], "n": 2000, "fresh": 1000, "steps": 6000, "seeds": 8},
            "strategies": {STRATEGIES: [FRESH_FLIPS, UPHILL], "n": 2000, "fresh": 1000, "steps": 6000, "seeds": 8},
        },
    }
    figure = panels(
        _stages(0.2, legend=False),
        _stages(MANY, legend="beside"),
        _along(
            show="held_out_accuracy",
            labels=("plain",),
            title="accuracy on fresh images",
            at={"flip_probability": MANY},
            also=(Panel("held_out_accuracy", by=STRATEGIES, part="strategies", line=True),),
            legend="beside",
        ),
        width=3.8,
    )

    @claim(*REAL, at_most(0.25))
    def first_stage(main):
        """At the step of the highest accuracy on fresh images the share of the wrong labels that is fitted is
        {criterion}."""
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
        """From the best step to the end the accuracy on fresh images falls by {criterion}."""
        return _best(main).held_out_accuracy - main.simulated.held_out_accuracy.isel(step=-1)

    @claim("han2025labels", "two-stage theorem, Stage II", at_least(0.5))
    def fails_to_generalise(main):
        """At the end the error on fresh images, over the share of wrong labels, is {criterion}."""
        end = main.simulated.held_out_accuracy.isel(step=-1)
        return (1 - end) / main.simulated.flip_probability

    @claim("huang2025labels", "label-noise gradient descent", at_least(0.5), resampled=True)
    def fresh_flips(main, strategies):
        """With labels that are flipped anew at every step, p = 0.2, the accuracy at the end keeps {criterion} of what
        early stopping would have kept."""
        return _saved(main, strategies, FRESH_FLIPS)

    @claim("foret2021", "Section 3.3, wrong labels", at_least(0.5), resampled=True)
    def sharpness_aware(main, strategies):
        """With sharpness-aware steps of radius 0.1 the accuracy at the end keeps {criterion} of what early stopping
        would have kept."""
        return _saved(main, strategies, UPHILL)

    def validate(self) -> None:
        if round(self.flip_probability * self.n) < 1:
            raise InputError(f"flip_probability must be at least 1/n = {1 / self.n:g}, got {self.flip_probability}")
        self.files()

    def files(self) -> tuple[Path, ...]:
        return image_files(self.dataset, self.folder)

    def coordinates(self) -> dict[str, Any]:
        return {"step": [0, *np.unique(np.geomspace(25, self.steps, 10).round().astype(int)).tolist()]}

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.data.images import draw_images, load_images
        from unlazy.training.signal_noise.image_runs import wrong_label_run

        drawn = draw_images(rng, load_images(self.dataset, self.folder), self.n, 0, self.fresh, self.shrink)
        chosen = self.as_dict(
            "flip_probability", "fresh_flip_probability", "radius", "width", "batch_size", "step_size", "steps"
        )
        return wrong_label_run(rng, drawn, record_at=self.coordinates()["step"], **chosen)

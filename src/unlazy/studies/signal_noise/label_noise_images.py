"""Real images of which some carry a wrong label: first their classes are learned, then the mistakes; what helps?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.data.images import DATASETS, image_files
from unlazy.lab import DIVERGED_AT, OWN, Change, Output, Study, at_least, at_most, changes, cite, claim, static, value
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.signal_noise.shared import in_settings

REAL = ("han2025labels", "on CIFAR-10")
SIZES = "Adam trains three convolutions on digits of 14 x 14 pixels; the source has a VGG on CIFAR-10"
LATER = (
    "The wrong labels are fitted later, but after as many steps most of them are. The sources train larger networks "
    "with decaying step sizes, and judge the accuracy."
)
STRATEGIES = ("fresh_flip_probability", "radius")
FRESH_FLIPS, UPHILL = (0.2, 0.0), (0.0, 0.05)
MANY = 0.4
"""The share of wrong labels under which strategies are compared."""


def _seen(main):
    """The data of each run at the step at which it gives most of the wrongly labelled images their true label."""
    return main.simulated.isel(step=main.simulated.flipped_recovered.argmax("step"))


def _plain(main):
    return main.simulated.sel(flip_probability=MANY)


def _stopped(main):
    """The accuracy of each run when as many training labels are fitted as are right; at the end if that never comes."""
    plain = _plain(main)
    fitted = (1 - MANY) * plain.clean_fit + MANY * plain.flipped_fit >= 1 - MANY
    return plain.held_out_accuracy.isel(step=fitted.argmax("step").where(fitted.any("step"), -1).astype(int))


def _along(**options):
    axis: dict[str, Any] = {"x": lambda data: data.step + 1, "xlabel": "step + 1", "log": "x", "line": True}
    return Panel(ylabel="share of images", ylim=(-0.03, 1.03), **axis, **options)


def _stages(flip_probability, **options):
    shown = ("clean_fit", "flipped_fit", "flipped_recovered", "held_out_accuracy")
    labels = ("right labels fitted", "wrong labels fitted", "seen through", "accuracy on fresh images")
    return _along(show=shown, labels=labels, at={"flip_probability": flip_probability}, **options)


@dataclass(frozen=True)
class LabelNoiseImages(Study):
    """A convolutional network of three blocks and a readout, all trained by Adam on random batches.

    The radius 0.05 is the usual one of Foret et al., the fresh flips are those of the study
    label-noise-gradient-descent. `--set dataset=cifar10 --set folder=...` asks the same of CIFAR-10.
    """

    question = (
        "Are the classes of real images learned before their wrong labels? What keeps the wrong labels from being "
        "learned?"
    )
    sources = cite("han2025labels", "han2025tutorial", "huang2025labels", "foret2021")
    departs = f"{SIZES}."
    precision = "float32"

    dataset: str = static("mnist", "images", choices=DATASETS)
    folder: str = static("", "folder of the images' files; without one 5,000 digits", paired=True)
    shrink: int = static(2, "pixels a side that are averaged into one", low=1, high=4)
    width: int = static(8, "channels of the first block", low=1, high=512, scale="log")
    n: int = static(360, "training images", symbol="n", low=20, high=50_000, scale="log")
    fresh: int = static(500, "fresh images", low=10, high=10_000, paired=True)
    flip_probability: float = value(
        MANY, "share of the training labels that are wrong", symbol=r"\tau", low=0.01, high=0.8
    )
    fresh_flip_probability: float = value(
        0.0, "probability of another wrong label in one step", symbol="p", low=0, high=0.8, paired=True
    )
    radius: float = value(0.0, "radius of sharpness-aware steps", symbol=r"\rho", low=0, high=10, paired=True)
    batch_size: int = static(32, "images of a step", low=1, high=10_000, scale="log", paired=True)
    step_size: float = value(3e-3, "step size of Adam", symbol=r"\eta", above=0, high=1, scale="log", paired=True)
    steps: int = static(650, "steps", low=10, high=1_000_000, scale="log", paired=True)

    outputs = {
        "clean_fit": Output("right labels that are fitted", "", ("step",)),
        "flipped_fit": Output("wrong labels that are fitted", "", ("step",)),
        "flipped_recovered": Output("wrongly labelled images that are given their true label", "", ("step",)),
        "held_out_accuracy": Output("accuracy on fresh images", "", ("step",)),
        "training_loss": Output("training loss", "", ("step",), scale="log"),
        "diverged_at": DIVERGED_AT,
    }
    history = (
        Change(
            "",
            "optimiser, step size, n, steps and a readout that starts at 0",
            "eleven settings were tried: SGD with momentum at 0.01, 0.03 and 0.1 was too noisy or slow to memorise "
            "in the time of the preset, as was Adam at 0.001 and 0.005; n = 500 and 400 left the end unfitted",
        ),
        *changes(
            "first-stage sees-through",
            "the step at which most is seen through, where first it was that of the highest accuracy on fresh images",
            "the accuracy is flat around its highest value, so that its step is a matter of chance",
        ),
        *changes(
            "first-stage sees-through second-stage",
            "the average over shares of wrong labels in place of each",
            "so few runs of one share spread too much",
        ),
        *changes(
            "early-stopping",
            "the sign of the gain of a rule, where first it was 0.1 of the highest accuracy, then a quarter of the "
            "share of wrong labels and 0.05 of the rule",
            "the highest accuracy is never below that of the end, and seven runs do not tell a gain of 0.11 from 0.05",
        ),
        *changes(
            "fresh-flips sharpness-aware",
            "wrong labels fitted at the end, where first it was the accuracy there against early stopping's",
            "differences of accuracies decided nothing in seven runs",
        ),
        *changes(
            "sharpness-aware strategies-delay",
            "the radius 0.05, where first it was 0.1, and the median over runs",
            "with 0.1 some runs do not begin to learn in so many steps, and fresh seeds left the verdict open",
        ),
        *changes("strategies-delay", "the claim", "seen in the first run"),
    )
    presets = {
        "quick": {
            "main": {"flip_probability": [0.2, MANY], "seeds": 9},
            "strategies": {STRATEGIES: [FRESH_FLIPS, UPHILL], "seeds": 7},
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
            also=(_along(show="held_out_accuracy", by=STRATEGIES, part="strategies"),),
            legend="beside",
        ),
        width=3.8,
    )

    @claim(*REAL, at_most(0.25))
    def first_stage(main):
        """There is a first stage, in which few wrong labels are fitted. At the step where most of the wrongly labelled
        images are given their true label, the share of wrong labels that is fitted is {criterion}, on average over
        shares of wrong labels."""
        return _seen(main).flipped_fit.mean("flip_probability")

    @claim(*REAL, at_least(0.5))
    def sees_through(main):
        """In the first stage the network sees through wrong labels. The share of wrongly labelled images that are given
        their true label is {criterion}, on average."""
        return _seen(main).flipped_recovered.mean("flip_probability")

    @claim(*REAL, at_least(0.95))
    def second_stage(main):
        """In the second stage the wrong labels are memorised. At the end the share of them that is fitted is
        {criterion}, on average."""
        return main.simulated.flipped_fit.isel(step=-1).mean("flip_probability")

    @claim("han2025labels", "two-stage theorem, Stage II", at_least(0.5))
    def fails_to_generalise(main):
        """At the end the network fails on fresh images. The ratio of its error to the share of wrong labels is
        {criterion}."""
        end = main.simulated.held_out_accuracy.isel(step=-1)
        return (1 - end) / main.simulated.flip_probability

    @claim("han2025labels", "two-stage theorem, Stage I", at_least(0.0), departs=f"{SIZES}; the rule is our own.")
    def early_stopping(main):
        """With 40% wrong labels it helps to stop when as many labels are fitted as are right. The accuracy on fresh
        images then, less that at the end, is {criterion}."""
        return _stopped(main) - _plain(main).held_out_accuracy.isel(step=-1)

    @claim(OWN, "own observation", at_least(0.0))
    def strategies_delay(main, strategies):
        """Fresh flips and sharpness-aware steps delay the second stage. On average over recorded steps and both
        strategies the share of wrong labels that is fitted falls by {criterion}."""
        delayed = strategies.simulated.flipped_fit.mean(["step", STRATEGIES[0]])
        return _plain(main).flipped_fit.mean("step") - delayed

    @claim("huang2025labels", "label-noise gradient descent", at_most(0.5), known_negative=LATER)
    def fresh_flips(strategies):
        """Labels that are flipped anew at every step, with probability 0.2, prevent the second stage. At the end the
        share of wrong labels that is fitted is {criterion}."""
        return in_settings(strategies.simulated, STRATEGIES, FRESH_FLIPS).flipped_fit.isel(step=-1)

    @claim("foret2021", "wrong labels", at_most(0.5), resampled=True, known_negative=LATER)
    def sharpness_aware(strategies):
        """Sharpness-aware steps of radius 0.05 prevent the second stage. At the end the share of wrong labels that is
        fitted is {criterion} (median over runs)."""
        return in_settings(strategies.simulated, STRATEGIES, UPHILL).flipped_fit.isel(step=-1).median("seed")

    def validate(self) -> None:
        if round(self.flip_probability * self.n) < 1:
            raise InputError(f"flip_probability must be at least 1/n = {1 / self.n:g}, got {self.flip_probability}")
        self.files()

    def files(self) -> tuple[Path, ...]:
        return image_files(self.dataset, self.folder)

    def coordinates(self) -> dict[str, Any]:
        return {
            "step": [0, *np.unique(np.geomspace(min(25, self.steps / 2), self.steps, 10).round().astype(int)).tolist()]
        }

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.data.images import draw_images, load_images
        from unlazy.training.signal_noise.image_runs import wrong_label_run

        drawn = draw_images(rng, load_images(self.dataset, self.folder), self.n, 0, self.fresh, self.shrink)
        chosen = self.as_dict(
            "flip_probability", "fresh_flip_probability", "radius", "width", "batch_size", "step_size", "steps"
        )
        return wrong_label_run(rng, drawn, record_at=self.coordinates()["step"], **chosen)

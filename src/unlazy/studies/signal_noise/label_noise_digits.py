"""The two stages of learning with wrong labels, on real digits: first the classes, then the mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import DIVERGED_AT, Claim, Output, Part, Study, at_least, at_most, parameter, static, value
from unlazy.studies.signal_noise.shared.sources import HAN_LABELS, TUTORIAL

if TYPE_CHECKING:
    import xarray as xr

HAN_TEXT = "Han et al. 2025, on real data"
HELD_OUT = 1000
DIGITS = 1797


def _at_best(part: Part, name: str) -> xr.DataArray:
    """A measure at the step of the highest held-out accuracy of each run."""
    best = part.simulated.held_out_accuracy.argmax("step")
    return part.simulated[name].isel(step=best)


def _fall(part: Part) -> xr.DataArray:
    return _at_best(part, "held_out_accuracy") - part.simulated.held_out_accuracy.isel(step=-1)


@dataclass(frozen=True)
class LabelNoiseDigits(Study):
    """A two-layer ReLU network, both layers trained by Adam on digits of which some carry a wrong label.

    The sizes are those of the first run that was tried; the claims were written before it.
    """

    name = "label-noise-digits"
    topic = "signal_noise"
    question = (
        "Do the two stages of learning with wrong labels, first the classes and then the single mistakes, show on real "
        "images?"
    )
    caption = "Points: the network on real images, means over seeds with 99% intervals. There is no theory here."
    sources = (HAN_LABELS, TUTORIAL)
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
    claims = (
        Claim(
            "first-stage",
            HAN_TEXT,
            "At the step of the highest held-out accuracy at most a quarter of the wrong labels is fitted.",
            at_most(0.25),
            check=lambda part: _at_best(part, "flipped_fit"),
        ),
        Claim(
            "sees-through",
            HAN_TEXT,
            "There more than half of the wrongly labelled training images are given their true label.",
            at_least(0.5),
            check=lambda part: _at_best(part, "flipped_recovered"),
        ),
        Claim(
            "second-stage",
            HAN_TEXT,
            "At the end at least 95% of the wrong labels are fitted.",
            at_least(0.95),
            check=lambda part: part.simulated.flipped_fit.isel(step=-1),
        ),
        Claim(
            "early-stopping",
            HAN_TEXT,
            "From the best step to the end the held-out accuracy falls by at least 0.1.",
            at_least(0.1),
            check=_fall,
        ),
    )

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

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        widths = np.atleast_1d(parameter(main.simulated, "width"))
        figure, panels = style.panels(len(widths), 1, width=3.7, height=3.3)
        shown = {
            "clean_fit": "right labels fitted",
            "flipped_fit": "wrong labels fitted",
            "flipped_recovered": "seen through",
            "held_out_accuracy": "held-out accuracy",
        }
        points = main.simulated
        if "flipped" in points.dims:
            points = points.isel(flipped=len(points.flipped) // 2)
        for axes, width in zip(np.atleast_1d(panels), widths, strict=True):
            curves = points.sel(width=width) if "width" in points.dims else points
            for index, (name, text) in enumerate(shown.items()):
                style.simulation(
                    axes, curves.step + 1, curves[name], color=style.colour(index), marker=style.marker(index),
                    label=text,
                )  # fmt: skip
            axes.set_xscale("log")
            axes.set(xlabel="step + 1", ylim=(-0.03, 1.03), title=f"{width} neurons")
        np.atleast_1d(panels)[0].set_ylabel("share of images")
        figure.legend(*np.atleast_1d(panels)[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        return figure

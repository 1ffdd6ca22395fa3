"""Cutout and CutMix: without the patch that is easiest to memorise a network learns rarer features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Change, Output, Study, at_least, at_most, cite, claim, static, value
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.signal_noise.shared import GUESSING, RUN_OUTPUTS, check_dimension, end_of_run, relative_step_size

COUNTS = (32, 6, 2)
COMMON, RARE, RAREST = COUNTS
NONE, CUTOUT, CUTMIX = range(3)


def _arms(main):
    """The data of the three methods."""
    return main.simulated.sel(augmentation=[NONE, CUTOUT, CUTMIX])


def _panel(name, **options):
    """An output by method against the number of samples."""
    methods = [lambda data, arm=arm: data[name].sel(augmentation=arm) for arm in (NONE, CUTOUT, CUTMIX)]
    labels, xlabel = ("none", "Cutout", "CutMix"), f"samples with the feature, of {sum(COUNTS)}"
    return Panel(tuple(methods), x="feature", labels=labels, xlabel=xlabel, beside=True, **options)


@dataclass(frozen=True)
class Cutmix(Study):
    """ReLU^2; patches [y feature, xi, b xi'] with features of equal length in 32, 6 and 2 samples, xi' independent.

    Cutout removes one random patch of every sample at every step. CutMix takes every patch from the sample or from a
    random partner, and weighs their labels by the number of patches. The features' length is chosen by a race of growth
    rates: a feature of k samples grows at the rate k|v|^2/2, the strong noise at |xi|^2, the weak one at b^2 |xi|^2,
    and 32 |v|^2/2 > |xi|^2 > 6 |v|^2/2 > b^2 |xi|^2 > 2 |v|^2/2 with factors of about 2.
    """

    question = "Do Cutout and CutMix learn features so rare that plain gradient descent memorises their samples?"
    sources = cite("oh2024cutmix", "han2025tutorial")
    departs = (
        "The paper has leaky ReLU, two neurons, and features of each class. The claims are what its theorems say in "
        "words."
    )
    chunk_width = 32

    augmentation: int = value(CUTMIX, "0 for none, 1 for Cutout, 2 for CutMix", low=NONE, high=CUTMIX, paired=True)
    signal_to_noise: float = value(
        0.125**0.5, "length of a feature over that of the noise", symbol=r"|v|/\sigma\sqrt{d}", above=0, high=1e3
    )
    weak_noise: float = value(0.46, "length of the weak noise over that of the strong", symbol="b", low=0, high=1)
    d: float = value(1000.0, "dimension", symbol="d", low=2, high=1e12, scale="log")
    relative_step_size: float = relative_step_size(0.3)
    initial_scale: float = value(0.01, "initial scale sigma_0 sqrt(d)", above=0, high=100, scale="log")
    width: int = static(10, "neurons of each sign", symbol="m", low=1, high=4096, scale="log")
    steps: int = static(1000, "updates", low=1, high=10_000_000, scale="log", paired=True)

    outputs = {
        "feature_error": Output("test error on samples with a feature", "", ("feature",), short="test error"),
        "feature_coefficient": Output("largest coefficient of a feature", r"\max\gamma", ("feature",), scale="log"),
        **RUN_OUTPUTS,
    }
    inner = {"feature": list(COUNTS)}
    history = (
        Change(
            "cutout-rarest",
            "0.35, where first it was 0.4",
            "one run in ten learns the rarest feature for one of the classes, for which 0.4 leaves no room",
        ),
    )
    presets = {
        "quick": {"augmentation": [NONE, CUTOUT, CUTMIX], "width": [10], "seeds": 36},
        "full": {"augmentation": [NONE, CUTOUT, CUTMIX], "width": [10, 20, 40], "steps": 4000, "seeds": 32},
    }
    figure = panels(
        _panel("feature_error", ylabel="test error", log="x", marks=(GUESSING,), legend="center right"),
        _panel("feature_coefficient", ylabel=r"largest coefficient $\max\gamma$", log="xy", legend=False),
    )

    @claim(OWN, "precondition of the claims below", at_most(0.05))
    def plain_fit(main):
        """Without augmentation the training samples are fitted: the training loss is {criterion}."""
        return _arms(main).training_loss.sel(augmentation=NONE)

    @claim("oh2024cutmix", "theorem on plain training", at_most(0.05))
    def common(main):
        """All three methods learn the common feature: the error is {criterion}."""
        return _arms(main).feature_error.sel(feature=COMMON)

    @claim("oh2024cutmix", "theorem on plain training", at_least(0.4))
    def plain_rare(main):
        """Plain gradient descent learns neither the rare nor the rarest feature. The errors are {criterion}."""
        return _arms(main).feature_error.sel(augmentation=NONE, feature=[RARE, RAREST])

    @claim("oh2024cutmix", "theorem on Cutout training", at_most(0.05))
    def cutout_rare(main):
        """Cutout learns the rare feature: the error is {criterion}."""
        return _arms(main).feature_error.sel(augmentation=CUTOUT, feature=[RARE])

    @claim("oh2024cutmix", "theorem on Cutout training", at_least(0.35))
    def cutout_rarest(main):
        """Cutout does not learn the rarest feature: the error is {criterion}."""
        return _arms(main).feature_error.sel(augmentation=CUTOUT, feature=[RAREST])

    @claim("oh2024cutmix", "theorem on CutMix training", at_most(0.05))
    def cutmix_rarest(main):
        """CutMix learns both the rare and the rarest feature. The errors are {criterion}."""
        return _arms(main).feature_error.sel(augmentation=CUTMIX, feature=[RARE, RAREST])

    @claim("oh2024cutmix", "theorem on CutMix training", at_least(0.5))
    def cutmix_even(main):
        """CutMix learns features evenly. The ratio of the rarest one's coefficient to the common one's is
        {criterion}."""
        learned = _arms(main).feature_coefficient.sel(augmentation=CUTMIX)
        return learned.sel(feature=RAREST) / learned.sel(feature=COMMON)

    def validate(self) -> None:
        check_dimension(self.d, samples=sum(COUNTS), width=self.width, shared=len(COUNTS), own=2)

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax.numpy as jnp

        from unlazy.training.signal_noise import token_gram as engine

        samples, features = sum(COUNTS), len(COUNTS)
        simple = engine.feature_design(np.repeat(np.eye(features), COUNTS, axis=0))
        noises = jnp.array([1.0, 0.0]), self.weak_noise * jnp.array([0.0, 1.0])
        patches = (engine.Patch(own=jnp.broadcast_to(noise, (samples, 2))) for noise in noises)
        design = simple._replace(patches=(simple.patches[0], *patches))
        lengths = jnp.full(features, self.signal_to_noise * jnp.sqrt(self.d))
        step_size = self.relative_step_size * samples * self.width / self.d
        rule = engine.gradient_descent(step_size, view=engine.cut(self.augmentation))
        network = engine.Network(engine.relu_power(2))
        sizes = self.as_dict("d", "width", "initial_scale")
        run = engine.patch_run(key, design, lengths, network, rule, self.steps, **sizes)
        return {"feature_error": run.fresh.error, "feature_coefficient": run.signals.max(0), **end_of_run(run)}

"""Momentum: a network learns from samples with a small margin because it remembers those with a large one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from unlazy.checks import InputError
from unlazy.lab import OWN, Change, Output, Study, at_least, at_most, changes, cite, claim, static, value, within
from unlazy.lab.claims import between
from unlazy.lab.measures import parameter, slope
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.signal_noise.shared import RUN_OUTPUTS, check_even, end_of_run
from unlazy.theory.signal_noise.strategies import momentum_growth

WITHOUT, WITH = ("jelassi2022", "theorem on gradient descent"), ("jelassi2022", "theorem on momentum")
ENERGY = (OWN, "momentum keeps the energy of the loss")
MOMENTA, AMPLITUDES = [0.0, 0.9, 0.97, 0.99, 0.997, 0.999], [0.05, 0.1, 0.2]
LONG, SMALL = [0.97, 0.99, 0.997, 0.999], {"amplitude": [0.05, 0.1]}


def _coasted(part):
    """The median of what the largest weight of the feature has above 1, along the time for which gradients last."""
    data = part.simulated.sel(momentum=LONG, **SMALL)
    time = parameter(data, "step_size") * data.momentum / (1 - data.momentum)
    return (data.feature_weight.median("seed") - 1).assign_coords(momentum=time)


def _names(data):
    return data.momentum.values.astype(str)


@dataclass(frozen=True)
class Momentum(Study):
    """f = sum_r sum_p <w_r, x_p>^3, patches [y c w*, xi]; c = 1 in most samples and small in a few.

    The update is M <- b M + (1 - b) g, W <- W - eta M; b = 0 is plain gradient descent. Medians over seeds are judged,
    as a few runs stay near the error of guessing. c is about sqrt(n'/d), what noise of the n' samples of small margin
    adds to a fresh sample once it is memorised: there it matters how far the feature is learned.
    """

    question = (
        "Some samples have a small margin. Does momentum learn their feature, where gradient descent memorises them?"
    )
    sources = cite("jelassi2022", "han2025tutorial")
    departs = (
        "One patch of noise; the paper has many. Medians over seeds on samples of small margin stand for the "
        "theorems' bounds, which hold with high probability."
    )
    history = (
        Change(
            "",
            "noise, width and step size",
            "of six settings with a momentum that were tried the first four showed no or a weak effect",
        ),
        Change("coast", "an average over two margins", "with each it was fragile in a second stream"),
        *changes("coast power noise-coasts", "the claim", "it came after a pilot of twelve seeds"),
    )
    chunk_width = 32

    momentum: float = value(0.99, "momentum, 0 for none", symbol=r"\beta", low=0, high=0.99999, paired=True)
    amplitude: float = value(0.1, "feature in the samples of small margin", symbol="c", low=0, high=1, scale="log")
    small_margin_samples: int = value(4, "samples of small margin", symbol="n'", low=0, high=5000)
    noise_norm: float = value(2.0, "length of the noise", symbol=r"\sigma\sqrt{d}", above=0, high=1e3)
    d: float = value(200.0, "dimension", symbol="d", low=2, high=1e12, scale="log")
    step_size: float = value(0.3, "step size", symbol=r"\eta", above=0, high=100, scale="log", paired=True)
    initial_deviation: float = value(0.03, "initial deviation of a weight", above=0, high=100, scale="log")
    width: int = static(10, "neurons", symbol="R", low=1, high=4096, scale="log")
    n: int = static(40, "training samples", symbol="n", low=2, high=10_000)
    steps: int = static(6000, "updates", low=1, high=10_000_000, scale="log")

    outputs = {
        "small_error": Output("error on samples of small margin"),
        "large_error": Output("error on samples of large margin"),
        "feature_weight": Output("largest weight of the feature", r"\max\langle w,w^*\rangle"),
        **RUN_OUTPUTS,
    }
    presets = {
        "quick": {"momentum": MOMENTA, "amplitude": AMPLITUDES, "seeds": 48},
        "full": {"momentum": MOMENTA, "amplitude": [0.05, 0.07, 0.1, 0.14, 0.2], "width": [10, 16, 32], "seeds": 64},
    }
    figure = panels(
        Panel("small_error", x=_names, by="amplitude", xlabel=r"momentum $\beta$", runs=True),
        Panel(
            "feature_weight",
            x=_names,
            by="amplitude",
            ylabel=r"largest $\langle w,w^*\rangle$",
            xlabel=r"momentum $\beta$",
            legend=False,
            log="y",
        ),
        Panel("noise_coefficient", x=_names, by="amplitude", xlabel=r"momentum $\beta$", legend=False, log="y"),
    )

    @claim(OWN, "precondition of the claims below", at_most(0.05), resampled=True)
    def fit(main):
        """All methods fit their training samples. The median training loss is {criterion}."""
        return main.simulated.training_loss.median("seed")

    @claim(*WITHOUT, at_least(0.1), resampled=True)
    def plain(main):
        """Gradient descent learns too little of the feature at the margins 0.05 and 0.1. Its median error is
        {criterion}."""
        return main.simulated.small_error.sel(momentum=0.0, **SMALL).median("seed")

    @claim(*WITH, at_most(0.1), resampled=True)
    def momentum_learns(main):
        """At the margin 0.1 every momentum from 0.97 on learns the feature. The median error is {criterion}."""
        return main.simulated.small_error.sel(momentum=LONG, amplitude=0.1).median("seed")

    @claim(*WITH, at_least(0.05), resampled=True)
    def gain(main):
        """From the same samples and start a momentum from 0.97 on lowers the median error by {criterion}, at the
        margins 0.05 and 0.1."""
        errors = main.simulated.small_error.sel(SMALL)
        return (errors.sel(momentum=0.0) - errors.sel(momentum=LONG)).median("seed")

    @claim(*ENERGY, within(0.1), resampled=True)
    def coast(main):
        """Once margins are fitted, momentum goes on along the feature by sqrt(2 T L), from about 1. Here L is the loss
        of the samples of large margin at the start. The median largest <w, w*> is this sum {criterion}, on average over
        the margins 0.05 and 0.1."""
        found = main.simulated.feature_weight.sel(momentum=[0.9, *LONG], **SMALL).median("seed")
        return (found / main.predicted.feature_weight - 1).mean("amplitude")

    @claim(*ENERGY, between(0.45, 0.55), resampled=True)
    def power(main):
        """How far momentum goes on grows as the square root of T = eta b/(1 - b). From b = 0.97 on the fitted power is
        {criterion}."""
        return slope(_coasted(main), "momentum", least=4)

    @claim(*ENERGY, at_least(2.0), resampled=True)
    def noise_coasts(main):
        """Momentum goes on along memorised noise too. At b = 0.999 the ratio of the median largest noise coefficient to
        that of gradient descent is {criterion}."""
        noise = main.simulated.noise_coefficient.sel(SMALL).median("seed")
        return noise.sel(momentum=0.999) / noise.sel(momentum=0.0)

    @claim(*WITHOUT, at_most(0.01), resampled=True)
    def large(main):
        """All methods classify samples of large margin. The median error is {criterion}."""
        return main.simulated.large_error.median("seed")

    def validate(self) -> None:
        check_even("n", self.n)
        self.check_at_most(("small_margin_samples", "n"))
        least = self.n + self.width + 1
        if self.d < least:
            raise InputError(f"d must be at least n + width + 1 = {least}, got {self.d:g}")

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax.numpy as jnp

        from unlazy.training.signal_noise import token_gram as engine

        small = jnp.arange(self.n) < self.small_margin_samples
        design = engine.feature_design(jnp.where(small, self.amplitude, 1.0)[:, None])
        amplitudes = jnp.stack([jnp.asarray(self.amplitude, float), jnp.ones(())])
        sizes: dict[str, Any] = {
            "d": self.d,
            "width": self.width,
            "initial_scale": self.initial_deviation * jnp.sqrt(self.d),
        }
        options: dict[str, Any] = {
            "second_layer": jnp.ones(self.width),
            "noise_deviation": self.noise_norm / jnp.sqrt(self.d),
            "kinds": jnp.zeros((2, 2, 1)).at[:, 0, 0].set(amplitudes),
        }
        rule, network = engine.gradient_descent(self.step_size, average=self.momentum), engine.Network(engine.CUBE)
        run = engine.patch_run(key, design, jnp.ones(1), network, rule, self.steps, **sizes, **options)
        small_error, large_error = run.fresh.error
        learned = {"feature_weight": run.state.weights.preactivations[:, 0].max()}
        return {"small_error": small_error, "large_error": large_error, **learned, **end_of_run(run)}

    def predict(self) -> dict[str, Any]:
        """The level 1, at which margins are of order one, and what momentum coasts from there; descent creeps on."""
        time, share = self.step_size * self.momentum / (1 - self.momentum), 1 - self.small_margin_samples / self.n
        rate, loss = 1.5 * share, share * math.log(2)
        return {"feature_weight": 1 + momentum_growth(time, rate, 3, 1.0, loss).coast}

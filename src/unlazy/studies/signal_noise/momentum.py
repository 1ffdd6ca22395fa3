"""Momentum: a network learns from samples with a small margin because it remembers those with a large one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unlazy.checks import InputError
from unlazy.lab import OWN, Output, Study, at_least, at_most, changes, cite, claim, static, value
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.signal_noise.shared import RUN_OUTPUTS, check_even, end_of_run

WITHOUT, WITH = ("jelassi2022", "theorem on gradient descent"), ("jelassi2022", "theorem on momentum")


def _median_rise(values):
    """The median over seeds of how much momentum raises an output of the same start and samples."""
    return (values.sel(momentum=0.99) - values.sel(momentum=0.0)).median("seed")


def _runs(name: str, **more: Any) -> Panel:
    names, xlabel = (lambda data: data.momentum.values.astype(str)), r"momentum $\beta$"
    return Panel(name, x=names, by="width", xlabel=xlabel, runs=True, **more)


@dataclass(frozen=True)
class Momentum(Study):
    """f = sum_r sum_p <w_r, x_p>^3, patches [y c w*, xi]; c = 1 in most samples and small in a few.

    The update is M <- b M + (1 - b) g, W <- W - eta M; b = 0 is plain gradient descent. A few runs with momentum stay
    near the error of guessing (0 of 32 at R = 10 and 1 of 32 at R = 16 in the quick preset), so that the claims judge
    medians over seeds. Ten times as many steps of plain descent do not change its error.
    """

    question = "Does momentum learn the feature of samples of small margin, where gradient descent memorises them?"
    sources = cite("jelassi2022", "han2025tutorial")
    departs = (
        "One patch of noise where the paper has many; medians over seeds, on samples of small margin, stand for the "
        "theorems' bounds, which hold with high probability."
    )
    history = changes(
        "",
        "momentum, noise, width and step size",
        "of six settings that were tried the first four showed no or a weak effect",
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
    steps: int = static(2000, "updates", low=1, high=10_000_000, scale="log")

    outputs = {
        "small_error": Output("error on samples of small margin"),
        "large_error": Output("error on samples of large margin"),
        "feature_weight": Output("largest weight of the feature", r"\max\langle w,w^*\rangle"),
        **RUN_OUTPUTS,
    }
    presets = {
        "quick": {"momentum": [0.0, 0.9, 0.99], "width": [10, 16], "seeds": 32},
        "full": {"momentum": [0.0, 0.5, 0.9, 0.95, 0.98, 0.99, 0.995], "width": [10, 16, 32], "seeds": 64},
    }
    figure = panels(
        _runs("small_error"),
        _runs("feature_weight", ylabel=r"largest $\langle w,w^*\rangle$", legend=False),
        _runs("training_loss", legend=False),
    )

    @claim(OWN, "precondition of the claims below", at_most(0.05), resampled=True)
    def fit(main):
        """Both fit their training samples: the median training loss is {criterion}."""
        return main.simulated.training_loss.sel(momentum=[0.0, 0.99]).median("seed")

    @claim(*WITHOUT, at_least(0.1), resampled=True)
    def plain(main):
        """Gradient descent learns too little of the feature for small margins: its median error is {criterion}."""
        return main.simulated.small_error.sel(momentum=0.0).median("seed")

    @claim(*WITH, at_most(0.1), resampled=True)
    def momentum_learns(main):
        """With momentum 0.99 the median error is {criterion}."""
        return main.simulated.small_error.sel(momentum=0.99).median("seed")

    @claim(*WITH, at_least(0.05), resampled=True)
    def gain(main):
        """For the same samples and start momentum lowers the error by {criterion} (median)."""
        return -_median_rise(main.simulated.small_error)

    @claim("jelassi2022", "historical gradients", at_least(0.01), resampled=True)
    def alignment(main):
        """Momentum goes on learning the feature where gradient descent stops: the largest <w, w*> is larger by
        {criterion} (median of the difference)."""
        return _median_rise(main.simulated.feature_weight)

    @claim(*WITHOUT, at_most(0.01), resampled=True)
    def large(main):
        """Both classify samples of large margin: the median error is {criterion}."""
        return main.simulated.large_error.sel(momentum=[0.0, 0.99]).median("seed")

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

"""Mixup: mixtures of samples let a network learn a feature that few samples carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unlazy.checks import InputError
from unlazy.lab import OWN, Output, Study, at_least, at_most, changes, cite, claim, static, value
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.signal_noise import shared

PLAIN, MIXED = ("zou2023mixup", "theorem on standard training"), ("zou2023mixup", "theorem on mixup")
WEIGHTS = [0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0]
ERRORS, SIGNALS = (
    ("common_feature_error", "rare_feature_error"),
    ("common_feature_coefficient", "rare_feature_coefficient", "noise_coefficient"),
)
LABELS = ("common feature", "rare feature", "noise")


@dataclass(frozen=True)
class Mixup(Study):
    """ReLU^2, patches [y v or y v', xi] with |v| = |v'|, v' in few samples only.

    A step of mixup sees the patches lambda x_i + (1 - lambda) x_j and the loss lambda l(y_i) + (1 - lambda) l(y_j) for
    a fresh random partner j of every sample; lambda = 1 is plain gradient descent.
    """

    question = "Does mixup learn a rare feature that plain gradient descent replaces by memorised noise?"
    sources = cite("zou2023mixup", "han2025tutorial")
    departs = (
        "A simpler model than the paper's: opposite features of the two classes, one patch of noise, and one random "
        "partner of every sample at each step."
    )
    history = changes(
        "",
        "the width, while all other sizes were the first tried",
        "at m = 6 one run in thirty starts with no neuron of some class on the feature's side, and never learns it",
    )
    chunk_width = 32

    mixing_weight: float = value(
        0.6, "weight of a sample in its mixture, 1 without mixup", symbol=r"\lambda", low=0.5, high=1, paired=True
    )
    signal_strength: float = shared.signal_strength(4.0, "n SNR^2 of either feature", above=0, high=1e6)
    rare_samples: int = value(2, "samples that carry the rare feature", symbol="n'", low=1, high=5000)
    d: float = value(1000.0, "dimension", symbol="d", low=2, high=1e12, scale="log")
    relative_step_size: float = shared.relative_step_size(0.3)
    initial_scale: float = value(0.01, "initial scale sigma_0 sqrt(d)", above=0, high=100, scale="log")
    width: int = static(10, "neurons of each sign", symbol="m", low=1, high=4096, scale="log")
    n: int = static(40, "training samples", symbol="n", low=2, high=10_000)
    steps: int = static(1500, "updates", low=1, high=10_000_000, scale="log")

    outputs = {
        "common_feature_error": Output("error on samples with the common feature"),
        "rare_feature_error": Output("error on samples with the rare feature"),
        "common_feature_coefficient": Output("coefficient of the common feature", r"\max\gamma", scale="log"),
        "rare_feature_coefficient": Output("coefficient of the rare feature", r"\max\gamma'", scale="log"),
        **shared.RUN_OUTPUTS,
    }
    presets = {
        "quick": {"mixing_weight": [0.6, 0.8, 1.0], "width": [10, 20], "seeds": 10},
        "full": {"mixing_weight": WEIGHTS, "width": [10, 20, 40], "steps": 4000, "seeds": 24},
    }
    figure = panels(
        Panel(
            ERRORS, x="mixing_weight", labels=LABELS, ylabel="test error", ylim=(-0.03, 0.55), marks=(shared.GUESSING,)
        ),
        Panel(SIGNALS, x="mixing_weight", labels=LABELS, ylabel="largest coefficient"),
        Panel("training_loss", x="mixing_weight", by="width", ylabel="training loss, unmixed"),
    )

    @claim(*PLAIN, at_least(0.4))
    def plain_rare(main):
        """Plain gradient descent does not learn the rare feature: its error there is {criterion}."""
        return main.simulated.rare_feature_error.sel(mixing_weight=1.0)

    @claim(OWN, "precondition of plain-rare", at_most(0.05))
    def plain_fit(main):
        """It fits its training samples: the training loss is {criterion}."""
        return main.simulated.training_loss.sel(mixing_weight=1.0)

    @claim(*MIXED, at_most(0.02))
    def mixup_rare(main):
        """Mixup with lambda = 0.6 learns it from the same samples: its error is {criterion}."""
        return main.simulated.rare_feature_error.sel(mixing_weight=0.6)

    @claim(*MIXED, at_most(0.01))
    def common(main):
        """Both learn the common feature: the error is {criterion}."""
        return main.simulated.common_feature_error.sel(mixing_weight=[0.6, 1.0])

    @claim("zou2023mixup", "mixing teaches the rare feature through the common one", at_least(1 / 3))
    def mixup_balance(main):
        """With mixup the rare feature's largest coefficient over the common one's is {criterion}."""
        return main.simulated.rare_feature_coefficient.sel(
            mixing_weight=0.6
        ) / main.simulated.common_feature_coefficient.sel(mixing_weight=0.6)

    def validate(self) -> None:
        shared.check_even("n", self.n)
        shared.check_dimension(self.d, samples=self.n, width=self.width, shared=2)
        if self.rare_samples % 2 or self.rare_samples > self.n:
            raise InputError(
                f"rare_samples must be even and at most n = {self.n}, half of it in each class; got {self.rare_samples}"
            )

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax.numpy as jnp

        from unlazy.training.signal_noise import token_gram as engine

        rare = jnp.arange(self.n) < self.rare_samples
        design = engine.feature_design(jnp.stack([~rare, rare], axis=1).astype(float))
        lengths = jnp.full(2, jnp.sqrt(self.signal_strength * self.d / self.n))
        step_size = self.relative_step_size * self.n * self.width / self.d
        rule = engine.gradient_descent(step_size, view=engine.mixup(self.mixing_weight))
        network = engine.Network(engine.relu_power(2))
        sizes = self.as_dict("d", "width", "initial_scale")
        run = engine.patch_run(key, design, lengths, network, rule, self.steps, **sizes)
        found = dict(zip(ERRORS + SIGNALS[:2], (*run.fresh.error, *run.signals.max(0)), strict=True))
        return found | shared.end_of_run(run)

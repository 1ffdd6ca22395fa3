"""Large learning rates: oscillation along the strong feature leaves room to learn the weak one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unlazy.lab import (
    OWN,
    Change,
    Output,
    Study,
    at_least,
    at_most,
    changes,
    cite,
    claim,
    over_theory,
    static,
    value,
    within,
)
from unlazy.lab.measures import crossing, kept
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.signal_noise import shared
from unlazy.theory.signal_noise.strategies import stable_output

RATES = [0.5, 0.9, 1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.6, 1.7]
MISSING = [2, 4, 6, 8]
LARGE = ("lu2024oscillation", "theorem on large learning rates")
EDGE = "derivation of the edge of stability"


def _relative_rate(part: Any) -> Any:
    """The step size over the largest that is stable."""
    return part.predicted.relative_step_size / part.predicted.stable_step_size


def _panel(shown: Any, **more: Any) -> Panel:
    """An output against the step size."""
    return Panel(shown, x="relative_step_size", by="weak_samples", **more)


@dataclass(frozen=True)
class LargeLearningRate(Study):
    """ReLU^2 and squared loss, patches [y u or 0, y v, xi], |u| = 2|v|; the strong feature u misses in a few samples.

    At a small rate f reaches the labels through u alone; what remains for samples without u is fitted by their noise.
    Above the edge of stability of that solution f oscillates about the labels and goes on moving along v, until the
    solution is stable. The step size is in units of m/|u|^2. n SNR^2 of the weak feature is a quarter above 2, from
    which on it grows faster than noise if all samples pull at it, and not if those without u do.
    """

    question = (
        "At a very large learning rate training oscillates. Does it then learn a weak feature that a small rate "
        "leaves out?"
    )
    sources = cite("lu2024oscillation", "han2025tutorial")
    departs = "Every step uses all samples; the paper has stochastic gradient descent."
    history = (
        Change(
            "",
            "n SNR_v^2 = 2.5 and n' up to 8",
            "three values were tried before; a pilot of five and of four n' had no effect at 15 and more, where the "
            "small rate learns the weak feature too, nor at 1, where no rate does, and a small one at n' = 16",
        ),
        *changes("flat boundary oscillation", "the claim", "a pilot of six seeds was seen"),
        Change(
            "oscillation", "a share of all runs, where first it was of each cell", "24 seeds left it open near the edge"
        ),
    )
    chunk_width = 32

    relative_step_size: float = value(
        1.5,
        "step size, times |u|^2/m",
        short="step size",
        symbol=r"\eta|u|^2/m",
        above=0,
        high=1e3,
        scale="log",
        paired=True,
    )
    signal_strength: float = shared.signal_strength(2.5, "n SNR^2 of the weak feature", above=0, high=1e6)
    feature_ratio: float = value(
        2.0, "length of the strong feature over that of the weak", symbol="|u|/|v|", above=0, high=1e3
    )
    weak_samples: int = value(4, "samples without the strong feature", symbol="n'", low=0, high=5000)
    d: float = value(1000.0, "dimension", symbol="d", low=2, high=1e12, scale="log")
    initial_scale: float = value(0.01, "initial scale sigma_0 sqrt(d)", above=0, high=100, scale="log")
    width: int = static(10, "neurons of each sign", symbol="m", low=1, high=4096, scale="log")
    n: int = static(40, "training samples", symbol="n", low=2, high=10_000)
    steps: int = static(1200, "updates", low=1, high=10_000_000, scale="log")

    outputs = {
        "weak_error": Output("error on samples without the strong feature", short="error without the strong feature"),
        "both_error": Output("error on samples with both features"),
        "strong_signal": Output("coefficient of the strong feature", r"\max\gamma_u", scale="log"),
        "weak_signal": Output("coefficient of the weak feature", r"\max\gamma_v", scale="log"),
        "strong_output": Output("output due to the strong feature", "f_u"),
        "rises": Output("share of the steps at which the training loss rises"),
        "late_rises": Output("the same in the last tenth of the steps"),
        "stable_step_size": Output(
            "largest stable step size",
            r"\eta_*|u|^2/m",
            theory_only=True,
            infinite="every step size is stable: no sample carries the strong feature",
        ),
        **shared.RUN_OUTPUTS,
    }
    presets = {
        "quick": {"relative_step_size": RATES, "weak_samples": MISSING, "seeds": 56},
        "full": {
            "relative_step_size": RATES,
            "weak_samples": MISSING,
            "width": [10, 20, 40],
            "steps": 1500,
            "seeds": 32,
        },
    }
    lines = {"main": "relative_step_size"}
    figure = panels(
        _panel("weak_error", ylim=(-0.03, 0.5), line=True),
        _panel("strong_output", legend=False, title="lines: the largest that is stable", ylim=(0, 1.1)),
        _panel(lambda data: data.rises > 0, legend=False, theory=False, line=True, ylabel="runs whose loss ever rises"),
    )

    @claim("lu2024oscillation", "theorem on small learning rates", at_least(0.2))
    def small_rate(main):
        """Rates up to 0.9 m/|u|^2 do not learn the weak feature. The error on samples without the strong feature is
        {criterion}."""
        return main.simulated.weak_error.sel(relative_step_size=[0.5, 0.9])

    @claim(OWN, "precondition of the claims below", at_most(0.05))
    def fit(main):
        """At every rate the training samples are fitted: the training loss is {criterion}."""
        return main.simulated.training_loss

    @claim(*LARGE, at_most(0.05))
    def large_rate(main):
        """Rates that are at least 15% above the edge of stability learn the weak feature. The error on samples without
        the strong feature is {criterion}."""
        return kept(main.simulated.weak_error, _relative_rate(main) >= 1.15)

    @claim(OWN, EDGE, within(0.1), resampled=True)
    def boundary(main):
        """The weak feature is learned from the edge of stability on. The rate at which the error is 0.1 is n/(n - n')
        m/|u|^2, {criterion}, for every n'."""
        rate = crossing(main.simulated.weak_error.mean("seed"), "relative_step_size", 0.1)
        return rate / main.predicted.stable_step_size.isel(relative_step_size=0) - 1

    @claim(OWN, EDGE, at_least(0.9))
    def oscillation(main):
        """The loss rises now and then exactly if the rate is above the edge. Among runs whose rate is at least 5% off
        the edge the share for which this is so is {criterion}."""
        relative = _relative_rate(main)
        return kept((main.simulated.rises > 0) == (relative > 1), abs(relative - 1) >= 0.05).mean("case")

    @claim(OWN, EDGE, within(0.05), resampled=True)
    def flat(main):
        """Training above the edge ends at the edge. At rates from 1.4 m/|u|^2 on the strong feature's part of the
        output is the largest that is stable, {criterion} (median)."""
        return over_theory(main, "strong_output").sel(relative_step_size=[1.4, 1.5, 1.6, 1.7]).median("seed")

    @claim(
        "lu2024oscillation",
        "training oscillates",
        at_least(0.75),
        known_negative=(
            "The oscillation ends itself. As the weak feature takes over a part of the output, the curvature along "
            "the strong one falls below 2/eta (claim flat), and gradient descent converges."
        ),
    )
    def oscillation_lasts(main):
        """At rates at least 15% above the edge the loss still oscillates in the last tenth of training. The share of
        runs in which it does is {criterion}."""
        return kept(main.simulated.late_rises > 0, _relative_rate(main) >= 1.15)

    def validate(self) -> None:
        shared.check_even("n", self.n)
        shared.check_dimension(self.d, samples=self.n, width=self.width, shared=2)
        self.check_at_most(("weak_samples", "n"))

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax.numpy as jnp

        from unlazy.training.signal_noise import token_gram as engine

        weak = jnp.sqrt(self.signal_strength * self.d / self.n)
        strong, carries_strong = self.feature_ratio * weak, (jnp.arange(self.n) >= self.weak_samples).astype(float)
        carried = carries_strong[:, None] * jnp.array([1.0, 0.0]), jnp.tile(jnp.array([0.0, 1.0]), (self.n, 1))
        network = engine.Network(engine.relu_power(2), engine.SQUARED)
        rule = engine.gradient_descent(self.relative_step_size * self.width / strong**2)
        kinds = jnp.zeros((2, 3, 2)).at[:, 1, 1].set(1.0).at[1, 0, 0].set(1.0)
        sizes = self.as_dict("d", "width", "initial_scale") | engine.watch_loss(self.steps)
        design, lengths = engine.feature_design(*carried), jnp.stack([strong, weak])
        run = engine.patch_run(key, design, lengths, network, rule, self.steps, kinds=kinds, **sizes)
        output = engine.feature_output(run.problem, network, run.state.weights)
        found = (*run.fresh.error, *run.signals.max(0), output, *engine.loss_rises(run.records, self.steps))
        names = ("weak_error", "both_error", "strong_signal", "weak_signal", "strong_output", "rises", "late_rises")
        return dict(zip(names, found, strict=True)) | shared.end_of_run(run)

    def predict(self) -> dict[str, Any]:
        return stable_output(**self.as_dict("feature_ratio", "n", "weak_samples", "relative_step_size"))._asdict()

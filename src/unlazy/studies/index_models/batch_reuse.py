"""Algorithm 1 on He_3: a ReLU network learns direction and link if it uses each example twice, and not otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Change, Output, Study, at_least, at_most, changes, cite, claim, static, value
from unlazy.plotting.panels import Level, Panel, panels

ALGORITHM = "Algorithm 1; ReLU figure of the talk"
RECORDS = 15
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


def _median_at_end(main: Any, reuse: int) -> Any:
    return main.simulated.overlap_quantiles.sel(reuse=reuse, fraction=0.5).isel(stage=-1)


SHARES = (lambda data: data.overlap_quantiles.sel(fraction=0.5), lambda data: data.overlap_quantiles.sel(fraction=0.9))
TIME = "examples per dimension $n/d$"


@dataclass(frozen=True)
class BatchReuse(Study):
    """N ReLU neurons, one example per step for all, once or twice; then ridge regression for the second layer.

    Phase I: random signs, biases 0.5 N(0, 1), s = 1, gamma = 0.1, uniform start. Phase II: fresh biases U(-3, 3), 5 N
    fresh examples, the ridge chosen on half as many more. The arms share start, signs, biases and all examples: reuse
    is the only difference. With n = 300 d at d = 50 the network without reuse begins to learn too, as its biases give
    it a third Hermite coefficient.
    """

    question = (
        "A network trained by SGD uses each example twice. Does it learn a cubic link from n of order d examples?"
    )
    sources = cite("lee2024", "dandi2024reuse", "wu2024talk")
    departs = (
        "Gradients are of the correlation loss, without the network's own output, and project at the old weights in "
        "both steps. One ratio, n = 150 d, and thresholds of this project stand for the order d of samples and for "
        "the talk's curves."
    )
    # Phase I runs in single precision, and rounding grows over 150 d steps.
    agreement = 0.02

    reuse: int = value(1, "whether each example is used twice", low=0, high=1, paired=True)
    step_size: float = value(0.1, "step size times the dimension", symbol=r"\gamma", above=0, high=100, paired=True)
    reuse_step_size: float = value(
        1.0, "step size of the first of two uses, times the dimension", symbol="s", low=0, high=100, paired=True
    )
    noise_variance: float = value(0.01, "variance of the label noise", symbol=r"\sigma^2", low=0, high=10_000)
    bias_deviation: float = value(0.5, "deviation of the biases in phase I", low=0, high=10)
    samples_per_dimension: int = static(
        150, "examples per dimension in phase I", symbol="n/d", low=RECORDS, high=100_000
    )
    d: int = static(100, "dimension", symbol="d", low=3, high=10_000, scale="log")
    width: int = static(128, "neurons", symbol="N", low=1, high=10_000, scale="log")
    link: str = static("He3", "link", choices=("He2", "He3", "He4", "relu", "abs", "tanh", "sin", "z2exp"))

    outputs = {
        "overlap_quantiles": Output("quantiles of |overlap|", r"|m|", dims=("stage", "fraction")),
        "relative_risk": Output("test error over the variance of the link"),
    }
    inner = {"stage": (np.arange(1, RECORDS + 1) / RECORDS).tolist(), "fraction": list(QUANTILES)}
    presets = {"quick": {"reuse": [0, 1], "seeds": 48}, "full": {"reuse": [0, 1], "d": [100, 200, 400], "seeds": 32}}
    history = (
        *changes(
            "direction no-direction error no-error",
            "criterion",
            "set after a prototype of the same experiment had been seen",
        ),
        Change(
            "",
            "d = 100 to 400 in full, where it was 50 to 200",
            "at d = 50 the 150 d examples are more than d^2, and without reuse the error had begun to fall, to 0.88",
        ),
        Change("", "48 seeds, first 8", "fresh seeds would have changed the verdict on the error in 40% of runs"),
        Change("ablation", "criterion", "the difference of two that were set after a look, and a margin"),
    )
    figure = panels(
        Panel(
            SHARES,
            x=lambda data: data.attrs["samples_per_dimension"] * data.stage,
            by="reuse",
            at={"d": 100},
            line=True,
            labels=("median", "90%"),
            xlabel=TIME,
            ylabel="overlap $|m|$",
            ylim=(0, 1.5),
            legend="upper left",
        ),
        Panel(
            "overlap_quantiles",
            x="fraction",
            by="reuse",
            at={"d": 100},
            line=True,
            xlabel="share of neurons",
            legend=False,
        ),
        Panel("relative_risk", x="reuse", by="d", runs=True, beside=True, xlim=(-0.5, 1.5), marks=(Level(1.0),)),
        width=3.0,
        height=2.8,
        caption="Dotted line: predicting the mean.",
    )

    @claim("lee2024 wu2024talk", ALGORITHM, at_least(0.5))
    def direction(main):
        """With reuse half of the neurons find the direction. After 150 d examples their overlap is {criterion}."""
        return _median_at_end(main, 1)

    @claim("lee2024 wu2024talk", ALGORITHM, at_most(0.25))
    def no_direction(main):
        """Without reuse neurons do not find the direction. After 150 d examples the median overlap is {criterion}."""
        return _median_at_end(main, 0)

    @claim(
        "lee2024 wu2024talk",
        ALGORITHM,
        at_most(0.5),
        departs=(
            "Half of the variance at one ratio, n = 150 d, stands for every error epsilon with n of order d "
            "epsilon^-2. Gradients are of the correlation loss. All activations are ReLU; the source has random ones."
        ),
    )
    def error(main):
        """With reuse the network learns the target. The ratio of the test error to the variance of the target is
        {criterion}."""
        return main.simulated.relative_risk.sel(reuse=1)

    @claim("lee2024 wu2024talk", ALGORITHM, at_least(0.9))
    def no_error(main):
        """Without reuse the network hardly learns the target. The ratio of the test error to the variance of the target
        is {criterion}."""
        return main.simulated.relative_risk.sel(reuse=0)

    @claim("lee2024 wu2024talk", ALGORITHM, at_least(0.3))
    def ablation(main):
        """Reuse alone makes the difference. With the same start, examples and second-layer data it raises the median
        overlap by {criterion}."""
        return _median_at_end(main, 1) - _median_at_end(main, 0)

    def validate(self) -> None:
        if self.samples_per_dimension % RECORDS:
            raise InputError(f"samples_per_dimension must be a multiple of {RECORDS}, got {self.samples_per_dimension}")

    def simulate(self, key: Any) -> dict[str, Any]:
        from unlazy.training.index_models.reused_runs import network_run

        stops = [self.samples_per_dimension // RECORDS * self.d * stage for stage in range(1, RECORDS + 1)]
        options = self.as_dict(
            "d", "width", "step_size", "reuse_step_size", "reuse", "bias_deviation", "noise_variance"
        )
        return network_run(key, self.link, stops, QUANTILES, **options)

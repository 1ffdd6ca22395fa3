"""Generative exponent: what the best transform of the label shows of the direction, and the label itself does not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.functions.links import LINKS, link
from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, between, parameter, static
from unlazy.studies.index_models.shared.sources import DAMIAN, TALK

if TYPE_CHECKING:
    import xarray as xr

ORDERS = (1, 2, 3, 4)
TEXT = "Damian et al. 2024, definition of the generative exponent"
SLICE = 60
SPREAD = 1.6
"""The deviation with which z is drawn; weights make it 1."""


@cache
def _theory(name: str, noise: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """lambda_k^2, and the squared correlation of the label itself."""
    from unlazy.theory.index_models.exponents.exponents import generative_exponent, information_exponent

    found = information_exponent(name)
    own = found.relative[list(ORDERS)]
    variance = float((found.coefficients[found.exponent] / found.relative[found.exponent]) ** 2)
    squares = generative_exponent(name, noise, degree=max(ORDERS)).squares[list(ORDERS)]
    return tuple(squares.tolist()), tuple((own**2 * variance / (variance + noise**2)).tolist())


def _slice_starts(y: np.ndarray) -> np.ndarray:
    """Where slices of SLICE sorted labels begin; equal labels stay together."""
    wanted = np.searchsorted(y, y[SLICE : y.size - SLICE // 2 : SLICE])
    return np.unique(np.append(0, wanted[wanted <= y.size - SLICE // 2]))


def _at(part: Part, name: str, noise: float, order: int, output: str = "squares") -> xr.DataArray:
    return part.simulated[output].sel(link=name, noise=noise, order=order)


@dataclass(frozen=True)
class GenerativeExponent(Study):
    """lambda_k^2 = E[E[h_k(z) | y]^2] from n pairs (z, y): means of h_k over slices of y, less what chance gives.

    z is drawn with deviation 1.6 and weighted back to 1, and slices have 60 pairs. Plain draws were tried first: slices
    of one pair left out took 0.2 from lambda_4^2 of He3, merging them took 0.05 to 0.08, because h_4^2 lives in the
    tails.
    """

    name = "generative-exponent"
    topic = "index_models"
    question = "What does the best transform of a label say about the direction, where the label itself says nothing?"
    caption = (
        "Short bars: theory. Points: simulation, means over seeds with 99% intervals. Grey crosses: theory for the "
        "label without a transform."
    )
    sources = (DAMIAN, TALK)

    link: str = static("He3", "link", choices=tuple(LINKS))
    noise: float = static(0.0, "deviation of the label noise", symbol=r"\tau", low=0, high=100)
    n: int = static(200_000, "pairs", symbol="n", low=100, high=10**8, scale="log")

    outputs = {
        "squares": Output("squared correlation of the best transform with h_k", r"\lambda_k^2", ("order",)),
        "plain": Output("squared correlation of the label with h_k", "", ("order",)),
    }
    presets = {
        "quick": {
            "link": ["He3", "He4", "relu", "z2exp"],
            "noise": [0.0, 0.1, 0.5],
            "n": 60_000,
            "seeds": 24,
        },
        "full": {
            "link": ["He3", "He4", "He5", "relu", "sign", "sin", "cos", "tanh", "z2exp"],
            "noise": [0.0, 0.03, 0.1, 0.3, 0.5, 1.0],
            "n": 400_000,
            "seeds": 32,
        },
    }
    claims = (
        Claim(
            "theory",
            TEXT,
            "Slices of the label reach the lambda_k^2 of theory within 0.03, for k = 1, ..., 4, with and without "
            "noise.",
            between(-0.03, 0.03),
            check=lambda part: part.simulated.squares - part.predicted.squares,
        ),
        Claim(
            "lower-than-information",
            "Damian et al. 2024",
            "The label He3 is uncorrelated with z and h_2, yet lambda_1^2 and lambda_2^2, without noise and with noise "
            "0.1, each exceed the squared correlation of the label itself by at least 0.3.",
            at_least(0.3),
            check=lambda part: (part.simulated.squares - part.simulated.plain).sel(
                link="He3", noise=[0.0, 0.1], order=[1, 2]
            ),
            needs={"link": ("He3",), "noise": (0.0, 0.1)},
        ),
        Claim(
            "even-link",
            "Damian et al. 2024; Lee et al. 2024",
            "He4 is even and shows h_2 but not the sign of the direction: lambda_1^2 and lambda_3^2 are at most 0.005.",
            at_most(0.005),
            check=lambda part: part.simulated.squares.sel(link="He4", order=[1, 3]),
            needs={"link": ("He4",)},
        ),
        Claim(
            "hard-link",
            "Damian et al. 2024 (a link of generative exponent 4)",
            "No transform of z^2 exp(-z^2) sees anything below h_4: lambda_1^2, lambda_2^2 and lambda_3^2 are at most "
            "0.005.",
            at_most(0.005),
            check=lambda part: part.simulated.squares.sel(link="z2exp", order=[1, 2, 3]),
            needs={"link": ("z2exp",)},
        ),
        Claim(
            "hard-link-shows-fourth",
            "Damian et al. 2024 (a link of generative exponent 4)",
            "Without noise its lambda_4^2 is at least 0.15.",
            at_least(0.15),
            check=lambda part: _at(part, "z2exp", 0.0, 4),
            needs={"link": ("z2exp",), "noise": (0.0,)},
        ),
        Claim(
            "noise",
            "data processing",
            "Noise 0.5 lowers the first lambda_k^2 that is not 0 to at most 0.8 of its value without noise, for He3, "
            "He4 and z^2 exp(-z^2).",
            at_most(0.8),
            statistic=lambda part: [
                _at(part, name, 0.5, k).mean("seed") / _at(part, name, 0.0, k).mean("seed")
                for name, k in {"He3": 1, "He4": 2, "z2exp": 4}.items()
            ],
            needs={"link": ("He3", "He4", "z2exp"), "noise": (0.0, 0.5)},
        ),
    )

    def coordinates(self) -> dict[str, Any]:
        return {"order": list(ORDERS)}

    def memory(self) -> int:
        return 8 * 16 * self.n

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.functions.orthogonal import Hermite

        z = SPREAD * rng.standard_normal(self.n)
        y = link(self.link)(z) + self.noise * rng.standard_normal(self.n)
        order = np.argsort(y)
        z, y = z[order], y[order]
        weights = np.exp(-(z**2) / 2 * (1 - SPREAD**-2))
        weights /= weights.sum()
        values = Hermite().values(z, max(ORDERS))[list(ORDERS)]
        first = _slice_starts(y)
        counts = np.diff(np.append(first, self.n))
        masses = np.add.reduceat(weights, first)
        sums = np.add.reduceat(weights * values, first, axis=1)
        rest = (weights * (values - np.repeat(sums / masses, counts, axis=1))) ** 2
        chance = np.add.reduceat(rest, first, axis=1) * counts / (counts - 1)
        squares = ((sums**2 - chance) / masses).sum(axis=1)
        centred = y - weights @ y
        plain = (values @ (weights * centred)) ** 2 / (weights @ centred**2)
        return {"squares": squares, "plain": plain}

    def predict(self) -> dict[str, Any]:
        squares, plain = _theory(self.link, float(self.noise))
        return {"squares": list(squares), "plain": list(plain)}

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        links = [str(name) for name in np.atleast_1d(parameter(main.simulated, "link"))]
        noises = np.atleast_1d(parameter(main.simulated, "noise"))
        columns = min(len(links), 5)
        rows = -(-len(links) // columns)
        figure, panels = style.panels(columns, rows, width=2.1, height=2.6)
        flat = np.atleast_1d(panels).ravel()
        for axes in flat[len(links) :]:
            axes.set_visible(False)
        for axes, name in zip(flat, links, strict=False):
            for index, (noise, color) in enumerate(zip(noises, style.shades(len(noises)), strict=True)):
                dots, theory = (_chosen(data, name, noise) for data in (main.simulated, main.predicted))
                shift = 0.24 * (index - (len(noises) - 1) / 2)
                text = rf"$\tau={noise:g}$"
                axes.hlines(theory.squares, dots.order + shift - 0.16, dots.order + shift + 0.16, color=color)
                style.simulation(
                    axes, dots.order + shift, dots.squares, color=color, marker=style.marker(index), label=text
                )
            own = _chosen(main.predicted, name, noises[0])
            axes.plot(own.order, own.plain, "x", color="#888888", markersize=4, label="label itself", zorder=1)
            axes.set(xlabel="$k$", xticks=ORDERS, ylim=(-0.04, 1.08), title=name)
        flat[0].set_ylabel(style.label("best transform", r"\lambda_k^2"))
        figure.legend(*flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(noises) + 1)
        return figure


def _chosen(data: xr.Dataset, name: str, noise: float) -> xr.Dataset:
    data = data.sel(link=name) if "link" in data.dims else data
    return data.sel(noise=noise) if "noise" in data.dims else data

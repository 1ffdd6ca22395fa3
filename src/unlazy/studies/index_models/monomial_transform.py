"""Monomial transforms: the square of a label shows a direction that the label itself hides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.functions.links import link
from unlazy.lab import Output, Study, cite, static
from unlazy.lab.claims import OWN, Change, at_least, at_most, between, claim, difference, parameter, within
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.index_models.shared.importance import exact_moments, moments, wide_draws

POWERS = (1, 2, 3)
STEPS = ("linear", "quadratic")
PROPOSITION = "proposition on monomial transforms"
NAMES = tuple(f"He{k}" for k in range(3, 9))
_SPREAD = 2.5
_DRAWS = 20_000
_REACH = 24.0


def _price(name: str, overlap: float) -> np.ndarray:
    """V/a^2, the n/d at which a step has squared cosine 1/2, for every step and power; infinite where it is blind."""
    z = np.linspace(-_REACH, _REACH, 20_001)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    y, m = link(name)(z), overlap
    found = []
    for seen, weight, factor in ((z, 1.0, 1.0), (z**2 - 1, 1 + m**2 * (z**2 - 1), m * np.sqrt(1 - m**2))):
        row = []
        for power in POWERS:
            transformed = y**power
            signal = factor * float((transformed * density) @ seen)
            # what quadrature leaves of a coefficient that is 0
            blind = abs(signal) <= 1e-9 * float(np.abs(transformed * seen) @ density)
            row.append(np.inf if blind else float((transformed**2 * density) @ (weight * np.ones_like(z))) / signal**2)
        found.append(row)
    return np.array(found)


def _draw_table(axes: Any, **_: Any) -> None:
    from unlazy.theory.index_models.exponents.exponents import monomial_exponents

    powers = range(1, 7)
    exponents = np.array([monomial_exponents(name, powers).exponents for name in NAMES])
    axes.imshow(np.minimum(exponents, 3), cmap="Blues", aspect="auto", vmin=0.5, vmax=5)
    for (row, column), exponent in np.ndenumerate(exponents):
        axes.text(column, row, str(exponent), ha="center", va="center", fontsize=8)
    axes.set_xticks(range(len(powers)), [str(power) for power in powers])
    axes.set_yticks(range(len(NAMES)), NAMES)
    axes.grid(visible=False)


def _draw_price(axes: Any, main: Any) -> None:
    from unlazy.plotting import style

    links = np.atleast_1d(parameter(main.simulated, "link"))
    prices = np.array([_price(name, float(parameter(main.simulated, "overlap"))) for name in links])
    for step, power in np.ndindex(*prices.shape[1:]):
        marker = "x" if STEPS[step] == "linear" else style.marker(power)
        if np.isfinite(prices[:, step, power]).any():
            label = f"{STEPS[step]}, $y^{POWERS[power]}$"
            axes.plot(np.arange(len(links)), prices[:, step, power], marker, color=style.colour(power), label=label)


@dataclass(frozen=True)
class MonomialTransform(Study):
    """Two steps with T = y^i: sum_a T_a x_a, and sum_a T_a (w.x_a) x_a from a weight w of overlap m.

    The first sees E[T h_1], the second m E[T h_2]; `alignment` is the squared cosine of the step, less its part along
    w, with the direction. Only what lies in the plane of w and the direction is drawn, and the norm of the rest, which
    is exact for every d. The coefficients E[y^i h_j] / E|y^i h_j| come from stratified draws of z with deviation 2.5,
    weighted back to 1: plain draws do not reach where y^3 of He8 lives.
    """

    question = "Does a power of the label show the direction that the label itself hides?"
    sources = cite("lee2024", "chen2020", "mondelli2018", "benarous2021", "wu2024talk")

    link: str = static("He3", "link", choices=NAMES)
    d: int = static(1000, "dimension", symbol="d", low=3, high=10**9, scale="log")
    ratio: int = static(128, "samples per dimension", symbol="n/d", low=1, high=10**6, scale="log")
    overlap: float = static(0.3, "overlap of the weight of the quadratic step", symbol="m", above=0, high=0.99)

    outputs = {
        "alignment": Output("squared cosine of step and direction", r"\cos^2", ("step", "power")),
        "coefficient": Output("E[y^i h_j] / E|y^i h_j|", "", ("power", "order")),
    }
    presets = {
        "quick": {"link": list(NAMES), "seeds": 16},
        "full": {"link": list(NAMES), "ratio": [64, 256, 1024, 4096], "seeds": 32},
    }
    history = (
        Change("coefficients", "divided by E|y^i h_j| in place of E|y|^i", "they were as large as 23"),
        Change(
            "",
            "the quadratic step in place of the leading eigenvector of sum_a T_a x_a x_a^T at d = 32, n = 2048",
            "for all six links that had an overlap of 0.55 to 0.62 from y itself: the few largest labels lie at large "
            "|z|, and one sample of 32 numbers points to the direction",
        ),
        Change("", "d = 1000 in place of 400", "there the same gave the linear step 0.06 for the square of He4"),
        Change(
            "alignment",
            "without He4",
            "its square has too heavy tails for E[T^2] to be what a sample shows (0.58 instead of 0.43 at n = 256 d)",
        ),
    )
    figure = panels(
        Panel(
            "coefficient",
            x="power",
            points=False,
            theory=False,
            title="information exponent",
            xlabel="power $i$",
            ylabel="link",
            draw=_draw_table,
        ),
        Panel(
            "coefficient",
            x="link",
            points=False,
            theory=False,
            title="price of a step (theory)",
            ylabel=r"$n/d$ for $\cos^2 = 1/2$",
            log="y",
            draw=_draw_price,
        ),
        *(
            Panel(
                "alignment",
                x="link",
                by="power",
                at={"step": step},
                title="simulation",
                theory=False,
                ylabel=r"$\cos^2$ of step and direction",
                ylim=(0, 1),
                legend=step == "linear",
            )
            for step in STEPS
        ),
        columns=4,
        width=2.8,
        height=2.8,
    )

    @claim("lee2024", PROPOSITION, between(2, 2), theory=True)
    def smallest_power():
        """The smallest power of He3, ..., He8 with information exponent at most 2 is 2 for each of them."""
        import xarray as xr

        from unlazy.theory.index_models.exponents.exponents import monomial_exponents

        tables = [monomial_exponents(name, range(1, 7)) for name in NAMES]
        smallest = [table.powers[np.argmax(table.exponents <= 2)] for table in tables]
        return xr.DataArray(smallest, dims="link", coords={"link": list(NAMES)})

    @claim("lee2024", PROPOSITION, within(0.05, absolute=True))
    def coefficients(main):
        """Simulated E[y^i h_j] / E|y^i h_j|, j = 1, 2, agree with exact quadrature {criterion} for every link and
        power."""
        return difference(main, "coefficient")

    @claim("benarous2021", "information exponent above 2", at_most(0.05))
    def label_is_blind(main):
        """From the label itself neither step finds the direction: the squared cosine is {criterion} for every link."""
        return main.simulated.alignment.sel(power=1)

    @claim("lee2024", PROPOSITION, at_least(0.2))
    def square_shows(main):
        """From the square of the label the quadratic step finds it for He3 and He4: the squared cosine is
        {criterion}."""
        return main.simulated.alignment.sel(step="quadratic", power=2, link=["He3", "He4"])

    @claim("lee2024", PROPOSITION, at_least(0.3))
    def cube_shows(main):
        """He3 is not even, and the linear step with the cube of its label finds the direction: the squared cosine is
        {criterion}."""
        return main.simulated.alignment.sel(step="linear", power=3, link="He3")

    @claim("lee2024", PROPOSITION, at_most(0.05))
    def even_stays_blind(main):
        """For the even He4 no power has a linear coefficient: the linear step's squared cosine is {criterion}."""
        return main.simulated.alignment.sel(step="linear", link="He4")

    @claim(OWN, "ratio of the means of signal and noise", within(0.1, absolute=True))
    def alignment(main):
        """For He3 with powers 1 and 2 the squared cosine is a^2 / (a^2 + (d/n) V), a = E[T h_1] or m (1-m^2)^(1/2)
        E[T (z^2-1)], V = E[T^2] or E[T^2 (1 + m^2 (z^2-1))], {criterion}."""
        return difference(main, "alignment").sel(link="He3", power=[1, 2])

    def coordinates(self) -> dict[str, Any]:
        return {"step": list(STEPS), "power": list(POWERS), "order": [1, 2]}

    def memory(self) -> int:
        return 8 * 8 * self.d * self.ratio

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        u, v = rng.standard_normal((2, self.ratio * self.d))
        z = self.overlap * u + np.sqrt(1 - self.overlap**2) * v
        y = link(self.link)(z)
        alignment = []
        for step in STEPS:
            # a step that is blind to w may as well be measured along z itself
            weight, along, dimensions = (1.0, z, self.d - 1) if step == "linear" else (u, v, self.d - 2)
            cosines = []
            for power in POWERS:
                factors = y**power * weight
                signal = (factors @ along) ** 2
                cosines.append(signal / (signal + factors @ factors * rng.chisquare(dimensions)))
            alignment.append(cosines)
        z, weights = wide_draws(rng, _DRAWS, _SPREAD)
        return {"alignment": alignment, "coefficient": moments(link(self.link)(z), z, weights, POWERS, 2)}

    def predict(self) -> dict[str, Any]:
        price = _price(self.link, self.overlap)
        return {
            "alignment": self.ratio / (self.ratio + price),
            "coefficient": exact_moments(link(self.link), _REACH, POWERS, 2),
        }

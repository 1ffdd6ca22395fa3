"""Superorthogonal links: polynomials whose first powers hide the direction from every low Hermite degree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from unlazy.functions.links import polynomial
from unlazy.lab import OWN, Change, Output, Study, at_least, at_most, cite, claim, difference, parameter, static, within
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.index_models.shared.importance import exact_moments, moments, wide_draws

CASES = {
    "K=2, I=2, even": (2, 2, "even", 20),
    "K=2, I=2, odd": (2, 2, "odd", 17),
    "K=4, I=2, odd": (4, 2, "odd", 25),
    "K=2, I=3, odd": (2, 3, "odd", 19),
    "K=3, I=3, even": (3, 3, "even", 22),
}
LINKS = ("superorthogonal", "generic")
POWERS = (1, 2, 3, 4)
ORDERS = (1, 2, 3, 4)
PROPOSITION = "proposition on superorthogonal polynomials"
_GENERIC_SEED = 7


@cache
def _hermite(case: str, kind: str) -> tuple[float, ...]:
    """Coefficients of the superorthogonal link of a case, or of one with the same sizes and random signs."""
    from unlazy.theory.index_models.superorthogonal_links import superorthogonal

    found = superorthogonal(*CASES[case]).hermite
    if kind == "generic":
        used = np.flatnonzero(found)
        rng = np.random.default_rng(_GENERIC_SEED)
        found = found.copy()
        found[used] = np.abs(found[used]) * rng.choice([-1.0, 1.0], used.size)
    return tuple(found.tolist())


def _by_case(data: Any) -> list[tuple[Any, int, int]]:
    """The moments of every case of a run, with its K and I."""
    cases = [str(case) for case in np.atleast_1d(parameter(data, "case"))]
    chosen = [data.moment.sel(case=case) if "case" in data.moment.dims else data.moment for case in cases]
    return [(array, *CASES[case][:2]) for case, array in zip(cases, chosen, strict=True)]


def _hidden(data: Any, kind: str) -> list[Any]:
    """The moments that a superorthogonal link does not have, one array per case."""
    return [
        array.sel(kind=kind, power=list(range(1, powers + 1)), order=list(range(1, orders + 1)))
        for array, orders, powers in _by_case(data)
    ]


def _shown(data: Any) -> list[str]:
    """The first and the last case of a run."""
    cases = [str(case) for case in np.atleast_1d(parameter(data, "case"))]
    return list(dict.fromkeys((cases[0], cases[-1])))


def _draw_links(axes: Any, main: Any) -> None:
    from unlazy.plotting import style

    z = np.linspace(-8, 8, 1601)
    for index, case in enumerate(_shown(main.simulated)):
        g = polynomial(_hermite(case, "superorthogonal"))(z)
        weighted = np.sign(g) * np.abs(g) * np.exp(-(z**2) / (2 * CASES[case][1]))
        axes.plot(z, weighted / np.abs(weighted).max(), color=style.colour(index), label=case)


def _draw_moments(which: int, axes: Any, main: Any) -> None:
    from unlazy.plotting import style

    case = _shown(main.simulated)[-which]
    data = [part.sel(case=case) if "case" in part.dims else part for part in (main.simulated, main.predicted)]
    for index, kind in enumerate(LINKS):
        simulated, theory = (one.moment.sel(kind=kind).stack(place=("power", "order")) for one in data)
        places, color = np.arange(simulated.sizes["place"]) + 0.25 * (index - 0.5), style.colour(index)
        axes.hlines(theory, places - 0.18, places + 0.18, color=color)
        style.simulation(axes, places, simulated, color=color, marker=style.marker(index), label=kind)
    orders, powers, *_ = CASES[case]
    for i in range(powers):
        axes.axvspan(4 * i - 0.5, 4 * i + orders - 0.5, color="#dddddd", alpha=0.6, zorder=0)
    axes.set_xticks([4 * i + 1.5 for i in range(4)], [f"$i = {i}$" for i in POWERS])
    axes.set_title(case)


@dataclass(frozen=True)
class SuperOrthogonal(Study):
    """E[g^i h_k] / E|g^i h_k| from stratified draws of z with deviation `spread`, weighted back to 1.

    The generic link has the same sizes of Hermite coefficients with random signs, hence the same degree, parity and
    information exponent. The moments are dominated by |z| of 4 to 10, which plain draws do not reach.
    """

    question = "Are there polynomial links whose powers up to I hide the direction from all Hermite degrees up to K?"
    sources = cite("oko2024", "wu2024talk")

    case: str = static("K=2, I=2, even", "degrees K and powers I that see nothing", choices=tuple(CASES))
    spread: float = static(5.0, "deviation of the draws", above=1, high=20)
    n: int = static(200_000, "draws", symbol="n", low=100, high=10**8, scale="log")

    outputs = {
        "moment": Output("E[g^i h_k] / E|g^i h_k|", "", ("kind", "power", "order")),
        "residual": Output("largest hidden moment by quadrature", "", theory_only=True, scale="log"),
    }
    presets = {
        "quick": {"case": list(CASES), "n": 20_000, "seeds": 16},
        "full": {"case": list(CASES), "n": 200_000, "seeds": 32},
    }
    history = (
        Change(
            "",
            "deviation 5 and division by E|g^i h_k|, in place of 3.5 and E|g|^i",
            "errors of 2, because h_k is large in the tails too",
        ),
        Change("", "stratified draws", "errors of 16 times 40,000 plain draws were 0.02, too much to decide"),
    )
    figure = panels(
        Panel(
            "moment",
            x="order",
            points=False,
            theory=False,
            title="the links, weighted",
            xlabel="$z$",
            ylabel=r"$g(z)\,\varphi(z)^{1/I}$ over its largest size",
            ylim=(-0.9, 1.4),
            legend="upper center",
            draw=_draw_links,
        ),
        *(
            Panel(
                "moment",
                x="order",
                points=False,
                theory=False,
                xlabel=r"power $i$; in each $k = 1, \dots, 4$",
                ylabel=r"$E[g^i h_k]\,/\,E|g^i h_k|$",
                ylim=(-1.1, 1.1),
                legend="lower left",
                draw=partial(_draw_moments, which),
            )
            for which in (0, 1)
        ),
        height=3.0,
        caption="Right: bars are theory, points means over seeds with 99% intervals; on grey the theory says zero for "
        "the superorthogonal link.",
    )

    @claim("oko2024", PROPOSITION, within(0.02, absolute=True))
    def hidden(main):
        """In draws E[g^i h_k] over E|g^i h_k| is 0 {criterion}, for all 1 <= i <= I and 1 <= k <= K."""
        return _hidden(main.simulated, "superorthogonal")

    @claim("oko2024", PROPOSITION, at_most(1e-10), theory=True)
    def residual(main):
        """By quadrature E[g^i h_k] over E|g|^i is {criterion}."""
        return main.predicted.residual

    @claim(OWN, "control", at_least(0.2), resampled=True)
    def generic(main):
        """Random signs of the same coefficients show the direction: some E[g^i h_k] over E|g^i h_k| is {criterion}."""
        return [abs(array.mean("seed")).max(["power", "order"]) for array in _hidden(main.simulated, "generic")]

    @claim(OWN, "control", at_least(0.2), resampled=True)
    def next_power(main):
        """The next power I + 1 shows it too: some E[g^(I+1) h_k] over E|g^(I+1) h_k|, k <= K, is {criterion}."""
        found = [
            array.sel(kind="superorthogonal").sel(power=powers + 1, order=list(range(1, orders + 1)))
            for array, orders, powers in _by_case(main.simulated)
        ]
        return [abs(array.mean("seed")).max("order") for array in found]

    @claim(OWN, "quadrature", within(0.05, absolute=True))
    def theory(main):
        """All moments of both links up to the fourth power and degree agree with quadrature {criterion}."""
        return difference(main, "moment")

    def coordinates(self) -> dict[str, Any]:
        return {"kind": list(LINKS), "power": list(POWERS), "order": list(ORDERS)}

    def memory(self) -> int:
        return 8 * 16 * self.n

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        z, weights = wide_draws(rng, self.n, self.spread)
        found = [moments(polynomial(_hermite(self.case, kind))(z), z, weights, POWERS, max(ORDERS)) for kind in LINKS]
        return {"moment": np.array(found)}

    def predict(self) -> dict[str, Any]:
        from unlazy.theory.index_models.superorthogonal_links import moment_residual

        largest_order, largest_power, *_ = CASES[self.case]
        hermite = _hermite(self.case, "superorthogonal")
        found = [exact_moments(polynomial(_hermite(self.case, kind)), 34.0, POWERS, max(ORDERS)) for kind in LINKS]
        return {
            "moment": np.array(found),
            "residual": moment_residual(hermite, largest_order, largest_power),
        }

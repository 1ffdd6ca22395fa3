"""Superorthogonal links: polynomials whose first powers hide the direction from every low Hermite degree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from unlazy.functions.elementwise import Link, polynomial
from unlazy.lab import OWN, Change, Output, Study, at_least, at_most, cite, claim, difference, parameter, static, within
from unlazy.numerics.monte_carlo import exact_moments, moments, wide_draws
from unlazy.plotting import style
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.theory.index_models.superorthogonal_links import moment_residual, superorthogonal

CASES = {
    "K=2, I=2, even": (2, 2, "even", 20),
    "K=2, I=2, odd": (2, 2, "odd", 17),
    "K=4, I=2, odd": (4, 2, "odd", 25),
    "K=2, I=3, odd": (2, 3, "odd", 19),
    "K=3, I=3, even": (3, 3, "even", 22),
}
"""K, I, parity and degree."""
LINKS = ("superorthogonal", "generic")
POWERS = (1, 2, 3, 4)
DEGREES = (1, 2, 3, 4)
PROPOSITION = "proposition on superorthogonal polynomials"
FIVE = "Five pairs of K and I, with polynomials that a search found, stand for all of them."


@cache
def _link(case: str, kind: str) -> Link:
    """The superorthogonal link of a case, or one with the same sizes of coefficients and random signs."""
    hidden_degree, hidden_power, parity, degree = CASES[case]
    found = np.array(superorthogonal(hidden_degree, hidden_power, parity, degree=degree).link.hermite_coefficients)
    if kind == "generic":
        used = np.flatnonzero(found)
        found = found.copy()
        found[used] = np.abs(found[used]) * np.random.default_rng(7).choice([-1.0, 1.0], used.size)
    return polynomial(found.tolist())


def _of_cases(data: Any, kind: str, *, beyond: bool = False) -> list[Any]:
    """E[g^i h_k], k <= K, of every case of a run: for the powers i <= I, or for I + 1."""
    found = []
    for case in np.atleast_1d(parameter(data, "case")):
        degrees, powers, *_ = CASES[str(case)]
        moment = data.relative_moment.sel(case=case) if "case" in data.relative_moment.dims else data.relative_moment
        power = powers + 1 if beyond else list(range(1, powers + 1))
        found.append(moment.sel(link=kind).sel(label_power=power, hermite_degree=list(range(1, degrees + 1))))
    return found


def _largest(kind: str, data: Any) -> Any:
    """The size of the mean E[g^i h_k] over E|g^i h_k| that is largest among k <= K, of every case and power."""
    import xarray as xr

    means = abs(data.relative_moment.mean("seed") if "seed" in data.dims else data.relative_moment).sel(
        link=kind, drop=True
    )
    cases = np.atleast_1d(parameter(data, "case"))
    degrees = xr.DataArray([CASES[str(case)][0] for case in cases], {"case": cases}, ("case",))
    return means.where(means.hermite_degree <= degrees).max("hermite_degree")


def _draw_links(axes: Any, main: Any) -> None:
    """The links of the first and the last case of the run."""
    z = np.linspace(-8, 8, 1601)
    cases = np.atleast_1d(parameter(main.simulated, "case")).tolist()
    for index, case in enumerate(dict.fromkeys((cases[0], cases[-1]))):
        weighted = _link(case, "superorthogonal")(z) * np.exp(-(z**2) / (2 * CASES[case][1]))
        axes.plot(z, weighted / np.abs(weighted).max(), color=style.colour(index), label=case)


@dataclass(frozen=True)
class SuperOrthogonalStudy(Study):
    """E[g^i h_k] / E|g^i h_k| from stratified draws of z with deviation `draw_deviation`, weighted back to 1.

    The generic link has the same sizes of Hermite coefficients with random signs, hence the same degree, parity and
    information exponent. The moments are dominated by |z| of 4 to 10, which plain draws do not reach.
    """

    question = (
        "Are there polynomial links g whose powers g, ..., g^I all hide the direction from every Hermite degree up to"
        " K?"
    )
    sources = cite("oko2024", "wu2024talk")

    case: str = static("K=2, I=2, even", "degrees K and powers I that see nothing", choices=tuple(CASES))
    draw_deviation: float = static(5.0, "deviation of the draws", above=1, high=20)
    draws: int = static(200_000, "draws", low=100, high=10**8, scale="log")

    outputs = {
        "relative_moment": Output(
            "relative moment", r"E[g^i h_k]\,/\,E|g^i h_k|", ("link", "label_power", "hermite_degree")
        ),
        "moment_residual": Output("largest hidden moment by quadrature", "", theory_only=True, scale="log"),
    }
    inner = {"link": list(LINKS), "label_power": list(POWERS), "hermite_degree": list(DEGREES)}
    presets = {
        "quick": {"case": list(CASES), "draws": 20_000, "seeds": 16},
        "full": {"case": list(CASES), "draws": 200_000, "seeds": 32},
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
            xlabel="$z$",
            ylabel=r"$g(z)\,\varphi(z)^{1/I}$ over its largest size",
            ylim=(-0.9, 1.4),
            legend="upper center",
            draw=_draw_links,
        ),
        *(
            Panel(
                partial(_largest, kind),
                x="case",
                by="label_power",
                title=kind,
                ylabel=r"largest $|E[g^i h_k]|\,/\,E|g^i h_k|$, $k \leq K$",
                ylim=(-0.05, 1.05),
                marks=(Level(0.2, dashed=True),),
                legend=kind == "generic" and "beside",
            )
            for kind in LINKS
        ),
        width=4.6,
        height=3.2,
        caption=(
            "Points: absolute values of means over seeds. Dashed line: what the controls exceed. Powers up to I are "
            "hidden."
        ),
    )

    @claim("oko2024", PROPOSITION, within(0.02, absolute=True), departs=FIVE)
    def hidden(main):
        """Powers up to I hide the direction in drawn samples. E[g^i h_k] / E|g^i h_k| is 0, {criterion}, for all 1 <= i
        <= I and 1 <= k <= K."""
        return _of_cases(main.simulated, "superorthogonal")

    @claim("oko2024", PROPOSITION, at_most(1e-10), theory=True, departs=FIVE)
    def residual(main):
        """Powers up to I hide the direction by quadrature too. The largest |E[g^i h_k]| / E|g|^i is {criterion}."""
        return main.predicted.moment_residual

    @claim(OWN, "control", at_least(0.2), resampled=True)
    def generic(main):
        """Generic polynomials hide nothing. With random signs of the same coefficients some |E[g^i h_k]| / E|g^i h_k|
        is {criterion}."""
        return [
            abs(array.mean("seed")).max(["label_power", "hermite_degree"])
            for array in _of_cases(main.simulated, "generic")
        ]

    @claim(OWN, "control", at_least(0.2), resampled=True)
    def next_power(main):
        """The next power I + 1 shows the direction. Some |E[g^(I+1) h_k]| / E|g^(I+1) h_k| with k <= K is
        {criterion}."""
        found = _of_cases(main.simulated, "superorthogonal", beyond=True)
        return [abs(array.mean("seed")).max("hermite_degree") for array in found]

    @claim(OWN, "quadrature", within(0.05, absolute=True))
    def theory(main):
        """All moments of both links, up to the fourth power and degree, agree with quadrature {criterion}."""
        return difference(main, "relative_moment")

    def memory(self) -> int:
        return 8 * 16 * self.draws

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        z, weights = wide_draws(rng, self.draws, self.draw_deviation)
        return {
            "relative_moment": [moments(_link(self.case, kind)(z), z, weights, POWERS, max(DEGREES)) for kind in LINKS]
        }

    def predict(self) -> dict[str, Any]:
        found = [exact_moments(_link(self.case, kind).value, 34.0, POWERS, max(DEGREES)) for kind in LINKS]
        residual = moment_residual(_link(self.case, "superorthogonal"), *CASES[self.case][:2])
        return {"relative_moment": np.array(found), "moment_residual": residual}

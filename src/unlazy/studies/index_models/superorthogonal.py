"""Superorthogonal links: polynomials whose first powers hide the direction from every low Hermite degree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.functions.links import polynomial
from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, between, parameter, static
from unlazy.studies.index_models.shared.importance import exact_moments, moments, wide_draws
from unlazy.studies.index_models.shared.sources import OKO, TALK

if TYPE_CHECKING:
    import xarray as xr

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
TEXT = "Oko et al. 2024, proposition on superorthogonal polynomials"
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


def _hidden(part: Part, kind: str, data: xr.Dataset) -> list[xr.DataArray]:
    """The moments that a superorthogonal link does not have, one array per case."""
    cases = [str(case) for case in np.atleast_1d(parameter(part.simulated, "case"))]
    chosen = [data.moment.sel(case=case) if "case" in data.moment.dims else data.moment for case in cases]
    return [
        array.sel(kind=kind, power=list(range(1, CASES[case][1] + 1)), order=list(range(1, CASES[case][0] + 1)))
        for case, array in zip(cases, chosen, strict=True)
    ]


def _largest(part: Part, kind: str) -> list[xr.DataArray]:
    """The largest hidden moment, in size, of the means over seeds."""
    return [abs(array.mean("seed")).max(["power", "order"]) for array in _hidden(part, kind, part.simulated)]


def _next_power(part: Part) -> list[xr.DataArray]:
    """The largest moment of the first power that is not covered."""
    cases = [str(case) for case in np.atleast_1d(parameter(part.simulated, "case"))]
    data = part.simulated.moment.sel(kind="superorthogonal")
    chosen = [data.sel(case=case) if "case" in data.dims else data for case in cases]
    return [
        abs(array.sel(power=CASES[case][1] + 1, order=list(range(1, CASES[case][0] + 1))).mean("seed")).max("order")
        for case, array in zip(cases, chosen, strict=True)
    ]


@dataclass(frozen=True)
class SuperOrthogonal(Study):
    """E[g^i h_k] / E|g^i h_k| from stratified draws of z with deviation `spread`, weighted back to 1.

    The generic link has the same sizes of Hermite coefficients with random signs, hence the same degree, parity and
    information exponent. The moments are dominated by |z| of 4 to 10, which plain draws do not reach. A first version
    drew with deviation 3.5 and divided by E|g|^i alone, which left errors of 2 because h_k is large out there too;
    without strata the errors of 16 times 40,000 draws were 0.02, too much to decide.
    """

    name = "superorthogonal"
    topic = "index_models"
    question = "Are there polynomial links whose powers up to I hide the direction from all Hermite degrees up to K?"
    caption = (
        "Left: the links themselves, weighted. Right: short bars are theory, points simulation, means over seeds with"
        " 99% intervals; on grey the theory says zero for the superorthogonal link."
    )
    sources = (OKO, TALK)

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
    claims = (
        Claim(
            "hidden",
            TEXT,
            "In draws E[g^i h_k] is 0 for all 1 <= i <= I and 1 <= k <= K: within 0.02 of E|g^i h_k|.",
            between(-0.02, 0.02),
            check=lambda part: _hidden(part, "superorthogonal", part.simulated),
        ),
        Claim(
            "residual",
            TEXT,
            "By quadrature it is below 1e-10 of E|g|^i.",
            at_most(1e-10),
            theory=lambda part: part.predicted.residual,
        ),
        Claim(
            "generic",
            "control",
            "Random signs of the same coefficients show the direction: some E[g^i h_k] is at least 0.2 of E|g^i h_k|.",
            at_least(0.2),
            statistic=lambda part: _largest(part, "generic"),
        ),
        Claim(
            "next-power",
            "control",
            "The next power I + 1 shows it too: some E[g^(I+1) h_k], k <= K, is at least 0.2 of E|g^(I+1) h_k|.",
            at_least(0.2),
            statistic=_next_power,
        ),
        Claim(
            "theory",
            "quadrature",
            "All moments of both links up to the fourth power and degree agree with quadrature within 0.05.",
            between(-0.05, 0.05),
            check=lambda part: part.simulated.moment - part.predicted.moment,
        ),
    )

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

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        cases = [str(case) for case in np.atleast_1d(parameter(main.simulated, "case"))]
        shown = cases[:1] + cases[-1:] if len(cases) > 1 else cases
        figure, panels = style.panels(len(shown) + 1, 1, width=3.3, height=3.0)
        panels = np.atleast_1d(panels)
        z = np.linspace(-8, 8, 1601)
        for index, case in enumerate(shown):
            g = polynomial(_hermite(case, "superorthogonal"))(z)
            power = CASES[case][1]
            weighted = np.sign(g) * np.abs(g) * np.exp(-(z**2) / (2 * power))
            panels[0].plot(z, weighted / np.abs(weighted).max(), color=style.colour(index), label=case)
        panels[0].set(xlabel="$z$", ylabel=r"$g(z)\,\varphi(z)^{1/I}$ over its largest size")
        panels[0].legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
        for axes, case in zip(panels[1:], shown, strict=True):
            chosen = [data.sel(case=case) if "case" in data.dims else data for data in (main.simulated, main.predicted)]
            for index, kind in enumerate(LINKS):
                simulated, theory = (data.moment.sel(kind=kind) for data in chosen)
                places = np.arange(simulated.sizes["power"] * simulated.sizes["order"]) + 0.25 * (index - 0.5)
                center, reach = style.interval(simulated)
                color = style.colour(index)
                axes.hlines(theory.values.ravel(), places - 0.18, places + 0.18, color=color)
                axes.errorbar(
                    places, center.ravel(), yerr=reach.ravel(), marker=style.marker(index), color=color,
                    linestyle="none", markersize=3.5, label=kind,
                )  # fmt: skip
            largest_order, largest_power, *_ = CASES[case]
            for i in range(largest_power):
                axes.axvspan(4 * i - 0.5, 4 * i + largest_order - 0.5, color="#dddddd", alpha=0.6, zorder=0)
            axes.set_xticks([4 * i + 1.5 for i in range(4)], [f"$i={i}$" for i in POWERS])
            axes.set(title=case, ylabel=r"$E[g^i h_k]\,/\,E|g^i h_k|$, $k=1,\dots,4$")
        for axes in panels[1:]:
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2)
        return figure

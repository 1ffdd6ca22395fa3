"""Information exponent: a gradient at overlap m shows m^(k-1) of the direction, and one step needs d^k samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.checks import InputError
from unlazy.functions.links import LINKS, link
from unlazy.lab import Claim, Output, Part, Study, at_least, between, parameter, path, static
from unlazy.studies.index_models.shared.sources import BEN_AROUS, TALK

if TYPE_CHECKING:
    import xarray as xr

BLIND = "relu on He3"
"""relu has no third Hermite coefficient."""
PAIRS = {
    "tanh": ("tanh", "sine"),
    "abs": ("abs", "sine"),
    "He3": ("He3", "sine"),
    BLIND: ("He3", "relu"),
}
"""The link and the student's activation of each case."""
SEEN = tuple(name for name in PAIRS if name != BLIND)
TEXT = "Wu 2024, gradient at initialisation (Stein's lemma)"
_COEFFICIENTS = 40
LEAST = 1000


def _slope_of_student(name: str, u: np.ndarray) -> np.ndarray:
    """sigma' of the student: sin + cos has no zero coefficient, relu has."""
    return np.cos(u) - np.sin(u) if name == "sine" else (u > 0).astype(float)


def _student_coefficients(name: str) -> np.ndarray:
    from math import factorial, sqrt

    from unlazy.functions.orthogonal import Hermite, coefficients

    if name == "relu":
        return coefficients(link("relu").value, Hermite(), _COEFFICIENTS, (0.0,)).values
    signs = [1, 1, -1, -1]
    return np.array([np.exp(-0.5) * signs[k % 4] / sqrt(factorial(k)) for k in range(_COEFFICIENTS + 1)])


def _needed_exponent(part: Part) -> xr.DataArray:
    """The slope in d of (d-2) V / S^2, from the means over seeds, minus the information exponent."""
    from unlazy.lab import slope
    from unlazy.theory.index_models.exponents.exponents import information_exponent

    data = part.simulated.sel(case=list(SEEN))
    needed = (data.d - 2) * data.size.mean("seed") / data.signal.mean("seed") ** 2
    exponents = [information_exponent(PAIRS[name][0]).exponent for name in SEEN]
    return slope(needed, "d") - needed.case.copy(data=exponents)


def _deviation(part: Part) -> xr.DataArray:
    simulated, predicted = (
        data.alignment.sel(case=list(SEEN), samples=slice(LEAST, None)) for data in (part.simulated, part.predicted)
    )
    return simulated - predicted


def _blind_share(part: Part) -> xr.DataArray:
    """The signal of relu on He3 over that of the student which sees He3."""
    return part.simulated.signal.sel(case=BLIND, drop=True) / part.predicted.signal.sel(case="He3", drop=True)


@dataclass(frozen=True)
class InformationExponent(Study):
    """One gradient of the correlation loss at a weight of overlap m = d^(-1/2), g = (1/n) sum_i y_i sigma'(w.x_i) x_i.

    The projection of g on the plane of w and the direction, and the norm of the rest, are drawn exactly at a cost that
    does not depend on d; the squared cosine of n samples is averaged over disjoint sets of n. S = E[y sigma'(u) v] =
    sum_k k a_k b_k m^(k-1) (1-m^2)^(1/2), V = E[y^2 sigma'(u)^2]. The first version of the claim on the alignment
    compared all n with a ratio of means, (n S^2 + W) / (n S^2 + W + (d-2) V), and was wrong by 0.24 at n = 16, d = 8;
    it now takes the mean of the ratio and n >= 1000, where sums are normal.
    """

    name = "information-exponent"
    topic = "index_models"
    question = (
        "Does one gradient step see a direction only with d^k samples, where k is the link's information exponent?"
    )
    caption = (
        "Lines: theory. Points: simulation, means over seeds with 99% intervals; in the last panel ratios of means, "
        "without intervals."
    )
    sources = (BEN_AROUS, TALK)

    d: int = static(16, "dimension", symbol="d", low=3, high=10**9, scale="log")
    samples: tuple = path(
        tuple(np.geomspace(10, 80_000, 16).round().tolist()), "samples of the gradient", symbol="n", low=1, scale="log"
    )

    outputs = {
        "alignment": Output("squared cosine of gradient and direction", r"\cos^2", ("case", "samples")),
        "signal": Output("gradient along the direction", "S", ("case",), scale="log"),
        "size": Output("mean square of the gradient's factor", "V", ("case",), scale="log"),
    }
    presets = {
        "quick": {"d": [8, 16, 32], "seeds": 64},
        "full": {
            "d": [8, 16, 32, 64],
            "samples": np.geomspace(10, 2_000_000, 22).round().tolist(),
            "seeds": 48,
        },
    }
    lines = {"main": "samples"}
    claims = (
        Claim(
            "samples-of-one-step",
            TEXT,
            "The samples at which the noise of the gradient falls below its signal, (d-2) V/S^2 with S and V measured, "
            "grow like d^k with the information exponent k of the link: the measured exponent is k within 0.35.",
            between(-0.35, 0.35),
            statistic=_needed_exponent,
            needs={"d": 3},
        ),
        Claim(
            "alignment",
            "the project's equations",
            "For n >= 1000 the squared cosine between gradient and direction is on average E[A^2 / (A^2 + V X)], A "
            "normal with mean n^(1/2) S and variance Var[y sigma' v], X chi-square with d-2 degrees of freedom, within "
            "0.12.",
            between(-0.12, 0.12),
            check=_deviation,
            needs={"samples": at_least(LEAST)},
        ),
        Claim(
            "blind-student",
            "a zero coefficient of the student",
            "A student whose own third coefficient vanishes, relu without bias, is nearly blind to He3: its signal is "
            "in size at most a quarter of that of a student without zero coefficients; in theory it is 0.",
            between(-0.25, 0.25),
            check=_blind_share,
            needs={"samples": at_least(LEAST)},
        ),
    )

    def validate(self) -> None:
        if list(self.samples) != sorted(self.samples):
            raise InputError(f"samples must grow, got {self.samples}")

    def coordinates(self) -> dict[str, Any]:
        return {"case": list(PAIRS)}

    def memory(self) -> int:
        return int(64 * max(self.samples))

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        ends = np.array(self.samples, dtype=int)
        u, v = rng.standard_normal((2, int(ends[-1])))
        places = [np.arange(0, ends[-1] + 1, n) for n in ends]
        # of the part of each gradient that is orthogonal to both: its squared length, given the factors
        rest = [rng.chisquare(self.d - 2, place.size - 1) for place in places]
        m = self.d**-0.5
        z = m * u + np.sqrt(1 - m**2) * v
        found: dict[str, list] = {"alignment": [], "signal": [], "size": []}
        slopes = {student: _slope_of_student(student, u) for _, student in PAIRS.values()}
        labels = {name: link(name)(z) for name, _ in PAIRS.values()}
        for name, student in PAIRS.values():
            factors = labels[name] * slopes[student]
            along, squares = (np.append(0.0, np.cumsum(terms)) for terms in (factors * v, factors**2))
            cosines = []
            for place, length in zip(places, rest, strict=True):
                signal = np.diff(along[place]) ** 2
                total = signal + np.diff(squares[place]) * length
                # a relu that no sample activates has no gradient
                cosines.append(np.divide(signal, total, out=np.zeros_like(total), where=total > 0).mean())
            found["alignment"].append(cosines)
            found["signal"].append(along[-1] / ends[-1])
            found["size"].append(squares[-1] / ends[-1])
        return found

    def predict(self) -> dict[str, Any]:
        from scipy.special import gammaincinv

        from unlazy.functions.orthogonal import Hermite, coefficients
        from unlazy.numerics.gaussian import normal_nodes

        n, m = np.array(self.samples), self.d**-0.5
        # an even number of points, so that none is on the jump of a student or link at 0
        points, weights = normal_nodes(400)
        u, v = np.meshgrid(points, points, indexing="ij")
        measure = weights[:, None] * weights
        z = m * u + np.sqrt(1 - m**2) * v
        chance, share = normal_nodes(60)
        length = 2 * gammaincinv((self.d - 2) / 2, (np.arange(60) + 0.5) / 60)
        found: dict[str, list] = {"alignment": [], "signal": [], "size": []}
        orders = np.arange(1, _COEFFICIENTS + 1)
        for name, student in PAIRS.values():
            own = coefficients(LINKS[name].value, Hermite(), _COEFFICIENTS, LINKS[name].breakpoints).values
            products = (own * _student_coefficients(student))[1:]
            signal = float((orders * products * m ** (orders - 1)).sum()) * np.sqrt(1 - m**2)
            squares = (link(name)(z) * _slope_of_student(student, u)) ** 2
            size, width = float((squares * measure).sum()), float((squares * v**2 * measure).sum()) - signal**2
            seen = (np.sqrt(n)[:, None, None] * signal + np.sqrt(width) * chance[:, None]) ** 2
            cosines = seen / (seen + size * length)
            found["alignment"].append(np.einsum("nij,i->n", cosines, share) / length.size)
            found["signal"].append(signal)
            found["size"].append(size)
        return found

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style
        from unlazy.theory.index_models.exponents.exponents import information_exponent

        shown = tuple(PAIRS)
        figure, panels = style.panels(len(shown) + 1, 1, width=2.6, height=2.9)
        sizes = np.atleast_1d(parameter(main.simulated, "d"))
        for axes, name in zip(panels, shown, strict=False):
            k = information_exponent(PAIRS[name][0]).exponent
            for index, (d, color) in enumerate(zip(sizes, style.shades(len(sizes)), strict=True)):
                dots, line = (data.sel(d=d) if "d" in data.dims else data for data in (main.simulated, main.lines))
                unit = float(d) ** k
                dots, line = dots.sel(case=name), line.sel(case=name)
                style.theory(axes, line.samples / unit, line.alignment, color=color)
                style.simulation(
                    axes, dots.samples / unit, dots.alignment, color=color, marker=style.marker(index), label=f"$d={d}$"
                )
            style.log_scale(axes, "x")
            axes.set(
                xlabel=f"$n/d^{k}$" if k > 1 else "$n/d$", ylim=(0, 1), title=name if name == BLIND else f"link {name}"
            )
        panels[0].set_ylabel(r"$\cos^2$ of gradient and direction")
        panels[0].legend()
        last = panels[-1]
        for index, name in enumerate(SEEN):
            points, theory = main.simulated.sel(case=name), main.predicted.sel(case=name)
            needed = (theory.d - 2) * theory.size / theory.signal**2
            style.theory(last, sizes, np.atleast_1d(needed), color=style.colour(index))
            mean = (points.d - 2) * points.size.mean("seed") / points.signal.mean("seed") ** 2
            last.plot(sizes, np.atleast_1d(mean), style.marker(index), color=style.colour(index), label=name)
        style.log_scale(last)
        last.set(xlabel=style.label("dimension", "d"), ylabel="samples for signal = noise")
        last.legend()
        return figure

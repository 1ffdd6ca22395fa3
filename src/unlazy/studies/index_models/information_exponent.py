"""Information exponent: a gradient at overlap m shows m^(k-1) of the direction, and one step needs d^k samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.functions.links import LINKS, link
from unlazy.lab import OWN, Change, Output, Study, cite, claim, enough, parameter, path, slope, static, within
from unlazy.plotting.panels import Panel, panels

BLIND = "relu on He3"
"""relu has no third Hermite coefficient."""
PAIRS = {
    "tanh": ("tanh", "sine"),
    "abs": ("abs", "sine"),
    "He3": ("He3", "sine"),
    BLIND: ("He3", "relu"),
}
"""The link and the student's activation of each case."""
EXPONENTS = {"tanh": 1, "abs": 2, "He3": 3, BLIND: 3}
"""The powers of d in the figure: information exponents of the links."""
SEEN = tuple(name for name in PAIRS if name != BLIND)
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


def _needed(data: Any) -> Any:
    """(d-2) V / S^2, from the means over seeds of a simulation."""
    data = data.sel(case=list(SEEN))
    size, signal = (data[name].mean("seed") if "seed" in data.dims else data[name] for name in ("size", "signal"))
    return (parameter(data, "d") - 2) * size / signal**2


def _rescaled(exponent: int) -> Callable[[Any], Any]:
    return lambda data: data.samples / float(parameter(data, "d")) ** exponent


@dataclass(frozen=True)
class InformationExponent(Study):
    """One gradient of the correlation loss at a weight of overlap m = d^(-1/2), g = (1/n) sum_i y_i sigma'(w.x_i) x_i.

    The projection of g on the plane of w and the direction, and the norm of the rest, are drawn exactly at a cost that
    does not depend on d; the squared cosine of n samples is averaged over disjoint sets of n. S = E[y sigma'(u) v] =
    sum_k k a_k b_k m^(k-1) (1-m^2)^(1/2), V = E[y^2 sigma'(u)^2].
    """

    question = (
        "Does one gradient step see a direction only with d^k samples, where k is the link's information exponent?"
    )
    sources = cite("benarous2021", "wu2024talk")

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
    history = (
        Change(
            "alignment",
            "the mean of the ratio for n >= 1000, where sums are normal, in place of a ratio of means for all n",
            "(n S^2 + W) / (n S^2 + W + (d-2) V) was wrong by 0.24 at n = 16, d = 8",
        ),
    )
    figure = panels(
        *(
            Panel(
                "alignment",
                x=_rescaled(exponent),
                by="d",
                at={"case": name},
                xlabel=f"$n/d^{exponent}$" if exponent > 1 else "$n/d$",
                ylabel=r"$\cos^2$ of gradient and direction",
                log="x",
                ylim=(0, 1),
                legend=name == BLIND,
            )
            for name, exponent in EXPONENTS.items()
        ),
        Panel(_needed, x="d", by="case", ylabel="samples for signal = noise", log="xy"),
        columns=5,
        width=2.6,
        height=2.8,
        caption="Right: ratios of means, without intervals.",
    )

    @claim("wu2024talk", "gradient at initialisation (Stein's lemma)", within(0.35, absolute=True), resampled=True)
    def samples_of_one_step(main):
        """The samples at which the noise of the gradient falls below its signal, (d-2) V/S^2 with S and V measured,
        grow like d^k with the information exponent k of the link: the measured exponent is k {criterion}."""
        from unlazy.theory.index_models.exponents.exponents import information_exponent

        needed = _needed(main.simulated)
        exponents = [information_exponent(PAIRS[name][0]).exponent for name in SEEN]
        return slope(needed, "d") - needed.case.copy(data=exponents)

    @claim(OWN, "normal sums and a chi-square rest", within(0.12, absolute=True))
    def alignment(main):
        """For n >= 1000 the squared cosine between gradient and direction is on average E[A^2 / (A^2 + V X)], A normal
        with mean n^(1/2) S and variance Var[y sigma' v], X chi-square with d-2 degrees of freedom, {criterion}."""
        simulated, predicted = (
            data.alignment.sel(case=list(SEEN), samples=slice(LEAST, None)) for data in (main.simulated, main.predicted)
        )
        enough(simulated, "samples", 1)
        return simulated - predicted

    @claim(OWN, "a zero coefficient of the student", within(0.25, absolute=True))
    def blind_student(main):
        """A student whose own third coefficient vanishes, relu without bias, is nearly blind to He3: its signal over
        that of a student without zero coefficients is 0, as in theory, {criterion}."""
        enough(main.simulated.sel(samples=slice(LEAST, None)), "samples", 1)
        return main.simulated.signal.sel(case=BLIND, drop=True) / main.predicted.signal.sel(case="He3", drop=True)

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

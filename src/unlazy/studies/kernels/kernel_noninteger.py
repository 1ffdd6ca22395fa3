"""Between two integer scalings the spectrum of a kernel matrix is a semicircle, in the limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_most, between, relative_deviation, slope, static
from unlazy.studies.kernels.shared.spectrum import (
    FUNCTIONS,
    LEVELS,
    LU,
    LU_TEXT,
    draw_spectrum,
    eigenvalues,
    finite_law,
    kolmogorov_distance,
    limit_law,
)

EXPONENT = 1.5


@dataclass(frozen=True)
class KernelNoninteger(Study):
    name = "kernel-noninteger"
    topic = "kernels"
    question = (
        "For n ~ d^1.5 points, between the scalings at which degrees 1 and 2 have their say, is the spectrum of a "
        "kernel matrix a plain semicircle?"
    )
    caption = (
        "Histograms: simulated eigenvalues of all seeds; lines: theory. Right: points are distances of the simulated "
        "eigenvalues from the two laws, means over seeds with 99% intervals."
    )
    sources = (LU,)

    d: int = static(81, "dimension, with n = d^1.5 points", symbol="d", low=3, high=700, scale="log")
    function: str = static("0.6he2+0.8he3", "function f of the inner product", choices=tuple(FUNCTIONS))

    outputs = {
        "eigenvalue": Output("eigenvalue by quantile", "", ("level",)),
        "limit_distance": Output("Kolmogorov distance to the semicircle", "", scale="log"),
        "finite_distance": Output("Kolmogorov distance to the finite-size law", "", scale="log"),
        "third_moment": Output("third moment", "m_3"),
    }
    presets = {
        "quick": {"d": [36, 64, 100, 144], "seeds": 6},
        "full": {"d": [36, 64, 100, 144, 225], "seeds": 16},
    }
    claims = (
        Claim(
            "semicircle",
            LU_TEXT,
            "The semicircle is approached as d grows: the slope of the log Kolmogorov distance in log d is at most "
            "-0.3.",
            at_most(-0.3),
            statistic=lambda part: slope(part.simulated.limit_distance.mean("seed"), "d"),
            needs={"d": 3},
        ),
        Claim(
            "distance",
            LU_TEXT,
            "At d = 144 it is at most 0.03 away.",
            at_most(0.03),
            check=lambda part: part.simulated.limit_distance.sel(d=144),
            needs={"d": (144,)},
        ),
        Claim(
            "third-moment",
            "finite-size law",
            "What is left of the third moment, which a semicircle does not have, is sum_k a_k^3 sqrt(n/N_k), within "
            "10% at the largest size.",
            between(-0.1, 0.1),
            check=lambda part: relative_deviation(part.simulated.third_moment, part.predicted.third_moment).isel(d=-1),
            needs={"d": 3},
        ),
    )

    @property
    def n(self) -> int:
        return round(self.d**EXPONENT)

    def memory(self) -> int:
        return 8 * 4 * self.n**2

    def coordinates(self) -> dict[str, Any]:
        return {"level": LEVELS}

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        values = eigenvalues(rng, self.function, self.n, self.d)
        return {
            "eigenvalue": np.quantile(values, LEVELS),
            "limit_distance": kolmogorov_distance(values, limit_law(self.function, self.n, self.d, EXPONENT)),
            "finite_distance": kolmogorov_distance(values, finite_law(self.function, self.n, self.d)),
            "third_moment": np.mean(values**3),
        }

    def predict(self) -> dict[str, Any]:
        law = finite_law(self.function, self.n, self.d)
        return {"eigenvalue": law.quantile(np.array(LEVELS)), "third_moment": law.moments(3)[2]}

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, panels = style.panels(3, 1, width=3.1, height=2.9)
        function = str(main.simulated.attrs["function"])
        for axes, at in zip(panels[:2], (0, -1), strict=True):
            points = main.simulated.isel(d=at)
            d = int(points.d)
            n = round(d**EXPONENT)
            laws = {"finite-size law": finite_law(function, n, d), "semicircle": limit_law(function, n, d, EXPONENT)}
            draw_spectrum(axes, points.eigenvalue, laws)
            axes.set_title(f"$d={d}$, $n={n}$")
        names = (("finite_distance", "to the finite-size law"), ("limit_distance", "to the semicircle"))
        for index, (name, text) in enumerate(names):
            color, marker = style.colour(index), style.marker(index)
            style.simulation(panels[2], main.simulated.d, main.simulated[name], color=color, marker=marker, label=text)
        style.log_scale(panels[2])
        panels[2].set(xlabel=style.label("dimension", "d"), ylabel="Kolmogorov distance")
        panels[2].legend()
        return figure

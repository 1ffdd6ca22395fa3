"""Universality: the spectrum of a kernel matrix does not depend on the law of the entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_most, slope, static
from unlazy.studies.kernels.shared.spectrum import (
    DUBOVA,
    DUBOVA_TEXT,
    FUNCTIONS,
    LEVELS,
    LU,
    draw_spectrum,
    eigenvalues,
    finite_law,
    kolmogorov_distance,
    limit_law,
)

LAWS = ("sphere", "rademacher", "uniform", "gaussian")


@dataclass(frozen=True)
class KernelUniversality(Study):
    name = "kernel-universality"
    topic = "kernels"
    question = (
        "Is the limiting spectrum of an inner-product kernel matrix the same for points on the sphere and for points "
        "with independent entries of any law?"
    )
    caption = (
        "Left: points are distances of the simulated eigenvalues from the limit law, means over seeds with 99% "
        "intervals. Histograms: simulated eigenvalues of all seeds; lines: theory."
    )
    sources = (DUBOVA, LU)

    n: int = static(800, "points", symbol="n", low=10, high=20_000, scale="log")
    d: int = static(40, "dimension", symbol="d", low=3, high=10_000, scale="log")
    law: str = static("sphere", "law of the points", choices=LAWS)
    function: str = static("0.8he2+0.6he3", "function f of the inner product", choices=tuple(FUNCTIONS))

    outputs = {
        "eigenvalue": Output("eigenvalue by quantile", "", ("level",)),
        "limit_distance": Output("Kolmogorov distance to the limit law", "", scale="log"),
        "finite_distance": Output("Kolmogorov distance to the finite-size law of the sphere or cube", "", scale="log"),
    }
    presets = {
        "quick": {"law": list(LAWS), ("d", "n"): [(20, 200), (32, 512), (50, 1250)], "seeds": 8},
        "full": {"law": list(LAWS), ("d", "n"): [(24, 288), (40, 800), (60, 1800), (90, 4050)], "seeds": 8},
    }
    claims = (
        Claim(
            "approach",
            DUBOVA_TEXT,
            "For every law of the entries the spectrum approaches the same limit: the slope of the log Kolmogorov "
            "distance in log d is at most -0.2.",
            at_most(-0.2),
            statistic=lambda part: slope(part.simulated.limit_distance.mean("seed"), "d"),
            needs={"d": 3, "law": LAWS},
        ),
        Claim(
            "distance",
            DUBOVA_TEXT,
            "At the largest size the distance is at most 0.05 for every law.",
            at_most(0.05),
            check=lambda part: part.simulated.limit_distance.isel(d=-1),
            needs={"d": 3, "law": LAWS},
        ),
        Claim(
            "hypercube",
            DUBOVA_TEXT,
            "On the hypercube the finite-size law with its own polynomials (Krawtchouk) is at most 0.012 away at the "
            "largest size.",
            at_most(0.012),
            check=lambda part: part.simulated.finite_distance.sel(law="rademacher").isel(d=-1),
            needs={"d": 3, "law": ("rademacher",)},
        ),
    )

    def memory(self) -> int:
        return 8 * 4 * self.n**2

    def coordinates(self) -> dict[str, Any]:
        return {"level": LEVELS}

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        values = eigenvalues(rng, self.function, self.n, self.d, self.law)
        return {
            "eigenvalue": np.quantile(values, LEVELS),
            "limit_distance": kolmogorov_distance(values, limit_law(self.function, self.n, self.d, 2)),
            "finite_distance": kolmogorov_distance(values, finite_law(self.function, self.n, self.d, self.law)),
        }

    def predict(self) -> dict[str, Any]:
        return {"eigenvalue": finite_law(self.function, self.n, self.d, self.law).quantile(np.array(LEVELS))}

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, panels = style.panels(3, 1, width=3.1, height=2.9)
        points = main.simulated
        for index, law in enumerate(points.law.values):
            style.simulation(
                panels[0],
                points.d,
                points.limit_distance.sel(law=law),
                color=style.colour(index),
                marker=style.marker(index),
                label=str(law),
            )
        style.log_scale(panels[0])
        panels[0].set(xlabel=style.label("dimension", "d"), ylabel="Kolmogorov distance to the limit")
        panels[0].set_xticks(points.d.values, [str(d) for d in points.d.values])
        panels[0].legend()
        largest = points.isel(d=-1)
        n, d = int(largest.n), int(largest.d)
        function = str(points.attrs["function"])
        for axes, law in zip(panels[1:], ("rademacher", "gaussian"), strict=True):
            draw_spectrum(axes, largest.eigenvalue.sel(law=law), {"limit law": limit_law(function, n, d, 2)})
            axes.set_xlim(-3, 4.5)
            axes.set_title(f"{law} entries, $d={d}$, $n={n}$")
        return figure

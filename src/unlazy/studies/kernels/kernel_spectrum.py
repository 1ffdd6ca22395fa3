"""The eigenvalues of a random kernel matrix: Marchenko-Pastur plus semicircle, and outliers of the low degrees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, between, parameter, slope, static
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
    semicircle,
)


@dataclass(frozen=True)
class KernelSpectrum(Study):
    name = "kernel-spectrum"
    topic = "kernels"
    question = (
        "What are the eigenvalues of a kernel matrix f(sqrt(d) <x_i, x_j>) of n ~ d^2 random points: is the bulk the "
        "free sum of a Marchenko-Pastur law and a semicircle, and where are the outliers?"
    )
    caption = (
        "Histograms: simulated eigenvalues of all seeds; lines and, on the right, coloured bands: theory. Middle: "
        "points are distances of the simulated eigenvalues from the two laws, means over seeds with 99% intervals."
    )
    sources = (LU,)

    n: int = static(1500, "points", symbol="n", low=10, high=20_000, scale="log")
    d: int = static(45, "dimension", symbol="d", low=3, high=10_000, scale="log")
    function: str = static("he2+0.5he3", "function f of the inner product", choices=tuple(FUNCTIONS))

    outputs = {
        "eigenvalue": Output("eigenvalue by quantile", "", ("level",)),
        "finite_distance": Output("Kolmogorov distance to the finite-size law", "", scale="log"),
        "limit_distance": Output("Kolmogorov distance to the limit law", "", scale="log"),
        "semicircle_distance": Output("Kolmogorov distance to the semicircle of this variance", "", scale="log"),
        "outliers": Output("eigenvalues above the first gap of the law"),
        "outside": Output("distance of the outliers from their bands, relative to their size"),
    }
    presets = {
        "quick": {
            "bulk": {"seeds": 4},
            "sizes": {("d", "n"): [(24, 288), (40, 800), (60, 1800)], "function": "0.8he2+0.6he3", "seeds": 4},
            "outliers": {"function": "relu", "seeds": 12},
        },
        "full": {
            "bulk": {("d", "n"): [(45, 1500), (70, 4000)], "seeds": 8},
            "sizes": {
                ("d", "n"): [(24, 288), (40, 800), (60, 1800), (90, 4050)],
                "function": "0.8he2+0.6he3",
                "seeds": 8,
            },
            "outliers": {"function": ["relu", "tanh", "sign"], "seeds": 8},
        },
    }
    claims = (
        Claim(
            "bulk",
            LU_TEXT,
            "At n ~ d^2 the spectrum is a free sum of Marchenko-Pastur laws and a semicircle: the Kolmogorov distance "
            "to the finite-size law is at most 0.012.",
            at_most(0.012),
            check=lambda part: part.simulated.finite_distance,
            parts=("bulk",),
        ),
        Claim(
            "not-semicircle",
            LU_TEXT,
            "It is not the semicircle of the same variance: that one is at least 0.06 away.",
            at_least(0.06),
            check=lambda part: part.simulated.semicircle_distance,
            parts=("bulk",),
        ),
        Claim(
            "limit",
            LU_TEXT,
            "The limit law (one Marchenko-Pastur law of degree 2 and a semicircle) is approached as d grows: the slope "
            "of the log distance in log d is at most -0.3.",
            at_most(-0.3),
            statistic=lambda part: slope(part.simulated.limit_distance.mean("seed"), "d"),
            parts=("sizes",),
            needs={"d": 3},
        ),
        Claim(
            "limit-distance",
            LU_TEXT,
            "At the largest size it is at most 0.05 away.",
            at_most(0.05),
            check=lambda part: part.simulated.limit_distance.isel(d=-1),
            parts=("sizes",),
            needs={"d": 3},
        ),
        Claim(
            "outliers",
            LU_TEXT,
            "Degrees below 2 give outliers: for relu exactly N_0 + N_1 = 1 + d eigenvalues lie above the first gap.",
            between(0.0, 0.0),
            check=lambda part: part.simulated.outliers - (part.simulated.attrs["d"] + 1),
            parts=("outliers",),
        ),
        Claim(
            "bands",
            LU_TEXT,
            "The outliers lie in the predicted bands, within 3% of their size.",
            at_most(0.03),
            check=lambda part: part.simulated.outside,
            parts=("outliers",),
        ),
    )

    def memory(self) -> int:
        return 8 * 4 * self.n**2

    def coordinates(self) -> dict[str, Any]:
        return {"level": LEVELS}

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        values = eigenvalues(rng, self.function, self.n, self.d)
        law = finite_law(self.function, self.n, self.d)
        edges = law.edges
        gap = edges[0, 1] + (edges[1, 0] - edges[0, 1]) / 2 if len(edges) > 1 else np.inf
        high = values[values > gap]
        # 0 inside a band, else the distance to the nearest edge
        beyond = np.maximum(edges[:, 0] - high[:, None], high[:, None] - edges[:, 1]).min(axis=1, initial=np.inf)
        return {
            "eigenvalue": np.quantile(values, LEVELS),
            "finite_distance": kolmogorov_distance(values, law),
            "limit_distance": kolmogorov_distance(values, limit_law(self.function, self.n, self.d, 2)),
            "semicircle_distance": kolmogorov_distance(values, semicircle(float(np.mean(values**2)))),
            "outliers": float(high.size),
            "outside": float(np.max(np.maximum(beyond, 0.0) / high, initial=0.0)),
        }

    def predict(self) -> dict[str, Any]:
        law = finite_law(self.function, self.n, self.d)
        above = self.n * law.band_masses[1:].sum()
        return {"eigenvalue": law.quantile(np.array(LEVELS)), "outliers": above}

    def figure(self, bulk: Part, sizes: Part, outliers: Part) -> Any:
        from unlazy.plotting import style

        figure, (left, middle, right) = style.panels(3, 1, width=3.1, height=2.9)
        first = bulk.simulated.isel(d=0) if "d" in bulk.simulated.dims else bulk.simulated
        at = str(first.attrs["function"]), int(parameter(first, "n")), int(parameter(first, "d"))
        draw_spectrum(left, first.eigenvalue, {"finite-size law": finite_law(*at), "limit law": limit_law(*at, 2)})
        left.set_title(f"{at[0]}, $d={at[2]}$, $n={at[1]}$")
        names = (("finite_distance", "to the finite-size law"), ("limit_distance", "to the limit law"))
        for index, (name, text) in enumerate(names):
            color, marker = style.colour(index), style.marker(index)
            style.simulation(middle, sizes.simulated.d, sizes.simulated[name], color=color, marker=marker, label=text)
        style.log_scale(middle)
        middle.set(xlabel=style.label("dimension", "d"), ylabel="Kolmogorov distance")
        middle.legend()
        relu = outliers.simulated.sel(function="relu") if "function" in outliers.simulated.dims else outliers.simulated
        law = finite_law("relu", int(relu.attrs["n"]), int(relu.attrs["d"]))
        draw_spectrum(right, relu.eigenvalue, {"finite-size law": law}, bins=200)
        right.set(yscale="log", xscale="symlog", ylim=(3e-4, 3))
        for low, high in law.edges[1:]:
            right.axvspan(low, high, color=style.colour(1), alpha=0.2, linewidth=0)
        right.set_title("relu: bulk and outlier bands")
        return figure

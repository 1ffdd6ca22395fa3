"""Universality: the spectrum of a kernel matrix does not depend on the law of the entries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from unlazy.lab import OWN, Output, Study, at_most, cite, claim, enough, slope, static
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.kernels.shared import FUNCTIONS, LEVELS, finite_law, limit_law, spectrum_panel

SQUARE = "Of the theorem's scalings n ~ d^l only l = 2 is drawn, at one function"
LAWS = ["sphere", "rademacher", "uniform", "gaussian"]


def _largest(law, data):
    return data.sel(law=law).isel(d=-1)


def _limit(data):
    return {"limit law": limit_law(str(data.attrs["kernel_function"]), int(data.n), int(data.d))}


@dataclass(frozen=True)
class KernelUniversality(Study):
    question = (
        "Points may lie on the sphere or have independent entries of any law. Is the limiting spectrum of an "
        "inner-product kernel matrix the same?"
    )
    sources = cite("dubova2023", "lu2022")

    n: int = static(800, "points", symbol="n", low=10, high=20_000, scale="log")
    d: int = static(40, "dimension", symbol="d", low=3, high=10_000, scale="log")
    law: str = static("sphere", "law of the points", choices=LAWS)
    kernel_function: str = static("0.8he2+0.6he3", "function f of the inner product", choices=tuple(FUNCTIONS))

    outputs = {
        "eigenvalue": Output("eigenvalue by quantile", "", ("quantile",)),
        "limit_distance": Output("Kolmogorov distance to the limit law", "", scale="log"),
        "finite_distance": Output("Kolmogorov distance to the finite-size law of the sphere or cube", "", scale="log"),
    }
    inner = {"quantile": LEVELS}
    presets = {
        "quick": {"law": LAWS, ("d", "n"): [(12, 72), (20, 200), (32, 512), (50, 1250)], "seeds": 10},
        "full": {"law": LAWS, ("d", "n"): [(24, 288), (40, 800), (60, 1800), (90, 4050)], "seeds": 8},
    }
    figure = panels(
        Panel("limit_distance", x="d", by="law", ylabel="Kolmogorov distance to the limit"),
        *(
            spectrum_panel(partial(_largest, law), _limit, title=law, xlim=(-3, 4.5))
            for law in ("rademacher", "gaussian")
        ),
        width=3.1,
        caption="Histograms: simulated eigenvalues of all seeds at the largest size.",
    )

    @claim(
        "dubova2023", "", at_most(-0.2), resampled=True, departs=f"{SQUARE}, and it states the limit without a rate."
    )
    def approach(main):
        """For every law of the entries the spectrum approaches the same limit. The slope of log(Kolmogorov distance)
        against log d is {criterion}."""
        return slope(main.simulated.limit_distance.mean("seed"), "d").sel(law=LAWS)

    @claim("dubova2023", "", at_most(0.05), departs=f"{SQUARE}.")
    def distance(main):
        """At the largest size the distance is {criterion} for every law."""
        enough(main.simulated, "d", 3)
        return main.simulated.limit_distance.sel(law=LAWS).isel(d=-1)

    @claim(OWN, "finite-size law", at_most(0.012))
    def hypercube(main):
        """On the hypercube the finite-size law has its own polynomials, those of Krawtchouk. At the largest size the
        distance from this law is {criterion}."""
        enough(main.simulated, "d", 3)
        return main.simulated.finite_distance.sel(law="rademacher").isel(d=-1)

    def memory(self) -> int:
        return 8 * 4 * self.n**2

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.data.unit_vectors import kernel_eigenvalues

        values = kernel_eigenvalues(rng, FUNCTIONS[self.kernel_function], self.n, self.d, self.law)
        return {
            "eigenvalue": np.quantile(values, LEVELS),
            "limit_distance": limit_law(self.kernel_function, self.n, self.d).distance(values),
            "finite_distance": finite_law(self.kernel_function, self.n, self.d, self.law).distance(values),
        }

    def predict(self) -> dict[str, Any]:
        return {"eigenvalue": finite_law(self.kernel_function, self.n, self.d, self.law).quantile(np.array(LEVELS))}

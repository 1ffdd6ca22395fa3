"""Between two integer scalings the spectrum of a kernel matrix is a semicircle, in the limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Output, Study, at_most, cite, claim, enough, over_theory, slope, static, within
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.kernels.shared import FUNCTIONS, LEVELS, finite_law, limit_law, spectrum_panel

EXPONENT = 1.5


def _laws(data):
    at = str(data.attrs["kernel_function"]), round(int(data.d) ** EXPONENT), int(data.d)
    return {"finite-size law": finite_law(*at), "semicircle": limit_law(*at, EXPONENT)}


@dataclass(frozen=True)
class KernelNoninteger(Study):
    question = (
        "Take n ~ d^1.5 random points. Degree 1 of the kernel has been learned by then, and degree 2 has not. Is the "
        "spectrum of the kernel matrix a plain semicircle?"
    )
    sources = cite("dubova2023", "lu2022")

    d: int = static(81, "dimension, with n = d^1.5 points", symbol="d", low=3, high=700, scale="log")
    kernel_function: str = static("0.6he2+0.8he3", "function f of the inner product", choices=tuple(FUNCTIONS))

    outputs = {
        "eigenvalue": Output("eigenvalue by quantile", "", ("quantile",)),
        "limit_distance": Output("Kolmogorov distance to the semicircle", scale="log", short="to the semicircle"),
        "finite_distance": Output(
            "Kolmogorov distance to the finite-size law", scale="log", short="to the finite-size law"
        ),
        "third_moment": Output("third moment", "m_3"),
    }
    inner = {"quantile": LEVELS}
    presets = {"quick": {"d": [36, 64, 100, 144], "seeds": 8}, "full": {"d": [36, 64, 100, 144, 225], "seeds": 16}}
    figure = panels(
        spectrum_panel(lambda data: data.isel(d=0), _laws, title="smallest $d$"),
        spectrum_panel(lambda data: data.isel(d=-1), _laws, title="largest $d$"),
        Panel(("finite_distance", "limit_distance"), x="d", xlabel="dimension $d$", ylabel="Kolmogorov distance"),
        width=3.1,
        caption="Histograms: simulated eigenvalues of all seeds, with laws of the theory as lines.",
    )

    @claim(
        "dubova2023",
        "",
        at_most(-0.3),
        resampled=True,
        departs=(
            "Points are uniform on the sphere; the theorem's have independent entries. The theorem states the limit "
            "without a rate."
        ),
    )
    def semicircle(main):
        """The spectrum approaches the semicircle as d grows. The slope of log(Kolmogorov distance) against log d is
        {criterion}."""
        return slope(main.simulated.limit_distance.mean("seed"), "d")

    @claim(
        "dubova2023",
        "",
        at_most(0.03),
        departs="Points are uniform on the sphere; the theorem's have independent entries.",
    )
    def distance(main):
        """At d = 144 the Kolmogorov distance from the semicircle is {criterion}."""
        return main.simulated.limit_distance.sel(d=144)

    @claim(OWN, "finite-size law", within(0.1))
    def third_moment(main):
        """A semicircle has no third moment. What is left of it at finite size is sum_k a_k^3 sqrt(n/N_k), {criterion}
        at the largest size."""
        enough(main.simulated, "d", 3)
        return over_theory(main, "third_moment").isel(d=-1)

    @property
    def n(self) -> int:
        return round(self.d**EXPONENT)

    def memory(self) -> int:
        return 8 * 4 * self.n**2

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.data.unit_vectors import kernel_eigenvalues

        values = kernel_eigenvalues(rng, FUNCTIONS[self.kernel_function], self.n, self.d)
        return {
            "eigenvalue": np.quantile(values, LEVELS),
            "limit_distance": limit_law(self.kernel_function, self.n, self.d, EXPONENT).distance(values),
            "finite_distance": finite_law(self.kernel_function, self.n, self.d).distance(values),
            "third_moment": np.mean(values**3),
        }

    def predict(self) -> dict[str, Any]:
        law = finite_law(self.kernel_function, self.n, self.d)
        return {"eigenvalue": law.quantile(np.array(LEVELS)), "third_moment": law.moments(3)[2]}

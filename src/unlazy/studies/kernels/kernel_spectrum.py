"""The eigenvalues of a random kernel matrix: Marchenko-Pastur plus semicircle, and outliers of the low degrees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import (
    OWN,
    Change,
    Output,
    Study,
    at_least,
    at_most,
    between,
    cite,
    claim,
    enough,
    parameter,
    slope,
    static,
)
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.kernels.shared import FUNCTIONS, LEVELS, finite_law, limit_law, spectrum_panel

SQUARE = "Of the theorem's scalings n ~ d^l only l = 2 is drawn"
SIZES = [(16, 128), (24, 288), (40, 800), (60, 1800)]


def _laws(data):
    at = tuple(np.asarray(parameter(data, name)).item() for name in ("kernel_function", "n", "d"))
    return {"finite-size law": finite_law(*at), "limit law": limit_law(*at)}


def _relu(data):
    return data.sel(kernel_function="relu") if "kernel_function" in data.dims else data


@dataclass(frozen=True)
class KernelSpectrumStudy(Study):
    question = (
        "What are the eigenvalues of a kernel matrix f(sqrt(d) <x_i, x_j>) of n ~ d^2 random points: is the bulk the "
        "free sum of a Marchenko-Pastur law and a semicircle, and where are the outliers?"
    )
    sources = cite("lu2022")

    n: int = static(1500, "points", symbol="n", low=10, high=20_000, scale="log")
    d: int = static(45, "dimension", symbol="d", low=3, high=10_000, scale="log")
    kernel_function: str = static("he2+0.5he3", "function f of the inner product", choices=tuple(FUNCTIONS))

    outputs = {
        "eigenvalue": Output("eigenvalue by quantile", "", ("quantile",)),
        "finite_distance": Output(
            "Kolmogorov distance to the finite-size law", scale="log", short="to the finite-size law"
        ),
        "limit_distance": Output("Kolmogorov distance to the limit law", scale="log", short="to the limit law"),
        "semicircle_distance": Output("Kolmogorov distance to the semicircle of this variance", scale="log"),
        "outliers": Output("eigenvalues above the first gap of the law"),
        "outside": Output("distance of the outliers from their bands, relative to their size"),
    }
    inner = {"quantile": LEVELS}
    presets = {
        "quick": {
            "bulk": {"seeds": 6},
            "sizes": {("d", "n"): SIZES, "kernel_function": "0.8he2+0.6he3", "seeds": 6},
            "outliers": {"kernel_function": "relu", "seeds": 8},
        },
        "full": {
            "bulk": {("d", "n"): [(45, 1500), (70, 4000)], "seeds": 8},
            "sizes": {("d", "n"): [*SIZES, (90, 4050)], "kernel_function": "0.8he2+0.6he3", "seeds": 8},
            "outliers": {"kernel_function": ["relu", "tanh", "sign"], "seeds": 8},
        },
    }
    history = (
        Change(
            "outliers",
            "d eigenvalues for tanh and sign, where `full` asked for 1 + d of all functions",
            "an odd function has no part of degree 0",
            after_look=False,
        ),
    )
    figure = panels(
        spectrum_panel(lambda data: data.isel(d=0, missing_dims="ignore"), _laws, part="bulk"),
        Panel(("finite_distance", "limit_distance"), x="d", part="sizes", ylabel="Kolmogorov distance"),
        spectrum_panel(_relu, _laws, 200, part="outliers", log="y", ylim=(3e-4, 3), title="relu: bulk and outliers"),
        width=3.1,
        caption="Histograms: simulated eigenvalues of all seeds; lines and coloured bands: theory.",
    )

    @claim(
        "lu2022",
        "",
        at_most(0.012),
        departs=f"{SQUARE}, and the law is one of finite size, with a Marchenko-Pastur part for every degree, not for "
        "degree 2 alone.",
    )
    def bulk(bulk):
        """At n ~ d^2 the spectrum is a free sum of Marchenko-Pastur laws and a semicircle: the Kolmogorov distance to
        the finite-size law is {criterion}."""
        return bulk.simulated.finite_distance

    @claim("lu2022", "", at_least(0.06), departs=f"{SQUARE}.")
    def not_semicircle(bulk):
        """It is not the semicircle of the same variance: the distance to that one is {criterion}."""
        return bulk.simulated.semicircle_distance

    @claim("lu2022", "", at_most(-0.3), resampled=True, departs=f"{SQUARE}, and it states the limit without a rate.")
    def limit(sizes):
        """The limit law (one Marchenko-Pastur law of degree 2 and a semicircle) is approached as d grows: the slope of
        the log distance in log d is {criterion}."""
        return slope(sizes.simulated.limit_distance.mean("seed"), "d")

    @claim("lu2022", "", at_most(0.05), departs=f"{SQUARE}.")
    def limit_distance(sizes):
        """At the largest size its distance is {criterion}."""
        enough(sizes.simulated, "d", 3)
        return sizes.simulated.limit_distance.isel(d=-1)

    @claim(OWN, "finite-size law", between(0.0, 0.0))
    def outliers(outliers):
        """Degrees below 2 give outliers: exactly N_0 + N_1 = 1 + d eigenvalues lie above the first gap for relu, and
        N_1 = d for tanh and sign, which are odd: their number less that is {criterion}."""
        even = parameter(outliers.simulated, "kernel_function") == "relu"
        return outliers.simulated.outliers - (outliers.simulated.attrs["d"] + even)

    @claim(OWN, "finite-size law", at_most(0.03))
    def bands(outliers):
        """The outliers lie in the predicted bands: their distance from these, relative to their size, is
        {criterion}."""
        return outliers.simulated.outside

    def memory(self) -> int:
        return 8 * 4 * self.n**2

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.data.unit_vectors import kernel_eigenvalues
        from unlazy.training.kernels.spectra import spectrum_record

        at = self.kernel_function, self.n, self.d
        values = kernel_eigenvalues(rng, FUNCTIONS[self.kernel_function], self.n, self.d)
        return {"eigenvalue": np.quantile(values, LEVELS), **spectrum_record(values, finite_law(*at), limit_law(*at))}

    def predict(self) -> dict[str, Any]:
        law = finite_law(self.kernel_function, self.n, self.d)
        return {"eigenvalue": law.quantile(np.array(LEVELS)), "outliers": self.n * law.band_masses[1:].sum()}

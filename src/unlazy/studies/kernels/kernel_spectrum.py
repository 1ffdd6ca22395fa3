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

LINEAR = [(50, 100), (100, 200), (200, 400), (400, 800)]
SIZES = [(16, 128), (24, 288), (40, 800), (60, 1800)]
CUBIC = [(8, 85), (12, 288), (16, 683), (20, 1333)]
ONE, THREE = {"samples_exponent": 1.0, "kernel_function": "0.8he1+0.6he2"}, "0.8he3+0.6he4"


def _laws(data):
    names = "kernel_function", "n", "d", "samples_exponent"
    *at, exponent = (np.asarray(parameter(data, name)).item() for name in names)
    return {"finite-size law": finite_law(*at), "limit law": limit_law(*at, exponent)}


def _largest(part):
    """The run of the largest size of several."""
    enough(part.simulated, "d", 3)
    return part.simulated.isel(d=-1)


def _relu(data):
    return data.sel(kernel_function="relu") if "kernel_function" in data.dims else data


@dataclass(frozen=True)
class KernelSpectrumStudy(Study):
    question = (
        "What are the eigenvalues of a kernel matrix f(sqrt(d) <x_i, x_j>) of n ~ d, d^2 or d^3 random points? Is the"
        " bulk the free sum of a Marchenko-Pastur law and a semicircle, and where are the outliers?"
    )
    sources = cite("lu2022")

    n: int = static(1500, "points", symbol="n", low=10, high=20_000, scale="log")
    d: int = static(45, "dimension", symbol="d", low=3, high=10_000, scale="log")
    kernel_function: str = static("he2+0.5he3", "function f of the inner product", choices=tuple(FUNCTIONS))
    samples_exponent: float = static(2.0, "l of the limit law, n ~ d^l", symbol=r"\ell", low=0, high=8)

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
            "linear": {("d", "n"): LINEAR, **ONE, "seeds": 12},
            "sizes": {("d", "n"): SIZES, "kernel_function": "0.8he2+0.6he3", "seeds": 12},
            "cubic": {("d", "n"): CUBIC, "samples_exponent": 3.0, "kernel_function": THREE, "seeds": 12},
            "outliers": {"kernel_function": "relu", "seeds": 8},
        },
        "full": {
            "bulk": {("d", "n"): [(45, 1500), (70, 4000)], "seeds": 8},
            "linear": {("d", "n"): [*LINEAR, (1000, 2000)], **ONE, "seeds": 8},
            "sizes": {("d", "n"): [*SIZES, (90, 4050)], "kernel_function": "0.8he2+0.6he3", "seeds": 8},
            "cubic": {
                ("d", "n"): [*CUBIC, (28, 3659)],
                "samples_exponent": 3.0,
                "kernel_function": THREE,
                "seeds": 8,
            },
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
        *(
            Panel(
                ("finite_distance", "limit_distance"),
                x="d",
                part=part,
                ylabel="Kolmogorov distance",
                title=title,
                legend=part == "cubic",
            )
            for part, title in (("linear", "$n = 2 d$"), ("sizes", "$n = d^2/2$"), ("cubic", "$n = d^3/6$"))
        ),
        spectrum_panel(_relu, _laws, 200, part="outliers", log="y", ylim=(3e-4, 3), title="relu: bulk and outliers"),
        width=2.9,
        caption="Histograms: simulated eigenvalues of all seeds; lines and coloured bands: theory.",
    )

    @claim(
        "lu2022",
        "",
        at_most(0.012),
        departs="The law is one of finite size, with a Marchenko-Pastur part for every degree, not for degree l alone.",
    )
    def bulk(bulk, linear, cubic):
        """At n ~ d, d^2 and d^3 the spectrum is a free sum of Marchenko-Pastur laws and a semicircle. At the largest
        size its Kolmogorov distance from the finite-size law is {criterion}."""
        return [part.finite_distance for part in (bulk.simulated, _largest(linear), _largest(cubic))]

    @claim("lu2022", "", at_least(0.06), departs="At n ~ d^2 alone.")
    def not_semicircle(bulk):
        """The spectrum is not a semicircle. Its distance from the semicircle of the same variance is {criterion}."""
        return bulk.simulated.semicircle_distance

    @claim("lu2022", "", at_most(-0.3), resampled=True, departs="The source states the limit without a rate.")
    def limit(linear, sizes, cubic):
        """For n ~ d^l, l = 1, 2 and 3, the spectrum approaches its limit law as d grows: one Marchenko-Pastur law of
        degree l and a semicircle. The slope of log(Kolmogorov distance) against log d is {criterion}."""
        parts = linear, sizes, cubic
        return [slope(part.simulated.limit_distance.mean("seed"), "d", least=4) for part in parts]

    @claim("lu2022", "", at_most(0.05), departs="At n ~ d and d^2; at n ~ d^3 and d = 20 the distance is still 0.11.")
    def limit_distance(linear, sizes):
        """At the largest size the distance from the limit law is {criterion}."""
        return [_largest(part).limit_distance for part in (linear, sizes)]

    @claim(OWN, "finite-size law", between(0.0, 0.0))
    def outliers(outliers):
        """Degrees below 2 give outliers. For relu exactly N_0 + N_1 = 1 + d eigenvalues lie above the first gap. For
        tanh and sign, which are odd, it is N_1 = d. The difference from these numbers is {criterion}."""
        even = parameter(outliers.simulated, "kernel_function") == "relu"
        return outliers.simulated.outliers - (outliers.simulated.attrs["d"] + even)

    @claim(OWN, "finite-size law", at_most(0.03))
    def bands(outliers):
        """The outliers lie in the predicted bands. Their distance from the bands, relative to their size, is
        {criterion}."""
        return outliers.simulated.outside

    def memory(self) -> int:
        return 8 * 4 * self.n**2

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.data.unit_vectors import kernel_eigenvalues
        from unlazy.training.kernels.spectra import spectrum_record

        at = self.kernel_function, self.n, self.d
        values = kernel_eigenvalues(rng, FUNCTIONS[self.kernel_function], self.n, self.d)
        laws = finite_law(*at), limit_law(*at, self.samples_exponent)
        return {"eigenvalue": np.quantile(values, LEVELS), **spectrum_record(values, *laws)}

    def predict(self) -> dict[str, Any]:
        law = finite_law(self.kernel_function, self.n, self.d)
        return {"eigenvalue": law.quantile(np.array(LEVELS)), "outliers": self.n * law.band_masses[1:].sum()}

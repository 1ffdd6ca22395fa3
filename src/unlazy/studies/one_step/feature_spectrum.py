"""The spectrum of learned features: the bulk shrinks, and a few eigenvalues of order N leave it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from unlazy.lab import OWN, Output, Study, at_most, cite, claim, over_theory, parameter, slope, static, within
from unlazy.plotting import style
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.one_step import shared
from unlazy.theory.one_step.spiked.spectrum import feature_outliers, feature_spectrum

PLANTED = (
    "The spikes are planted along the target, where the source takes a gradient step on a large batch, and the "
    "equations are this project's."
)
SIZES = ("width", "d", "n")
LEVELS = tuple(((np.arange(200) + 0.5) / 200).tolist())


def _spectra(axes: Any, main: Any, **parts: Any) -> None:
    """The eigenvalues of all seeds as histograms, the law of the bulk as lines and predicted outliers as arrows."""
    points, largest = main.simulated, 0.0
    common = {
        field.name: points.attrs[field.name] for field in fields(FeatureSpectrumStudy) if field.name in points.attrs
    }
    for index, name in enumerate([str(s) for s in np.atleast_1d(parameter(points, "spikes"))][:4]):
        chosen = points.sel(spikes=name) if "spikes" in points.dims else points
        values = np.sort(chosen.eigenvalue.values.ravel())
        study = FeatureSpectrumStudy(**{**common, "spikes": name})
        outliers = study._outliers()
        grid = np.geomspace(max(values[0], 1e-3), 1.05 * outliers.bulk_edge, 120)
        density = feature_spectrum(**study._setting(), eigenvalue=grid).density
        edges = np.geomspace(max(values[0], 1e-3), outliers.bulk_edge * 1.1, 50)
        counts, _ = np.histogram(values, edges)
        heights = counts / values.size / np.diff(np.log(edges))
        color = style.colour(index)
        axes.stairs(heights, edges, color=color, fill=True, alpha=0.25)
        style.theory(axes, grid, density * grid, color=color, label=f"spikes: {name}")
        largest = max(largest, *outliers.outliers, outliers.bulk_edge)
        for place in outliers.outliers:
            axes.annotate("", (place, 0), (place, 0.06), arrowprops={"arrowstyle": "->", "color": color})
    axes.set_xscale("log")
    axes.set_xlim(1e-3, 2 * largest)


@dataclass(frozen=True)
class FeatureSpectrumStudy(Study):
    question = "How does a spike in the weights change the eigenvalues of the feature covariance F^T F / n?"
    sources = cite("dandi2024spectrum")

    n: int = static(1000, "samples", symbol="n", low=2, scale="log")
    d: int = static(400, "dimension", symbol="d", low=2, high=10_000, scale="log")
    width: int = static(600, "neurons", symbol="N", low=4, high=20_000, scale="log")
    activation: str = static("tanh", "activation", choices=("tanh", "erf"))
    spikes: str = static("one group", "spikes of the neurons", choices=tuple(shared.PLANTED))

    outputs = {
        "eigenvalue": Output("eigenvalue by quantile", "", ("quantile",), scale="log"),
        "bulk_distance": Output("Kolmogorov distance to the law of the bulk", ""),
        "largest_eigenvalue": Output("largest eigenvalue", "", scale="log"),
        "bulk_edge": Output("largest eigenvalue of the bulk", ""),
    }
    inner = {"quantile": LEVELS}
    presets = {
        "quick": {
            "main": {"spikes": ["none", "one group"], "seeds": 20},
            "sizes": {SIZES: [(k * 75, k * 50, k * 125) for k in (1, 2, 4, 8)], "seeds": 12},
        },
        "full": {
            "main": {"spikes": list(shared.PLANTED), "d": 800, "width": 1200, "n": 2000, "seeds": 24},
            "sizes": {SIZES: [(k * 75, k * 50, k * 125) for k in (1, 2, 4, 8, 16)], "seeds": 24},
        },
    }
    figure = panels(
        Panel(
            "eigenvalue",
            x="quantile",
            points=False,
            theory=False,
            draw=_spectra,
            log="",
            xlabel="eigenvalue",
            ylabel="density of its logarithm",
        ),
        width=5.0,
        height=3.3,
        caption="Filled steps: histograms of the simulated eigenvalues of all seeds. Lines: theory; arrows: the "
        "outliers that it predicts.",
    )

    @claim("dandi2024spectrum", "", at_most(0.015), departs=PLANTED)
    def bulk(main):
        """The eigenvalues follow the law of the bulk: the Kolmogorov distance is {criterion}."""
        return main.simulated.bulk_distance

    @claim("dandi2024spectrum", "", within(0.05), departs=PLANTED)
    def outlier(main):
        """With a spike the largest eigenvalue is where the determinant says, {criterion}."""
        return over_theory(main, "largest_eigenvalue").sel(spikes="one group")

    @claim("dandi2024spectrum", "", within(0.1, absolute=True), departs=PLANTED)
    def outlier_order(sizes):
        """It is of order N: at a fixed shape its slope in log N is 1, {criterion}."""
        return slope(sizes.simulated.largest_eigenvalue, "width", least=4) - 1

    @claim(OWN, "observation", at_most(0.7), resampled=True)
    def bulk_shrinks(main):
        """The bulk shrinks: its end with a spike, over that without, is {criterion}."""
        edge = main.simulated.bulk_edge.mean("seed")
        return edge.sel(spikes="one group") / edge.sel(spikes="none")

    @claim(OWN, "deterministic equivalent of the feature covariance", within(0.08))
    def edge(main):
        """The end of the bulk is that of the theory, {criterion}."""
        return over_theory(main, "bulk_edge")

    def memory(self) -> int:
        return 8 * (self.n * (self.width + self.d) + 4 * self.width**2)

    def _setting(self) -> dict[str, Any]:
        groups = shared.planted_groups(self.spikes)
        return {"activation": self.activation, "neuron_groups": groups, "n": self.n, "d": self.d, "width": self.width}

    def _outliers(self) -> Any:
        return feature_outliers(**self._setting())

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.one_step.planted_spectrum import against_the_bulk, covariance_eigenvalues

        sizes = self.as_dict("activation", "n", "d", "width")
        values = covariance_eigenvalues(rng, shared.PLANTED[self.spikes], **sizes)
        return {"eigenvalue": np.quantile(values, LEVELS), **against_the_bulk(values, **self._setting())}

    def predict(self) -> dict[str, Any]:
        outliers = self._outliers()
        top = outliers.outliers[0] if outliers.outliers.size else outliers.bulk_edge
        return {"largest_eigenvalue": top, "bulk_edge": outliers.bulk_edge}

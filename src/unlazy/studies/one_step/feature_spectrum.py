"""The spectrum of learned features: the bulk shrinks, and a few eigenvalues of order N leave it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_most, between, relative_deviation, static
from unlazy.studies.one_step.shared.gradient_step import DANDI, DANDI_TEXT
from unlazy.studies.one_step.shared.planted import PLANTED, planted_groups, planted_weights

LEVELS = tuple(((np.arange(200) + 0.5) / 200).tolist())


@dataclass(frozen=True)
class FeatureSpectrum(Study):
    name = "feature-spectrum"
    topic = "one_step"
    question = "How does a spike in the weights change the eigenvalues of the feature covariance F^T F / n?"
    caption = (
        "Filled steps: histograms of the simulated eigenvalues of all seeds. Lines: theory; arrows: the outliers that"
        " it predicts."
    )
    sources = (DANDI,)

    n: int = static(1000, "samples", symbol="n", low=2, scale="log")
    d: int = static(400, "dimension", symbol="d", low=2, high=10_000, scale="log")
    features: int = static(600, "neurons", symbol="N", low=4, high=20_000, scale="log")
    activation: str = static("tanh", "activation", choices=("tanh", "erf"))
    spikes: str = static("one group", "spikes of the neurons", choices=tuple(PLANTED))

    outputs = {
        "eigenvalue": Output("eigenvalue by quantile", "", ("level",), scale="log"),
        "distance": Output("Kolmogorov distance to the law of the bulk", ""),
        "top": Output("largest eigenvalue", "", scale="log"),
        "bulk_edge": Output("largest eigenvalue of the bulk", ""),
    }
    presets = {
        "quick": {"spikes": ["none", "one group"], "seeds": 12},
        "full": {"spikes": list(PLANTED), "d": 800, "features": 1200, "n": 2000, "seeds": 24},
    }
    claims = (
        Claim(
            "bulk",
            DANDI_TEXT,
            "The eigenvalues follow the law of the bulk: the Kolmogorov distance is at most 0.015.",
            at_most(0.015),
            check=lambda part: part.simulated.distance,
        ),
        Claim(
            "outlier",
            DANDI_TEXT,
            "With a spike the largest eigenvalue is of order N, and where the determinant says, within 5%.",
            between(-0.05, 0.05),
            check=lambda part: relative_deviation(part.simulated.top, part.predicted.top).sel(spikes="one group"),
            needs={"spikes": ("one group",)},
        ),
        Claim(
            "bulk-shrinks",
            DANDI_TEXT,
            "The bulk shrinks: its end with a spike is at most 0.7 of that without.",
            at_most(0.7),
            statistic=lambda part: (
                part.simulated.bulk_edge.mean("seed").sel(spikes="one group")
                / part.simulated.bulk_edge.mean("seed").sel(spikes="none")
            ),
            needs={"spikes": ("none", "one group")},
        ),
        Claim(
            "edge",
            "the project's equations",
            "The end of the bulk is that of the theory, within 8%.",
            between(-0.08, 0.08),
            check=lambda part: relative_deviation(part.simulated.bulk_edge, part.predicted.bulk_edge),
        ),
    )

    def memory(self) -> int:
        return 8 * (self.n * (self.features + self.d) + 4 * self.features**2)

    def coordinates(self) -> dict[str, Any]:
        return {"level": LEVELS}

    def _setting(self) -> dict[str, Any]:
        groups = planted_groups(self.spikes)
        return {"activation": self.activation, "groups": groups, "n": self.n, "d": self.d, "features": self.features}

    def _outliers(self) -> Any:
        from unlazy.theory.one_step.spiked.spectrum import feature_outliers

        return feature_outliers(**self._setting())

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draw weights and inputs; the bulk ends half-way, in logarithms, between predicted end and outliers."""
        from unlazy.functions.activations import activation
        from unlazy.theory.one_step.spiked.spectrum import feature_spectrum

        weights = planted_weights(rng, self.spikes, self.d, self.features, 1.0)
        hidden = activation(self.activation)(rng.standard_normal((self.n, self.d)) @ weights)
        values = np.sort(np.maximum(np.linalg.eigvalsh(hidden.T @ hidden / self.n), 0.0))
        outliers = self._outliers()
        limit = np.sqrt(outliers.edge * outliers.values[-1]) if outliers.values.size else np.inf
        points = np.quantile(values[values > 1e-9], np.linspace(0.02, 0.98, 33))
        law = feature_spectrum(**self._setting(), points=points).distribution
        empirical = np.searchsorted(values, points, side="right") / len(values)
        return {
            "eigenvalue": np.quantile(values, LEVELS),
            "distance": np.abs(empirical - law).max(),
            "top": values[-1],
            "bulk_edge": values[values < limit][-1],
        }

    def predict(self) -> dict[str, Any]:
        outliers = self._outliers()
        top = outliers.values[0] if outliers.values.size else outliers.edge
        return {"top": top, "bulk_edge": outliers.edge}

    def figure(self, main: Part) -> Any:
        from dataclasses import replace

        from unlazy.plotting import style
        from unlazy.theory.one_step.spiked.spectrum import feature_spectrum

        figure, axes = style.panels(1, 1, width=5.0, height=3.3)
        points, largest = main.simulated, 0.0
        base = replace(self, **{name: points.attrs[name] for name in self.as_dict() if name in points.attrs})
        for index, name in enumerate([str(s) for s in np.atleast_1d(points.spikes)][:4]):
            chosen = points.sel(spikes=name) if "spikes" in points.dims else points
            values = np.sort(chosen.eigenvalue.values.ravel())
            study = replace(base, spikes=name)
            outliers = study._outliers()
            grid = np.geomspace(max(values[0], 1e-3), 1.05 * outliers.edge, 120)
            density = feature_spectrum(**study._setting(), points=grid).density
            edges = np.geomspace(max(values[0], 1e-3), outliers.edge * 1.1, 50)
            counts, _ = np.histogram(values, edges)
            heights = counts / values.size / np.diff(np.log(edges))
            color = style.colour(index)
            axes.stairs(heights, edges, color=color, fill=True, alpha=0.25)
            style.theory(axes, grid, density * grid, color=color, label=name)
            largest = max(largest, *outliers.values, outliers.edge)
            for place in outliers.values:
                axes.annotate("", (place, 0), (place, 0.06), arrowprops={"arrowstyle": "->", "color": color})
        axes.set_xscale("log")
        axes.set_xlim(1e-3, 2 * largest)
        axes.set(xlabel="eigenvalue", ylabel="density of its logarithm")
        axes.set_title("lines: theory; arrows: predicted outliers")
        axes.legend()
        return figure

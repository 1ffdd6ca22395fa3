"""The spectrum of trained features: the bulk shrinks, an eigenvalue of order N leaves it, and training to the end
changes the bulk itself."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from unlazy.lab import (
    OWN,
    Output,
    Study,
    at_least,
    at_most,
    between,
    changes,
    cite,
    claim,
    over_theory,
    slope,
    static,
    value,
    within,
)
from unlazy.plotting import style
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.one_step import shared
from unlazy.theory.one_step.spiked.features import gradient_step_groups
from unlazy.theory.one_step.spiked.spectrum import feature_outliers, feature_spectrum

TRAININGS = {"none": 0, "one step": 1, "several steps": 4, "to convergence": 1000}
"""Gradient steps on the same samples; by the last the training error has stopped falling."""
ONE = "one step"
OVERLAPS = (
    "The overlaps of the neurons with one direction are measured, not predicted. The equations are this project's."
)
MEASURED = {"measured_overlaps": (True,)}
UNMEASURED = {"measured_overlaps": False}
SIZES = ("width", "d", "n")
LEVELS = tuple(((np.arange(200) + 0.5) / 200).tolist())


def _over_measured(part):
    return part.simulated.largest_eigenvalue / part.simulated.measured_largest_eigenvalue - 1


def _panel(*shown, **options):
    """Histograms of the eigenvalues of all seeds of these parts, and the law and outliers that the step size says."""

    def draw(axes: Any, **parts: Any) -> None:
        for index, part in enumerate(parts[name] for name in shown):
            points = part.simulated
            values = np.sort(points.eigenvalue.values.ravel())
            edges = np.geomspace(1e-3, values[-1] * 1.1, 70)
            heights = np.histogram(values, edges)[0] / values.size / np.diff(np.log(edges))
            name, color = str(points.attrs["training"]), style.colour(index)
            axes.stairs(heights, edges, color=color, fill=True, alpha=0.25, label=name)
            if TRAININGS[name] > 1:
                continue
            names = [field.name for field in fields(FeatureSpectrumStudy)]
            study = FeatureSpectrumStudy(**{name: points.attrs[name] for name in names})
            found = study._outliers()
            grid = np.geomspace(1e-3, 1.05 * found.bulk_edge, 120)
            density = feature_spectrum(**study._sizes(), neuron_groups=study._groups(), eigenvalue=grid).density
            style.theory(axes, grid, density * grid, color=color)
            for place in found.outliers:
                axes.annotate("", (place, 0), (place, 0.06), arrowprops={"arrowstyle": "->", "color": color})
        axes.set_xscale("log")
        axes.set_xlim(1e-3, 300)

    labels = {"xlabel": "eigenvalue", "ylabel": "density of its logarithm", "log": "", **options}
    return Panel("eigenvalue", x="quantile", part=shown[0], points=False, theory=False, draw=draw, **labels)


@dataclass(frozen=True)
class FeatureSpectrumStudy(Study):
    question = (
        "What does training the first layer do to the eigenvalues of the feature covariance F^T F / n? Does the "
        "theory of features with one spike describe them after one gradient step, after several, and at convergence?"
    )
    sources = cite("dandi2024spectrum")

    n: int = static(1000, "samples of the covariance", symbol="n", low=2, scale="log")
    d: int = static(400, "dimension", symbol="d", low=3, high=10_000, scale="log")
    width: int = static(600, "neurons", symbol="N", low=4, high=20_000, scale="log")
    step_samples_per_dimension: float = static(
        5.0, "samples of the steps per dimension", symbol=r"\psi_0", above=0, high=100
    )
    activation: str = static("tanh", "activation", choices=("tanh", "erf"))
    link: str = static("erf", "link of the target", choices=tuple(shared.LINKS))
    measured_overlaps: bool = static(True, "whether the theory with measured overlaps is computed", paired=True)
    training: str = static(ONE, "training of the first layer", choices=tuple(TRAININGS))
    noise_variance: float = value(0.01, "variance of the label noise", symbol=r"\sigma^2", low=0, high=100)

    theory_for = {"training": tuple(name for name, size in TRAININGS.items() if size <= 1)}
    outputs = {
        "eigenvalue": Output("eigenvalue by quantile", "", ("quantile",), scale="log"),
        "bulk_distance": Output("Kolmogorov distance to the law of the bulk with measured overlaps", only=MEASURED),
        "largest_eigenvalue": Output("largest eigenvalue", "", scale="log"),
        "bulk_edge": Output("largest eigenvalue of the bulk", only=MEASURED),
        "measured_largest_eigenvalue": Output(
            "the same with measured overlaps", predicts="largest_eigenvalue", only=MEASURED
        ),
        "measured_bulk_edge": Output("the same with measured overlaps", predicts="bulk_edge", only=MEASURED),
        "outliers": Output("singular values of the first layer beyond the edge of a random one"),
    }
    inner = {"quantile": LEVELS}
    presets = {
        "quick": {
            "untrained": {"training": "none", "seeds": 6},
            "main": {"seeds": 34},
            "several": {"training": "several steps", "seeds": 20},
            "converged": {"training": "to convergence", "d": 100, "width": 150, "n": 1500, "seeds": 10},
            "sizes": {
                SIZES: [(k * 75, k * 50, k * 125) for k in (1, 2, 4, 8)],
                "measured_overlaps": False,
                "seeds": 26,
            },
        },
        "full": {
            "untrained": {"training": "none", "d": 800, "width": 1200, "n": 2000, "seeds": 24},
            "main": {"d": 800, "width": 1200, "n": 2000, "seeds": 48},
            "several": {"training": "several steps", "d": 800, "width": 1200, "n": 2000, "seeds": 24},
            "converged": {"training": "to convergence", "d": 200, "width": 300, "n": 3000, "seeds": 24},
            "sizes": {
                SIZES: [(k * 75, k * 50, k * 125) for k in (1, 2, 4, 8, 16)],
                "measured_overlaps": False,
                "seeds": 24,
            },
        },
    }
    history = (
        *changes(
            "outlier-order",
            "the theory's slope at these sizes, where planted spikes had 1",
            "initial overlaps, of order 1/d, are part of a trained spike; 1 was undecided",
        ),
        *changes("from-the-step-size outlier", "more seeds", "undecided at first"),
        *changes("converged-outlier", "10%, where the others have 5%", "it was 3.6% above, and undecided"),
    )
    figure = panels(
        _panel("untrained", "main", "several", title="$d = 400$"),
        _panel("converged", title="$d = 100$"),
        width=4.0,
        height=3.2,
        caption="Filled steps: histograms of the simulated eigenvalues of all seeds. Lines: theory from the step size "
        "alone; arrows: the outliers that it predicts.",
    )

    @claim("dandi2024spectrum", "", at_most(0.015), departs=OVERLAPS)
    def bulk(untrained, main, several):
        """Before training, after one step of size N^(1/2) and after four steps the eigenvalues follow the bulk law of
        features with one spike. The Kolmogorov distance is {criterion}."""
        return [part.simulated.bulk_distance for part in (untrained, main, several)]

    @claim("dandi2024spectrum", "", within(0.05), departs=OVERLAPS)
    def outlier(main, several):
        """After one step and after four the largest eigenvalue is where the theory puts it for the measured overlaps,
        {criterion}."""
        return [_over_measured(part) for part in (main, several)]

    @claim(OWN, "the claim outlier at convergence", within(0.1))
    def converged_outlier(converged):
        """At convergence too the largest eigenvalue is where the theory puts it for the measured overlaps,
        {criterion}."""
        return _over_measured(converged)

    @claim(
        "dandi2024spectrum",
        "",
        within(0.1),
        departs=(
            "The second layer is normal and the batch has 5 d samples; in the source the second layer has finitely "
            "many values and the batch is much larger than d."
        ),
    )
    def from_the_step_size(main):
        """After one step the theory needs no look at the weights. The largest eigenvalue is what the step size alone
        gives, {criterion}."""
        return over_theory(main, "largest_eigenvalue")

    @claim("dandi2024spectrum", "", within(0.1, absolute=True))
    def outlier_order(sizes):
        """After one step of size N^(1/2) the largest eigenvalue is of order N. At a fixed shape the slope of its
        logarithm against log N is that of the theory from the step size alone, {criterion}. This is 0.91 from N = 75 to
        600, and 1 in the limit."""
        found, theory = (data.largest_eigenvalue for data in (sizes.simulated, sizes.predicted))
        return slope(found, "width", least=4) - slope(theory, "width", least=4)

    @claim(OWN, "deterministic equivalent of the feature covariance", within(0.08))
    def edge(untrained, main, several):
        """Before training, after one step and after four the end of the bulk is that of the theory with the measured
        overlaps, {criterion}."""
        return [part.simulated.bulk_edge / part.simulated.measured_bulk_edge - 1 for part in (untrained, main, several)]

    @claim(OWN, "observation", at_most(0.9))
    def bulk_shrinks(untrained, several):
        """The bulk shrinks as the spike grows. Its end after four steps is {criterion} times the mean end without
        training."""
        return several.simulated.bulk_edge / untrained.simulated.bulk_edge.mean("seed")

    @claim(OWN, "observation", between(1.0, 1.0))
    def one_direction(main, several):
        """After one step and after four one singular value of the first layer leaves the bulk, and no other. The number
        of those outside is {criterion}."""
        return [part.simulated.outliers for part in (main, several)]

    @claim(OWN, "observation", at_least(2.0))
    def more_directions(converged):
        """At convergence several singular values of the first layer have left the bulk; the further ones fit noise.
        Their number is {criterion}."""
        return converged.simulated.outliers

    @claim(
        OWN,
        "the claim bulk at convergence",
        at_most(0.015),
        known_negative=(
            "Training to the end fits the noise of the samples, along many directions. What a neuron has beside the "
            "spike is then no generic vector, and the law of the bulk does not hold."
        ),
    )
    def converged_bulk(converged):
        """At convergence the eigenvalues still follow the bulk law of features with one spike. The Kolmogorov distance
        is {criterion}."""
        return converged.simulated.bulk_distance

    def memory(self) -> int:
        return 8 * (self.n * (self.width + self.d) + 4 * self.width**2 + 2 * self._step_samples * (self.width + self.d))

    @property
    def _step_samples(self) -> int:
        return round(self.step_samples_per_dimension * self.d)

    def _sizes(self) -> dict[str, Any]:
        return self.as_dict("activation", "n", "d", "width")

    def _groups(self) -> Any:
        """Of the theory from the step size alone."""
        step_size = TRAININGS[self.training] * np.sqrt(self.width)
        given = self._step_samples, self.d, self.width, step_size, self.noise_variance
        return gradient_step_groups(self.activation, shared.LINKS[self.link], *given).neuron_groups

    def _outliers(self) -> Any:
        return feature_outliers(**self._sizes(), neuron_groups=self._groups())

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.one_step.trained_features import against_the_bulk, covariance_eigenvalues, trained_layer

        given = self._step_samples, self.d, self.width, self.noise_variance, float(np.sqrt(self.width))
        steps = TRAININGS[self.training]
        layer = trained_layer(rng, self.activation, shared.link_function(self.link), *given, steps)
        values = covariance_eigenvalues(rng, self.activation, layer.weights, self.n)
        found = dict.fromkeys(self.outputs, np.nan) | {"largest_eigenvalue": values[-1], "outliers": layer.outliers}
        if self.measured_overlaps:
            found |= against_the_bulk(values, **self._sizes(), neuron_groups=layer.neuron_groups)
        return found | {"eigenvalue": np.quantile(values, LEVELS)}

    def predict(self) -> dict[str, Any]:
        """Without a look at the weights; several large steps have no theory of their own."""
        if TRAININGS[self.training] > 1:
            return {}
        outliers = self._outliers()
        top = outliers.outliers[0] if outliers.outliers.size else outliers.bulk_edge
        return {"largest_eigenvalue": top, "bulk_edge": outliers.bulk_edge}

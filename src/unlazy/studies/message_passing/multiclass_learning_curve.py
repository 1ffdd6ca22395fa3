"""Learning curves of softmax regression on Gaussian clusters: fits against state evolution with matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import Output, Study, changes, cite, claim, difference, over_theory, static, value, within
from unlazy.plotting.panels import Panel, panels
from unlazy.theory.message_passing.multiclass.softmax import multiclass_clusters

SOURCES = "loureiro2021mixtures cakmak2024"
PRIORS = {2: (0.6, 0.4), 3: (0.5, 0.3, 0.2), 4: (0.4, 0.3, 0.2, 0.1)}
FRESH = 4000
"""Fresh points of each class."""
ERRORS, LOSSES = ("test_error", "rare_error"), ("test_loss", "training_loss")
BOTH = "error or loss"
UNEQUAL = {"variance_contrast": 0.8, "fit_intercept": True, "penalty": 0.3}


@dataclass(frozen=True)
class MulticlassLearningCurve(Study):
    """K classes with means (separation / d^1/2) e_k and unequal frequencies; cluster k has variances s_kj of mean 1/d.

    s_kj = (1 + variance_contrast sin(2 pi (j/d + k/K))) / d. The fits are scikit-learn's, to a tolerance of 1e-6, with
    C = 1/penalty; for two classes C = 2/penalty, as its binary model has half the penalty. The training rows have the
    classes in their exact shares. Scores of fresh points are normal given the fit, and drawn as such.
    """

    question = "Does state evolution with matrices predict the errors of softmax regression class by class?"
    sources = cite("loureiro2021mixtures", "cakmak2024")
    departs = "The classes have exact shares of the training rows; they are not drawn."

    classes: int = static(3, "classes", symbol="K", choices=tuple(PRIORS))
    samples_per_dimension: float = value(
        2.0, "training rows per dimension", symbol="n/d", low=0.1, high=100, scale="log"
    )
    penalty: float = value(0.1, "penalty of the sum over rows", symbol=r"\lambda", above=0, high=1e4, scale="log")
    separation: float = value(
        2.0, "length of the means over the noise of a coordinate", symbol=r"\sqrt{d}|\mu|", low=0, high=20
    )
    variance_contrast: float = value(0.0, "differences between the clusters' variances", low=0, high=0.99)
    fit_intercept: bool = static(False, "whether a bias is fitted")
    d: int = static(300, "dimension", symbol="d", low=20, high=5000, scale="log")

    outputs = {
        "test_error": Output("test error"),
        "rare_error": Output("error of the rarest class"),
        "training_error": Output("training error"),
        "training_loss": Output("training loss"),
        "test_loss": Output("test loss"),
        "norm": Output("variance of a score within a cluster", "Q"),
    }
    presets = {
        "quick": {
            "curve": {"classes": [2, 3], "samples_per_dimension": [1.0, 4.0], "seeds": 120},
            "few": {"classes": [2, 3], "samples_per_dimension": 0.5, "seeds": 20},
            "unequal": UNEQUAL | {"samples_per_dimension": [2.0], "seeds": 184},
        },
        "full": {
            "curve": {"classes": [2, 3, 4], "samples_per_dimension": [1.0, 2.0, 4.0, 8.0], "d": 1000, "seeds": 32},
            "few": {"classes": [2, 3, 4], "samples_per_dimension": 0.5, "d": 1000, "seeds": 32},
            "unequal": UNEQUAL | {"samples_per_dimension": [1.0, 2.0, 4.0], "d": 1000, "seeds": 32},
        },
    }
    history = changes(
        "rare-class training-error",
        "120 and 184 seeds, first 40, and the penalty 0.3 for unequal covariances, first 0.1",
        "fresh seeds would have changed the verdicts in 74 and 32% of runs; with the smaller penalty the error of the "
        "rarest class scatters by 10% from run to run; the criteria were not changed",
    ) + changes(
        "",
        "the points at n/d = 0.5, part `few`, are drawn and not judged",
        "runs with 24 and 48 seeds left the rarest class undecided there, where it scatters by 10% from run to run",
    )
    figure = panels(
        Panel(ERRORS, x="samples_per_dimension", by="classes", part="curve", ylabel="error", log="x", legend="beside"),
        Panel(
            LOSSES,
            x="samples_per_dimension",
            by="classes",
            part="curve",
            ylabel="softmax loss",
            log="x",
            legend="beside",
        ),
        Panel(ERRORS + LOSSES, x="classes", part="few", title="$n/d = 0.5$, not judged", ylabel=BOTH, legend=False),
        Panel(ERRORS + LOSSES, part="unequal", title="unequal, bias", ylabel=BOTH, beside=True, legend="beside"),
        columns=2,
        width=5.2,
    )

    @claim(SOURCES, "", within(0.05))
    def test_error(curve, unequal):
        """The mean test error is the predicted one {criterion}. This is asked of all numbers of classes and rows (n >=
        d), with equal and unequal covariances."""
        return [over_theory(part, "test_error") for part in (curve, unequal)]

    @claim(SOURCES, "", within(0.05))
    def rare_class(curve, unequal):
        """The error among the points of the rarest class is the predicted one {criterion}."""
        return [over_theory(part, "rare_error") for part in (curve, unequal)]

    @claim(SOURCES, "", within(0.05))
    def test_loss(curve, unequal):
        """The test loss is the predicted one {criterion}."""
        return [over_theory(part, "test_loss") for part in (curve, unequal)]

    @claim(SOURCES, "", within(0.005, absolute=True))
    def training_error(curve, unequal):
        """The mean training error is the predicted one {criterion}. The criterion is absolute, as at n = d nearly all
        rows are right."""
        return [difference(part, "training_error") for part in (curve, unequal)]

    @claim(SOURCES, "", within(0.1))
    def training_loss(curve, unequal):
        """The mean training loss is the predicted one {criterion}."""
        return [over_theory(part, "training_loss") for part in (curve, unequal)]

    @claim(SOURCES, "", within(0.05))
    def scores(curve, unequal):
        """The variance of the scores within clusters is the predicted one {criterion}."""
        return [over_theory(part, "norm") for part in (curve, unequal)]

    @property
    def _rows(self) -> int:
        return round(self.samples_per_dimension * self.d)

    def _means(self) -> np.ndarray:
        return self.separation / self.d**0.5 * np.eye(self.classes, self.d)

    def _variances(self) -> np.ndarray:
        turn = np.arange(self.d) / self.d + np.arange(self.classes)[:, None] / self.classes
        return (1 + self.variance_contrast * np.sin(2 * np.pi * turn)) / self.d

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.message_passing.cluster_scores import softmax_errors

        clusters = self._means(), self._variances(), np.array(PRIORS[self.classes])
        return softmax_errors(rng, *clusters, self._rows, self.penalty, fit_intercept=self.fit_intercept, fresh=FRESH)

    def predict(self) -> dict[str, Any]:
        prior, variances = np.array(PRIORS[self.classes]), self._variances()
        found = multiclass_clusters(
            self._means(),
            self._rows,
            self.penalty,
            variances=variances,
            cluster_probabilities=prior,
            fit_intercept=self.fit_intercept,
        )
        spreads = np.trace(found.norm, axis1=1, axis2=2) / (self.classes - 1)
        shown = {name: getattr(found, name) for name in ("test_error", "training_error", "training_loss", "test_loss")}
        return shown | {"rare_error": found.class_errors[-1], "norm": prior @ spreads}

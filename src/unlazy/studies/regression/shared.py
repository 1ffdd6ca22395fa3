"""What studies of ridge and of learned metrics share: fields, outputs, theory, claims' measures and panels."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Change, Output, Study, path, slope, static, value
from unlazy.plotting.panels import Guide, Panel, Panels, panels
from unlazy.theory.regression.metric import bayes_risk
from unlazy.theory.regression.ridge import ridge_equivalent

OUTPUTS = {
    "ridge_risk": Output("excess risk of ridge at the best ridge", r"\bar R", scale="log"),
    "bayes_risk": Output("excess risk of Bayes, which knows the prior", r"\bar R", scale="log", short="excess risk"),
    "zero_risk": Output("excess risk of the zero predictor", r"\bar R", theory_only=True),
    "evidence_risk": Output("excess risk in the metric learned by evidence", r"\bar R", ("steps",), scale="log"),
    "degrees_of_freedom_risk": Output("excess risk in the metric learned with DoF", r"\bar R", ("steps",), scale="log"),
}
TRAINED = Output("excess risk of the trained network", r"\bar R", scale="log", short="trained network")
RISKS = ("bayes_risk", "ridge_risk", "evidence_risk", "degrees_of_freedom_risk")
LABELS = ("Bayes, prior known", "best ridge", "metric by evidence", "metric with DoF")
KNOWN = {"tasks": 1, "steps": [0]}
"""Ridge and Bayes are exact expectations over tasks: to compare them with theory one task is enough."""
UNTRAINED = {**KNOWN, "training_steps": 1}
"""And no network that nobody asks."""
TUNED = Change("", "step size, steps, batch and start of the trained networks", "chosen in pilots, for speed")
DIAGONAL = (
    "The metric is diagonal in the true eigenbasis and takes closed-form steps, where the source minimises R(W) over "
    "d x d matrices W by noisy gradient descent"
)
"""How learned metrics depart from the source, in common."""
EVIDENCE = DIAGONAL.replace("The metric is", "The metric is learned by evidence, is")
NETWORK = (
    "W is diagonal in the true eigenbasis, where the source's is a d x d matrix in a class that the talk does not "
    "describe"
)
FULL = (
    "A d x d matrix that is trained on one set of inputs leaves new directions as they were: it predicts by the "
    "interpolation of least norm of smoothed labels, like ridge regression. A rate for all W needs a smaller class of "
    "W, or inputs of their own for each task (study trained-metric)."
)
"""Why a full layer does not learn the examples."""
BAYES_RATE = (
    "The source states this rate for the network that minimises R(W); here it is that of the Bayes estimator, which "
    "knows the prior, by its deterministic equivalent."
)
RIDGES = np.logspace(-8, 3, 221)
"""The ridges among which an oracle takes the best for plain ridge regression."""
SINGULAR = "without a ridge the variance is infinite where there are as many samples as dimensions"
RIDGE_OUTPUTS = {
    "risk": Output("excess risk", r"\bar R", ("ridge",), scale="log", infinite=SINGULAR),
    "bias": Output("bias", "B", ("ridge",), scale="log"),
    "variance": Output("variance", "V", ("ridge",), scale="log", infinite=SINGULAR),
}


def ridges(default: tuple) -> Any:
    """The field of a path of ridges, 0 for interpolation."""
    label = "ridge, in (1/n)|y - Xb|^2 + ridge |b|^2"
    return path(default, label, symbol=r"\lambda", low=0, high=1e12, scale="log", short="ridge")


@dataclass(frozen=True)
class MetricExample(Study):
    """A metric that m tasks teach, against the best ridge and Bayes, where the dimension is a power of n."""

    n: int = static(20, "samples, shared by all tasks", symbol="n", low=2, high=100_000, scale="log")
    dimension_exponent: float = static(2.0, "exponent c of the dimension d = n^c", symbol="c", low=1, high=4)
    tasks: int = static(200, "tasks", symbol="m", low=1, high=10_000, scale="log")
    noise_variance: float = value(1.0, "variance of the label noise", symbol=r"\sigma^2", above=0, high=1e6)
    steps: tuple = path((6, 12), "majorise-minimise steps of the metric", symbol="t", low=0, high=10_000)
    layer: str = static("diagonal", "first layer of the trained network", choices=("diagonal", "full"))
    training_steps: int = static(80, "steps of its gradient descent", low=1, high=100_000, scale="log")

    outputs = {name: OUTPUTS[name] for name in OUTPUTS if name != "degrees_of_freedom_risk"} | {"trained_risk": TRAINED}
    lines = {"main": "n"}

    def population(self, **options: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Eigenvalues, prior and how often each comes; `written_out`: once each."""
        raise NotImplementedError

    @property
    def dimension(self) -> int:
        return int(self.n**self.dimension_exponent + 1e-9)

    def memory(self) -> int:
        trained = 0 if self.layer == "diagonal" else 3 * self.dimension
        return 8 * self.dimension * (5 * self.n + 4 * self.tasks + trained)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.training.regression.metric_learning import metric_risks, trained_risk

        spectrum, prior, _ = self.population(written_out=True)
        sizes = self.n, self.tasks, self.noise_variance
        descent: dict[str, Any] = {"steps": self.training_steps, "step_size": 5.0, "batch_size": 50}
        trained = trained_risk(deepcopy(rng), spectrum, prior, *sizes, diagonal=self.layer == "diagonal", **descent)
        return {
            **metric_risks(rng, spectrum, prior, *sizes, RIDGES, self.steps, ("evidence",)),
            "trained_risk": trained,
        }

    def predict(self) -> dict[str, Any]:
        return predicted_risks(*self.population(), self.n, self.noise_variance)


def check_kernels_reached(n: int, d: int) -> None:
    if d < n:
        raise InputError(f"d must be >= n = {n}, so that every kernel matrix can be reached; got {d}")


def predicted_risks(
    spectrum: np.ndarray, prior: np.ndarray, multiplicities: np.ndarray, n: int, noise_variance: float
) -> dict[str, Any]:
    """The deterministic equivalents of ridge and Bayes; there is none for a metric that the data teach."""
    ridge = ridge_equivalent(spectrum, prior, n, RIDGES, noise_variance, multiplicities=multiplicities)
    bayes = bayes_risk(spectrum * prior, n, noise_variance, multiplicities=multiplicities)
    zero = multiplicities @ (spectrum * prior)
    return {"ridge_risk": ridge.risk.min(), "bayes_risk": bayes.risk, "zero_risk": zero}


def theory_deviation(part):
    """By which fraction the mean risks of ridge and Bayes deviate from their equivalents."""
    return [part.simulated[name].mean("seed") / part.predicted[name] - 1 for name in ("ridge_risk", "bayes_risk")]


def learned_ratio(part, steps):
    """The mean risk in the metric learned by evidence over the mean Bayes risk."""
    mean = part.simulated.sel(steps=steps).mean("seed")
    return mean.evidence_risk / mean.bayes_risk


def slope_over_bayes(part, name, steps):
    """The slope of a log risk in log n less that of the Bayes risk on the same data."""
    data = part.simulated.sel(steps=steps)
    return slope(data[name], "n", least=4) - slope(data.bayes_risk, "n")


def bayes_slope(study, sizes=(1_000, 4_000, 20_000, 100_000)):
    """The slope of the log Bayes risk in log n, at sizes that only theory reaches."""
    import xarray as xr

    risks = [float(replace(study, n=n).predict()["bayes_risk"]) for n in sizes]
    return slope(xr.DataArray(risks, {"n": list(sizes)}, ["n"]), "n")


def risks_against_size(steps: int, rate: float, text: str) -> Panels:
    """The figure of an example in which the dimension grows with n."""
    marks = (Guide(rate, text, 0.7),)
    full = Panel(
        "trained_risk", x="n", part="full", labels=("trained network, full $W$",), colours=("#999999",), line=True
    )
    shown, labels = (*RISKS[:-1], "trained_risk"), (*LABELS[:-1], "trained network, diagonal $W$")
    risks = Panel(shown, x="n", at={"steps": steps}, labels=labels, legend="beside", marks=marks, also=(full,))
    return panels(risks, width=5.2, height=3.4, caption="Learned metrics and trained networks have no theory.")

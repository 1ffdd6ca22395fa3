"""What studies of learned metrics share: outputs, theory, claims' measures and panels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Output, slope
from unlazy.plotting.panels import Guide, Panel, Panels, panels

OUTPUTS = {
    "ridge_risk": Output("excess risk of ridge at the best ridge", r"\bar R", scale="log"),
    "bayes_risk": Output("excess risk of Bayes, which knows the prior", r"\bar R", scale="log", short="excess risk"),
    "zero_risk": Output("excess risk of the zero predictor", r"\bar R", theory_only=True),
    "evidence_risk": Output("excess risk in the metric learned by evidence", r"\bar R", ("steps",), scale="log"),
    "dof_risk": Output("excess risk in the metric learned with DoF", r"\bar R", ("steps",), scale="log"),
}
RISKS = ("bayes_risk", "ridge_risk", "evidence_risk", "dof_risk")
LABELS = ("Bayes, prior known", "best ridge", "metric by evidence", "metric with DoF")
KNOWN = {"tasks": 1, "steps": [0]}
"""Ridge and Bayes are exact expectations over tasks: to compare them with theory one task is enough."""
RIDGES = np.logspace(-8, 3, 221)
"""The ridges among which an oracle takes the best for plain ridge regression."""


def check_kernels_reached(n: int, d: int) -> None:
    if d < n:
        raise InputError(f"d must be >= n = {n}, so that every kernel matrix can be reached; got {d}")


def predicted_risks(
    spectrum: np.ndarray, prior: np.ndarray, multiplicities: np.ndarray, n: int, noise_variance: float
) -> dict[str, Any]:
    """The deterministic equivalents of ridge and Bayes; there is none for a metric that the data teach."""
    from unlazy.theory.regression.metric import bayes_risk
    from unlazy.theory.regression.ridge import ridge_equivalent

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


def bayes_slope(study, sizes=(1_000, 10_000, 100_000)):
    """The slope of the log Bayes risk in log n, at sizes that only theory reaches."""
    import xarray as xr

    risks = [float(replace(study, n=n).predict()["bayes_risk"]) for n in sizes]
    return slope(xr.DataArray(risks, {"n": list(sizes)}, ["n"]), "n")


def risks_against_size(steps: int, rate: float, text: str) -> Panels:
    """The figure of an example in which the dimension grows with n."""
    marks = (Guide(rate, text, 0.7),)
    risks = Panel(RISKS, x="n", at={"steps": steps}, labels=LABELS, legend="beside", marks=marks)
    return panels(risks, width=5.2, height=3.4, caption="Learned metrics have no theory.")

"""What the studies of learned metrics share: ridge, Bayes and two learned metrics on the same drawn tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Output, Part, slope

if TYPE_CHECKING:
    import xarray as xr

OUTPUTS = {
    "ridge_risk": Output("excess risk of ridge at the best ridge", r"\bar R", scale="log", short="excess risk"),
    "bayes_risk": Output("excess risk of Bayes, which knows the prior", r"\bar R", scale="log"),
    "zero_risk": Output("excess risk of the zero predictor", r"\bar R", theory_only=True),
    "evidence_risk": Output("excess risk in the metric learned by evidence", r"\bar R", ("steps",), scale="log"),
    "dof_risk": Output("excess risk in the metric learned with DoF", r"\bar R", ("steps",), scale="log"),
}
RIDGES = np.logspace(-8, 3, 221)
"""The ridges among which an oracle takes the best for plain ridge regression."""


def simulated_risks(
    rng: np.random.Generator,
    spectrum: np.ndarray,
    prior: np.ndarray,
    n: int,
    tasks: int,
    noise_variance: float,
    steps: Sequence[int],
) -> dict[str, Any]:
    """The outputs of one draw."""
    from unlazy.training.regression.metric_learning import metric_risks

    risks = metric_risks(rng, spectrum, prior, n, tasks, noise_variance, RIDGES, steps)
    return {
        "ridge_risk": risks.ridge.min(),
        "bayes_risk": risks.bayes,
        "evidence_risk": risks.evidence,
        "dof_risk": risks.dof,
    }


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


def theory_deviation(part: Part) -> list[xr.DataArray]:
    """By which fraction the mean risks of ridge and Bayes deviate from their equivalents."""
    return [part.simulated[name].mean("seed") / part.predicted[name] - 1 for name in ("ridge_risk", "bayes_risk")]


def learned_ratio(part: Part, steps: int) -> xr.DataArray:
    """The mean risk in the metric learned by evidence over the mean Bayes risk."""
    mean = part.simulated.sel(steps=steps).mean("seed")
    return mean.evidence_risk / mean.bayes_risk


def bayes_slope(study: Any, sizes: Sequence[int]) -> xr.DataArray:
    """The slope of the log Bayes risk in log n, at sizes that only theory reaches."""
    from dataclasses import replace

    import xarray as xr

    risks = [float(replace(study, n=n).predict()["bayes_risk"]) for n in sizes]
    return slope(xr.DataArray(risks, {"n": list(sizes)}, ["n"]), "n")

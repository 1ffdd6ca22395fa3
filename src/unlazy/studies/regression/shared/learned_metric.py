"""What the studies of learned metrics share: ridge, Bayes and two learned metrics on the same drawn tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Output, Part, slope

if TYPE_CHECKING:
    import xarray as xr

OUTPUTS = {
    "ridge_risk": Output("excess risk of ridge at the best ridge", r"\bar R", scale="log"),
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


def draw_risks(axes: Any, main: Part, known: Part, axis: str, theory: Any, learned: Sequence[tuple[str, int]]) -> None:
    """Ridge and Bayes (part `known`) as lines with points, the learned metrics (criterion, steps) as points."""
    from unlazy.plotting import style

    points = main.simulated
    for index, (name, text) in enumerate((("ridge_risk", "best ridge"), ("bayes_risk", "Bayes, prior known"))):
        style.theory(axes, theory[axis], theory[name], color=style.colour(index), label=text)
        style.simulation(
            axes, known.simulated[axis], known.simulated[name], color=style.colour(index), marker=style.marker(index)
        )
    for index, (criterion, steps) in enumerate(learned, start=2):
        if steps in points.steps:
            text = {"evidence": "metric by evidence", "dof": "metric with DoF"}[criterion]
            style.simulation(
                axes,
                points[axis],
                points[f"{criterion}_risk"].sel(steps=steps),
                color=style.colour(index),
                marker=style.marker(index),
                label=f"{text}, {steps} steps",
            )
    axes.set(yscale="log", ylabel=style.label("excess risk", r"\bar R"))


def size_figure(study: Any, main: Part, known: Part, steps: int, rate: float, rate_text: str) -> Any:
    """Risk against n, with the theory continued to sizes that nobody can draw."""
    from dataclasses import replace

    from unlazy.plotting import style

    points = main.simulated
    base = replace(study, **{name: points.attrs[name] for name in study.as_dict() if name in points.attrs})
    sizes = np.unique(np.geomspace(points.n.values.min(), 1280, 40).astype(int))
    rows = [replace(base, n=int(n)).predict() for n in sizes]
    theory = {"n": sizes, **{name: np.array([row[name] for row in rows]) for name in rows[0]}}
    figure, axes = style.panels(1, 1, width=5.2, height=3.4)
    draw_risks(axes, main, known, "n", theory, [("evidence", steps), ("dof", steps)])
    guide = 0.6 * theory["bayes_risk"][-1] * (sizes / sizes[-1]) ** rate
    style.theory(axes, sizes, guide, color="#888888", dashed=True, label=rate_text)
    axes.set(xscale="log", xlabel=style.label("samples", "n"))
    axes.legend(loc="lower left")
    return figure

"""Task diversity: with fewer tasks than dimensions linear attention memorises them, with more it learns in context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.lab import OWN, Change, Output, cite, claim, value
from unlazy.lab.claims import at_least, at_most, between, within
from unlazy.lab.measures import enough, parameter, slope
from unlazy.plotting.panels import Panel, panels
from unlazy.studies.in_context.shared import ARRAYS, ERRORS, FINITE, KINDS, RIDGE, Pretraining, deviation, steps
from unlazy.theory.in_context.linear_attention import bayes_error, linear_attention_errors

MANY_PROMPTS = 1e9
AWAY = (0.25, 0.5, 0.9, 1.1, 1.5, 2.0, 4.0)
"""Ratios of tasks outside [0.95, 1.05], where a context of length 1000 d still rounds the corner."""
RATES = "this project's equations, after Lu et al. 2024"
CROSSOVER = (
    "The source has a sharp transition for many prompts and then long contexts. Here contexts are 2 d long, where it "
    "is a crossover, and bounds are this project's."
)
POWERS = {0.5: 0.0, 1.0: -0.5, 2.0: -1.0}
"""Of the context length, by tasks over d."""
CONTEXTS = {
    "tasks_per_dimension": list(POWERS),
    "context_per_dimension": [4.0, 10.0, 25.0, 60.0],
    "prompts_per_squared_dimension": 20.0,
    "noise_variance": 0.01,
    "ridge_times_dimension": 1e-6,
}
LONG = np.geomspace(1e3, 1e5, 9)
"""Context lengths over d, for rates."""
TASKS = np.geomspace(0.1, 10, 241)


def excess(tasks: Any, contexts: Any, noise_variance: float, prompts: float = MANY_PROMPTS) -> Any:
    """The ridgeless error on new tasks in the limit of large d, beyond that of Bayes on the same context."""
    import xarray as xr

    coords = {"tasks_per_dimension": np.atleast_1d(tasks), "context_per_dimension": np.atleast_1d(contexts)}
    tasks, contexts = coords.values()
    found = linear_attention_errors(prompts, contexts, tasks[:, None], 0.0, noise_variance)
    return xr.DataArray(found.new_task_error - bayes_error(contexts, noise_variance), coords)


def _noise(data):
    """The label noise of the run; the smallest where it varies."""
    return float(np.min(parameter(data, "noise_variance")))


def _beyond_bayes(data):
    """The error on new tasks beyond that of Bayes in the limit of large d."""
    contexts = data.context_per_dimension
    return data.new_task_error - contexts.copy(data=bayes_error(contexts.values, _noise(data)))


def _gap(data):
    """By how much the error on new tasks exceeds that on the pretraining tasks."""
    return data.new_task_error - data.pretraining_task_error


@dataclass(frozen=True)
class TaskDiversity(Pretraining):
    """Errors of linear attention against the number of pretraining tasks, k = kappa d.

    The corner at kappa = 1 exists only for n >> l d >> d^2, in this order of limits: the simulated system shows the
    crossover that it is rounded to.
    """

    question = (
        "Linear attention may recall old tasks or learn new ones from their context. How many different tasks must "
        "pretraining have before it learns new ones?"
    )
    sources = cite("lu2024attention", "raventos2023")

    ridge_times_dimension: float = value(
        0.1, RIDGE, symbol=r"\lambda", low=0, high=1e6, scale="log", short="ridge times d"
    )

    outputs = {**ERRORS, "bayes_error": Output("Bayes error", r"e_{\rm ridge}", scale="log", theory_only=True)}
    presets = {
        "quick": {
            "main": {"tasks_per_dimension": [0.5, 1.0, 2.0, 4.0], "seeds": 16},
            "contexts": CONTEXTS | {"d": 20, "seeds": 16},
        },
        "full": {
            "main": {
                "tasks_per_dimension": [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0],
                "d": [20, 40, 64],
                "seeds": 32,
            },
            "contexts": CONTEXTS | {"d": 40, "seeds": 24},
        },
    }
    broadcasts = ARRAYS
    history = (Change("simulated-rates", "the noise, 0.01", "with 0.25 finitely many prompts hide the rates"),)
    lines = {"main": "tasks_per_dimension"}
    figure = panels(
        Panel(
            lambda data: excess(TASKS, (10.0, 100.0, 1000.0, 1e9), _noise(data), np.inf),
            x="tasks_per_dimension",
            by="context_per_dimension",
            points=False,
            title="limit of many prompts, no ridge",
            ylabel=r"$e_{\rm ICL} - e_{\rm ridge}$",
        ),
        Panel(
            ("new_task_error", "pretraining_task_error", "bayes_error"),
            x="tasks_per_dimension",
            labels=(*KINDS.values(), "Bayes"),
            ylabel="error",
        ),
        Panel(
            _beyond_bayes,
            x="context_per_dimension",
            by="tasks_per_dimension",
            part="contexts",
            title="little noise, 20 prompts per weight",
            ylabel=r"$e_{\rm ICL} - e_{\rm ridge}$",
            log="xy",
        ),
        width=3.5,
    )

    @claim("lu2024attention", "", within(0.01, absolute=True), theory=True)
    def corner(main):
        """With many prompts and long contexts (alpha = 1000) the error on new tasks exceeds that of Bayes by max(1 -
        kappa, 0), {criterion}. The range 0.95 < kappa < 1.05 is left out."""
        found = excess(AWAY, 1000.0, _noise(main.simulated))
        return found - np.maximum(1 - found.tasks_per_dimension, 0)

    @claim(OWN, RATES, between(-1.05, -0.95), theory=True)
    def rate_above(main):
        """For kappa = 2 the excess over Bayes falls like 1/alpha. The fitted exponent is {criterion}."""
        return slope(excess(2.0, LONG, _noise(main.simulated), np.inf), "context_per_dimension")

    @claim(OWN, RATES, between(-0.55, -0.45), theory=True)
    def rate_at_corner(main):
        """At kappa = 1 the excess over Bayes falls like alpha^(-1/2). The fitted exponent is {criterion}."""
        return slope(excess(1.0, LONG, _noise(main.simulated), np.inf), "context_per_dimension")

    @claim(OWN, RATES, within(0.2, absolute=True), resampled=True)
    def simulated_rates(contexts):
        """Simulations have the same rates, with little noise, 20 prompts per weight and contexts of 4 d to 60 d. For
        kappa = 1/2, 1 and 2 the exponent of the mean excess is 0, -1/2 and -1, {criterion}."""
        data = contexts.simulated.sel(tasks_per_dimension=list(POWERS))
        found = slope(_beyond_bayes(data).mean("seed"), "context_per_dimension", least=4)
        return found - found.tasks_per_dimension.copy(data=list(POWERS.values()))

    @claim("lu2024attention", "", at_least(0.5), departs=CROSSOVER)
    def few_tasks(main):
        """With d/2 tasks the error on new tasks exceeds that on the pretraining tasks by {criterion}."""
        return _gap(main.simulated).sel(tasks_per_dimension=0.5, drop=True)

    @claim("lu2024attention", "", at_most(0.15), departs=CROSSOVER)
    def many_tasks(main):
        """With 4 d tasks the error on new tasks exceeds that on the pretraining tasks by {criterion}."""
        return _gap(main.simulated).sel(tasks_per_dimension=4.0, drop=True)

    @claim("lu2024attention", "", at_most(1.0), resampled=True, departs=CROSSOVER)
    def decreasing(main):
        """The mean gap between new and pretraining tasks falls with every step to more tasks. The ratio of each gap to
        the one before is {criterion}."""
        enough(main.simulated, "tasks_per_dimension", 4)
        return steps(_gap(main.simulated), "tasks_per_dimension")

    @claim(OWN, FINITE, within(0.07))
    def exact_curves(main):
        """At d = 40 and more both errors are those of the finite-size theory for the drawn tasks, {criterion}."""
        return deviation(main.simulated, 40)

    def predict(self) -> dict[str, Any]:
        return super().predict() | {"bayes_error": bayes_error(self.context_per_dimension, self.noise_variance)}

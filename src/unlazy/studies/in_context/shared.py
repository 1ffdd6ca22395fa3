"""What studies of this topic share: one run of pretrained linear attention, what claims compare, a check."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from unlazy.lab import Output, Study, at_least, needs, static, value
from unlazy.theory.in_context.linear_attention import linear_attention_errors, optimal_ridge
from unlazy.training.in_context import pretraining

FINITE = "this project's finite-size equations, after Lu et al. 2024"
"""The place of claims about this project's extension of that theory."""
KINDS = {"new_task": "new tasks", "pretraining_task": "pretraining tasks"}
ERRORS = {
    "new_task_error": Output("error on new tasks", r"e_{\rm ICL}", scale="log"),
    "pretraining_task_error": Output("error on the pretraining tasks", r"e_{\rm IDG}", scale="log"),
    "new_task_equivalent": Output("finite-size theory, new tasks", "", scale="log", predicts="new_task_error"),
    "pretraining_task_equivalent": Output(
        "finite-size theory, pretraining tasks", "", scale="log", predicts="pretraining_task_error"
    ),
}
RIDGE = "ridge times d, in sum (y - x.Gamma h)^2 + (n/d) (ridge times d) |Gamma|^2"
ARRAYS = (
    "prompts_per_squared_dimension",
    "context_per_dimension",
    "tasks_per_dimension",
    "ridge_times_dimension",
    "noise_variance",
)
"""Parameters of which the theory takes arrays."""
_best_ridge = cache(optimal_ridge)


@dataclass(frozen=True)
class Pretraining(Study):
    """Linear attention that is fitted to n = tau d (d+1) prompts with contexts of length alpha d and kappa d tasks."""

    prompts_per_squared_dimension: float = value(
        2.0, "prompts per weight", symbol=r"\tau", above=0, high=1e4, scale="log"
    )
    context_per_dimension: float = value(2.0, "context length over d", symbol=r"\alpha", above=0, high=1e6, scale="log")
    tasks_per_dimension: float = value(
        2.0, "pretraining tasks over d", symbol=r"\kappa", above=0, high=1e4, scale="log"
    )
    noise_variance: float = value(0.25, "variance of the label noise", symbol=r"\rho", low=0, high=1e6)
    d: int = static(40, "dimension of a token", symbol="d", low=2, high=400, scale="log")

    @property
    def sizes(self) -> pretraining.PretrainingSizes:
        return pretraining.sizes(
            self.d, self.prompts_per_squared_dimension, self.context_per_dimension, self.tasks_per_dimension
        )

    @property
    def ratios(self) -> tuple[float, float, float]:
        return self.prompts_per_squared_dimension, self.context_per_dimension, self.tasks_per_dimension

    @property
    def best_ridge(self) -> float:
        """The ridge times d at which the error on new tasks is least in the limit of large d."""
        return float(_best_ridge(*self.ratios, self.noise_variance).ridge_times_dimension)

    @property
    def used_ridge(self) -> float:
        """That of the study, or the best if it has no such parameter."""
        return self.ridge_times_dimension if hasattr(self, "ridge_times_dimension") else self.best_ridge

    def validate(self) -> None:
        pretraining.check_memory(self.sizes)

    def memory(self) -> int:
        return pretraining.pretraining_memory(self.sizes)

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        pretrained = pretraining.pretrain(rng, self.sizes, self.noise_variance, self.used_ridge)
        return pretraining.measured_errors(pretrained, self.sizes, self.noise_variance, self.used_ridge)

    def predict(self) -> dict[str, Any]:
        return limits(*self.ratios, self.used_ridge, self.noise_variance)


def limits(*setting: Any, **test: Any) -> dict[str, Any]:
    """The errors in the limit of large d."""
    found = linear_attention_errors(*setting, **test)
    return {"new_task_error": found.new_task_error, "pretraining_task_error": found.pretraining_task_error}


def deviation(data: Any, least: int = 1, error: str = "{}_error", theory: str = "{}_equivalent") -> Any:
    """By which fraction errors on both kinds of tasks differ from the finite-size theory for the drawn tasks.

    At dimensions from `least` on; a claim about them is untested if there is none.
    """
    import xarray as xr

    data = needs(data, d=at_least(least))
    data = data.sel(d=data.d >= least) if "d" in data.dims else data
    found = [data[error.format(kind)] / data[theory.format(kind)] - 1 for kind in KINDS]
    return xr.concat(found, xr.DataArray(list(KINDS.values()), dims="error", name="error"))


def steps(errors: Any, dim: str) -> Any:
    """The mean over seeds over that at the value before along `dim`."""
    means = errors.mean("seed")
    return (means / means.shift({dim: 1})).isel({dim: slice(1, None)})

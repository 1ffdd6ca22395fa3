"""Task diversity: with fewer tasks than dimensions linear attention memorises them, with more it learns in context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, between, parameter, slope, static, value
from unlazy.studies.in_context.shared.pretraining import (
    EQUIVALENTS,
    ERRORS,
    FINITE,
    LU_TEXT,
    Sizes,
    check_memory,
    equivalent_deviation,
    from_dimension,
    measured,
    memory,
    pretrain,
    sizes,
)
from unlazy.studies.in_context.shared.sources import LU, RAVENTOS

if TYPE_CHECKING:
    import xarray as xr

MANY_PROMPTS = 1e9
AWAY = (0.25, 0.5, 0.9, 1.1, 1.5, 2.0, 4.0)
"""Ratios of tasks outside [0.95, 1.05], where a context of length 1000 d still rounds the corner."""


def excess(
    task_ratio: Any, context_ratio: Any, noise_variance: float, prompt_ratio: float = MANY_PROMPTS
) -> xr.DataArray:
    """The ridgeless error on new tasks in the limit of large d, beyond that of Bayes on the same context."""
    import xarray as xr

    from unlazy.theory.in_context.linear_attention import bayes_error, linear_attention_errors

    tasks, contexts = np.atleast_1d(task_ratio), np.atleast_1d(context_ratio)
    found = linear_attention_errors(prompt_ratio, contexts, tasks[:, None], noise_variance)
    values = found.new_task_error - bayes_error(contexts, noise_variance)
    return xr.DataArray(
        values, dims=("task_ratio", "context_ratio"), coords={"task_ratio": tasks, "context_ratio": contexts}
    )


def _noise(part: Part) -> float:
    """The label noise of the run; the smallest where it varies."""
    return float(np.min(parameter(part.simulated, "noise_variance")))


def _corner(part: Part) -> xr.DataArray:
    """How far the excess is from max(1 - kappa, 0)."""
    found = excess(AWAY, 1000.0, _noise(part))
    return found - np.maximum(1 - found.task_ratio, 0)


def _rate(part: Part, task_ratio: float) -> xr.DataArray:
    """The exponent of the context length in the excess."""
    return slope(excess(task_ratio, np.geomspace(1e3, 1e5, 9), _noise(part), np.inf), "context_ratio")


def _generalisation_gap(part: Part) -> xr.DataArray:
    return part.simulated.new_error - part.simulated.old_error


def _gap_at(part: Part, task_ratio: float) -> xr.DataArray:
    return _generalisation_gap(part).sel(task_ratio=task_ratio, drop=True)


def _growth_of_gap(part: Part) -> xr.DataArray:
    """The mean gap over that with the next fewer tasks."""
    gap = _generalisation_gap(part).mean("seed")
    return (gap / gap.shift(task_ratio=1)).isel(task_ratio=slice(1, None))


@dataclass(frozen=True)
class TaskDiversity(Study):
    """Errors of linear attention against the number of pretraining tasks, k = kappa d.

    The corner at kappa = 1 exists only for n >> l d >> d^2, in this order of limits: the simulated system shows the
    crossover that it is rounded to.
    """

    name = "task-diversity"
    topic = "in_context"
    question = (
        "How many different tasks must pretraining have before linear attention learns new ones from their context "
        "instead of recalling old ones?"
    )
    caption = (
        "Left: theory alone, dotted its limit for long contexts. Right: points are simulation, means over seeds with "
        "99% intervals; lines theory in the limit, short dashes theory at finite size, black and dashed the Bayes "
        "error."
    )
    sources = (LU, RAVENTOS)

    task_ratio: float = value(2.0, "pretraining tasks over d", symbol=r"\kappa", above=0, high=1e4, scale="log")
    context_ratio: float = value(2.0, "context length over d", symbol=r"\alpha", above=0, high=1e6, scale="log")
    prompt_ratio: float = value(2.0, "prompts per weight", symbol=r"\tau", above=0, high=1e4, scale="log")
    noise_variance: float = value(0.25, "variance of the label noise", symbol=r"\rho", low=0, high=1e6)
    ridge: float = value(0.1, "ridge", symbol=r"\lambda", low=0, high=1e6, scale="log")
    d: int = static(40, "dimension of a token", symbol="d", low=2, high=400, scale="log")

    outputs = {
        **ERRORS,
        **EQUIVALENTS,
        "bayes": Output("Bayes error", r"e_{\rm ridge}", scale="log", theory_only=True),
    }
    presets = {
        "quick": {"task_ratio": [0.5, 1.0, 2.0, 4.0], "seeds": 16},
        "full": {"task_ratio": [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0], "d": [20, 40, 64], "seeds": 32},
    }
    lines = {"main": "task_ratio"}
    claims = (
        Claim(
            "corner",
            LU_TEXT,
            "With many prompts and long contexts (alpha = 1000) the error on new tasks exceeds that of Bayes by "
            "max(1 - kappa, 0) within 0.01, outside 0.95 < kappa < 1.05.",
            between(-0.01, 0.01),
            theory=_corner,
        ),
        Claim(
            "rate-above",
            "the project's equations after Lu et al. 2024",
            "For kappa = 2 what is left falls like 1/alpha (exponent within 0.05).",
            between(-1.05, -0.95),
            theory=lambda part: _rate(part, 2.0),
        ),
        Claim(
            "rate-at-corner",
            "the project's equations after Lu et al. 2024",
            "At kappa = 1 it falls like alpha^(-1/2) (exponent within 0.05).",
            between(-0.55, -0.45),
            theory=lambda part: _rate(part, 1.0),
        ),
        Claim(
            "few-tasks",
            LU_TEXT,
            "With d/2 tasks the error on new tasks exceeds that on the pretraining tasks by more than 0.5.",
            at_least(0.5),
            check=lambda part: _gap_at(part, 0.5),
            needs={"task_ratio": (0.5,)},
        ),
        Claim(
            "many-tasks",
            LU_TEXT,
            "With 4 d tasks by less than 0.15.",
            at_most(0.15),
            check=lambda part: _gap_at(part, 4.0),
            needs={"task_ratio": (4.0,)},
        ),
        Claim(
            "decreasing",
            LU_TEXT,
            "The gap between the two falls with every step to more tasks.",
            at_most(1.0),
            statistic=_growth_of_gap,
            needs={"task_ratio": 4},
        ),
        Claim(
            "exact-curves",
            FINITE,
            "At d = 40 and more both errors are within 7% of the finite-size theory for the drawn tasks.",
            between(-0.07, 0.07),
            check=lambda part: equivalent_deviation(from_dimension(part, 40)),
            needs={"d": at_least(40)},
        ),
    )

    def validate(self) -> None:
        check_memory(self._system())

    def _system(self) -> Sizes:
        return sizes(self.d, self.prompt_ratio, self.context_ratio, self.task_ratio)

    def memory(self) -> int:
        return memory(self._system())

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        system = self._system()
        pretrained = pretrain(rng, system, self.noise_variance, self.ridge)
        return measured(pretrained, system, self.noise_variance, self.ridge)

    def predict(self) -> dict[str, Any]:
        from unlazy.theory.in_context.linear_attention import bayes_error, linear_attention_errors

        found = linear_attention_errors(
            self.prompt_ratio, self.context_ratio, self.task_ratio, self.noise_variance, self.ridge
        )
        return {
            "new_error": found.new_task_error,
            "old_error": found.pretraining_task_error,
            "bayes": bayes_error(self.context_ratio, self.noise_variance),
        }

    def figure(self, main: Part) -> Any:
        from unlazy.plotting import style

        figure, (limit, errors) = style.panels(2, 1, width=3.7, height=3.0)
        tasks, contexts = np.geomspace(0.1, 10, 241), (10.0, 100.0, 1000.0)
        noise = _noise(main)
        curves = excess(tasks, contexts, noise)
        for color, alpha in zip(style.shades(len(contexts)), contexts, strict=True):
            style.theory(limit, tasks, curves.sel(context_ratio=alpha), color=color, label=rf"$\alpha = {alpha:g}$")
        limit.plot(tasks, np.maximum(1 - tasks, 0), ":", color="#000000", label=r"$\max(1-\kappa, 0)$")
        style.log_scale(limit, "x")
        limit.set(
            xlabel=style.label("tasks per dimension", r"\kappa"), ylabel=r"$e_{\rm ICL} - e_{\rm ridge}$",
            title=rf"limit of many prompts, no ridge, $\rho = {noise:g}$",
        )  # fmt: skip
        limit.legend()
        dims = np.atleast_1d(parameter(main.simulated, "d"))
        data, lines = (part.sel(d=dims[-1]) if "d" in part.dims else part for part in (main.simulated, main.lines))
        for index, (name, theory, text) in enumerate(
            (("new_error", "new_equivalent", "new tasks"), ("old_error", "old_equivalent", "pretraining tasks"))
        ):
            color = style.colour(index)
            style.theory(errors, lines.task_ratio, lines[name], color=color)
            errors.plot(
                data.task_ratio,
                data[theory].mean("seed"),
                "_",
                color=color,
                markersize=14,
                markeredgewidth=1.2,
                zorder=4,
            )
            style.simulation(errors, data.task_ratio, data[name], color=color, label=text, marker=style.marker(index))
        style.theory(errors, lines.task_ratio, lines.bayes, color="#000000", label="Bayes", dashed=True)
        style.log_scale(errors)
        errors.set(
            xlabel=style.label("tasks per dimension", r"\kappa"), ylabel="error",
            title=f"$d = {dims[-1]}$; lines: limit, dashes: finite size",
        )  # fmt: skip
        errors.legend()
        return figure

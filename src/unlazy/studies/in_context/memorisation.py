"""Memorisation: linear attention between a Bayes predictor that knows its tasks by heart and one that knows none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.lab import Claim, Output, Part, Study, at_least, at_most, between, parameter, static, value
from unlazy.studies.in_context.shared.bayes import bayes_errors
from unlazy.studies.in_context.shared.pretraining import (
    Sizes,
    best_ridge,
    check_memory,
    memory,
    new_task_moments,
    pretrain,
    sizes,
)
from unlazy.studies.in_context.shared.sources import LU, RAVENTOS

if TYPE_CHECKING:
    import xarray as xr

RAVENTOS_TEXT = "Raventós et al. 2023"
COMPARED = "the project's comparison after Lu et al. 2024 and Raventós et al. 2023"
PREDICTORS = {"linear": "linear attention", "discrete": "discrete Bayes", "bayes": "Bayes"}
PROMPTS = 64
FEW = (0.5, 2.0, 4.0)


def _ratio(part: Part, over: str, under: str, task_ratio: Any = None) -> xr.DataArray:
    data = part.simulated if task_ratio is None else part.simulated.sel(task_ratio=task_ratio)
    return data[over] / data[under]


def _over_noise(part: Part, name: str) -> xr.DataArray:
    return part.simulated[name] / parameter(part.simulated, "noise_variance")


def _over_nothing(part: Part) -> xr.DataArray:
    """The error of discrete Bayes on new tasks over that of predicting 0."""
    return part.simulated.discrete_new / (1 + parameter(part.simulated, "noise_variance"))


def _at_largest(data: Any, d: int) -> Any:
    return data.sel(d=d) if "d" in data.dims else data


@dataclass(frozen=True)
class Memorisation(Study):
    """Three in-context predictors on new tasks and on the k = kappa d tasks of pretraining.

    Linear attention has the ridge that is optimal for new tasks in theory. Discrete Bayes knows that the task is one of
    the k, Bayes that it is N(0, I); neither is trained. In the part `covered` d is so small that k tasks cover the
    space.
    """

    name = "memorisation"
    topic = "in_context"
    question = (
        "Does linear attention recall its pretraining tasks like a Bayes predictor that knows only them, or learn new "
        "ones like one that knows only their law?"
    )
    caption = (
        "Points: simulation, means over seeds with 99% intervals. Lines: theory, for the predictors that have one. "
        "Black: the noise (dotted) and predicting 0 (dashed)."
    )
    sources = (LU, RAVENTOS)

    task_ratio: float = value(2.0, "pretraining tasks over d", symbol=r"\kappa", above=0, high=1e5, scale="log")
    context_ratio: float = value(2.0, "context length over d", symbol=r"\alpha", above=0, high=1e4, scale="log")
    prompt_ratio: float = value(2.0, "prompts per weight", symbol=r"\tau", above=0, high=1e4, scale="log")
    noise_variance: float = value(0.25, "variance of the label noise", symbol=r"\rho", low=1e-10, high=1e6)
    d: int = static(32, "dimension of a token", symbol="d", low=2, high=400, scale="log")

    outputs = {
        **{
            f"{key}_{kind}": Output(f"{name}, {text}", scale="log")
            for key, name in PREDICTORS.items()
            for kind, text in (("new", "new tasks"), ("old", "pretraining tasks"))
        },
    }
    presets = {
        "quick": {
            "diversity": {"task_ratio": [0.5, 2.0, 4.0, 10.0], "seeds": 16},
            "covered": {"task_ratio": [4.0, 32.0, 1024.0], "d": 8, "seeds": 16},
        },
        "full": {
            "diversity": {"task_ratio": [0.25, 0.5, 1.0, 2.0, 4.0, 10.0], "d": [32, 48], "seeds": 32},
            "covered": {"task_ratio": [1.0, 4.0, 32.0, 256.0, 1024.0, 4096.0], "d": 8, "seeds": 32},
        },
    }
    lines = {"diversity": "task_ratio"}
    claims = (
        Claim(
            "discrete-recalls",
            RAVENTOS_TEXT,
            "Discrete Bayes recognises a pretraining task from 2 d rows: its error is the label noise within 1%.",
            at_most(1.01),
            check=lambda part: _over_noise(part, "discrete_old"),
            parts=("diversity",),
        ),
        Claim(
            "discrete-worse-than-nothing",
            RAVENTOS_TEXT,
            "On new tasks it is worse than predicting 0, with up to 4 d tasks: its error is above 1 + rho.",
            at_least(1.0),
            check=lambda part: _over_nothing(part).sel(task_ratio=list(FEW)),
            parts=("diversity",),
            needs={"task_ratio": FEW},
        ),
        Claim(
            "attention-generalises",
            COMPARED,
            "On new tasks linear attention beats it, with up to 10 d tasks: the error of discrete Bayes is at least "
            "1.05 times its own.",
            at_least(1.05),
            check=lambda part: _ratio(part, "discrete_new", "linear_new"),
            parts=("diversity",),
        ),
        Claim(
            "attention-does-not-recall",
            COMPARED,
            "On the pretraining tasks linear attention stays far behind: its error is at least twice the label noise.",
            at_least(2.0),
            check=lambda part: _over_noise(part, "linear_old"),
            parts=("diversity",),
        ),
        Claim(
            "attention-is-not-bayes",
            COMPARED,
            "On new tasks the error of linear attention is at least 1.2 times that of Bayes, with up to 10 d tasks.",
            at_least(1.2),
            check=lambda part: _ratio(part, "linear_new", "bayes_new"),
            parts=("diversity",),
        ),
        Claim(
            "bayes-limit",
            "the project's equations",
            "The error of Bayes on new tasks is within 5% of its limit.",
            between(-0.05, 0.05),
            check=lambda part: part.simulated.bayes_new / part.predicted.bayes_new - 1,
            parts=("diversity",),
        ),
        Claim(
            "covered-space",
            RAVENTOS_TEXT,
            "In dimension 8 with 1024 d tasks discrete Bayes beats linear attention on new tasks: its error is at most "
            "0.9 times.",
            at_most(0.9),
            check=lambda part: _ratio(part, "discrete_new", "linear_new", 1024.0),
            parts=("covered",),
            needs={"task_ratio": (1024.0,)},
        ),
    )

    def validate(self) -> None:
        check_memory(self._system())

    def _system(self) -> Sizes:
        return sizes(self.d, self.prompt_ratio, self.context_ratio, self.task_ratio)

    def _ratios(self) -> tuple[float, float, float, float]:
        return self.prompt_ratio, self.context_ratio, self.task_ratio, self.noise_variance

    def memory(self) -> int:
        system = self._system()
        return memory(system) + 8 * 2 * system.context * self.d

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        from unlazy.theory.in_context.finite_size import exact_error, task_moments

        system, noise = self._system(), self.noise_variance
        pretrained = pretrain(rng, system, noise, best_ridge(*self._ratios()))
        known = pretrained.tasks
        kinds = {
            "new": (new_task_moments(self.d, system.context, noise), rng.standard_normal((PROMPTS, self.d))),
            "old": (task_moments(known, system.context, noise), known[rng.integers(len(known), size=PROMPTS)]),
        }
        found: dict[str, Any] = {}
        for kind, (moments, tasks) in kinds.items():
            bayes = bayes_errors(rng, tasks, known, system.context, noise)
            found[f"linear_{kind}"] = exact_error(pretrained.weights, moments)
            found[f"discrete_{kind}"], found[f"bayes_{kind}"] = bayes.discrete, bayes.continuous
        return found

    def predict(self) -> dict[str, Any]:
        from unlazy.theory.in_context.linear_attention import bayes_error, linear_attention_errors

        linear = linear_attention_errors(*self._ratios(), best_ridge(*self._ratios()))
        bayes = bayes_error(self.context_ratio, self.noise_variance)
        return {
            "linear_new": linear.new_task_error,
            "linear_old": linear.pretraining_task_error,
            "bayes_new": bayes,
            "bayes_old": bayes,
        }

    def figure(self, diversity: Part, covered: Part) -> Any:
        from unlazy.plotting import style

        figure, panels = style.panels(3, 1, width=3.1, height=3.0)
        shown = (
            (diversity, "new", "new tasks"), (diversity, "old", "pretraining tasks"), (covered, "new", "new tasks")
        )  # fmt: skip
        for axes, (part, kind, text) in zip(panels, shown, strict=True):
            dims = np.atleast_1d(parameter(part.simulated, "d"))
            data = _at_largest(part.simulated, dims[-1])
            lines: Any = _at_largest(part.lines, dims[-1]) if part is diversity else {}
            for index, (key, name) in enumerate(PREDICTORS.items()):
                color, values = style.colour(index), f"{key}_{kind}"
                if values in lines:
                    style.theory(axes, lines.task_ratio, lines[values], color=color)
                style.simulation(
                    axes, data.task_ratio, data[values], color=color, label=name, marker=style.marker(index)
                )
            noise = float(parameter(data, "noise_variance"))
            axes.axhline(noise, color="#000000", linewidth=0.8, linestyle=":")
            if kind == "new":
                axes.axhline(1 + noise, color="#000000", linewidth=0.8, linestyle="--")
            style.log_scale(axes)
            axes.set(
                xlabel=style.label("tasks per dimension", r"\kappa"), ylabel=f"error on {text}",
                title=f"$d = {dims[-1]}$; dotted: noise" + ", dashed: predicting 0" * (kind == "new"),
            )  # fmt: skip
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return figure

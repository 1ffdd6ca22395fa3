"""Memorisation: linear attention between a Bayes predictor that knows its tasks by heart and one that knows none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unlazy.lab import OWN, Output, at_least, at_most, cite, claim, over_theory, parameter, static, value, within
from unlazy.plotting.panels import Level, Panel, panels
from unlazy.studies.in_context.shared import KINDS, Pretraining
from unlazy.theory.in_context.linear_attention import bayes_error
from unlazy.training.in_context.bayes import bayes_errors
from unlazy.training.in_context.pretraining import measured_errors, pretrain

COMPARED = "this project's comparison, after Lu et al. 2024 and Raventós et al. 2023"
PREDICTORS = {"linear": "linear attention", "discrete": "discrete Bayes", "bayes": "Bayes"}
PROMPTS = 64


def _noise(data):
    return np.atleast_1d(parameter(data, "noise_variance"))[-1]


def _errors(kind, part):
    """A panel of the three predictors' errors."""
    return Panel(
        tuple(f"{key}_{kind}_error" for key in PREDICTORS),
        x="tasks_per_dimension",
        part=part,
        labels=tuple(PREDICTORS.values()),
        ylabel=f"error on {KINDS[kind]}",
        marks=(Level(_noise, "noise"), Level(lambda data: 1 + _noise(data), "predicting 0", dashed=True)),
        legend=False,
    )


@dataclass(frozen=True)
class Memorisation(Pretraining):
    """Three in-context predictors on new tasks and on the k = kappa d tasks of pretraining.

    Linear attention has the ridge that is optimal for new tasks in theory. Discrete Bayes knows that the task is one of
    the k, Bayes that it is N(0, I); neither is trained. In part `covered` d is so small that k tasks cover the space.
    """

    question = (
        "One Bayes predictor knows only the pretraining tasks, another only the law they come from. Does linear "
        "attention recall old tasks like the first, or learn new ones like the second?"
    )
    sources = cite("lu2024attention", "raventos2023")

    tasks_per_dimension: float = value(
        2.0, "pretraining tasks over d", symbol=r"\kappa", above=0, high=1e5, scale="log"
    )
    context_per_dimension: float = value(2.0, "context length over d", symbol=r"\alpha", above=0, high=1e4, scale="log")
    noise_variance: float = value(0.25, "variance of the label noise", symbol=r"\rho", low=1e-10, high=1e6)
    d: int = static(32, "dimension of a token", symbol="d", low=2, high=400, scale="log")

    outputs = {
        f"{key}_{kind}_error": Output(f"{name}, {text}", scale="log")
        for key, name in PREDICTORS.items()
        for kind, text in KINDS.items()
    }
    presets = {
        "quick": {
            "diversity": {"tasks_per_dimension": [0.5, 2.0, 4.0, 10.0], "seeds": 20},
            "covered": {"tasks_per_dimension": [4.0, 32.0, 1024.0], "d": 8, "seeds": 16},
        },
        "full": {
            "diversity": {"tasks_per_dimension": [0.25, 0.5, 1.0, 2.0, 4.0, 10.0], "d": [32, 48], "seeds": 32},
            "covered": {"tasks_per_dimension": [1.0, 4.0, 32.0, 256.0, 1024.0, 4096.0], "d": 8, "seeds": 32},
        },
    }
    lines = {"diversity": "tasks_per_dimension"}
    figure = panels(
        _errors("new_task", "diversity"),
        _errors("pretraining_task", "diversity"),
        replace(_errors("new_task", "covered"), title="few dimensions", theory=False, legend="beside"),
        width=3.1,
        height=3.0,
    )

    @claim(
        "raventos2023",
        "",
        at_most(1.01),
        departs=(
            "The source compares this predictor with a trained transformer, in dimension 8 with 16 rows. Its error at"
            " other sizes, and the bound, are this project's."
        ),
    )
    def discrete_recalls(diversity):
        """Discrete Bayes, which knows only the pretraining tasks, recognises one of them from 2 d rows. The ratio of
        its error to the label noise is {criterion}."""
        return diversity.simulated.discrete_pretraining_task_error / parameter(diversity.simulated, "noise_variance")

    @claim(OWN, COMPARED, at_least(1.0))
    def discrete_worse_than_nothing(diversity):
        """On new tasks discrete Bayes is worse than predicting 0, with up to 4 d tasks. Predicting 0 has the error 1 +
        rho, and the ratio to it is {criterion}."""
        ratio = diversity.simulated.discrete_new_task_error / (1 + parameter(diversity.simulated, "noise_variance"))
        return ratio.sel(tasks_per_dimension=[0.5, 2.0, 4.0])

    @claim(OWN, COMPARED, at_least(1.05))
    def attention_generalises(diversity):
        """On new tasks linear attention beats discrete Bayes, with up to 10 d tasks. The error of discrete Bayes is
        {criterion} times that of linear attention."""
        return diversity.simulated.discrete_new_task_error / diversity.simulated.linear_new_task_error

    @claim(OWN, COMPARED, at_least(2.0))
    def attention_does_not_recall(diversity):
        """Linear attention does not recall the pretraining tasks. The ratio of its error on them to the label noise is
        {criterion}."""
        return diversity.simulated.linear_pretraining_task_error / parameter(diversity.simulated, "noise_variance")

    @claim(OWN, COMPARED, at_least(1.2))
    def attention_is_not_bayes(diversity):
        """Linear attention is not the Bayes predictor of new tasks. With up to 10 d tasks its error is {criterion}
        times that of Bayes."""
        return diversity.simulated.linear_new_task_error / diversity.simulated.bayes_new_task_error

    @claim(OWN, "this project's equations, in the limit of large d", within(0.05))
    def bayes_limit(diversity):
        """The error of Bayes on new tasks is its limit of large d {criterion}."""
        return over_theory(diversity, "bayes_new_task_error")

    @claim(OWN, COMPARED, at_most(0.9))
    def covered_space(covered):
        """Very many tasks cover the space. In dimension 8 with 1024 d tasks the error of discrete Bayes on new tasks is
        {criterion} times that of linear attention."""
        data = covered.simulated.sel(tasks_per_dimension=1024.0)
        return data.discrete_new_task_error / data.linear_new_task_error

    def memory(self) -> int:
        return super().memory() + 8 * 2 * self.sizes.context * self.d

    def simulate(self, rng: np.random.Generator) -> dict[str, Any]:
        system, noise = self.sizes, self.noise_variance
        pretrained = pretrain(rng, system, noise, self.used_ridge)
        known, errors = pretrained.tasks, measured_errors(pretrained, system, noise, self.used_ridge)
        new, old = rng.standard_normal((PROMPTS, self.d)), known[rng.integers(len(known), size=PROMPTS)]
        found: dict[str, Any] = {}
        for kind, asked in zip(KINDS, (new, old), strict=True):
            bayes = bayes_errors(rng, asked, known, system.context, noise)
            found[f"linear_{kind}_error"] = errors[f"{kind}_error"]
            found[f"discrete_{kind}_error"], found[f"bayes_{kind}_error"] = bayes.discrete, bayes.continuous
        return found

    def predict(self) -> dict[str, Any]:
        linear, bayes = super().predict(), bayes_error(self.context_per_dimension, self.noise_variance)
        return {f"linear_{name}": error for name, error in linear.items()} | {f"bayes_{name}": bayes for name in linear}

"""What the studies of linear attention share: sizes from ratios, one pretraining run, and its outputs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.lab import Output

if TYPE_CHECKING:
    from unlazy.theory.in_context.finite_size import PromptMoments

ERRORS = {
    "new_error": Output("error on new tasks", r"e_{\rm ICL}", scale="log"),
    "old_error": Output("error on the pretraining tasks", r"e_{\rm IDG}", scale="log"),
}
EQUIVALENTS = {
    "new_equivalent": Output("finite-size theory, new tasks", "", scale="log", predicts="new_error"),
    "old_equivalent": Output("finite-size theory, pretraining tasks", "", scale="log", predicts="old_error"),
}


TOLERANCE = 1e-6
"""Of the normal equations' residual, where iterations solve them: errors then have five or more digits."""


class Sizes(NamedTuple):
    """Dimension, context length l, pretraining tasks k and prompts n."""

    d: int
    context: int
    tasks: int
    prompts: int


class Pretrained(NamedTuple):
    """Weights Gamma and the tasks of their pretraining."""

    tasks: np.ndarray
    weights: np.ndarray


def sizes(d: int, prompt_ratio: float, context_ratio: float, task_ratio: float) -> Sizes:
    """Whole numbers nearest to alpha d, kappa d and tau d (d+1), which is tau d^2 in the limit.

    d (d+1) is the number of weights, so that a system of any size interpolates at tau = 1.
    """
    return Sizes(
        d, max(round(context_ratio * d), 1), max(round(task_ratio * d), 1), max(round(prompt_ratio * d * (d + 1)), 1)
    )


@cache
def best_ridge(prompt_ratio: float, context_ratio: float, task_ratio: float, noise_variance: float) -> float:
    """The ridge at which the error on new tasks is least in the limit of large d."""
    from unlazy.theory.in_context.linear_attention import optimal_ridge

    return float(optimal_ridge(prompt_ratio, context_ratio, task_ratio, noise_variance).ridge)


def pretrain(rng: np.random.Generator, system: Sizes, noise_variance: float, ridge: float) -> Pretrained:
    """Draw tasks and prompts and fit Gamma."""
    from unlazy.training.in_context.linear_attention import draw_prompts, pretrained_weights

    tasks = rng.standard_normal((system.tasks, system.d))
    prompts = draw_prompts(rng, tasks, system.prompts, system.context, noise_variance)
    return Pretrained(tasks, pretrained_weights(prompts, ridge, tolerance=TOLERANCE))


def new_task_moments(d: int, context: int, noise_variance: float) -> PromptMoments:
    """The moments of prompts with tasks N(0, I)."""
    from unlazy.theory.in_context.finite_size import gaussian_task_moments

    return gaussian_task_moments(np.eye(d), context, noise_variance)


def measured(pretrained: Pretrained, system: Sizes, noise_variance: float, ridge: float) -> dict[str, Any]:
    """The exact errors of the weights, and their theory for the drawn tasks."""
    from unlazy.theory.in_context.finite_size import exact_error, finite_size_errors, task_moments

    old = task_moments(pretrained.tasks, system.context, noise_variance)
    new = new_task_moments(system.d, system.context, noise_variance)
    equivalent = finite_size_errors(old, system.prompts, ridge, test=new)
    return {
        "new_error": exact_error(pretrained.weights, new),
        "old_error": exact_error(pretrained.weights, old),
        "new_equivalent": equivalent.error,
        "old_equivalent": equivalent.pretraining_task_error,
    }


def memory(system: Sizes) -> int:
    """About how many bytes a pretraining run needs: its prompts, and the matrix of the solver that it takes."""
    from unlazy.training.in_context.linear_attention import MOST_DUAL, MOST_PRIMAL

    weights = system.d * (system.d + 1)
    rows = min(system.prompts, MOST_DUAL) if system.prompts <= weights else min(weights, MOST_PRIMAL)
    return 8 * (5 * system.prompts * system.d + 3 * rows**2 + 2 * system.tasks * system.d)


def check_memory(system: Sizes, most: float = 1e8) -> None:
    """Refuse systems whose prompts do not fit."""
    numbers = 2 * system.prompts * system.d
    if numbers > most:
        raise InputError(
            f"n d must be at most {most / 2:g}, got n = {system.prompts} prompts of dimension d = {system.d}: lower d "
            "or prompt_ratio"
        )

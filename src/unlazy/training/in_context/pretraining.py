"""One pretraining run of linear attention on tasks w ~ N(0, I), sized by ratios to the dimension."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.theory.in_context.finite_size import exact_error, finite_size_errors, gaussian_task_moments, task_moments
from unlazy.training.in_context.linear_attention import MOST_DUAL, MOST_PRIMAL, draw_prompts, pretrained_weights


class PretrainingSizes(NamedTuple):
    """Dimension, context length l, pretraining tasks k and prompts n."""

    d: int
    context: int
    tasks: int
    prompts: int


class PretrainedAttention(NamedTuple):
    """Weights Gamma and the tasks of their pretraining."""

    tasks: np.ndarray
    weights: np.ndarray


def sizes(
    d: int, prompts_per_squared_dimension: float, context_per_dimension: float, tasks_per_dimension: float
) -> PretrainingSizes:
    """Whole numbers nearest to alpha d, kappa d and tau d (d+1), which is tau d^2 in the limit.

    d (d+1) is the number of weights, so that a system of any size interpolates at tau = 1.
    """
    ratios = context_per_dimension * d, tasks_per_dimension * d, prompts_per_squared_dimension * d * (d + 1)
    return PretrainingSizes(d, *(max(round(ratio), 1) for ratio in ratios))


def pretrain(
    rng: np.random.Generator,
    system: PretrainingSizes,
    noise_variance: float,
    ridge_times_dimension: float,
    tolerance: float = 1e-6,
) -> PretrainedAttention:
    """Draw tasks and prompts and fit Gamma.

    `tolerance` is that of the normal equations' residual, where iterations solve them: at 1e-6 errors have five or more
    digits.
    """
    tasks = rng.standard_normal((system.tasks, system.d))
    prompts = draw_prompts(rng, tasks, system.prompts, system.context, noise_variance)
    return PretrainedAttention(tasks, pretrained_weights(prompts, ridge_times_dimension, tolerance=tolerance))


def measured_errors(
    pretrained: PretrainedAttention,
    system: PretrainingSizes,
    noise_variance: float,
    ridge_times_dimension: float,
    test_context: int | None = None,
) -> dict[str, np.ndarray]:
    """The exact errors of the weights on new and on the pretraining tasks, and their theory for the drawn tasks.

    The contexts at test have the length of pretraining, or `test_context`. No test prompts are drawn.
    """
    own = task_moments(pretrained.tasks, system.context, noise_variance)
    length = system.context if test_context is None else test_context
    tests = {
        "new_task": gaussian_task_moments(np.eye(system.d), length, noise_variance),
        "pretraining_task": own if test_context is None else task_moments(pretrained.tasks, length, noise_variance),
    }
    found = {}
    for kind, test in tests.items():
        found[f"{kind}_error"] = exact_error(test, pretrained.weights)
        found[f"{kind}_equivalent"] = finite_size_errors(
            own, system.prompts, ridge_times_dimension, test_moments=test
        ).test_error
    return found


def pretraining_memory(system: PretrainingSizes) -> int:
    """About how many bytes a run needs: its prompts, and the matrix of the solver that it takes."""
    weights = system.d * (system.d + 1)
    rows = min(system.prompts, MOST_DUAL) if system.prompts <= weights else min(weights, MOST_PRIMAL)
    return 8 * (5 * system.prompts * system.d + 3 * rows**2 + 2 * system.tasks * system.d)


def check_memory(system: PretrainingSizes, most: float = 5e7) -> None:
    """Refuse systems of more than `most` numbers n d, whose prompts do not fit."""
    if system.prompts * system.d > most:
        raise InputError(
            f"n d must be at most {most:g}, got n = {system.prompts} prompts of dimension d = {system.d}: lower d or "
            "prompts_per_squared_dimension"
        )

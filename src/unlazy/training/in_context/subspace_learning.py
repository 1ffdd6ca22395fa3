"""Both phases of pretraining on single-index tasks: what the first step finds, and what a new task then costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unlazy.theory.in_context.first_step import prompt_gradient
from unlazy.theory.in_context.first_step_noise import prompt_gradient_squares
from unlazy.training.in_context import prompt_attention, prompt_risks
from unlazy.training.in_context.prompt_attention import TaskFamily


def learn_subspace(
    rng: np.random.Generator,
    family: TaskFamily,
    *,
    tasks: Sequence[int],
    context: int,
    width: int,
    attention_scale: float,
    fitted_prompts: int,
    kernel_prompts: int,
    test_contexts: Sequence[int],
) -> dict[str, Any]:
    """One gradient step on the first layer, then the attention matrix, and the risks on new tasks.

    `expected_share` is the squared cosine of the gradient on T prompts and its expectation, over all neurons, and
    `subspace_share` the share of its squares in the tasks' subspace, for every T of `tasks`; the last T gives the
    weights, with a step size that makes their mean length 1. The new biases are uniform on [-log d, log d]. Risks are
    those of attention after phase II on `fitted_prompts` prompts, and of kernel ridge regression on each of
    `kernel_prompts` prompts alone; NaN where there are none.
    """
    d = len(family.subspace)
    layer = prompt_attention.draw_layer(rng, d, width, attention_scale)
    steps = prompt_attention.first_gradients(rng, layer, family, tasks, context)
    law = layer.weights, layer.biases, family.subspace, family.lowest_degree, family.highest_degree
    mean = prompt_gradient(*law).gradient
    squares = prompt_gradient_squares(*law, np.asarray(tasks, dtype=float), context, family.noise_variance)
    inside, outside = squares.inside.sum(axis=-1), squares.outside.sum(axis=-1)
    gradients = steps / (4 * layer.attention[:, None])
    sizes = np.sum(gradients**2, axis=(1, 2))
    weights = steps[-1] / np.linalg.norm(steps[-1], axis=1).mean()
    biases = rng.uniform(-np.log(d), np.log(d), width)
    risks = np.full((2, len(test_contexts)), np.nan)
    if fitted_prompts:
        risks[0] = prompt_risks.attention_risks(rng, weights, biases, family, fitted_prompts, test_contexts)
    if kernel_prompts:
        risks[1] = prompt_risks.kernel_risks(rng, family, kernel_prompts, test_contexts)
    return {
        "expected_share": np.sum(gradients * mean, axis=(1, 2)) ** 2 / (sizes * np.sum(mean**2)),
        "expected_share_theory": np.sum(mean**2) / (inside + outside),
        "subspace_share": np.sum((gradients @ family.subspace) ** 2, axis=(1, 2)) / sizes,
        "subspace_share_theory": inside / (inside + outside),
        "relative_risk": risks,
    }

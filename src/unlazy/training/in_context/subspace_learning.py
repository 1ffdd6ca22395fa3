"""Pretraining on single-index tasks: what the first gradients find, and what a new task then costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unlazy.theory.in_context.first_step import prompt_gradient
from unlazy.training.in_context import prompt_attention, prompt_risks


def learn_subspace(
    rng: np.random.Generator,
    family: prompt_attention.TaskFamily,
    *,
    tasks: int,
    context: int,
    queries: str,
    width: int,
    steps: int,
    fitted_prompts: int,
    test_contexts: Sequence[int],
    biases_per_neuron: int,
    project: bool,
) -> dict[str, Any]:
    """Gradient steps on the first layer, then the risks of all learners on new tasks.

    `gradient` is the product of the first gradient with its expectation, `gradient_theory` the square of that, and
    `gradient_beside`, after one step, the product of the differences of two independent gradients from it.
    """
    degrees = family.lowest_degree, family.highest_degree
    drawn: dict[str, Any] = {"tasks": tasks, "context": context, "queries": queries}
    found = prompt_attention.pretrain_weights(rng, family, width=width, steps=steps, **drawn)
    theory = prompt_gradient(found.start, found.biases, family.subspace, *degrees).gradient
    beside = np.nan
    if steps == 1:
        # at the same weights: the mean of the product of the differences has no noise of its own
        again = prompt_attention.drawn_gradient(rng, found.start, found.biases, family, **drawn)
        beside = np.sum((found.first - theory) * (again - theory))
    return {
        "relative_risk": prompt_risks.learner_risks(
            rng, found, family, fitted_prompts, test_contexts, biases_per_neuron=biases_per_neuron, project=project
        ),
        "subspace_overlap": found.overlaps,
        "gradient": np.sum(found.first * theory),
        "gradient_beside": beside,
        "gradient_theory": np.sum(theory**2),
    }

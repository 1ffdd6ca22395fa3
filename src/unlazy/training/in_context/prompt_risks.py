"""Risks of learners of single-index prompts: pretrained attention, and kernel ridge regression on the prompt alone.

A risk is E (y - answer)^2 / E y^2 at fresh tasks and queries, whose labels have no noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlazy.numerics.ridge import ridge_solutions
from unlazy.training.in_context.prompt_attention import (
    TaskFamily,
    attention_path,
    draw_tasks,
    prompt_features,
    query_features,
    task_values,
)

ATTENTION_RIDGES = np.geomspace(1e-8, 1e-1, 15)
KERNEL_RIDGES = np.geomspace(1e-5, 10.0, 5)


def attention_risks(
    rng: np.random.Generator,
    weights: np.ndarray,
    biases: np.ndarray,
    family: TaskFamily,
    prompts: int,
    contexts: Sequence[int],
    *,
    checks: int = 60,
    tests: int = 240,
    queries: int = 100,
) -> np.ndarray:
    """The risk of attention with fixed first layer, one entry per context.

    Gamma is fitted at each length on `prompts` prompts of this length with one noisy query each; its ridge is the best
    on `checks` other prompts. It is tested on `tests` more, with `queries` queries that are the same for all.
    """
    tasks = draw_tasks(rng, family, prompts + checks + tests)
    train, check, test = np.split(np.arange(len(tasks.directions)), [prompts, prompts + checks])
    asked, fresh = (rng.standard_normal((count, weights.shape[1])) for count in (prompts, queries))
    known = task_values(family, type(tasks)(*(rows[train] for rows in tasks)), (asked @ family.subspace)[:, None])[:, 0]
    known += family.noise_variance**0.5 * rng.standard_normal(prompts)
    new = task_values(family, tasks, fresh @ family.subspace)
    psi, psi_new = (query_features(weights, biases, x) for x in (asked, fresh))
    found = []
    for phi in prompt_features(rng, weights, biases, family, tasks, contexts):
        gammas = attention_path(psi, phi[train], known, ATTENTION_RIDGES)
        errors = [np.mean((new[check] - phi[check] @ gamma.T @ psi_new.T) ** 2) for gamma in gammas]
        best = gammas[int(np.argmin(errors))]
        found.append(np.mean((new[test] - phi[test] @ best.T @ psi_new.T) ** 2) / np.mean(new[test] ** 2))
    return np.array(found)


def kernel_risks(
    rng: np.random.Generator, family: TaskFamily, prompts: int, contexts: Sequence[int], *, queries: int = 50
) -> np.ndarray:
    """The risk of kernel ridge regression on the prompt alone, kernel (1 + x.x'/d)^p, at the best of few ridges.

    Each of the `prompts` prompts of every length has its own queries. The ridge is the best on these, which favours
    this learner over attention, whose ridge is chosen on other prompts.
    """
    d = len(family.subspace)
    found = []
    for context in contexts:
        tasks = draw_tasks(rng, family, prompts)
        x = rng.standard_normal((prompts, context + queries, d))
        y = task_values(family, tasks, x @ family.subspace)
        labels = y[:, :context] + family.noise_variance**0.5 * rng.standard_normal((prompts, context))
        errors = np.zeros(len(KERNEL_RIDGES))
        for inputs, known, truth in zip(x, labels, y[:, context:], strict=True):
            kernel = (1 + inputs @ inputs[:context].T / d) ** family.highest_degree
            solved = ridge_solutions(kernel[:context], known, context * KERNEL_RIDGES)
            errors += np.mean((kernel[context:] @ solved.T - truth[:, None]) ** 2, axis=0)
        found.append(errors.min() / prompts / np.mean(y[:, context:] ** 2))
    return np.array(found)

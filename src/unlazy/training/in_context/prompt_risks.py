"""Risks of learners of single-index prompts: pretrained attention, and ridge regression on the prompt alone.

A risk is E (y - answer)^2 / E y^2 at fresh tasks and queries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np

from unlazy.numerics.ridge import ridge_solutions
from unlazy.training.in_context.prompt_attention import (
    PretrainedLayer,
    TaskFamily,
    attention_path,
    draw_queries,
    draw_tasks,
    prompt_features,
    task_values,
    unit_rows,
)

ATTENTION_RIDGES = np.geomspace(1e-8, 1.0, 17)
KERNEL_RIDGES = np.geomspace(1e-5, 10.0, 5)


def attention_layer(
    rng: np.random.Generator, weights: np.ndarray, biases_per_neuron: int
) -> tuple[np.ndarray, np.ndarray]:
    """Weights and biases of a layer in which every direction has several biases, uniform on [-3, 3]."""
    return np.repeat(weights, biases_per_neuron, axis=0), rng.uniform(-3, 3, len(weights) * biases_per_neuron)


def attention_risks(
    rng: np.random.Generator,
    weights: np.ndarray,
    biases: np.ndarray,
    family: TaskFamily,
    prompts: int,
    contexts: Sequence[int],
    *,
    checks: int = 60,
    tests: int = 400,
    queries: int = 400,
) -> np.ndarray:
    """The risk of attention with fixed first layer, one entry per context.

    Gamma is fitted at each length on `prompts` prompts, all with the same queries; its ridge is the best on `checks`
    other prompts and other queries, on which it is then tested with `tests` prompts.
    """
    tasks = draw_tasks(rng, family, prompts + checks + tests)
    asked, fresh = (draw_queries(rng, weights, biases, family, queries) for _ in range(2))
    train, check, test = np.split(np.arange(len(tasks.directions)), [prompts, prompts + checks])
    known, new = (task_values(family, tasks, some.inside) for some in (asked, fresh))
    found = []
    for phi in prompt_features(rng, weights, biases, family, tasks, contexts):
        gammas = attention_path(asked.features, phi[train], known[train], ATTENTION_RIDGES)
        errors = [np.mean((new[check] - phi[check] @ gamma.T @ fresh.features.T) ** 2) for gamma in gammas]
        best = gammas[int(np.argmin(errors))]
        missed = new[test] - phi[test] @ best.T @ fresh.features.T
        found.append(np.mean(missed**2) / np.mean(new[test] ** 2))
    return np.array(found)


def cubic_ridge_errors(
    inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray, truth: np.ndarray, ridges: np.ndarray
) -> np.ndarray:
    """Mean squared errors at the queries of ridge regression with the kernel (1 + x.x'/D)^3, one entry per ridge.

    All arguments but the ridges hold one data set per entry of their first axis, and so does the result. The smaller of
    the kernel matrix and the matrix of the C(D+3, 3) monomials is solved; both give the same function.
    """
    _, n, size = inputs.shape
    if math.comb(size + 3, 3) <= n:
        known, new = (_monomials(x) for x in (inputs, queries))
        turned = known.transpose(0, 2, 1)
        squares, vectors = np.linalg.eigh(turned @ known / n)
        rotated = vectors.transpose(0, 2, 1) @ (turned @ labels[:, :, None]) / n
        predictions = (new @ vectors) @ (rotated / (np.maximum(squares, 0.0)[:, :, None] + ridges))
    else:
        predictions = np.stack([_kernel_path(*one, ridges) for one in zip(inputs, labels, queries, strict=True)])
    return np.mean((predictions - truth[:, :, None]) ** 2, axis=1)


def _kernel_path(inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray, ridges: np.ndarray) -> np.ndarray:
    n, size = inputs.shape
    kernel, crossed = ((1 + x @ inputs.T / size) ** 3 for x in (inputs, queries))
    return crossed @ ridge_solutions(kernel, labels, n * ridges).T


def _monomials(x: np.ndarray) -> np.ndarray:
    """Features along the last axis with inner product (1 + x.x'/D)^3."""
    size = x.shape[-1]
    augmented = np.concatenate([np.ones((*x.shape[:-1], 1)), x / np.sqrt(size)], axis=-1)
    columns = []
    for i, j, k in combinations_with_replacement(range(size + 1), 3):
        repeated = math.prod(math.factorial((i, j, k).count(one)) for one in {i, j, k})
        columns.append(np.sqrt(6 / repeated) * augmented[..., i] * augmented[..., j] * augmented[..., k])
    return np.stack(columns, axis=-1)


def prompt_only_risks(
    rng: np.random.Generator,
    basis: np.ndarray,
    family: TaskFamily,
    counts: Sequence[tuple[int, int]],
    *,
    queries: int = 50,
) -> np.ndarray:
    """The risk of cubic kernel ridge on the coordinates `basis`^T x of the prompt alone, at the best ridge.

    `counts` holds a number of rows and how many prompts of so many are drawn, each with its own queries. The ridge is
    the best of few on the test queries, which favours these learners over attention, whose ridge is chosen on other
    prompts. Inputs are drawn in the span of the basis and the tasks' subspace alone.
    """
    left, sizes, _ = np.linalg.svd(np.concatenate([family.subspace, basis], axis=1), full_matrices=False)
    kept = left[:, sizes > 1e-10]
    inside, basis = kept.T @ family.subspace, kept.T @ basis
    found = []
    for context, prompts in counts:
        tasks = draw_tasks(rng, family, prompts)
        x = rng.standard_normal((prompts, context + queries, len(basis)))
        y = task_values(family, tasks, x @ inside)
        labels, truth = (
            y[:, :context] + family.noise_variance**0.5 * rng.standard_normal((prompts, context)),
            y[:, context:],
        )
        seen = x @ basis
        errors = cubic_ridge_errors(seen[:, :context], labels, seen[:, context:], truth, KERNEL_RIDGES)
        found.append(errors.mean(axis=0).min() / np.mean(truth**2))
    return np.array(found)


def learner_risks(
    rng: np.random.Generator,
    found: PretrainedLayer,
    family: TaskFamily,
    prompts: int,
    contexts: Sequence[int],
    *,
    biases_per_neuron: int,
    project: bool,
    tests: int = 400,
    kernel_work: int = 2048,
) -> list[np.ndarray]:
    """The risks of pretrained and of random attention, and of ridge regression in the found subspace and everywhere.

    `project` says whether the learned weights are projected on the found subspace. Ridge regression in all dimensions
    is slow: n rows are tested on `kernel_work`/n prompts, from 4 to 40.
    """
    learned = found.weights @ found.basis @ found.basis.T if project else found.weights
    learned, shifts = attention_layer(rng, learned, biases_per_neuron)
    random = np.repeat(unit_rows(rng.standard_normal(found.weights.shape)), biases_per_neuron, axis=0)
    few = [(n, tests) for n in contexts]
    fewer = [(n, min(max(kernel_work // n, 4), 40)) for n in contexts]
    return [
        attention_risks(rng, learned, shifts, family, prompts, contexts, tests=tests),
        attention_risks(rng, random, shifts, family, prompts, contexts, tests=tests),
        prompt_only_risks(rng, found.basis, family, few),
        prompt_only_risks(rng, np.eye(len(family.subspace)), family, fewer),
    ]

"""Learners to compare a transformer with, at every number of a prompt's pairs."""

from __future__ import annotations

import numpy as np

from unlazy.training.in_context.prompt_attention import TaskFamily
from unlazy.training.in_context.transformer import FreshPrompts, relative_errors

RELATIVE_PENALTIES = np.geomspace(1e-4, 10.0, 11)


def linear_references(prompts: FreshPrompts, noise_variance: float) -> np.ndarray:
    """The errors of Bayes, least squares, averaging and three nearest neighbours on linear tasks, (4, k)."""
    inputs, labels = (a.astype(float) for a in (prompts.inputs, prompts.labels))
    answers = [
        linear_answers(inputs, labels, inputs.shape[2] * noise_variance),
        linear_answers(inputs, labels, 0.0),
        averaged_answers(inputs, labels),
        neighbour_answers(inputs, labels, 3),
    ]
    return relative_errors(np.stack(answers), prompts.values)


def index_references(prompts: FreshPrompts, family: TaskFamily) -> np.ndarray:
    """Those of kernel ridge in the tasks' subspace and in all dimensions, (2, k), at the best penalty on these."""
    inputs, labels = (a.astype(float) for a in (prompts.inputs, prompts.labels))
    answered = (
        kernel_answers(seen, labels, family.highest_degree, RELATIVE_PENALTIES)
        for seen in (inputs @ family.subspace, inputs)
    )
    return np.stack([relative_errors(found, prompts.values).min(axis=0) for found in answered])


def linear_answers(inputs: np.ndarray, labels: np.ndarray, penalty: float) -> np.ndarray:
    """x_{i+1}.w with w = (X^T X + penalty I)^-1 X^T y on the first i pairs, i = 0, ..., k-1, (n, k).

    Inputs (n, k, d), labels (n, k). penalty = 0 is the least-squares solution of least norm. For w ~ N(0, I/d) and
    labels with noise of variance rho, penalty = d rho is the posterior mean.
    """
    n, k, d = inputs.shape
    found = np.zeros((n, k))
    for i in range(1, k):
        known, target = inputs[:, :i], labels[:, :i, None]
        if penalty > 0:
            turned = known.transpose(0, 2, 1)
            weights = np.linalg.solve(turned @ known + penalty * np.eye(d), turned @ target)
        else:
            weights = np.linalg.pinv(known) @ target
        found[:, i] = np.einsum("nd,nd->n", inputs[:, i], weights[:, :, 0])
    return found


def averaged_answers(inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """x_{i+1}.w with w the mean of y x over the first i pairs, (n, k)."""
    n, k, _ = inputs.shape
    sums = np.cumsum(inputs * labels[:, :, None], axis=1)[:, :-1]
    weights = sums / np.arange(1, k)[:, None]
    return np.concatenate([np.zeros((n, 1)), np.einsum("nkd,nkd->nk", inputs[:, 1:], weights)], axis=1)


def neighbour_answers(inputs: np.ndarray, labels: np.ndarray, neighbours: int) -> np.ndarray:
    """The mean label of the nearest of the first i inputs, of all if there are fewer than `neighbours`, (n, k)."""
    found = np.zeros(labels.shape)
    for i in range(1, labels.shape[1]):
        distances = np.sum((inputs[:, :i] - inputs[:, i, None]) ** 2, axis=2)
        nearest = np.argsort(distances, axis=1)[:, :neighbours]
        found[:, i] = np.take_along_axis(labels[:, :i], nearest, axis=1).mean(axis=1)
    return found


def kernel_answers(inputs: np.ndarray, labels: np.ndarray, degree: int, relative_penalties: np.ndarray) -> np.ndarray:
    """Kernel ridge regression on the first i pairs with the kernel (1 + x.x'/d)^degree, (penalties, n, k).

    A penalty is relative: a fraction of the mean of the kernel matrix's diagonal, added to the diagonal.
    """
    n, k, d = inputs.shape
    kernel = (1 + inputs @ inputs.transpose(0, 2, 1) / d) ** degree
    found = np.zeros((len(relative_penalties), n, k))
    for i in range(1, k):
        values, vectors = np.linalg.eigh(kernel[:, :i, :i])
        rotated = (vectors.transpose(0, 2, 1) @ labels[:, :i, None])[:, :, 0]
        asked = (kernel[:, i, None, :i] @ vectors)[:, 0]
        sizes = np.maximum(values, 0.0)
        for row, penalty in enumerate(relative_penalties):
            found[row, :, i] = np.sum(asked * rotated / (sizes + penalty * sizes.mean(axis=1, keepdims=True)), axis=1)
    return found

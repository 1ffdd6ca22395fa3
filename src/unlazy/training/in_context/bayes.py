"""The two Bayes predictors of linear regression in context: for tasks N(0, I), and for those of pretraining alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.numerics.ridge import ridge_solutions


class BayesErrors(NamedTuple):
    """Mean squared errors with label noise, averaged over queries exactly and over the given tasks."""

    continuous: float
    discrete: float


def bayes_errors(
    rng: np.random.Generator, tasks: np.ndarray, known: np.ndarray, context: int, noise_variance: float
) -> BayesErrors:
    """The errors on one context of length l for each row of `tasks`, tokens N(0, I/d).

    continuous: w = (X^T X + rho I)^-1 X^T y, the posterior mean under w ~ N(0, I);
    discrete: w = sum_j p_j w_j over the rows of `known`, p = softmax_j(-|y - X w_j|^2 / (2 rho)).
    The error of w_hat is rho + |w - w_hat|^2/d. Source: Raventós, Paul, Chen & Ganguli (2023).
    """
    d = tasks.shape[1]
    found = np.zeros((len(tasks), 2))
    for row, task in enumerate(tasks):
        tokens = rng.standard_normal((context, d)) / np.sqrt(d)
        labels = tokens @ task + np.sqrt(noise_variance) * rng.standard_normal(context)
        gram, target = tokens.T @ tokens, tokens.T @ labels
        logits = (known @ target - np.einsum("ij,ij->i", known @ gram, known) / 2) / noise_variance
        weights = np.exp(logits - logits.max())
        guesses = ridge_solutions(gram, target, noise_variance), weights @ known / weights.sum()
        found[row] = [np.sum((task - guess) ** 2) / d for guess in guesses]
    continuous, discrete = noise_variance + found.mean(axis=0)
    return BayesErrors(float(continuous), float(discrete))

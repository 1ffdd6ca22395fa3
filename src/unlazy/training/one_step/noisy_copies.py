"""Ridge regression on random features of noisy copies of the inputs, or with the penalty of infinitely many."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unlazy.functions.elementwise import as_activation
from unlazy.theory.one_step.noise_injection import noise_averaged, noise_penalty


class NoisyFit(NamedTuple):
    """Mean squared errors: on fresh clean inputs with label noise, and of the residuals over all copies."""

    test_error: float
    training_error: float


def fit_noisy_copies(
    rng: np.random.Generator,
    activation: str,
    link: Any,
    n: int,
    d: int,
    width: int,
    ridge: float,
    noise_variance: float,
    *,
    input_noise_variance: float,
    copies: int,
    fresh: int = 3000,
) -> NoisyFit:
    """Draw features, samples and noise of this variance on `copies` of the inputs; 0 is the penalty."""
    sigma = as_activation(activation)
    weights = rng.standard_normal((d, width)) / np.sqrt(d)
    x, new = rng.standard_normal((n, d)), rng.standard_normal((fresh, d))
    labels = link(x[:, 0]) + np.sqrt(noise_variance) * rng.standard_normal(n)
    penalty = ridge * np.eye(width)
    if copies:
        noisy = [x + np.sqrt(input_noise_variance) * rng.standard_normal(x.shape) for _ in range(copies)]
        hidden = np.concatenate([sigma(rows @ weights) for rows in noisy])
        repeated = np.tile(labels, copies)
    else:
        hidden, repeated = noise_averaged(activation, input_noise_variance)(x @ weights), labels
        penalty = penalty + noise_penalty(activation, weights, input_noise_variance)
    gram = hidden.T @ hidden / len(hidden)
    fit = np.linalg.solve(gram + penalty, hidden.T @ repeated / len(hidden))
    missed = sigma(new @ weights) @ fit - link(new[:, 0])
    residual = np.mean((repeated - hidden @ fit) ** 2)
    # the residual of the noise that the averaged features leave out
    hidden_noise = 0.0 if copies else fit @ (penalty - ridge * np.eye(width)) @ fit
    return NoisyFit(np.mean(missed**2) + noise_variance, residual + hidden_noise)

"""Ridge regression on random features of noisy copies of the inputs, or with the penalty of infinitely many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unlazy.functions.elementwise import as_activation
from unlazy.theory.one_step.noise_injection import noise_averaged, noise_penalty


class NoisyFits(NamedTuple):
    """Mean squared errors by number of copies: on fresh clean inputs with label noise, and of all copies' residuals."""

    test_error: np.ndarray
    training_error: np.ndarray


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
    copies: Sequence[int],
    fresh: int = 3000,
) -> NoisyFits:
    """Draw features, samples and noise of this variance on each number of `copies` of the inputs; 0 is the penalty.

    Fewer copies than the most are fitted in as many disjoint blocks as there are: what the copies' noise adds to the
    mean of their errors at first order is the same for all numbers.
    """
    sigma = as_activation(activation)
    weights = rng.standard_normal((d, width)) / np.sqrt(d)
    x, new = rng.standard_normal((n, d)), rng.standard_normal((fresh, d))
    labels = link(x[:, 0]) + np.sqrt(noise_variance) * rng.standard_normal(n)
    tested, truth = sigma(new @ weights), link(new[:, 0])

    def errors(gram: np.ndarray, crossed: np.ndarray) -> tuple[float, float]:
        fit = np.linalg.solve(gram + ridge * np.eye(width), crossed)
        residual = np.mean(labels**2) - 2 * fit @ crossed + fit @ gram @ fit
        return np.mean((tested @ fit - truth) ** 2) + noise_variance, residual

    found: dict[int, list[tuple[float, float]]] = {number: [] for number in copies}
    if 0 in copies:
        averaged = noise_averaged(activation, input_noise_variance)(x @ weights)
        # the penalty is the residual of the noise that the averaged features leave out
        gram = averaged.T @ averaged / n + noise_penalty(activation, weights, input_noise_variance)
        found[0].append(errors(gram, averaged.T @ labels / n))
    sums = {number: (np.zeros((width, width)), np.zeros(width)) for number in copies if number}
    for drawn in range(1, max(copies) + 1):
        hidden = sigma((x + np.sqrt(input_noise_variance) * rng.standard_normal(x.shape)) @ weights)
        gram, crossed = hidden.T @ hidden / n, hidden.T @ labels / n
        for number, block in sums.items():
            block[0][:] += gram
            block[1][:] += crossed
            if drawn % number == 0:
                found[number].append(errors(block[0] / number, block[1] / number))
                for one in block:
                    one[:] = 0
    return NoisyFits(*np.transpose([np.mean(found[number], axis=0) for number in copies]))

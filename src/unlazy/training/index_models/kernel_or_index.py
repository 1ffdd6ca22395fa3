"""Kernels and index learners on the same samples of a polynomial of one index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unlazy.data.unit_vectors import unit_vectors
from unlazy.functions.elementwise import as_link
from unlazy.training.index_models.one_shot import one_shot_direction, refined_direction
from unlazy.training.kernels.ridge import ridge_predictions
from unlazy.training.kernels.sphere import harmonic_kernel


class LearnerScores(NamedTuple):
    """Test R^2 of the matched kernel, the exponential kernel, the one-shot and the refined index.

    Those of the one-shot index are means over four sets of samples.
    """

    r_squared: np.ndarray
    squared_overlap: float
    """Squared overlap of the one-shot direction."""


def learner_scores(
    rng: np.random.Generator,
    link: str,
    degree: int,
    n: int,
    d: int,
    *,
    penalties: Sequence[float],
    jitter: float,
    fresh: int,
) -> LearnerScores:
    """Draw the direction, n samples and fresh points on the sphere of radius sqrt(d), and fit all learners.

    The exponential kernel has the penalty that is best on the test points. The one-shot index takes its direction from
    one half of the samples and fits a polynomial on the other, the refined one takes both from all.
    """
    half, target = n // 2, as_link(link)
    theta = unit_vectors(rng, 1, d)[0]
    x, new = unit_vectors(rng, n, d), unit_vectors(rng, fresh, d)
    rows, points = np.sqrt(d) * x, np.sqrt(d) * new
    y, truth = target(rows @ theta), target(points @ theta)

    def along(direction: np.ndarray, rows: np.ndarray, y: np.ndarray) -> float:
        fit = np.polynomial.Polynomial.fit(rows @ direction, y, degree)
        return float(np.mean((fit(points @ direction) - truth) ** 2))

    # further samples cost little next to a kernel
    looks, among_looks = [], [rows, *(np.sqrt(d) * unit_vectors(rng, n, d) for _ in range(3))]
    for seen in among_looks:
        labels = target(seen @ theta)
        first = one_shot_direction(seen[:half], labels[:half], link)
        looks.append(((first @ theta) ** 2, along(first, seen[half:], labels[half:])))
    overlap, one_shot = np.mean(looks, axis=0)
    refined = refined_direction(rows, y, one_shot_direction(rows, y, link), degree, steps=12)
    among, across = x @ x.T, new @ x.T
    matched = ridge_predictions(harmonic_kernel(among, d, degree), harmonic_kernel(across, d, degree), y, (jitter,))
    exponential = ridge_predictions(np.exp(among), np.exp(across), y, penalties)
    kernels = [min(np.mean((found - truth) ** 2) for found in each) for each in (matched, exponential)]
    errors = np.array([*kernels, one_shot, along(refined, rows, y)])
    return LearnerScores(1 - errors / np.mean(truth**2), float(overlap))

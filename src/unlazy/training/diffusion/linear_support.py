"""Estimators of a law on a line through the origin of R^d: line and spline, kernel density, score network."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.numerics.reverse_diffusion import time_grid
from unlazy.numerics.splines.interval import SplineBasis
from unlazy.numerics.splines.likelihood import fit_histograms
from unlazy.observables.transport import expected_deviation

_BINS = 512


class LineErrors(NamedTuple):
    """W1 of the spline, a mean over data sets, of the empirical measure, exact, and the largest sine to the line."""

    spline: float
    empirical: float
    angle: float


def line_errors(along: np.ndarray, directions: np.ndarray, grid: np.ndarray, truth: np.ndarray) -> LineErrors:
    """The errors of a fit that finds the line, for data sets of rows u A, u (sets, n) in [-1, 1] and A (sets, d).

    The direction comes from the singular vectors of the rows, the density on the line is a spline of degree 2 with
    3 n^(1/5) functions, and W1 is the integral of |F_hat - F| on the grid, where the law has the distribution `truth`.
    W1 of the rows themselves, whose mean is known, is a control variate of the spline's.
    """
    n = along.shape[1]
    rows = along[:, :, None] * directions[:, None, :]
    lines = np.linalg.svd(rows, full_matrices=False)[2][:, 0]
    cosines = np.sum(lines * directions, axis=1, keepdims=True)
    # the root of 1 - cosine^2 would lose half the digits
    angle = float(np.linalg.norm(lines - cosines * directions, axis=1).max())
    seen = np.clip((rows @ (lines * np.sign(cosines))[:, :, None])[:, :, 0], -1, 1)
    basis = SplineBasis(round(3 * n**0.2), 2)
    counts = np.stack([np.histogram(one, _BINS, (-1, 1))[0] for one in seen])
    fitted = fit_histograms(basis, counts).coefficients @ basis.antiderivatives(grid).T
    steps = np.stack([np.searchsorted(np.sort(one), grid, side="right") for one in seen]) / n
    spline, drawn = (np.trapezoid(np.abs(cdf - truth), grid).mean() for cdf in (fitted, steps))
    empirical = np.trapezoid(expected_deviation(n, np.clip(truth, 0, 1)), grid)
    return LineErrors(float(spline - drawn + empirical), float(empirical), angle)


def kernel_draws(rng: np.random.Generator, along: np.ndarray, direction: np.ndarray, count: int) -> np.ndarray:
    """Draws (count, d) of the kernel density of rows u A in R^d, with the bandwidth 0.5 std n^(-1/(d+4)).

    Rows at equal ranks instead of random ones: the noise of the drawing would be as large as what it measures.
    """
    n, d = along.size, direction.size
    ranks = (np.arange(count) + rng.random()) * n / count
    centers = np.sort(along)[ranks.astype(int)]
    bandwidth = 0.5 * along.std() * n ** (-1 / (d + 4))
    return centers[:, None] * direction + bandwidth * rng.standard_normal((count, d))


def network_draws(rng: np.random.Generator, rows: np.ndarray, count: int, steps: int) -> list[np.ndarray]:
    """Draws of a network that is not told of the line, with and without the last denoising step."""
    from unlazy.training.diffusion.reverse import network_samples
    from unlazy.training.diffusion.score_matching import ScoreSchedule, train_score

    training, sampling = rng.integers(2**31, size=2).tolist()
    unit, held = rows.std(), max(10, len(rows) // 8)
    network = train_score(training, rows[held:] / unit, rows[:held] / unit, ScoreSchedule(steps=steps)).network
    times = time_grid(4.0, 1e-3, 250)
    return [unit * network_samples(network, sampling, count, times, denoise=last) for last in (True, False)]

"""Reverse diffusions of data (x, 0, ..., 0) in R^d, x of a mixture of normals, driven by the exact score."""

from __future__ import annotations

import numpy as np

from unlazy.numerics.reverse_diffusion import denoised, run_reverse
from unlazy.theory.diffusion.process import mixture_score
from unlazy.theory.diffusion.wrong_score import LineMixture


def run_on_line(
    rng: np.random.Generator, law: LineMixture, particles: int, d: int, times: np.ndarray, scheme: str
) -> tuple[np.ndarray, np.ndarray]:
    """Points (particles, d) at the last of the times, before and after Tweedie's formula.

    They start at N(0, I), every coordinate at equally spaced quantiles, and move by `ranked_normals`.
    """
    from scipy.special import ndtri

    quantiles = ndtri((np.arange(particles) + 0.5) / particles)
    start = rng.permuted(np.tile(quantiles[:, None], d), axis=0)
    means, variances = np.zeros((2, len(law.means), d))
    means[:, 0], variances[:, 0] = law.means, law.variances

    def score(points: np.ndarray, time: float) -> np.ndarray:
        return mixture_score(law.component_weights, means, variances, points, time).score

    noisy = run_reverse(rng, score, start, times, scheme=scheme, denoise=False, ranked=True)
    last = float(times[-1])
    return noisy, denoised(noisy, score(noisy, last), last)


def off_line(points: np.ndarray) -> float:
    """The root mean square distance of points (n, d) from the line."""
    return float(np.sqrt((points[:, 1:] ** 2).sum(axis=1).mean()))

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

    They start at N(0, I), along the line at equally spaced quantiles.
    """
    from scipy.special import ndtri

    start = rng.standard_normal((particles, d))
    start[:, 0] = rng.permutation(ndtri((np.arange(particles) + 0.5) / particles))
    means, variances = np.zeros((2, len(law.means), d))
    means[:, 0], variances[:, 0] = law.means, law.variances

    def score(points: np.ndarray, time: float) -> np.ndarray:
        return mixture_score(law.component_weights, means, variances, points, time).score

    noisy = run_reverse(rng, score, start, times, scheme=scheme, denoise=False)
    last = float(times[-1])
    return noisy, denoised(noisy, score(noisy, last), last)


def off_line(points: np.ndarray) -> float:
    """The root mean square distance of points (n, d) from the line."""
    return float(np.sqrt((points[:, 1:] ** 2).sum(axis=1).mean()))

"""Particles of a reverse diffusion on the line that is driven by a wrong score, and what they say it costs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from unlazy.numerics.monte_carlo import ranked_normals
from unlazy.numerics.quadrature import unit_rule
from unlazy.theory.diffusion.process import diffused_variance, gaussian_divergence
from unlazy.theory.diffusion.wrong_score import LineMixture, WrongScore


def draw_mixture(rng: np.random.Generator, law: LineMixture, n: int, t: float) -> np.ndarray:
    """n draws of X_t for a start of the given law, one in each of n equal shares of it."""
    from scipy.special import ndtri

    shares = np.cumsum([0.0, *law.component_weights])
    ranks = shares[-1] * (np.arange(n) + rng.uniform(1e-9, 1.0, n)) / n
    which = np.searchsorted(shares[1:-1], ranks, side="right")
    within = (ranks - shares[which]) / np.diff(shares)[which]
    deviation = np.sqrt(diffused_variance(np.array(law.variances)[which], t))
    return np.exp(-t) * np.array(law.means)[which] + deviation * ndtri(within)


def reverse_particles(
    rng: np.random.Generator,
    problem: WrongScore,
    time: float,
    particles: int,
    reverse_steps: int,
    *,
    crowding: float = 4.0,
) -> np.ndarray:
    """Draws of Y_T from Y_0 ~ p_T by Heun's scheme, of weak order two, with `ranked_normals` for their noise.

    Steps shrink towards the data in proportion to t + 1/crowding, which should be about the smallest variance.
    """
    y = draw_mixture(rng, problem.truth, particles, time)
    grid = np.expm1(np.linspace(np.log1p(crowding * time), 0.0, reverse_steps + 1)) / crowding
    drift = y + 2 * problem.model_score(y, time)
    for t, following in pairwise(grid):
        dt = t - following
        noise = np.sqrt(2 * dt) * ranked_normals(rng, y)
        ahead = y + dt * drift + noise
        y = y + 0.5 * dt * (drift + ahead + 2 * problem.model_score(ahead, following)) + noise
        drift = y + 2 * problem.model_score(y, following)
    return y


def divergence_from(law: LineMixture, y: np.ndarray) -> float:
    """KL(law || that of y) from particles: of normals where both are, else on a histogram.

    The histogram has 40 bins on [-2.4, 2.4], and what is outside is counted in the last ones.
    """
    if len(law.means) == 1:
        return float(gaussian_divergence(law.means[0], law.variances[0], y.mean(), y.var()))
    edges = np.linspace(-2.4, 2.4, 41)
    truth = np.diff(np.r_[0.0, law.cdf(edges)[1:-1], 1.0])
    counts = np.histogram(np.clip(y, edges[0], edges[-1]), bins=edges)[0] + 0.5
    found = counts / counts.sum()
    return float((truth * np.log(truth / found)).sum())


def integral_from(rng: np.random.Generator, problem: WrongScore, time: float, particles: int) -> float:
    """int_0^T E |s - s_hat|^2 dt by a Gauss rule in t and draws of X_t."""
    u, weights = unit_rule(24)
    total = 0.0
    for t, weight in zip(time * u**2, 2 * time * u * weights, strict=True):
        x = draw_mixture(rng, problem.truth, particles, t)
        total += weight * float(np.mean((problem.score(x, t) - problem.model_score(x, t)) ** 2))
    return total

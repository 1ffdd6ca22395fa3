"""Reverse diffusions on the line that are driven by a wrong score: problems, exact costs, particles."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from unlazy.theory.diffusion.process import (
    ScoreErrorCost,
    diffused_variance,
    forward_process,
    gaussian_divergence,
    gaussian_score_error,
    scaled_score_error,
)

_GRID = np.linspace(-6.0, 6.0, 1001)
_HERMITE = 80
_CROWDING = 4.0
"""Steps shrink in proportion to t + 1/4: the narrowest law here has a deviation of 0.4."""


@dataclass(frozen=True)
class Problem:
    """A mixture of normals and the mixture whose diffused score, times `scale`, drives the reverse process."""

    weights: tuple[float, ...]
    means: tuple[float, ...]
    variances: tuple[float, ...]
    model_weights: tuple[float, ...]
    model_means: tuple[float, ...]
    model_variances: tuple[float, ...]
    scale: float = 1.0

    @property
    def gaussian(self) -> bool:
        return len(self.weights) == 1

    def score(self, x: np.ndarray, t: float) -> np.ndarray:
        return _mixture(x, t, self.weights, self.means, self.variances)[1]

    def model_score(self, x: np.ndarray, t: float) -> np.ndarray:
        return self.scale * _mixture(x, t, self.model_weights, self.model_means, self.model_variances)[1]

    def cost(self, time: np.ndarray) -> ScoreErrorCost:
        """The exact divergence and integral for each T."""
        if not self.gaussian:
            return _mixture_cost(self, time)
        if self.scale != 1:
            return scaled_score_error(self.variances[0], self.scale, time)
        return gaussian_score_error(
            self.variances[0], self.model_means[0], self.model_variances[0], time, mean=self.means[0]
        )

    def start_divergence(self) -> float:
        """KL(p_0 || q_0)."""
        if self.gaussian:
            pair = (self.means[0], self.variances[0], self.model_means[0], self.model_variances[0])
            return float(gaussian_divergence(*pair))
        return _divergence(_density(self.weights, self.means, self.variances, 0.0), self._model_density(0.0))

    def _model_density(self, t: float) -> np.ndarray:
        return _density(self.model_weights, self.model_means, self.model_variances, t)

    def draw(self, rng: np.random.Generator, n: int, t: float) -> np.ndarray:
        """n draws of X_t."""
        which = rng.choice(len(self.weights), n, p=self.weights)
        mean, variance = np.array(self.means)[which], np.array(self.variances)[which]
        deviation = np.sqrt(diffused_variance(variance, t))
        return np.exp(-t) * mean + deviation * rng.standard_normal(n)


PROBLEMS = {
    "variance": Problem((1.0,), (0.0,), (0.5,), (1.0,), (0.0,), (0.8,)),
    "mean": Problem((1.0,), (0.0,), (0.3,), (1.0,), (0.2,), (0.3,)),
    "scaled": Problem((1.0,), (0.0,), (0.5,), (1.0,), (0.0,), (0.5,), scale=1.4),
    "mixture": Problem((0.75, 0.25), (-1.0, 1.0), (0.15, 0.15), (0.5, 0.5), (-1.0, 1.0), (0.15, 0.15)),
}


def reverse_particles(
    problem: Problem, rng: np.random.Generator, time: float, particles: int, steps: int
) -> np.ndarray:
    """Draws of Y_T from Y_0 ~ p_T by Heun's scheme, of weak order two, with steps that shrink towards the data."""
    y = problem.draw(rng, particles, time)
    grid = np.expm1(np.linspace(np.log1p(_CROWDING * time), 0.0, steps + 1)) / _CROWDING
    drift = y + 2 * problem.model_score(y, time)
    for t, following in pairwise(grid):
        dt = t - following
        noise = np.sqrt(2 * dt) * rng.standard_normal(particles)
        ahead = y + dt * drift + noise
        y = y + 0.5 * dt * (drift + ahead + 2 * problem.model_score(ahead, following)) + noise
        drift = y + 2 * problem.model_score(y, following)
    return y


def divergence_from(problem: Problem, y: np.ndarray) -> float:
    """KL(p_0 || law of y) from particles: of normals where both are, else on a histogram with its bias removed."""
    if problem.gaussian:
        return float(gaussian_divergence(problem.means[0], problem.variances[0], y.mean(), y.var()))
    from scipy.special import ndtr

    edges = np.linspace(-2.4, 2.4, 41)
    parts = zip(problem.weights, problem.means, problem.variances, strict=True)
    cdf = sum(w * ndtr((edges - mean) / np.sqrt(v)) for w, mean, v in parts)
    truth = np.diff(np.r_[0.0, cdf[1:-1], 1.0])
    counts = np.histogram(np.clip(y, edges[0], edges[-1]), bins=edges)[0] + 0.5
    found = counts / counts.sum()
    plain = (truth * np.log(truth / found)).sum()
    return float(plain - (truth * (1 - found) / found).sum() / (2 * len(y)))


def integral_from(problem: Problem, rng: np.random.Generator, time: float, particles: int) -> float:
    """int_0^T E |s - s_hat|^2 dt by a Gauss rule in t and draws of X_t."""
    unit, weights = np.polynomial.legendre.leggauss(24)
    u = (unit + 1) / 2
    total = 0.0
    for t, weight in zip(time * u**2, time * u * weights, strict=True):
        x = problem.draw(rng, particles, t)
        total += weight * float(np.mean((problem.score(x, t) - problem.model_score(x, t)) ** 2))
    return total


def _mixture(x: np.ndarray, t: float, weights: tuple, means: tuple, variances: tuple) -> tuple[np.ndarray, np.ndarray]:
    """`mixture_score` on the line, also at t = 0, by a loop over the few components: fast for many points."""
    signal = np.exp(-t)
    logs, pulls = [], []
    for weight, mean, variance in zip(weights, means, variances, strict=True):
        spread = diffused_variance(variance, t)
        pulls.append((signal * mean - x) / spread)
        logs.append(np.log(weight / np.sqrt(2 * np.pi * spread)) - 0.5 * spread * pulls[-1] ** 2)
    if len(logs) == 1:
        return logs[0], pulls[0]
    # in units of the first component: one exponential less; nothing here is e^500 times as likely as another
    shares = [np.exp(np.minimum(log - logs[0], 500.0)) for log in logs[1:]]
    norm = 1 + sum(shares)
    score = (pulls[0] + sum(share * pull for share, pull in zip(shares, pulls[1:], strict=True))) / norm
    return logs[0] + np.log(norm), score


def _density(weights: tuple, means: tuple, variances: tuple, t: float) -> np.ndarray:
    return np.exp(_mixture(_GRID, t, weights, means, variances)[0])


def _divergence(p: np.ndarray, q: np.ndarray) -> float:
    from scipy.special import rel_entr

    return float(rel_entr(p, q).sum() * (_GRID[1] - _GRID[0]))


def _mixture_cost(problem: Problem, time: np.ndarray) -> ScoreErrorCost:
    """By quadrature on a grid: Y_T has the density q_0(x) int p_T(y) / q_T(y) N(y; m x, sigma^2) dy."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_HERMITE)
    weights = weights / weights.sum()
    p0 = _density(problem.weights, problem.means, problem.variances, 0.0)
    q0 = problem._model_density(0.0)
    start = problem.start_divergence()
    rows = []
    for t in np.atleast_1d(time):
        signal, noise = forward_process(float(t))
        y = (signal * _GRID[:, None] + noise * nodes).ravel()
        own = _mixture(y, t, problem.weights, problem.means, problem.variances)[0]
        model = _mixture(y, t, problem.model_weights, problem.model_means, problem.model_variances)[0]
        law = q0 * (np.exp(own - model).reshape(len(_GRID), -1) @ weights)
        mean = (law * _GRID).sum() / law.sum()
        pair = (_density(problem.weights, problem.means, problem.variances, t), problem._model_density(t))
        end = _divergence(*pair)
        rows.append((_divergence(p0, law), start - end, end, mean, (law * (_GRID - mean) ** 2).sum() / law.sum()))
    return ScoreErrorCost(*np.array(rows).T)

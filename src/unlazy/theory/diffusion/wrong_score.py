"""Reverse diffusions on the line that are driven by a wrong score: what it costs exactly, for mixtures of normals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_array
from unlazy.numerics.quadrature import hermite_rule
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


class LineMixture(NamedTuple):
    """sum_k w_k N(mu_k, v_k) on the line."""

    component_weights: tuple[float, ...]
    means: tuple[float, ...]
    variances: tuple[float, ...]

    def cdf(self, x: np.ndarray) -> Any:
        """The distribution function."""
        from scipy.special import ndtr

        return sum(w * ndtr((x - mean) / np.sqrt(v)) for w, mean, v in zip(*self, strict=True))

    def diffused(self, x: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray]:
        """log p_t and the score: `mixture_score`, also at time 0, by a loop over few components: fast for many points.

        No component may be e^500 times as likely as the first one.
        """
        signal = np.exp(-time)
        logs, pulls = [], []
        for weight, mean, variance in zip(*self, strict=True):
            spread = diffused_variance(variance, time)
            pulls.append((signal * mean - x) / spread)
            logs.append(np.log(weight / np.sqrt(2 * np.pi * spread)) - 0.5 * spread * pulls[-1] ** 2)
        if len(logs) == 1:
            return logs[0], pulls[0]
        # in units of the first component: one exponential less
        shares = [np.exp(np.minimum(log - logs[0], 500.0)) for log in logs[1:]]
        norm = 1 + sum(shares)
        score = (pulls[0] + sum(share * pull for share, pull in zip(shares, pulls[1:], strict=True))) / norm
        return logs[0] + np.log(norm), score


@dataclass(frozen=True)
class WrongScore:
    """The diffused score of the law `model`, times `score_scale`, drives the reverse process of the law `truth`.

    A scale other than 1 is for a truth of one component with mean 0 that is its own model.
    """

    truth: LineMixture
    model: LineMixture
    score_scale: float = 1.0

    def __post_init__(self) -> None:
        for name, law in (("truth", self.truth), ("model", self.model)):
            parts = {part: check_array(f"{name}.{part}", getattr(law, part), ndim=1) for part in law._fields}
            common = {values.shape for values in parts.values()}
            if len(common) > 1:
                raise InputError(f"{name} must have as many component_weights as means and variances, got {law}")
            if ((shares := parts["component_weights"]) < 0).any() or abs(shares.sum() - 1) > 1e-8:
                raise InputError(f"{name}.component_weights must be >= 0 and sum to 1, got {law.component_weights}")
            check_array(f"{name}.variances", law.variances, low=1e-100, high=1e100)
        check_array("score_scale", self.score_scale, above=0, ndim=0)
        if self.score_scale != 1 and not (self.gaussian and self.truth == self.model and self.truth.means[0] == 0):
            alone = "unless the truth is its own model, one normal of mean 0"
            raise InputError(f"score_scale must be 1 {alone}, got {self.score_scale:g}")
        if len(self.truth.means) != len(self.model.means) and self.gaussian:
            raise InputError(f"model must be one normal like the truth, got {len(self.model.means)}")

    @property
    def gaussian(self) -> bool:
        return len(self.truth.means) == 1

    def score(self, x: np.ndarray, time: float) -> np.ndarray:
        return self.truth.diffused(x, time)[1]

    def model_score(self, x: np.ndarray, time: float) -> np.ndarray:
        return self.score_scale * self.model.diffused(x, time)[1]

    def cost(self, time: np.ndarray) -> ScoreErrorCost:
        """The exact divergence and integral for each T; those of mixtures by quadrature, to about 1e-6 (absolute)."""
        time = check_array("time", time, above=0)
        if time.ndim > 1:
            raise InputError(f"time must be a number or a list of them, got shape {time.shape}")
        if not self.gaussian:
            return self._mixture_cost(time)
        (mean,), (variance,) = self.truth[1:]
        if self.score_scale != 1:
            return scaled_score_error(variance, self.score_scale, time)
        return gaussian_score_error(mean, variance, self.model.means[0], self.model.variances[0], time)

    def divergence(self, time: float = 0.0) -> float:
        """KL(p_t || q_t) of truth and model."""
        if self.gaussian and time == 0:
            pair = (self.truth.means[0], self.truth.variances[0], self.model.means[0], self.model.variances[0])
            return float(gaussian_divergence(*pair))
        return _divergence(_density(self.truth, time), _density(self.model, time))

    def _mixture_cost(self, time: np.ndarray) -> ScoreErrorCost:
        """On a grid: Y_T has the density q_0(x) int p_T(y) / q_T(y) N(y; m x, sigma^2) dy."""
        nodes, weights = hermite_rule(_HERMITE)
        start, density, model = self.divergence(), _density(self.truth, 0.0), _density(self.model, 0.0)
        rows = []
        for t in np.atleast_1d(time):
            signal, noise = forward_process(float(t))
            y = (signal * _GRID[:, None] + noise * nodes).ravel()
            ratio = np.exp(self.truth.diffused(y, t)[0] - self.model.diffused(y, t)[0])
            law = model * (ratio.reshape(len(_GRID), -1) @ weights)
            mean, end = (law * _GRID).sum() / law.sum(), self.divergence(t)
            variance = (law * (_GRID - mean) ** 2).sum() / law.sum()
            rows.append((_divergence(density, law), start - end, end, mean, variance))
        return ScoreErrorCost(*np.array(rows).T)


def _density(law: LineMixture, t: float) -> np.ndarray:
    return np.exp(law.diffused(_GRID, t)[0])


def _divergence(p: np.ndarray, q: np.ndarray) -> float:
    from scipy.special import rel_entr

    return float(rel_entr(p, q).sum() * (_GRID[1] - _GRID[0]))

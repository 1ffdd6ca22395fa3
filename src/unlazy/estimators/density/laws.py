"""The two families of densities behind `DiffusionDensity`, each in coordinates z in which its process starts.

Both have z = (u - center) whitening and u = center + z coloring, u being coordinates on the plane of the rows. A law
knows log p at points, log p_t and its gradient at times t > 0, and how to draw. Both families are mixed with a wide
Gaussian of little weight, so that no point has density zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from unlazy.estimators.density.support import far_out
from unlazy.numerics.reverse_diffusion import run_reverse, time_grid
from unlazy.numerics.splines.density import AicChoice, SplineDensity, fit_spline_density

LAST_TIME = 4.0
_LEAST_HELD_OUT, _SHARE_HELD_OUT = 10, 0.15
_NETWORK_BACKGROUND = 4.0
_ROWS_AT_ONCE = 8192
_LAST_DEVIATION = 0.01
"""Noise at the end of the reverse diffusion of a spline, in cells: its densest basis function, of height 4 per cell at
an edge, then moves by at most 0.02 in distribution."""
_SLACK = 1e-9
"""By so much of the box rounding may put a row of its edge outside."""
_REACH = 30.0
"""Whitened coordinates beyond which the network says nothing."""


@dataclass(frozen=True)
class Background:
    """N(0, variance I) with a weight, the same family at all times; weight 0 for none."""

    weight: float
    variance: float

    def deviation(self, t: float) -> float:
        return math.sqrt(self._total(t))

    def log_density(self, z: np.ndarray, t: float) -> np.ndarray:
        total = self._total(t)
        return -0.5 * np.sum(z**2, axis=1) / total - 0.5 * z.shape[1] * math.log(2 * math.pi * total)

    def mixed(self, z: np.ndarray, log_density: np.ndarray, t: float) -> np.ndarray:
        """log of the mixture of exp(log_density) and the background."""
        if self.weight == 0:
            return log_density
        return np.logaddexp(math.log1p(-self.weight) + log_density, math.log(self.weight) + self.log_density(z, t))

    def mixed_score(self, z: np.ndarray, log_density: np.ndarray, score: np.ndarray, t: float) -> np.ndarray:
        if self.weight == 0:
            return score
        odds = math.log1p(-self.weight) - math.log(self.weight) + log_density - self.log_density(z, t)
        share = expit(odds)[:, None]
        return share * score - (1 - share) * z / self._total(t)

    def _total(self, t: float) -> float:
        return self.variance * math.exp(-2 * t) - math.expm1(-2 * t)


@dataclass(frozen=True)
class SplineLaw:
    """A spline density on the box [-1, 1]^k of z."""

    center: np.ndarray
    whitening: np.ndarray
    coloring: np.ndarray
    density: SplineDensity
    background: Background

    def log_density(self, z: np.ndarray) -> np.ndarray:
        inside = (np.abs(z) <= 1 + _SLACK).all(axis=1)
        log_density = np.full(len(z), -np.inf)
        if inside.any():
            with np.errstate(divide="ignore"):
                log_density[inside] = np.log(np.maximum(self.density.pdf(np.clip(z[inside], -1.0, 1.0)), 0.0))
        return self.background.mixed(z, log_density, 0.0)

    def score(self, z: np.ndarray, t: float) -> np.ndarray:
        found = self.density.diffused(z, t)
        return self.background.mixed_score(z, found.log_density, found.score, t)

    def sample(self, rng: np.random.Generator, count: int, reverse: bool, first_time: float, steps: int) -> np.ndarray:
        wide = rng.random(count) < self.background.weight
        if reverse:
            start = rng.standard_normal((count, len(self.center)))
            # rows far out have not forgotten where they were
            start[wide] *= self.background.deviation(LAST_TIME)
            cell = min(float(np.diff(basis.breaks).min()) for basis in self.density.bases)
            first = min(first_time, (_LAST_DEVIATION * cell) ** 2 / 2)
            return run_reverse(rng, self.score, start, time_grid(LAST_TIME, first, steps))
        drawn = self.density.sample(rng, count)
        drawn[wide] = self.background.deviation(0.0) * rng.standard_normal((int(wide.sum()), drawn.shape[1]))
        return drawn


def spline_law(
    along: np.ndarray, box: np.ndarray | None, degree: int, n_basis: Any
) -> tuple[SplineLaw, AicChoice, np.ndarray]:
    """The law, the choice of its size, and which rows are left to the background, from all coordinates u (n, k).

    Without a box it is that of the rows with a pad of 2/n of its range, and the background is a Gaussian as wide as the
    box, wider and heavier where there are rows far out. In two dimensions the box lies along the coordinates or along
    the principal axes of the standardised rows, whichever has the lower AIC over all rows. In a given box the
    background is the uniform law.
    """
    n, k = along.shape
    if box is not None:
        return *_spline_in_box(along, box, degree, n_basis), np.zeros(n, bool)
    far = far_out(along)
    tried = [(*_spline_around(along, np.eye(k), far, degree, n_basis), far)]
    if k == 2:
        kept = along[~far]
        axes = np.linalg.eigh(np.corrcoef(kept.T))[1] / kept.std(axis=0)[:, None]
        far = far_out(along @ axes)
        tried.append((*_spline_around(along, axes, far, degree, n_basis), far))
    return min(tried, key=lambda found: _aic(along, found[0], found[1]))


def _spline_around(
    along: np.ndarray, axes: np.ndarray, far: np.ndarray, degree: int, n_basis: Any
) -> tuple[SplineLaw, AicChoice]:
    """The law in the padded box of the rows along `axes` (k, k)."""
    kept = along[~far] @ axes
    low, high = kept.min(axis=0), kept.max(axis=0)
    center, half = (low + high) / 2, (high - low) / 2 + 2 / len(kept) * (high - low)
    choice = _fit_in_box((kept - center) / half, degree, n_basis)
    background = _far_background(len(along), (along[far] @ axes - center) / half, 1.0)
    coloring = half[:, None] * np.linalg.inv(axes)
    return SplineLaw(center @ np.linalg.inv(axes), axes / half, coloring, choice.density, background), choice


def _spline_in_box(along: np.ndarray, box: np.ndarray, degree: int, n_basis: Any) -> tuple[SplineLaw, AicChoice]:
    center, half = box.mean(axis=1), (box[:, 1] - box[:, 0]) / 2
    choice = _fit_in_box((along - center) / half, degree, n_basis)
    # the uniform law is a spline too: its weights are the integrals of the partition of one
    uniform = np.ones(())
    for basis in choice.density.bases:
        uniform = np.multiply.outer(uniform, 1 / basis.scales / (basis.high - basis.low))
    weight = 1 / (len(along) + 1)
    density = SplineDensity(choice.density.bases, (1 - weight) * choice.density.coefficients + weight * uniform)
    return SplineLaw(center, np.diag(1 / half), np.diag(half), density, Background(0.0, 1.0)), choice


def _fit_in_box(z: np.ndarray, degree: int, n_basis: Any) -> AicChoice:
    # rounding may put the outermost rows outside
    box = np.tile([-1.0, 1.0], (z.shape[1], 1))
    return fit_spline_density(np.clip(z, -1.0, 1.0), box, degree=degree, n_basis=n_basis)


def _aic(along: np.ndarray, law: SplineLaw, choice: AicChoice) -> float:
    log_density = law.log_density((along - law.center) @ law.whitening) + np.linalg.slogdet(law.whitening)[1]
    return 2 * (choice.density.coefficients.size - 1) - 2 * float(log_density.sum())


def _far_background(n: int, far: np.ndarray, least: float) -> Background:
    variance = max(least, float((far**2).mean())) if far.size else least
    return Background((len(far) + 1) / (n + 1), variance)


@dataclass(frozen=True)
class NetworkLaw:
    """A trained score network in whitened coordinates z."""

    center: np.ndarray
    whitening: np.ndarray
    coloring: np.ndarray
    network: Any
    background: Background
    first_time: float

    def log_density(self, z: np.ndarray) -> np.ndarray:
        return self.background.mixed(z, self._network_density(z, self.first_time), 0.0)

    def _network_density(self, z: np.ndarray, t: float) -> np.ndarray:
        """log of m^k p_t(m z) of the network alone; far from all rows, where it was never trained, it counts as 0."""
        from unlazy.training.diffusion.reverse import log_density

        found = np.full(len(z), -np.inf)
        near = np.abs(z).max(axis=1) <= _REACH
        if near.any():
            found[near] = _in_blocks(lambda rows: log_density(self.network, rows, first_time=t), z[near])
        return found

    def score(self, z: np.ndarray, t: float) -> np.ndarray:
        from unlazy.training.diffusion.reverse import network_score

        score = network_score(self.network, z, t)
        if t >= LAST_TIME:
            return score
        # the network's own law at time t decides how much of the background shows
        density = self._network_density(z * math.exp(t), t) + t * z.shape[1]
        return self.background.mixed_score(z, density, score, t)

    def sample(self, rng: np.random.Generator, count: int, reverse: bool, first_time: float, steps: int) -> np.ndarray:
        from unlazy.training.diffusion.reverse import network_samples

        times = time_grid(LAST_TIME, first_time, steps)
        size = _block(count)
        seeds = rng.integers(2**31, size=-(-count // size)).tolist()
        drawn = np.concatenate([network_samples(self.network, seed, size, times) for seed in seeds])[:count]
        wide = rng.random(count) < self.background.weight
        drawn[wide] = self.background.deviation(0.0) * rng.standard_normal((int(wide.sum()), drawn.shape[1]))
        return drawn


def _block(count: int) -> int:
    """Sizes are powers of two, so that few programs are compiled."""
    return min(_ROWS_AT_ONCE, max(64, 1 << (count - 1).bit_length()))


def _in_blocks(function: Any, rows: np.ndarray) -> np.ndarray:
    size = _block(len(rows))
    parts = []
    for begin in range(0, len(rows), size):
        part = rows[begin : begin + size]
        padded = np.concatenate([part, np.zeros((size - len(part), rows.shape[1]))])
        parts.append(function(padded)[: len(part)])
    return np.concatenate(parts)


def network_law(
    along: np.ndarray, far: np.ndarray, rng: np.random.RandomState, schedule: Any
) -> tuple[NetworkLaw, Any]:
    """The law and its training, from all coordinates u (n, k); `far` rows are left to the background."""
    from sklearn.covariance import ledoit_wolf

    from unlazy.training.diffusion.score_matching import start_score, train_score

    kept = along[~far]
    n = len(kept)
    center = kept.mean(axis=0)
    deviation = kept.std(axis=0)
    correlation, _ = ledoit_wolf((kept - center) / deviation, assume_centered=True)
    squares, vectors = np.linalg.eigh(correlation)
    whitening = vectors / np.sqrt(squares) / deviation[:, None]
    coloring = (vectors * np.sqrt(squares)).T * deviation
    z = (kept - center) @ whitening
    order, seed = rng.permutation(n), int(rng.randint(2**31 - 1))
    held = max(_LEAST_HELD_OUT, round(_SHARE_HELD_OUT * n))
    if n < 2 * _LEAST_HELD_OUT:
        # too few rows to hold any out: the network as it starts, which is the Gaussian of these rows
        trained = start_score(seed, z.shape[1], schedule)
    else:
        trained = train_score(seed, z[order[held:]], z[order[:held]], schedule)
    background = _far_background(len(along), (along[far] - center) @ whitening, _NETWORK_BACKGROUND)
    return NetworkLaw(center, whitening, coloring, trained.network, background, schedule.first_time), trained

"""Densities on [-1, 1]^d whose smoothness is exactly s at every scale, with their distribution in closed form.

p = (1 + sum_k A_k prod_i cos(w_k x_i + phase_ik)) / Z, w_k = pi 2^(k/2), A_k proportional to 2^(-ks/2), sum A_k = 0.85:
a lacunary (Weierstrass) series, in the Besov space B^s_(inf,inf) and in no smoother one. A fixed piecewise smooth
density is smoother than its worst point almost everywhere, and estimators then beat the rate of s.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole

ROUGHNESS = 0.85
"""sum A_k; below 1, so that the density is at least 0.15 / Z."""
TERMS = {1: 40, 2: 16, 3: 16}
_MOST_STEPS = 60
_TOLERANCE = 4e-16
_CHUNK = 1 << 15


@dataclass(frozen=True)
class RoughDensity:
    """The density with the given phases (terms, d) in radians; `rough_density` draws them."""

    smoothness: float
    phases: np.ndarray

    def __post_init__(self) -> None:
        smoothness = float(check_array("smoothness", self.smoothness, above=0, ndim=0))
        phases = check_array("phases", self.phases, ndim=2)
        if phases.shape[1] > 3:
            raise InputError(f"phases must have 1 to 3 columns, one per dimension, got shape {phases.shape}")
        object.__setattr__(self, "smoothness", smoothness)
        object.__setattr__(self, "phases", phases)

    @property
    def d(self) -> int:
        return self.phases.shape[1]

    @cached_property
    def frequencies(self) -> np.ndarray:
        return np.pi * 2.0 ** (np.arange(len(self.phases)) / 2)

    @cached_property
    def amplitudes(self) -> np.ndarray:
        powers = 2.0 ** (-np.arange(len(self.phases)) * self.smoothness / 2)
        return ROUGHNESS * powers / powers.sum()

    @cached_property
    def normaliser(self) -> float:
        """Z, the integral of the unscaled density."""
        factors = self._integrals(np.ones((1, self.d)))[0]
        return float(2.0**self.d + self.amplitudes @ factors.prod(axis=1))

    def pdf(self, points: ArrayLike) -> np.ndarray:
        """p at points (n, d) of the cube."""
        x = self._inside(points)
        waves = np.cos(self.frequencies[:, None] * x[:, None, :] + self.phases)
        return (1 + waves.prod(axis=2) @ self.amplitudes) / self.normaliser

    def cdf(self, points: ArrayLike) -> np.ndarray:
        """P(X_1 <= x_1, ..., X_d <= x_d) at points (n, d) of the cube."""
        x = self._inside(points)
        return ((x + 1).prod(axis=1) + self._integrals(x).prod(axis=2) @ self.amplitudes) / self.normaliser

    def masses(self, cells: int) -> np.ndarray:
        """The probabilities of the cells of a regular histogram, an array with d axes of length `cells`; exact."""
        edges = np.linspace(-1, 1, check_whole("cells", cells, 1) + 1)
        parts = np.diff(self._integrals(np.repeat(edges[:, None], self.d, axis=1)), axis=0)
        letters = "abc"[: self.d]
        waves = np.einsum(
            ",".join(f"{letter}k" for letter in letters) + ",k->" + letters,
            *(parts[:, :, i] for i in range(self.d)),
            self.amplitudes,
            optimize=True,
        )
        return ((2 / cells) ** self.d + waves) / self.normaliser

    def quantile(self, u: ArrayLike) -> np.ndarray:
        """The inverse of the distribution function at u (n,) in [0, 1]; one dimension only."""
        if self.d != 1:
            raise InputError(f"quantile needs a density of one dimension, got {self.d}")
        u = check_array("u", u, low=0, high=1, ndim=1)
        pieces = np.array_split(u, -(-len(u) // _CHUNK))
        return np.concatenate([self._inverse(piece) for piece in pieces])

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """n independent draws (n, d): by inverting the distribution function in one dimension, else by rejection."""
        n = check_whole("n", n, 1)
        return self.quantile(rng.random(n))[:, None] if self.d == 1 else self._rejection(rng, n)

    def _inverse(self, u: np.ndarray) -> np.ndarray:
        grid = np.linspace(-1, 1, 4097)
        table = self.cdf(grid[:, None])
        at = np.clip(np.searchsorted(table, u, side="right") - 1, 0, len(grid) - 2)
        low, high = grid[at], grid[at + 1]
        x = np.clip(low + (high - low) * (u - table[at]) / (table[at + 1] - table[at]), low, high)
        open_ = np.arange(len(u))
        # to the digits of the distribution function, not of x as `newton_root`; the density is at least 0.15 / Z
        for _ in range(_MOST_STEPS):
            off = self.cdf(x[open_, None]) - u[open_]
            low[open_], high[open_] = np.where(off < 0, x[open_], low[open_]), np.where(off < 0, high[open_], x[open_])
            open_, off = open_[np.abs(off) > _TOLERANCE], off[np.abs(off) > _TOLERANCE]
            if open_.size == 0:
                break
            step = x[open_] - off / self.pdf(x[open_, None])
            inside = (step > low[open_]) & (step < high[open_])
            x[open_] = np.where(inside, step, (low[open_] + high[open_]) / 2)
        return x

    def _rejection(self, rng: np.random.Generator, n: int) -> np.ndarray:
        found = np.empty((0, self.d))
        top = (1 + ROUGHNESS) / self.normaliser
        while len(found) < n:
            proposals = rng.uniform(-1, 1, (2 * (n - len(found)) + 16, self.d))
            found = np.concatenate([found, proposals[rng.random(len(proposals)) * top < self.pdf(proposals)]])
        return found[:n]

    def _integrals(self, x: np.ndarray) -> np.ndarray:
        """int_(-1)^(x_i) cos(w_k y + phase_ik) dy, (n, terms, d); a difference of sines would cancel."""
        w, half = self.frequencies[:, None], (x[:, None, :] + 1) / 2
        return 2 * half * np.sinc(w * half / np.pi) * np.cos(w * (x[:, None, :] - 1) / 2 + self.phases)

    def _inside(self, points: ArrayLike) -> np.ndarray:
        array = check_array("points", points, ndim=2)
        if array.shape[1] != self.d:
            raise InputError(f"points must have {self.d} column(s), got shape {array.shape}")
        if np.abs(array).max() > 1:
            wrong = array[np.abs(array) > 1][0]
            raise InputError(f"points must be in the support [-1, 1] along every axis, got {wrong:g}")
        return array


def rough_density(smoothness: float, rng: np.random.Generator, *, d: int = 1, terms: int | None = None) -> RoughDensity:
    """A density of the given smoothness with phases drawn uniformly: first those of axis 1, then of the others.

    `terms` is 40 in one dimension, which reaches to wavelengths of 2e-6, and 16 in more.
    """
    d = check_whole("d", d, 1, 3)
    if not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy.random.Generator, got {rng!r}")
    terms = TERMS[d] if terms is None else check_whole("terms", terms, 1, 60)
    return RoughDensity(smoothness, rng.uniform(0, 2 * np.pi, (d, terms)).T)

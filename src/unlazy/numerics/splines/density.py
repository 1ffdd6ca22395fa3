"""Spline densities on a box, fitted by maximum likelihood with the number of basis functions chosen by AIC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.numerics.splines.box import DiffusedDensity, tensor_diffused, tensor_values
from unlazy.numerics.splines.interval import SplineBasis
from unlazy.numerics.splines.likelihood import MOST_DIMENSIONS, SplineFit, fit_histograms, fit_tensor_histogram

HISTOGRAM_CELLS = {1: 4096, 2: 192, 3: 64}
"""Cells per axis of the histogram that stands for the data."""
_PATIENCE = 3
"""Steps of the ladder without a better AIC after which the rest is not tried."""


@dataclass(frozen=True)
class SplineDensity:
    """A fitted density on a box, with everything the diffusion makes of it."""

    bases: tuple[SplineBasis, ...]
    coefficients: np.ndarray
    """(n_basis per axis), on the simplex."""

    def __post_init__(self) -> None:
        bases = tuple(self.bases)
        shape = tuple(b.n_basis for b in bases)
        coefficients = check_array("coefficients", self.coefficients)
        if coefficients.shape != shape:
            raise InputError(f"coefficients must have the shape {shape} of the bases, got {coefficients.shape}")
        if coefficients.min() < 0:
            raise InputError(f"coefficients must be >= 0, else the density is negative, got {coefficients.min():g}")
        if not abs(coefficients.sum() - 1) < 1e-8:
            raise InputError(
                f"coefficients must sum to 1, else the density does not integrate to one, got {coefficients.sum():.10g}"
            )
        object.__setattr__(self, "bases", bases)
        object.__setattr__(self, "coefficients", coefficients / coefficients.sum())

    def pdf(self, points: ArrayLike) -> np.ndarray:
        """p at points (n, d) of the box."""
        return tensor_values(self.bases, self.coefficients, points)

    def diffused(self, points: ArrayLike, t: float) -> DiffusedDensity:
        """log p_t and the score grad log p_t at any points (n, d), exact for t > 0."""
        return tensor_diffused(self.bases, self.coefficients, points, t)

    def cdf(self, x: ArrayLike) -> np.ndarray:
        """The distribution function at points x (n,); one dimension only."""
        if len(self.bases) != 1:
            raise InputError(f"cdf needs a density of one dimension, got {len(self.bases)}")
        return self.bases[0].antiderivatives(x) @ self.coefficients

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """n independent draws (n, d): a basis function by its weight, then a draw of each of its factors."""
        n = check_whole("n", n, 1)
        chosen = rng.choice(self.coefficients.size, n, p=self.coefficients.ravel())
        indices = np.unravel_index(chosen, self.coefficients.shape)
        return np.stack([_sample_basis(rng, b, j) for b, j in zip(self.bases, indices, strict=True)], axis=1)


class AicChoice(NamedTuple):
    """The fit that `fit_spline_density` chose, and what it chose from."""

    density: SplineDensity
    fit: SplineFit
    n_basis: int
    """Per axis."""
    tried: np.ndarray
    """Basis functions per axis."""
    aic: np.ndarray
    """-2 log-likelihood + 2 (parameters), of each tried."""


def fit_spline_density(
    points: ArrayLike,
    bounds: ArrayLike,
    *,
    degree: int = 3,
    n_basis: int | str | tuple[int, ...] = "aic",
    cells: int | None = None,
) -> AicChoice:
    """The spline density of largest likelihood for points (n, d), d <= 3, in the box `bounds` (d, 2).

    `n_basis` per axis, or the one of several with the least AIC ("aic": a ladder up to about 4 n^(1/3) in one
    dimension, n^(1/(d+1)) in more, left after three steps without a better one). Points outside the bounds are an
    error; nothing is clipped.
    """
    points, box = _points_in_box(points, bounds)
    n, d = points.shape
    degree = check_whole("degree", degree, 0)
    cells = HISTOGRAM_CELLS[d] if cells is None else check_whole("cells", cells, 2)
    counts, _ = np.histogramdd(points, bins=cells, range=[tuple(row) for row in box])
    tried = _candidates(n_basis, n, d, degree, cells)
    best: Any = None
    criteria = []
    for m in tried:
        bases = tuple(SplineBasis(m, degree, low, high) for low, high in box)
        fit = fit_histograms(bases[0], counts) if d == 1 else fit_tensor_histogram(bases, counts)
        criteria.append(-2 * n * float(fit.log_likelihood) + 2 * (m**d - 1))
        if best is None or criteria[-1] < min(criteria[:-1]):
            best = (bases, fit, m)
        if n_basis == "aic" and len(criteria) - int(np.argmin(criteria)) > _PATIENCE:
            break
    bases, fit, m = best
    return AicChoice(
        SplineDensity(bases, fit.coefficients), fit, m, np.array(tried[: len(criteria)]), np.array(criteria)
    )


def _candidates(n_basis: Any, n: int, d: int, degree: int, cells: int) -> list[int]:
    if isinstance(n_basis, str):
        if n_basis != "aic":
            raise InputError(f'n_basis must be "aic", an integer or a list of integers, got {n_basis!r}')
        most = 4 * n ** (1 / 3) if d == 1 else n ** (1 / (d + 1))
        most = int(min(max(most, 6), cells / 4, 128 if d == 1 else 24))
        ladder = degree + np.unique(np.round(2 ** np.arange(1, 0.5 + np.log2(max(most, 2)), 0.4)).astype(int))
        return ladder.tolist()
    values = [n_basis] if np.ndim(n_basis) == 0 else list(n_basis)
    if not values:
        raise InputError("n_basis must not be empty")
    return [check_whole("n_basis", value, degree + 2, cells) for value in values]


def _points_in_box(points: ArrayLike, bounds: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    array, box = check_array("points", points, ndim=2), check_array("bounds", bounds, ndim=2)
    d = array.shape[1]
    if d > MOST_DIMENSIONS:
        raise InputError(f"points must have at most {MOST_DIMENSIONS} columns, got {d}")
    if box.shape != (d, 2):
        raise InputError(f"bounds must have shape ({d}, 2), a row per column of points, got {box.shape}")
    for i, (low, high) in enumerate(box):
        if not low < high:
            raise InputError(f"bounds must increase, got [{low:g}, {high:g}] for column {i}")
        wrong = (array[:, i] < low) | (array[:, i] > high)
        if wrong.any():
            raise InputError(f"points must be in bounds [{low:g}, {high:g}] in column {i}, got {array[wrong, i][0]:g}")
    return array, box


def _sample_basis(rng: np.random.Generator, basis: SplineBasis, indices: np.ndarray) -> np.ndarray:
    """A draw of the basis density `indices[i]` for each i.

    A B-spline with knots k_0 <= ... <= k_(degree+1), scaled to integral one, is the density of the mean of its knots
    with uniform weights on the simplex (Curry & Schoenberg 1966).
    """
    knots = np.r_[np.repeat(basis.low, basis.degree), basis.breaks, np.repeat(basis.high, basis.degree)]
    own = knots[indices[:, None] + np.arange(basis.degree + 2)]
    weights = rng.exponential(size=own.shape)
    return np.clip((own * weights).sum(axis=1) / weights.sum(axis=1), basis.low, basis.high)

"""Maximum likelihood over spline densities p = sum_j a_j prod_i B_(j_i), a on the simplex, from a fine histogram.

With counts w_c (sum 1) and cell masses M a the mean log-likelihood L(a) = sum_c w_c log (M a)_c is concave, and by
convexity L(best) - L(a) <= max_j sum_c w_c M_cj / (M a)_c - 1: every fit carries this bound of its own gap.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array
from unlazy.numerics.roots import ConvergenceError
from unlazy.numerics.splines.interval import SplineBasis

MOST_DIMENSIONS = 3
_GAP = 1e-8
"""Of the mean log-likelihood, in one dimension, where Newton's method converges."""
_GAP_OF_SAMPLING = 0.01
"""In more dimensions: this share of n_basis / n, about which the likelihood differs between samples."""
_NEWTON_STEPS = 100
_EM_STEPS = 3
_LEAST = 1e-150
_FASTEST = 0.01
"""mu falls at most to this share in a Newton step."""
_DENSE = 32
"""Up to so many basis functions one call for all dense matrices is faster than a band solver for each."""


class SplineFit(NamedTuple):
    """Fits of one histogram or of a stack of them; leading dimensions are those of the counts."""

    coefficients: np.ndarray
    """On the simplex, (..., n_basis) or (n_basis per axis)."""
    log_likelihood: np.ndarray
    """Mean of log p over the counts, p constant on each cell of the histogram."""
    gap: np.ndarray
    """An upper bound of what is missing to the largest log-likelihood."""


def fit_histograms(basis: SplineBasis, counts: ArrayLike, *, gap: float = _GAP) -> SplineFit:
    """The best weights for each histogram of a stack (..., C) with C equal cells on [low, high].

    A few EM steps, then the primal-dual Newton method for -sum_c w_c log (M a)_c + sum_j a_j, a >= 0 (the multiplier
    of sum a = 1 is 1), which needs no guess of the weights that vanish. All histograms advance together, and the
    Hessian is a band of 2 degree + 1 diagonals, so that the cost does not depend on the number of observations. Exact
    for binned data; C should be several times n_basis.
    """
    gap = float(check_array("gap", gap, above=0, ndim=0))
    counts, shares = _shares(counts, None)
    cells = counts.shape[-1]
    rule = _histogram_rule(basis, cells)
    # histograms are columns here, as sparse products want them
    weights = shares.reshape(-1, cells).T.copy()
    coefficients = np.full((basis.n_basis, weights.shape[1]), 1 / basis.n_basis)
    for _ in range(_EM_STEPS):
        coefficients *= rule.transposed @ (weights / np.maximum(rule.masses @ coefficients, _LEAST))
    # inside the simplex, where a step can be taken in every direction
    coefficients, found = _newton(rule, weights, 0.9 * coefficients + 0.1 / basis.n_basis, gap)
    likelihood = _mean_log(weights, rule.masses @ coefficients) + np.log(cells / (basis.high - basis.low))
    shape = counts.shape[:-1]
    return SplineFit(
        coefficients.T.reshape(*shape, -1), likelihood.reshape(shape)[()], np.maximum(found, 0).reshape(shape)[()]
    )


def fit_tensor_histogram(
    bases: tuple[SplineBasis, ...], counts: ArrayLike, *, gap: float | None = None, max_iterations: int = 3000
) -> SplineFit:
    """The best weights (n_basis per axis) for one histogram with d = 2 or 3 axes, by accelerated EM.

        a <- a * M^T (w / M a)

    with M applied axis by axis: cells n_basis per axis, never the product of all. Steps are extrapolated by SQUAREM
    (Varadhan & Roland 2008) and taken back where the likelihood falls. Ends when the gap is at most `gap`, by default
    0.01 n_basis / n for counts that sum to n; else `ConvergenceError`.
    """
    if not 2 <= len(bases) <= MOST_DIMENSIONS:
        raise InputError(f"bases must be 2 or {MOST_DIMENSIONS} for a tensor product, got {len(bases)}")
    counts, weights = _shares(counts, len(bases))
    masses = [_histogram_masses(b, c) for b, c in zip(bases, counts.shape, strict=True)]
    shape = tuple(b.n_basis for b in bases)
    if gap is None:
        gap = float(max(_GAP, _GAP_OF_SAMPLING * np.prod(shape) / counts.sum()))
    gap = float(check_array("gap", gap, above=0, ndim=0))

    occupied = np.flatnonzero(weights)
    share = weights.ravel()[occupied]
    ratio = np.zeros(weights.shape)
    transposed = [m.T for m in masses]

    def step(a: np.ndarray) -> tuple[np.ndarray, float, float]:
        expected = np.maximum(_along_axes(a, masses).ravel()[occupied], _LEAST)
        ratio.ravel()[occupied] = share / expected
        gradient = _along_axes(ratio, transposed)
        return a * gradient, float(gradient.max()) - 1, float(share @ np.log(expected))

    current = np.full(shape, 1 / np.prod(shape))
    following, missing, likelihood = step(current)
    for _ in range(max_iterations):
        if missing <= gap:
            volume = np.prod([(b.high - b.low) / c for b, c in zip(bases, counts.shape, strict=True)])
            return SplineFit(current, np.asarray(likelihood - np.log(volume))[()], np.asarray(max(missing, 0.0))[()])
        second = step(following)[0]
        change, curvature = following - current, second - 2 * following + current
        length = max(1.0, float(np.linalg.norm(change)) / max(float(np.linalg.norm(curvature)), 1e-300))
        trial = current + 2 * length * change + length**2 * curvature
        # a weight that is set to 0 would stay there for ever
        trial = np.maximum(trial, 1e-2 * second)
        trial /= trial.sum()
        candidate, found, value = step(trial)
        if value < likelihood:
            trial = second
            candidate, found, value = step(second)
        current, following, missing, likelihood = trial, candidate, found, value
    raise ConvergenceError(
        f"no convergence in {max_iterations} EM steps: log-likelihood at most {missing:.2g} below its maximum, "
        f"asked for {gap:.2g}"
    )


def _shares(counts: ArrayLike, ndim: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The counts and their shares; with `ndim` one histogram, else a stack along the last axis."""
    counts = check_array("counts", counts, low=0, ndim=ndim)
    if counts.ndim == 0:
        raise InputError("counts must have at least one dimension, got a number")
    axes = -1 if ndim is None else None
    total = counts.sum(axis=axes, keepdims=True)
    if not (total > 0).all():
        raise InputError("counts must have a positive sum in every histogram, got one without any")
    return counts, counts / total


def _histogram_masses(basis: SplineBasis, cells: int) -> np.ndarray:
    if cells < basis.n_basis:
        raise InputError(f"counts must have at least n_basis = {basis.n_basis} cells per axis, got {cells}")
    return basis.masses(np.linspace(basis.low, basis.high, cells + 1))


def _mean_log(weights: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """sum_c w_c log m_c along the first axis, -inf where a cell with weight has no mass."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weights > 0, weights * np.log(np.maximum(masses, 0.0)), 0.0).sum(axis=0)


def _along_axes(tensor: np.ndarray, matrices: list[np.ndarray]) -> np.ndarray:
    """Every axis of the tensor multiplied by its matrix."""
    for matrix in matrices:
        rest = tensor.shape[1:]
        tensor = (tensor.reshape(len(tensor), -1).T @ matrix.T).reshape(*rest, len(matrix))
    return tensor


class _HistogramRule(NamedTuple):
    """Sparse matrices of a basis on a histogram: cell masses M (cells, n_basis), its transpose, and the products
    M_cj M_c(j+k) whose sums over cells are the diagonals of the Hessian.
    """

    masses: Any
    transposed: Any
    products: Any
    offsets: tuple[int, ...]


@lru_cache(maxsize=64)
def _histogram_rule(basis: SplineBasis, cells: int) -> _HistogramRule:
    from scipy.sparse import csr_array

    masses = _histogram_masses(basis, cells)
    offsets = tuple(range(min(basis.degree, basis.n_basis - 1) + 1))
    products = [masses[:, : basis.n_basis - k] * masses[:, k:] for k in offsets]
    return _HistogramRule(
        csr_array(masses), csr_array(masses.T), csr_array(np.concatenate(products, axis=1).T), offsets
    )


def _newton(rule: _HistogramRule, weights: np.ndarray, start: np.ndarray, gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Primal-dual Newton steps for all columns together; columns that have reached the gap drop out.

    Stationary points of -sum w log(M a) + sum a - mu sum log a have multipliers z = mu / a; mu goes to 0.
    """
    n_basis, count = start.shape
    split = np.cumsum([n_basis - k for k in rule.offsets])[:-1]
    result, gaps = start.copy(), np.full(count, np.inf)
    active, a, w = np.arange(count), start, weights
    z, shrink = np.full(a.shape, 0.1), np.full(count, 0.1)
    for _ in range(_NEWTON_STEPS):
        expected = np.maximum(rule.masses @ a, _LEAST)
        ratio = w / expected
        pull = rule.transposed @ ratio
        total = a.sum(axis=0)
        found = (total * pull).max(axis=0) - 1
        better = found < gaps[active]
        gaps[active[better]], result[:, active[better]] = found[better], (a / total)[:, better]
        keep = ~(found <= gap)
        if not keep.any():
            return result, gaps
        active, a, z, w, pull = active[keep], a[:, keep], z[:, keep], w[:, keep], pull[:, keep]
        shrink = shrink[keep]
        curvature = (ratio / expected)[:, keep]
        # in units of sqrt(a) the matrix stays well conditioned as weights go to 0
        root = np.sqrt(a)
        bands = np.zeros((len(rule.offsets), n_basis, active.size))
        for k, band in zip(rule.offsets, np.split(rule.products @ curvature, split), strict=True):
            bands[k, : n_basis - k] = root[: n_basis - k] * root[k:] * band
        bands[0] += z
        target = shrink * (a * z).mean(axis=0)
        step = root * _solve_bands(bands, root * (pull - 1) + target / root)
        dual = target / a - z - z / a * step
        lengths = _to_the_boundary(a, step), _to_the_boundary(z, dual)
        a, z = a + lengths[0] * step, z + lengths[1] * dual
        # full steps say that mu may fall faster
        shrink = np.clip((1 - np.minimum(*lengths)) ** 2, _FASTEST, 0.3)
    raise ConvergenceError(
        f"no convergence in {_NEWTON_STEPS} Newton steps: log-likelihood at most {gaps.max():.2g} below its maximum in "
        f"{active.size} of {count} histograms, asked for {gap:.2g}"
    )


def _solve_bands(bands: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve a symmetric positive definite band system per column; bands[k, j] is the entry (j + k, j)."""
    _, n_basis, count = bands.shape
    if n_basis > _DENSE:
        from scipy.linalg.lapack import dpbsv

        columns = [dpbsv(bands[:, :, i], right[:, i], lower=1)[1:] for i in range(count)]
        if any(info for _, info in columns):
            raise ConvergenceError("a Newton step of the likelihood has a matrix that is not positive definite")
        return np.stack([x for x, _ in columns], axis=1)
    dense = np.zeros((count, n_basis, n_basis))
    for k, band in enumerate(bands):
        at = np.arange(n_basis - k)
        dense[:, at + k, at] = dense[:, at, at + k] = band[: n_basis - k].T
    return np.linalg.solve(dense, right.T[..., None])[..., 0].T


def _to_the_boundary(x: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The longest step <= 1 per column that keeps x above a hundredth of itself."""
    return 1 / np.maximum(1.0, (-step / (0.99 * x)).max(axis=0))

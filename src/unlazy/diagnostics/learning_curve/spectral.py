"""Learning curves from the eigenvalues of a pool's kernel matrix: one effective penalty for all rows.

K = sum_i l_i u_i u_i^T is the kernel matrix of N rows, c_i = |u_i^T Y|^2. Choosing n of the rows compresses K freely,
and p random features compress it a second time. With z = sum l/(l+kappa), m = sum l kappa/(l+kappa)^2 (= z - q),
g = sum 1/(l+kappa), share u = 1 - z/p, X = (m/p) / (u + m/p) and t = (n-z) / (N-z), kappa solves

    (n - z) u = penalty g,                  z < min(n, p),

whose left side increases and whose right side decreases. The error on rows that were not chosen, noise included, is

    E = n [X sum c kappa/(l+kappa) + (1-X) sum c kappa^2/(l+kappa)^2] / ((N-z) [(1-X) (m + t (N-z-m)) + X (n-z)])

and the training error (1 - z/n)^2 E. Without features u = 1 and X = 0. n = N gives kappa = penalty and GCV, n << N the
population formula of `unlazy.theory.kernels.random_features`, and n > N is defined while kappa > 0.

An intercept that no penalty shrinks is an infinite eigenvalue along the constant vector, which is no random feature: it
takes one of the n rows, one of the N and nothing else. So the formulas hold with n - 1, N - 1 and the eigenvalues of
K orthogonal to the constant, E times n/(n-1) and the training error times (n-1)/n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlazy.numerics.roots import increasing_root
from unlazy.numerics.spectral_sums import SOLVER_EVALUATIONS, SpectralNodes, Spectrum

# stands for penalty 0 and all below it, in units of the largest eigenvalue: far below what rounding leaves of the
# others
_NO_PENALTY = 1e-30
_LEAST_KAPPA = 1e-40


class PoolSpectrum(NamedTuple):
    """A pool in the eigenbasis of its kernel matrix, in units of the largest eigenvalue."""

    rows: int
    """N, or N - 1 with an intercept."""
    scale: float
    """The largest eigenvalue."""
    positive: Spectrum
    """Eigenvalues above the rounding error, each with the energy c_i of the targets."""
    null_energy: float
    """Energy of the targets where the kernel is 0."""

    @property
    def null(self) -> float:
        return self.rows - self.positive.rank


class SpectralCurve(NamedTuple):
    """Fields of the broadcast shape of n, penalty and width; NaN out of range."""

    kappa: np.ndarray
    """The effective penalty, in units of the kernel."""
    test_error: np.ndarray
    training_error: np.ndarray
    freedom: np.ndarray
    """z, the degrees of freedom."""
    unused: np.ndarray
    """t = (n - z) / (N - z)."""


def pool_spectrum(eigenvalues: np.ndarray, energies: np.ndarray) -> PoolSpectrum:
    """Eigenvalues below N times the rounding error of the largest one count as 0."""
    scale = float(eigenvalues.max())
    kept = eigenvalues > eigenvalues.size * np.finfo(np.float64).eps * scale
    values = eigenvalues[kept] / scale
    return PoolSpectrum(
        eigenvalues.size,
        scale,
        Spectrum(values, np.ones(values.size), energies[kept], 0.0),
        float(energies[~kept].sum()),
    )


def spectral_curve(
    pool: PoolSpectrum, n: np.ndarray, penalty: np.ndarray, width: np.ndarray, *, intercept: bool = False
) -> SpectralCurve:
    """The formulas above at equally long lists of n, penalty and width (infinity for the kernel itself).

    With an intercept the pool is that of eigenvectors orthogonal to the constant one, n > 1 counts all rows, and
    `freedom` is without the intercept's.
    """
    if intercept:
        found, cost = spectral_curve(pool, n - 1, penalty, width), n / (n - 1)
        return found._replace(test_error=cost * found.test_error, training_error=found.training_error / cost)
    delta = np.maximum(penalty / pool.scale, _NO_PENALTY)
    rank, null = pool.positive.rank, pool.null
    nodes = pool.positive.nodes((SOLVER_EVALUATIONS + 8) * n.size)

    def excess(kappa: np.ndarray, n: np.ndarray, delta: np.ndarray, p: np.ndarray) -> np.ndarray:
        large, learned = nodes.learned(kappa)
        samples, used = (n - large) - learned, np.where(np.isfinite(p), large + learned, 0.0)
        share = np.where(np.isfinite(p), p - used, 1.0) / np.where(np.isfinite(p), p, 1.0)
        # beyond df1 = min(n, p) both factors may be negative; the smaller one goes on increasing with kappa
        product = np.where((samples > 0) & (share > 0), samples * share, np.minimum(samples, share))
        return product - delta * (nodes.summed(_resolvent, kappa)[0] + null / kappa)

    low = np.full(n.shape, _LEAST_KAPPA)
    few = n < pool.rows
    part = n / pool.rows
    least = pool.positive.eigenvalues.min() if not null else 0.0
    low[few] = ((delta + (1 - part) * least) / part)[few] * (1 - 1e-9)
    fewer = np.minimum(n, width)
    high = np.maximum(2 * pool.positive.eigenvalues.sum() / fewer, 4 * delta / part) * (1 + 1e-9)
    inside = excess(low, n, delta, width) <= 0
    kappa = np.full(n.shape, np.nan)
    if inside.any():
        kappa[inside] = increasing_root(excess, *(a[inside] for a in (low, high, n, delta, width)))

    z, mixed, twice, missed_once, missed_twice = nodes.summed(_sums, kappa)
    missed_once, missed_twice = missed_once + pool.null_energy, missed_twice + pool.null_energy
    resolvent = nodes.summed(_resolvent, kappa)[0] * kappa + null
    samples, share = _factors(n, width, delta * resolvent / kappa)
    with np.errstate(invalid="ignore", divide="ignore"):
        approximation = (mixed / width) / (share + mixed / width)
        unused = samples / resolvent
        missed = approximation * missed_once + (1 - approximation) * missed_twice
        remaining = (1 - approximation) * (mixed + unused * (twice + null)) + approximation * samples
        error = n * missed / (resolvent * remaining)
    # without a penalty, as many samples as features or as directions leave nothing to average over
    peak = (penalty == 0) & (n == np.minimum(width, rank)) & ((n < pool.rows) | (width == n))
    error = np.where(peak & inside, np.where(missed > 0, np.inf, 0.0), error)
    with np.errstate(invalid="ignore"):
        training = np.where(peak & inside, 0.0, (samples / n) ** 2 * error)
    return SpectralCurve(kappa * pool.scale, error, training, z, unused)


def _factors(n: np.ndarray, p: np.ndarray, product: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """n - z and 1 - z/p from their product, both without cancellation."""
    with np.errstate(invalid="ignore", divide="ignore"):
        # p (1 - z/p)^2 + (n - p) (1 - z/p) = product, and the same for n - z
        gap = (n - p) / 2
        root = np.sqrt(gap**2 + p * product)
        samples = np.where(gap >= 0, gap + root, p * product / (root - gap))
        share = np.where(gap >= 0, product / (gap + root), (root - gap) / p)
    return np.where(np.isfinite(p), samples, product), np.where(np.isfinite(p), share, 1.0)


def _resolvent(nodes: SpectralNodes, kappa: np.ndarray) -> tuple[np.ndarray]:
    return ((1 / (nodes.values + kappa)) @ nodes.multiplicities,)


def _sums(nodes: SpectralNodes, kappa: np.ndarray) -> tuple[np.ndarray, ...]:
    total = nodes.values + kappa
    learned, missed = nodes.values / total, kappa / total
    squares, weights = np.square(missed), nodes.multiplicities
    return (
        learned @ weights,
        (learned * missed) @ weights,
        squares @ weights,
        missed @ nodes.signal,
        squares @ nodes.signal,
    )

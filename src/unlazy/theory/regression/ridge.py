"""Ridge regression in high dimension: the deterministic equivalent of risk and training error.

Data: y = x.b + noise, x with covariance S, n samples; the estimator minimises (1/n)|y - X b|^2 + ridge |b|^2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_like, check_symmetric, common_shape
from unlazy.numerics.spectral_sums import SOLVER_EVALUATIONS, SpectralNodes, Spectrum, effective_ridge, spectral_sums

_LARGEST = 1e300
_LARGEST_SUM = 1e306
# of singular values: down to it LAPACK's usual algorithm leaves ten digits
_SPREAD = 1e-6


class RidgeEquivalent(NamedTuple):
    """Deterministic equivalents; every field has the broadcast shape of n, ridge and noise_variance."""

    effective_ridge: np.ndarray
    """kappa, the ridge of the population problem that the sample problem behaves like."""
    risk: np.ndarray
    """Excess test error E (x.b - x.b_hat)^2 = bias + variance."""
    bias: np.ndarray
    """The risk without label noise."""
    variance: np.ndarray
    """The part of the risk that label noise causes."""
    training_error: np.ndarray
    """Mean squared residual on the training samples."""
    degrees_of_freedom: np.ndarray
    """df1, the trace of the hat matrix."""
    variance_degrees_of_freedom: np.ndarray
    """df2; variance = noise_variance df2 / (n - df2)."""
    gcv: np.ndarray
    """Generalised cross-validation, whose limit is risk + noise_variance for every ridge >= 0."""


class RidgeCurve(NamedTuple):
    """A curve in ridge; every field has the broadcast shape of n, effective_ridge and noise_variance."""

    ridge: np.ndarray
    equivalent: RidgeEquivalent


def ridge_equivalent(
    spectrum: ArrayLike,
    prior: ArrayLike,
    n: ArrayLike,
    ridge: ArrayLike,
    noise_variance: ArrayLike,
    *,
    multiplicities: ArrayLike | None = None,
) -> RidgeEquivalent:
    """Risk, training error and degrees of freedom of ridge regression without drawing data.

    With eigenvalues l_i (`spectrum`), prior variances p_i = E (u_i.b)^2 along their eigenvectors and noise
    variance s2,

        n = df1 + n ridge / kappa,                   df_k = sum_i (l_i / (l_i + kappa))^k,
        bias = kappa^2 sum_i p_i l_i / (l_i + kappa)^2 / (1 - df2/n),     variance = s2 df2 / (n - df2),
        training error = (ridge / kappa)^2 (bias + variance + s2).

    Entry i of `spectrum` stands for `multiplicities[i]` directions, each with prior variance p_i. A scalar
    prior is constant. n, ridge and noise_variance broadcast (n may be fractional); scalars give scalars.

    At ridge 0 the values are the limits from above (least squares if rank <= n, the minimum-norm
    interpolator otherwise): at n = rank the variance is infinite unless noise_variance is 0, and the bias
    is 0.

    Exact as n and d grow at a fixed ratio for x = S^(1/2) z with independent entries of z; at finite size
    the relative error is O(1/n). Sources: Dobriban & Wager (2018), Hastie, Montanari, Rosset & Tibshirani
    (2022), Cheng & Montanari (2022); for training error and GCV, Patil, Wei, Rinaldo & Tibshirani (2021).

    >>> found = ridge_equivalent(spectrum=[4, 1, 0.25], prior=0.01, n=[100, 400], ridge=0.1, noise_variance=0.2)
    >>> print(found.risk)
    [0.00499 0.00146]
    """
    return _equivalent(_diagonal(spectrum, prior, multiplicities), n, ridge, noise_variance)


def ridge_equivalent_matrices(
    covariance: ArrayLike,
    prior: ArrayLike,
    n: ArrayLike,
    ridge: ArrayLike,
    noise_variance: ArrayLike,
    *,
    metric: ArrayLike | None = None,
) -> RidgeEquivalent:
    """`ridge_equivalent` for a full covariance S, prior B = E b b^T and penalty ridge b.M^-1.b (`metric` M).

    With S = L L^T, M = F F^T and the singular value decomposition L^T F = P diag(sigma) V^T the problem is
    diagonal:

        l_i = sigma_i^2,      p_i l_i = (P^T L^T B L P)_ii.

    A singular M confines the estimator to the range of M. The variance of the target that this range cannot
    express, u = sum of (P^T L^T B L P)_ii over sigma_i = 0, then acts as label noise: bias becomes (bias +
    u) with the same amplification 1 / (1 - df2/n).

    Units of the coordinates do not matter: whether a matrix is singular is asked of its correlations, whose eigenvalues
    below d times rounding count as 0, like variances below (d rounding)^2 of the largest, and the singular values are
    found to relative accuracy (Jacobi). With a singular M, sigma_i below d times rounding of the largest count as 0.

    Exact in the limit of `ridge_equivalent`; with a singular metric x must be Gaussian, so that what is out
    of reach is independent of what is not. Source: as `ridge_equivalent`, in the coordinates F^T x of the
    estimator.

    >>> covariance, prior = [[2, 1], [1, 2]], [[0.5, 0], [0, 0.1]]
    >>> found = ridge_equivalent_matrices(covariance, prior, n=[50, 200], ridge=0.1, noise_variance=0.2)
    >>> print(found.risk)
    [0.0111 0.0053]
    """
    covariance_root = _root("covariance", covariance)
    d = len(covariance_root)
    prior_root = _root("prior", prior, d)
    metric_root = np.eye(d) if metric is None else _root("metric", metric, d)
    directions, sigma = _left_singular(covariance_root.T @ metric_root)
    signal = np.sum((directions.T @ (covariance_root.T @ prior_root)) ** 2, axis=1)
    rounding = d * np.finfo(np.float64).eps
    # a metric of full rank reaches whatever varies
    reached = sigma > (rounding * sigma.max(initial=0.0) if metric_root.shape[1] < d else 0.0)
    unexplained = float(signal[~reached].sum())
    if unexplained <= rounding * signal.sum():
        unexplained = 0.0
    reached_spectrum = Spectrum(sigma[reached] ** 2, np.ones(reached.sum()), signal[reached], unexplained)
    return _equivalent(reached_spectrum, n, ridge, noise_variance)


def ridge_curve_by_effective_ridge(
    spectrum: ArrayLike,
    prior: ArrayLike,
    n: ArrayLike,
    effective_ridge: ArrayLike,
    noise_variance: ArrayLike,
    *,
    multiplicities: ArrayLike | None = None,
) -> RidgeCurve:
    """A curve of `ridge_equivalent` in ridge, parametrised by the effective ridge kappa: no root finder.

        ridge(kappa) = kappa (1 - df1(kappa) / n)

    kappa must not be below its value at ridge 0, where df1 = n (0 if rank <= n). n, effective_ridge and
    noise_variance broadcast. At kappa = 0 and n = rank the variance is infinite unless noise_variance is 0. Exact in
    the same limit and from the same sources as `ridge_equivalent`.

    >>> curve = ridge_curve_by_effective_ridge(
    ...     spectrum=[4, 1, 0.25], prior=0.01, n=100, effective_ridge=[0.1, 1], noise_variance=0.2
    ... )
    >>> print(curve.ridge, curve.equivalent.risk)
    [0.0974 0.985 ] [0.005 0.00763]
    """
    diagonal = _diagonal(spectrum, prior, multiplicities)
    n = check_array("n", n, above=0)
    kappa = check_array("effective_ridge", effective_ridge, low=0, high=_LARGEST)
    noise_variance = check_array("noise_variance", noise_variance, low=0)
    shape = common_shape(n=n, effective_ridge=kappa, noise_variance=noise_variance)
    nodes = diagonal.nodes(2 * kappa.size)
    large, learned = nodes.learned(kappa)
    unused = ((n - large) - learned) / n
    if (unused < -1e-12).any():
        where = np.unravel_index(np.argmin(unused), unused.shape)
        n, kappa = np.broadcast_arrays(n, kappa)
        least = _equivalent(diagonal, n[where], 0.0, 0.0).effective_ridge
        raise InputError(
            f"effective_ridge must be >= {least:g}, its value at ridge 0, for n = {n[where]:g}; got {kappa[where]:g}"
        )
    unused = np.maximum(unused, 0.0)
    equivalent = _at_effective_ridge(diagonal, nodes, n, kappa, unused, noise_variance, shape)
    return RidgeCurve(np.broadcast_to(kappa * unused, shape).copy()[()], equivalent)


def _equivalent(spectrum: Spectrum, n: ArrayLike, ridge: ArrayLike, noise_variance: ArrayLike) -> RidgeEquivalent:
    n, ridge = check_array("n", n, above=0), check_array("ridge", ridge, low=0, high=_LARGEST)
    noise_variance = check_array("noise_variance", noise_variance, low=0)
    shape = common_shape(n=n, ridge=ridge, noise_variance=noise_variance)
    n, ridge = np.broadcast_arrays(n, ridge)
    nodes = spectrum.nodes(SOLVER_EVALUATIONS * n.size)
    kappa = np.zeros(n.shape)
    positive = (ridge > 0) | (n < spectrum.rank)
    if positive.any():
        kappa[positive] = effective_ridge(spectrum, nodes, n[positive], ridge[positive])
    unused = np.where(positive, ridge / np.where(positive, kappa, 1.0), (n - spectrum.rank) / n)
    return _at_effective_ridge(spectrum, nodes, n, kappa, unused, noise_variance, shape)


def _at_effective_ridge(
    spectrum: Spectrum,
    nodes: SpectralNodes,
    n: np.ndarray,
    kappa: np.ndarray,
    unused: np.ndarray,
    noise_variance: np.ndarray,
    shape: tuple[int, ...],
) -> RidgeEquivalent:
    """The formulas of `ridge_equivalent`; `unused` is 1 - df1/n = ridge/kappa."""

    df1, df2, mixed, missed_signal = nodes.summed(spectral_sums, kappa)
    # 1 - df2/n as a sum of positive terms
    remaining = unused + mixed / n
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        missed = missed_signal + spectrum.unexplained
        bias = np.where(missed > 0, missed / remaining, 0.0)
        variance = np.where(noise_variance > 0, noise_variance * (df2 / n) / remaining, 0.0)
        gcv = bias + variance + noise_variance
        training_error = np.where(unused > 0, unused * (unused * gcv), 0.0)
    fields = (kappa, bias + variance, bias, variance, training_error, df1, df2, gcv)
    return RidgeEquivalent(*(np.broadcast_to(field, shape).copy()[()] for field in fields))


def _diagonal(spectrum: ArrayLike, prior: ArrayLike, multiplicities: ArrayLike | None) -> Spectrum:
    eigenvalues = check_array("spectrum", spectrum, low=0, high=_LARGEST, ndim=1)
    copies = check_array("multiplicities", 1.0 if multiplicities is None else multiplicities, low=0)
    variances = check_array("prior", prior, low=0)
    copies, variances = check_like("spectrum", eigenvalues, multiplicities=copies, prior=variances)
    kept = (eigenvalues > 0) & (copies > 0)
    eigenvalues, copies, variances = eigenvalues[kept], copies[kept], variances[kept]
    with np.errstate(over="ignore"):
        trace, signal = copies @ eigenvalues, copies * eigenvalues * variances
        for total, formula in (
            (trace, "multiplicities * spectrum"),
            (signal.sum(), "multiplicities * spectrum * prior"),
        ):
            if not total <= _LARGEST_SUM:
                raise InputError(f"the sum of {formula} must be <= {_LARGEST_SUM:g}, got {total:g}")
    return Spectrum(eigenvalues, copies, signal, 0.0)


def _root(name: str, value: ArrayLike, d: int | None = None) -> np.ndarray:
    """R with R R^T the given positive semi-definite matrix and as many columns as its rank.

    R = D V diag(w)^(1/2) with the deviations D and the eigenpairs of the correlation matrix: units that differ by 15
    decades leave every digit. Where rounding has made correlations larger than 1 the matrix is decomposed as it is.
    """
    matrix = check_symmetric(name, value, d)
    d = len(matrix)
    rounding = d * np.finfo(np.float64).eps
    variances = np.diagonal(matrix)
    varying = variances > rounding**2 * np.abs(matrix).max()
    deviations = np.sqrt(np.where(varying, variances, 1.0))
    correlations = np.where(varying & varying[:, None], matrix, 0.0) / deviations / deviations[:, None]
    left_out = np.abs(np.where(varying & varying[:, None], 0.0, matrix)).max(initial=0.0)
    eigenvalues, vectors = np.linalg.eigh(correlations)
    if eigenvalues[0] < -1e3 * rounding * eigenvalues[-1] or left_out > rounding * np.abs(matrix).max():
        deviations = np.ones(d)
        eigenvalues, vectors = eigenpairs(name, matrix)
    kept = eigenvalues > rounding * eigenvalues[-1]
    return deviations[:, None] * vectors[:, kept] * np.sqrt(eigenvalues[kept])


def _left_singular(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All left singular vectors, and their singular values with zeros where there are fewer columns.

    Where they spread over more than 6 decades by one-sided Jacobi rotations, which take eight times as long and keep
    the digits of small values where rows or columns are graded.
    """
    from scipy.linalg.lapack import dgejsv

    rows, columns = matrix.shape
    left, values, _ = np.linalg.svd(matrix)
    if columns >= rows and values[-1] > _SPREAD * values[0]:
        return left, values
    size = max(rows, columns)
    square = np.zeros((size, size))
    square[:rows, :columns] = matrix
    values, left, _, work, _, info = dgejsv(square, joba=2, jobu=0, jobv=3, jobp=0)
    if info:
        raise np.linalg.LinAlgError(f"the singular values did not converge (dgejsv returned {info})")
    # rows of zeros have singular vectors of their own
    own = np.sort(np.argsort(np.sum(left[rows:] ** 2, axis=0), kind="stable")[:rows])
    return left[:rows, own], values[own] * (work[0] / work[1])


def eigenpairs(name: str, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, 0 where they are of the size of rounding errors, and eigenvectors of a semi-definite matrix."""
    eigenvalues, vectors = np.linalg.eigh(matrix)
    rounding = len(matrix) * np.finfo(np.float64).eps * np.abs(eigenvalues).max()
    if eigenvalues[0] < -1e3 * rounding:
        raise InputError(f"{name} must be positive semi-definite, got the eigenvalue {eigenvalues[0]:g}")
    return np.where(eigenvalues > rounding, eigenvalues, 0.0), vectors

"""Ridge regression with a kernel or with random features: the deterministic equivalent of risk and training error.

    kernel            f_hat(x) = k(x)^T (K + penalty I)^-1 y with the n x n matrix K as it is, not divided by n
    random features   f_hat(x) = a.phi(x), phi_j = sigma(<x, w_j>) / sqrt(p), a minimises |y - Phi a|^2 + penalty |a|^2

So `penalty` is scikit-learn's `alpha` of `KernelRidge` and `Ridge`, and n times the ridge of `theory.regression.ridge`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_like, common_shape
from unlazy.functions.elementwise import Link
from unlazy.functions.orthogonal import Gegenbauer
from unlazy.numerics.roots import increasing_root
from unlazy.numerics.spectral_sums import SOLVER_EVALUATIONS, SpectralNodes, Spectrum, effective_ridge, spectral_sums
from unlazy.theory.kernels.blocks import activation_blocks

_LARGEST = 1e300
_LARGEST_SUM = 1e306
# the five sums at the root cost as much as some more evaluations
_EVALUATIONS = SOLVER_EVALUATIONS + 8


class KernelEquivalent(NamedTuple):
    """Every field has the broadcast shape of n, penalty, noise_variance and width."""

    effective_ridge: np.ndarray
    """nu (nu_2 of the literature): mode i is learned to the part l_i / (l_i + nu)."""
    feature_ridge: np.ndarray
    """nu_1 = nu (1 - df1/p), the effective ridge of the sample for features that are given; nu if p = infinity."""
    risk: np.ndarray
    """Excess test error E (f - f_hat)^2 = bias + variance: label noise of new points excluded."""
    bias: np.ndarray
    """The risk without label noise."""
    variance: np.ndarray
    """The part of the risk that label noise causes."""
    training_error: np.ndarray
    """Mean squared residual on the training samples."""
    degrees_of_freedom: np.ndarray
    """df1 = sum_i l_i / (l_i + nu), the trace of the hat matrix."""
    variance_degrees_of_freedom: np.ndarray
    """df_v = df2 + X (df1 - df2); variance = noise_variance df_v / (n - df_v)."""


def kernel_regression_equivalent(
    spectrum: ArrayLike,
    energies: ArrayLike,
    n: ArrayLike,
    penalty: ArrayLike,
    noise_variance: ArrayLike,
    *,
    width: ArrayLike = math.inf,
    multiplicities: ArrayLike | None = None,
) -> KernelEquivalent:
    """Risk and training error of ridge regression with a kernel or with p random features, without drawing data.

    Entry i of the `spectrum` l_i of the kernel E_w sigma sigma (as operator on functions of x) stands for
    `multiplicities[i]` orthonormal modes, on all of which together the target has the energy V_i (`energies`).
    With p = `width` features (infinitely many for the kernel itself), r_i = l_i / (l_i + nu) and df_k = sum_i r_i^k,

        (n - df1) (1 - df1/p) nu = penalty,        df1 < min(n, p),
        X = (df1 - df2) / (p - df2),             1 - Y = 1 - df1/n + (1 - X) (df1 - df2)/n,
        bias = [sum_i V_i (1 - r_i)^2 + X sum_i V_i r_i (1 - r_i)] / (1 - Y),         variance = s2 Y / (1 - Y),
        training error = (1 - df1/n)^2 (bias + variance + s2).

    For p = infinity X = 0, and this is `unlazy.theory.ridge_equivalent` at ridge penalty/n. For n = infinity X = 1 and
    the risk is the approximation error sum_i V_i nu / (l_i + nu) with df1 = p. All of n, penalty, noise_variance
    and width broadcast; n and width are >= 1 and may be infinite. Modes with l_i = 0 are never learned and their
    energy acts as label noise.

    Penalty 0 stands for the limit from above: the minimum-norm interpolator if n < min(p, rank), least squares if p or
    the rank is smaller; at n = p < rank the risk is infinite. One formula holds in all regimes: on the sphere
    degree l is learned around n = N_l ~ d^l / l!, degrees above act as noise and as ridge, and n = p is a peak for
    every exponent of d.

    Exact to leading order for modes that are like independent Gaussians (dot-product kernels on the sphere and the
    hypercube for generic targets). Sources: Simon et al. (2023), Canatar et al. (2021) for kernels; Defilippis,
    Loureiro & Misiakiewicz (2024) for features.

    >>> found = kernel_regression_equivalent(
    ...     [0.03, 1e-3], [1, 0.3], 100, penalty=0.1, noise_variance=0.1, width=[50, 100, 900], multiplicities=[30, 464]
    ... )
    >>> print(found.risk)
    [1.089 0.914 0.4437]
    """
    modes = _spectrum(spectrum, energies, multiplicities)
    n = check_array("n", n, low=1, finite=False)
    ridge = check_array("penalty", penalty, low=0, high=_LARGEST)
    noise = check_array("noise_variance", noise_variance, low=0, high=_LARGEST_SUM)
    features = check_array("width", width, low=1, finite=False)
    shape = common_shape(n=n, penalty=ridge, noise_variance=noise, width=features)
    n, ridge, features = np.broadcast_arrays(n, ridge, features)
    found = _at_sizes(modes, n, ridge, features, noise)
    return KernelEquivalent(*(np.broadcast_to(field, shape).copy()[()] for field in found))


def feature_regression_equivalent(
    activation: str | Link | Callable[[Any], Any],
    energies: Sequence[float],
    n: ArrayLike,
    d: int,
    width: ArrayLike,
    penalty: ArrayLike,
    noise_variance: ArrayLike,
) -> KernelEquivalent:
    """The same for features sigma(sqrt(d) <x, w>) / sqrt(p), x and w on the unit sphere, and energies by degree.

    At penalty 0 and n = width, where it is not the rank that is smaller, the risk is infinite.

    >>> found = feature_regression_equivalent(
    ...     "relu", energies=[0, 1, 0.5], n=400, d=30, width=[100, 400, 3200], penalty=0.01, noise_variance=0.1
    ... )
    >>> print(found.risk)
    [0.7452 0.5886 0.283]
    """
    blocks = activation_blocks(activation, Gegenbauer(d))
    given, copies = blocks.energies(energies), blocks.multiplicities
    return kernel_regression_equivalent(
        blocks.spectrum, given, n, penalty, noise_variance, width=width, multiplicities=copies
    )


def _at_sizes(
    spectrum: Spectrum, n: np.ndarray, ridge: np.ndarray, p: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, ...]:
    fewer = np.minimum(n, p)
    # df1 = min(n, p): no ridge is left where there is none, or infinitely many samples
    without_ridge = ridge / n == 0
    spanned = without_ridge & (spectrum.rank <= fewer)
    nodes = spectrum.nodes(_EVALUATIONS * n.size)
    nu = _effective_ridge(spectrum, nodes, n, ridge, p, fewer, ~spanned)

    df1, df2, mixed, missed, mixed_signal = nodes.summed(_sums, nu)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        unused, free = _unused_parts(n, p, np.where(without_ridge, 0.0, ridge / np.where(nu > 0, nu, 1.0)))
        unused = np.where(spanned, 1 - spectrum.rank / n, unused)
        free = np.where(spanned, 1 - spectrum.rank / p, free)
        approximation = np.where(mixed > 0, mixed / p / (free + mixed / p), 0.0)
        # 1 - Y; 1 - X is written out because it is tiny at the peak n = p
        remaining = unused + np.where(mixed > 0, free / (free + mixed / p), 1.0) * mixed / n
        variance_df = df2 + approximation * mixed
        bias = missed + spectrum.unexplained + approximation * mixed_signal
        bias = np.where(bias > 0, bias / remaining, 0.0)
        variance = np.where((noise > 0) & (variance_df > 0), noise * (variance_df / n) / remaining, 0.0)
        risk = bias + variance
        training_error = np.where(unused > 0, unused * (unused * (risk + noise)), 0.0)
    return nu, nu * free, risk, bias, variance, training_error, df1, variance_df


def _effective_ridge(
    spectrum: Spectrum,
    nodes: SpectralNodes,
    n: np.ndarray,
    ridge: np.ndarray,
    p: np.ndarray,
    fewer: np.ndarray,
    positive: np.ndarray,
) -> np.ndarray:
    """nu; one of n and p alone decides unless both are finite and there is a ridge."""
    nu = np.zeros(n.shape)
    two_level = positive & (ridge / n > 0) & (p < math.inf)
    one_level = positive & ~two_level
    if one_level.any():
        per_sample = np.where(p < math.inf, 0.0, ridge / n)
        nu[one_level] = effective_ridge(spectrum, nodes, fewer[one_level], per_sample[one_level])
    if not two_level.any():
        return nu

    def excess(nu: np.ndarray, n: np.ndarray, ridge: np.ndarray, p: np.ndarray) -> np.ndarray:
        large, learned = nodes.learned(nu)
        samples, share = (n - large) - learned, ((p - large) - learned) / p
        # beyond df1 = min(n, p) both factors may be negative; the smaller one goes on increasing with nu
        product = np.where((samples > 0) & (share > 0), samples * share, np.minimum(samples, share))
        return product - ridge / nu

    n, ridge, p, fewer = (a[two_level] for a in (n, ridge, p, fewer))
    smallest = spectrum.eigenvalues.min(initial=math.inf) if spectrum.rank else 0.0
    low = np.maximum(ridge / n, smallest * np.maximum(spectrum.rank / fewer - 1, 0.0))
    high = np.maximum(2 * (spectrum.eigenvalues @ spectrum.multiplicities) / fewer, 4 * (ridge / n))
    nu[two_level] = increasing_root(excess, low * (1 - 1e-9), high * (1 + 1e-9), n, ridge, p)
    return nu


def _unused_parts(n: np.ndarray, p: np.ndarray, product: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 - df1/n and 1 - df1/p from (n - df1) (1 - df1/p) = product, both without cancellation.

    The smaller one, y, solves y (gap + y min(n, p) / max(n, p)) = product / n, where gap is its distance to the other
    on that scale.
    """
    fewer, more = np.minimum(n, p), np.maximum(n, p)
    ratio = np.where(more < math.inf, fewer / more, 0.0)
    gap = np.where(more < math.inf, (more - fewer) / more, 1.0)
    scaled = product / n
    smaller = np.where(scaled > 0, 2 * scaled / (gap + np.sqrt(gap**2 + 4 * scaled * ratio)), 0.0)
    larger = gap + smaller * ratio
    return np.where(n <= p, smaller, larger), np.where(n <= p, larger, smaller)


def _sums(nodes: SpectralNodes, nu: np.ndarray) -> tuple[np.ndarray, ...]:
    """`spectral_sums` and the energy times r (1 - r)."""
    total = nodes.values + nu
    return *spectral_sums(nodes, nu), (nodes.values / total * (nu / total)) @ nodes.signal


def _spectrum(spectrum: ArrayLike, energies: ArrayLike, multiplicities: ArrayLike | None) -> Spectrum:
    values = check_array("spectrum", spectrum, low=0, high=_LARGEST, ndim=1)
    copies = check_array("multiplicities", 1.0 if multiplicities is None else multiplicities, above=0)
    signal = check_array("energies", energies, low=0)
    copies, signal = check_like("spectrum", values, multiplicities=copies, energies=signal)
    with np.errstate(over="ignore"):
        for total, formula in ((copies @ values, "multiplicities * spectrum"), (signal.sum(), "energies")):
            if not total <= _LARGEST_SUM:
                raise InputError(f"the sum of {formula} must be <= {_LARGEST_SUM:g}, got {total:g}")
    kept = values > 0
    return Spectrum(values[kept], copies[kept], signal[kept], float(signal[~kept].sum()))

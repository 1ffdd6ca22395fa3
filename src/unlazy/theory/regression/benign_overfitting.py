"""Benign overfitting: the bounds of Tsigler & Bartlett, and the three regimes of interpolation.

Data and estimator are those of `ridge`; d = n^gamma directions with eigenvalues j^-a give the regimes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_like, common_shape

_LARGEST = 1e300
_SMALLEST_RATIO = 1e-150
_TIE = 1e-12
_MOST_NOISE = 1e100
"""More noise than this times the signal changes no choice of k, and would leave the range of floats."""


class TsiglerBartlett(NamedTuple):
    """Orders of magnitude; every field has the broadcast shape of n, ridge, noise_variance and learned_directions."""

    learned_directions: np.ndarray
    """The number of leading directions that are learned; the others act as a ridge."""
    bias: np.ndarray
    variance: np.ndarray
    risk: np.ndarray
    """bias + variance."""


class _Spectrum(NamedTuple):
    """Entries in descending order; sums over the entries before i (`head`) and from i on (`tail`)."""

    values: np.ndarray
    copies: np.ndarray
    prior: np.ndarray
    before: np.ndarray
    head: np.ndarray
    """sum p/l."""
    tail: np.ndarray
    """sum l."""
    tail_squares: np.ndarray
    """sum l^2."""
    tail_signal: np.ndarray
    """sum p l."""

    @property
    def entries(self) -> int:
        return self.before.size - 1


def tsigler_bartlett(
    spectrum: ArrayLike,
    prior: ArrayLike,
    n: ArrayLike,
    ridge: ArrayLike,
    noise_variance: ArrayLike,
    *,
    learned_directions: ArrayLike | str | None = None,
    multiplicities: ArrayLike | None = None,
) -> TsiglerBartlett:
    """The order of magnitude of bias and variance of ridge regression, from which one reads off rates.

    With eigenvalues l_1 >= l_2 >= ... (`spectrum`, sorted here together with its prior), prior variances p_j,
    noise variance s2 and t1 = n ridge + sum_{j>k} l_j,

        B(k) = sum_{j<=k} p_j t1^2 / (n^2 l_j) + sum_{j>k} p_j l_j,
        V(k) = s2 [k/n + n sum_{j>k} l_j^2 / t1^2].

    learned_directions = None takes the smallest k with t1(k) >= n l_{k+1} (l_{d+1} = 0; ties hold up to rounding),
    which is optimal up to a constant. The upper bound holds, up to constants, for every k <= n with that property;
    "best" takes the one of them with the least B + V, and falls back to the rule where there is none. A given k, 0 <= k
    <= d, broadcasts with n, ridge and noise_variance. 0/0 counts as 0 (k = d without ridge); B is infinite if k counts
    a direction with l_j = 0, p_j > 0 under a ridge > 0.

    Entry i of `spectrum` stands for `multiplicities[i]` directions. Eigenvalues are 0 or >= 1e-150 of the largest.

    An order statement: for x = S^(1/2) z with independent sub-Gaussian entries of z and k below a fraction of n the
    risk lies between constant multiples of B + V. Not at ridge 0 with n near the rank, where the risk diverges and
    B + V does not. Sources: Tsigler & Bartlett (2023); for V at ridge 0 Bartlett, Long, Lugosi & Tsigler (2020).

    >>> spectrum, multiplicities = [4, 1, 0.01], [1, 5, 500]
    >>> found = tsigler_bartlett(spectrum, 0.1, n=50, ridge=0, noise_variance=0.2, multiplicities=multiplicities)
    >>> print(found.learned_directions, f"{found.bias:.3f} {found.variance:.3f}")
    6 0.505 0.044
    """
    eigenvalues, prior_values, copies = _entries(spectrum, prior, multiplicities)
    n, ridge = check_array("n", n, above=0), check_array("ridge", ridge, low=0, high=_LARGEST)
    arrays = {"n": n, "ridge": ridge, "noise_variance": check_array("noise_variance", noise_variance, low=0)}
    best = isinstance(learned_directions, str)
    if best and learned_directions != "best":
        raise InputError(f"learned_directions must be None, 'best' or whole numbers, got {learned_directions!r}")
    if not best and learned_directions is not None:
        arrays["learned_directions"] = _given_number(learned_directions, copies.sum())
    common_shape(**arrays)
    n, ridge, noise, *given = np.broadcast_arrays(*arrays.values())

    # B and V depend on the units of l and p only through p l
    unit, prior_unit = (float(a.max(initial=0.0)) or 1.0 for a in (eigenvalues, prior_values))
    entries = _sorted(eigenvalues / unit, prior_values / prior_unit, copies)
    signal = unit * prior_unit
    if not np.isfinite(signal):
        raise InputError(f"spectrum times prior must be finite, got the maxima {unit:g} and {prior_unit:g}")
    with np.errstate(over="ignore"):
        level = np.minimum(ridge / unit, _LARGEST)
        relative_noise = np.minimum(noise / max(signal, 1 / _LARGEST), _MOST_NOISE)
        if given:
            number = given[0]
        elif best:
            number = np.empty(n.shape)
            for at in np.ndindex(n.shape):
                number[at] = _best_k(entries, float(n[at]), float(level[at]), float(relative_noise[at]))
        else:
            number = _rule(entries, n, level)
        bias, variance = _orders(entries, number, n, level)
        bias, variance = bias * signal, np.where(noise > 0, variance * noise, 0.0)
    return TsiglerBartlett(number.astype(np.int64)[()], bias[()], variance[()], (bias + variance)[()])


def overfitting_regime(spectrum_exponent: ArrayLike, dimension_exponent: ArrayLike) -> str | np.ndarray:
    """What becomes of the minimum-norm interpolator as n grows, for eigenvalues j^-a in d = n^gamma directions.

        'kernel'   a > 1: the variance tends to noise_variance (a - 1) ("tempered"); only a ridge makes it vanish,
        'benign'   a <= 1, gamma < 1 / (1 - a): the risk tends to 0 without a ridge,
        'harmful'  a < 1, gamma >= 1 / (1 - a): the tail sum_j l_j >~ n l_1 acts as a ridge, and risk remains.

    a = 1 is benign at every gamma, but only just: k ~ n / ((gamma - 1) log n), so that the variance vanishes like
    1 / ((gamma - 1) log n), while at the best ridge the risk falls like a power of n. At gamma = 1 / (1 - a), a > 0,
    the effective ridge tends to 1 / (1 - a), a multiple of l_1, and the risk to a constant between 0 and that of
    predicting 0; for greater gamma, to that of predicting 0.

    For gamma > 1 (else there is nothing to overfit with), a >= 0, and a signal p_j l_j with a finite sum that does not
    change with n. The arguments broadcast; scalars give a string. Sources: Bartlett, Long, Lugosi & Tsigler (2020),
    theorem 2; Mallinar et al. (2022) for a > 1.

    >>> print(overfitting_regime(spectrum_exponent=[2, 0.5, 0.5], dimension_exponent=[2, 1.5, 3]))
    ['kernel' 'benign' 'harmful']
    """
    a = check_array("spectrum_exponent", spectrum_exponent, low=0)
    gamma = check_array("dimension_exponent", dimension_exponent, above=1)
    common_shape(spectrum_exponent=a, dimension_exponent=gamma)
    a, gamma = np.broadcast_arrays(a, gamma)
    # gamma (1 - a) >= 1 up to the rounding of the decimals in which exponents are given
    harmful = gamma * (1 - a) >= 1 - 4 * np.finfo(np.float64).eps * gamma
    return _labels(np.where(a > 1, "kernel", np.where(harmful, "harmful", "benign")))


def classify_regime(
    n: ArrayLike, ridgeless_risk: ArrayLike, best_risk: ArrayLike, zero_risk: ArrayLike
) -> str | np.ndarray:
    """The regime that risks measured or predicted at several n show, by the slopes of log risk in log n.

        'benign'   the ridgeless slope is below -0.15,
        'kernel'   the ridgeless slope lies in (-0.1, 0.1), and that at the best ridge is below -0.5,
        'harmful'  the ridgeless slope is above -0.02, and at the largest n even the best ridge has more than 0.8 of
                   the risk of predicting 0,
        'undecided'  anything else,

    in this order, with slopes by least squares. The sizes lie along the last axis (at least 3, all different); the
    risks broadcast with them, and zero_risk may be one number. The thresholds are conventions for n over a decade
    or more. Compare `overfitting_regime`, the limit.

    >>> ridgeless, best = [0.3, 0.2, 0.13], [0.3, 0.19, 0.12]
    >>> print(classify_regime(n=[50, 100, 200], ridgeless_risk=ridgeless, best_risk=best, zero_risk=1))
    benign
    """
    sizes = check_array("n", n, above=0, ndim=1)
    if sizes.size < 3 or np.unique(sizes).size < sizes.size:
        raise InputError(f"n must have at least 3 sizes, all different, got {sizes.tolist()}")
    ridgeless, best, zero = (
        check_array(name, risk, above=0)
        for name, risk in (("ridgeless_risk", ridgeless_risk), ("best_risk", best_risk), ("zero_risk", zero_risk))
    )
    for name, risk in (("ridgeless_risk", ridgeless), ("best_risk", best)):
        if risk.ndim == 0 or risk.shape[-1] != sizes.size:
            raise InputError(f"{name} must have {sizes.size} values along its last axis like n, got shape {risk.shape}")
    if zero.ndim and zero.shape[-1] not in (1, sizes.size):
        raise InputError(f"zero_risk must be a number or have {sizes.size} values like n, got shape {zero.shape}")
    shape = common_shape(n=sizes, ridgeless_risk=ridgeless, best_risk=best, zero_risk=zero)
    ridgeless, best, zero = (np.broadcast_to(risk, shape) for risk in (ridgeless, best, zero))
    centred = np.log(sizes) - np.log(sizes).mean()
    slope, best_slope = (np.log(risk) @ centred / (centred @ centred) for risk in (ridgeless, best))
    largest = np.argmax(sizes)
    useless = best[..., largest] > 0.8 * zero[..., largest]
    labels = np.where((slope > -0.02) & useless, "harmful", "undecided")
    labels = np.where((np.abs(slope) < 0.1) & (best_slope < -0.5), "kernel", labels)
    return _labels(np.where(slope < -0.15, "benign", labels))


def _orders(spectrum: _Spectrum, k: np.ndarray, n: np.ndarray, ridge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """B(k) and V(k) at noise variance 1; k may lie between the copies of one entry."""
    i = np.searchsorted(spectrum.before, k, side="right") - 1
    inside = k - spectrum.before[i]
    left, value, prior = spectrum.copies[i] - inside, spectrum.values[i], spectrum.prior[i]
    share = np.divide(prior, value, out=np.zeros(prior.shape), where=(prior > 0) & (inside > 0))
    head = spectrum.head[i] + inside * share
    shrinkage = ridge + (spectrum.tail[i + 1] + left * value) / n
    squares = spectrum.tail_squares[i + 1] + left * value**2
    signal = spectrum.tail_signal[i + 1] + left * prior * value
    # head times shrinkage first: neither square may leave the range of floats
    learned = np.where((head > 0) & (shrinkage > 0), head, 0.0) * shrinkage * shrinkage
    ratio = np.divide(squares, shrinkage, out=np.zeros(squares.shape), where=squares > 0)
    ratio = np.divide(ratio, shrinkage, out=ratio, where=squares > 0)
    return learned + signal, (k + ratio) / n


def _rule(spectrum: _Spectrum, n: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """The smallest k with t1(k) >= n l_{k+1}: never between equal eigenvalues, where t1 falls and l does not.

    The condition is n <= sum_{j>k} l_j / (l_{k+1} - ridge), whose running maximum serves all n of a ridge at once.
    """
    number = np.empty(n.shape)
    distinct, which = np.unique(ridge, return_inverse=True)
    which = which.reshape(ridge.shape)
    for position, level in enumerate(distinct):
        excess = spectrum.values[:-1] * (1 - _TIE) - level
        most = np.divide(spectrum.tail[:-2], excess, out=np.full(excess.shape, np.inf), where=excess > 0)
        highest = np.append(np.maximum.accumulate(most), np.inf)
        at = which == position
        number[at] = spectrum.before[np.searchsorted(highest, n[at], side="left")]
    return number


def _best_k(spectrum: _Spectrum, n: float, ridge: float, noise: float) -> float:
    """The k <= n with t1(k) >= n l_{k+1} and the least B + V: ends of entries, and stationary points inside them."""
    values, copies, start = spectrum.values[:-1], spectrum.copies[:-1], spectrum.before[:-1]
    # with c copies learned, t1 >= n l holds down to this number of copies left
    excess = n * (values * (1 - _TIE) - ridge) - spectrum.tail[1:-1]
    least_left = np.ceil(np.divide(excess, values, out=np.ones(values.shape), where=values > 0))
    last = np.minimum(copies - np.maximum(least_left, 1), np.floor(n) - start)
    last = np.where(values > 0, last, np.minimum(np.floor(n) - start, 0))
    allowed = np.flatnonzero(last >= 0)
    inner = np.flatnonzero(last > 0)
    candidates = [start[allowed], start[inner] + last[inner]]
    if inner.size:
        stationary = np.clip(_stationary_copies(spectrum, inner, n, ridge, noise), 0, last[inner, None])
        candidates += [(start[inner, None] + whole(stationary)).ravel() for whole in (np.floor, np.ceil)]
    if spectrum.before[-1] <= n:
        candidates.append(spectrum.before[-1:])
    numbers = np.unique(np.concatenate(candidates))
    if numbers.size == 0:
        return float(_rule(spectrum, np.array(n), np.array(ridge)))
    bias, variance = _orders(spectrum, numbers, np.asarray(n), np.asarray(ridge))
    return float(numbers[np.argmin(bias + noise * variance)])


def _stationary_copies(spectrum: _Spectrum, i: np.ndarray, n: float, ridge: float, noise: float) -> np.ndarray:
    """Where B + V may be stationary in the number c of copies of entry i that are learned, shape (entries, 5).

    In T = t1/n = (D + (m - c) l)/n, with D = n ridge + the tail after the entry, Q the squares of that tail and H the
    head before the entry, B + V is a cubic plus terms in 1/T and 1/T^2; the derivative times T^3 is, T in units of l,

        -3 p n l T^5 + 2 (H l^2 + p (m l + D)) T^4 + (p n l - s2) T^3 - s2 T - 2 s2 (Q/l^2 - D/l)/n.
    """
    value, copies, prior, head = spectrum.values[i], spectrum.copies[i], spectrum.prior[i], spectrum.head[i]
    rest = n * ridge + spectrum.tail[i + 1]
    # T is measured in its largest value, so that roots of interest lie in (0, 1]
    unit = np.clip((rest / value + copies) / n, 1e-50, 1e50)
    coefficients = np.stack(
        [
            -3 * prior * n * value * unit**5,
            2 * (head * value**2 + prior * (copies * value + rest)) * unit**4,
            (prior * n * value - noise) * unit**3,
            np.zeros(i.size),
            -noise * unit,
            -2 * noise * (spectrum.tail_squares[i + 1] / value**2 - rest / value) / n,
        ]
    )
    largest = np.abs(coefficients).max(axis=0)
    coefficients = coefficients / np.where(largest > 0, largest, 1.0)
    # a vanishing leading coefficient only sends one root to infinity
    coefficients[0] = np.minimum(coefficients[0], -1e-15)
    companion = np.zeros((i.size, 5, 5))
    companion[:, 0, :] = (-coefficients[1:] / coefficients[0]).T
    companion[:, np.arange(1, 5), np.arange(4)] = 1.0
    roots = np.linalg.eigvals(companion).real * unit[:, None]
    return (copies + rest / value)[:, None] - n * roots


def _sorted(values: np.ndarray, prior: np.ndarray, copies: np.ndarray) -> _Spectrum:
    order = np.argsort(-values, kind="stable")
    values, prior, copies = (np.append(array[order], 0.0) for array in (values, prior, copies))
    share = np.divide(prior, values, out=np.where(prior > 0, np.inf, 0.0), where=values > 0)

    def tail(terms: np.ndarray) -> np.ndarray:
        return np.append(np.cumsum(terms[::-1])[::-1], 0.0)

    return _Spectrum(
        values,
        copies,
        prior,
        np.append(0.0, np.cumsum(copies[:-1])),
        np.append(0.0, np.cumsum(copies[:-1] * share[:-1])),
        tail(copies * values),
        tail(copies * values**2),
        tail(copies * prior * values),
    )


def _entries(
    spectrum: ArrayLike, prior: ArrayLike, multiplicities: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values = check_array("spectrum", spectrum, low=0, high=_LARGEST, ndim=1)
    variances = check_array("prior", prior, low=0, high=_LARGEST)
    copies = check_array("multiplicities", 1.0 if multiplicities is None else multiplicities, low=0, whole=True)
    copies, variances = check_like("spectrum", values, multiplicities=copies, prior=variances)
    small = (values > 0) & (values < _SMALLEST_RATIO * values.max())
    if small.any():
        raise InputError(
            f"spectrum must be 0 or at least {_SMALLEST_RATIO:g} times its largest value {values.max():g}, "
            f"got {values[small][0]:g}"
        )
    kept = copies > 0
    return values[kept], variances[kept], copies[kept]


def _given_number(learned_directions: ArrayLike, d: float) -> np.ndarray:
    number = check_array("learned_directions", learned_directions, low=0, whole=True)
    if (number > d).any():
        raise InputError(f"learned_directions must be <= d = {d:.0f}, got {number[number > d].flat[0]:g}")
    return number


def _labels(labels: np.ndarray) -> str | np.ndarray:
    return str(labels) if labels.ndim == 0 else labels

"""Exponents of index models: how much of the direction a label shows, and how many samples that takes.

y = link(x . theta) + noise with x ~ N(0, I_d) and |theta| = 1; z = x . theta is standard normal, and h_k = He_k /
sqrt(k!) are the orthonormal Hermite polynomials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice, check_whole
from unlazy.functions.elementwise import Elementwise, Link
from unlazy.theory.index_models.exponents.conditional import squares
from unlazy.theory.index_models.exponents.expansion import LARGEST_POWER_DEGREE, cuts_of, expansion, power_of_polynomial
from unlazy.theory.index_models.exponents.noisy import noisy_squares
from unlazy.theory.index_models.exponents.pieces import Function, as_function, find_pieces, reach
from unlazy.theory.index_models.exponents.transforms import clean_transform, noisy_transform

_VANISHING = 1e-8
_VANISHING_SQUARE = 1e-6
_ROUNDING = 1e-10
_TINY_SHARE = 0.05
_LARGEST_DEGREE = 60
_LARGEST_VARIANCE = 1e300

LinkLike = str | Link | Elementwise


class InformationExponent(NamedTuple):
    """The Hermite coefficients of a link and the first that is not 0."""

    exponent: int
    """IE = min{k >= 1 : a_k != 0}."""
    hermite_coefficients: np.ndarray
    """a_k = E[link(z) h_k(z)] for k = 0, ..., largest_degree."""
    relative_coefficients: np.ndarray
    """a_k over the standard deviation of the link."""
    remark: str
    """Empty, or what to know about a first coefficient that is not 0 but tiny."""


class GenerativeExponent(NamedTuple):
    """What the best label transforms see of the direction."""

    exponent: int
    """GE = min{k >= 1 : lambda_k^2 > 0}, which additive Gaussian noise does not change."""
    squared_correlations: np.ndarray
    """lambda_k^2 for k = 0, ..., largest_degree, at the given noise."""
    quadrature_error: float
    """By how much they still changed with the last refinement."""


class MonomialExponents(NamedTuple):
    """Information exponents of powers of a link; every field has one row per power."""

    label_powers: np.ndarray
    exponents: np.ndarray
    """IE(link^i); 0 for a power that is constant."""
    relative_coefficients: np.ndarray
    """E[link^i h_k] over the standard deviation of link^i, k = 0, ..., largest_degree; 0 where a power is constant."""


class SampleComplexity(NamedTuple):
    """How many samples an algorithm needs, up to constants: tasks d^samples_exponent times logarithms."""

    method: str
    samples_exponent: float
    """Of the dimension; infinity (inf) where no power of d suffices."""
    logarithms: str
    formula: str
    n: float | None
    """tasks d^samples_exponent, without constants and logarithms; None if no dimension was given."""


def information_exponent(link: LinkLike, *, largest_degree: int = 20) -> InformationExponent:
    """The first Hermite coefficient of a link that is not 0: what gradients see of a direction at overlap m is
    m^(IE-1).

        a_k = E[link(z) h_k(z)],       IE = min{k >= 1 : |a_k| > 1e-8 (Var link)^(1/2)}

    `link` is a name of `LINKS`, a `Link` or a callable that is square integrable and smooth between its breakpoints
    (`Link.breakpoints`); jumps, extrema and ends of flat pieces are found without being named. A polynomial's
    coefficients are its own, without quadrature. A constant link, or one whose first coefficient is beyond
    `largest_degree`, which is at most 60, is refused. Ben Arous, Gheissari & Jagannath 2021.

    >>> found = information_exponent("He3", largest_degree=4)
    >>> print(found.exponent, found.hermite_coefficients)
    3 [0. 0. 0. 1. 0.]
    """
    degree = _checked_degree(largest_degree)
    function = as_function(link)
    values, size, variance = expansion(function, degree)
    relative = _relative(values, variance)
    exponent = _first(np.abs(relative), _VANISHING, degree, "information exponent", "E[link h_k]")
    return InformationExponent(exponent, size * values, relative, _remark(exponent, np.abs(relative)))


def generative_exponent(link: LinkLike, noise_variance: float = 0.0, *, largest_degree: int = 8) -> GenerativeExponent:
    """The first h_k(z) of which the label says anything at all, through any transform of it.

        zeta_k(y) = E[h_k(z) | y],     lambda_k^2 = E[zeta_k(y)^2] = max_T corr(T(y), h_k(z))^2 <= 1,
        GE = min{k >= 1 : lambda_k^2 > 1e-6 without noise}

    y = link(z) + N(0, noise_variance). Without noise zeta_k averages h_k over the preimages of y with weights
    phi/|link'|, and a flat piece of the link is a value of positive probability; with noise everything is integrated on
    grids. Noise lowers lambda_k^2 but keeps the exponent: a density that a Gaussian convolves to 0 is 0. Damian et al.
    2024.

    >>> found = generative_exponent("He3", noise_variance=0.01, largest_degree=2)
    >>> print(found.exponent, found.squared_correlations.round(3))
    1 [1.    0.6   0.589]
    """
    degree = _checked_degree(largest_degree)
    function, deviation = as_function(link), noise_deviation(noise_variance)
    pieces = find_pieces(function, reach(degree))
    if not pieces.monotone and len(pieces.flat) == 1:
        raise InputError("link must not be constant: it has no exponent")
    clean, error = squares(pieces, degree)
    exponent = _first(clean, _VANISHING_SQUARE, degree, "generative exponent", "lambda_k^2")
    if deviation == 0:
        return GenerativeExponent(exponent, np.minimum(clean, 1.0), error)
    noisy = noisy_squares(pieces, cuts_of(pieces), deviation, degree)
    return GenerativeExponent(exponent, np.minimum(noisy.squares, 1.0), noisy.change)


def label_transform(
    link: LinkLike, noise_variance: float = 0.0, *, hermite_degree: int = 1
) -> Callable[[ArrayLike], np.ndarray]:
    """The label transform that is most correlated with h_k(z), as a function of arrays of labels.

        zeta_k(y) = E[h_k(z) | y],     y = link(z) + N(0, noise_variance)

    for k = `hermite_degree`. zeta_1 is the best transform of linear estimators, and E[z^2 | y] = 1 + sqrt(2) zeta_2
    gives the best spectral one, 1 - 1/E[z^2 | y]. A label outside the values of the link (with noise: farther than 7.5
    deviations of it) is taken to the nearest.

    >>> transform = label_transform("abs", noise_variance=0.01, hermite_degree=2)
    >>> print(transform([0.5, 1.0, 2.0]).round(3))
    [-0.527 -0.007  2.073]
    """
    order = check_whole("hermite_degree", hermite_degree, 0, _LARGEST_DEGREE)
    function, deviation = as_function(link), noise_deviation(noise_variance)
    pieces = find_pieces(function, reach(order))
    if deviation == 0:
        return lambda y: clean_transform(pieces, check_array("y", y), order)
    channel = noisy_squares(pieces, cuts_of(pieces), deviation, order).channel
    return noisy_transform(pieces, channel, order)


def monomial_exponents(
    link: LinkLike, label_powers: Sequence[int] = (1, 2, 3, 4), *, largest_degree: int = 8
) -> MonomialExponents:
    """The information exponents of powers of a link, which polynomial transforms of the label have.

        IE(link^i) = min{k >= 1 : E[link(z)^i h_k(z)] != 0}

    Gauss-Hermite quadrature that is exact for polynomials, whose coefficients are 0 if they are below 1e-10 E|link^i
    h_k|; other links as in `information_exponent`. Some power of a polynomial has exponent 2 if it is even and 1 if not
    (Lee et al. 2024, proposition on monomial transforms).

    >>> print(monomial_exponents("He5", label_powers=[1, 2, 3, 4]).exponents)
    [5 2 1 2]
    """
    degree = _checked_degree(largest_degree)
    asked = check_array("label_powers", label_powers, low=1, high=LARGEST_POWER_DEGREE, whole=True)
    orders = np.atleast_1d(asked).ravel().astype(int).tolist()
    function = as_function(link)
    rows, found = [], []
    for i in orders:
        if function.hermite is not None:
            values, variance, sizes = power_of_polynomial(function, i, degree)
            found.append(np.abs(values) > _ROUNDING * sizes)
        else:
            values, _, variance = expansion(function._replace(value=partial(_power, function, i)), degree)
            found.append(np.abs(values) > _VANISHING * math.sqrt(variance))
        rows.append(values / math.sqrt(variance) if variance > 0 else np.zeros(degree + 1))
    relative = np.array(rows)
    seen = np.array(found)[:, 1:] & (np.abs(relative).max(axis=1, keepdims=True) > 0)
    missing = ~seen.any(axis=1) & (np.abs(relative).max(axis=1) > 0)
    if missing.any():
        raise InputError(
            f"largest_degree must be at least the exponent of every power, got {degree}: E[link^i h_k] vanishes up to "
            f"it for i = {orders[int(np.argmax(missing))]}"
        )
    exponents = np.where(seen.any(axis=1), seen.argmax(axis=1) + 1, 0)
    return MonomialExponents(np.array(orders), exponents, relative)


_METHODS = {
    "information": "any algorithm, whatever it computes",
    "kernel": "rotation-invariant kernels",
    "online-sgd": "online SGD on the squared or correlation loss",
    "smoothed-sgd": "SGD on a smoothed loss, and the lower bound for correlational queries",
    "batch-reuse": "SGD that uses each sample twice",
    "spectral": "partial-trace spectral estimators, and the lower bound for statistical queries",
}


def sample_complexity(
    link: LinkLike, method: str, d: float | None = None, *, tasks: int = 1, largest_degree: int = 12
) -> SampleComplexity:
    """How many samples a method needs to find the direction of an index model, as a power of the dimension.

        information    d                                 kernel          d^p,             p the link's degree
        online-sgd     d, d log d, d^(k-1)               smoothed-sgd    d^max(1, k/2),   k = IE
        batch-reuse    d, d log d, d^(k*-1)              spectral        d^max(1, k*/2),  k* = GE

    where the three rates are those of exponents 1, 2 and >= 3. With M = `tasks` > 1 added links of orthogonal
    directions, M <= d, each with IE >= 3, information, online-sgd and smoothed-sgd need M times as many and kernels as
    many; the other two rows are not known there. Constants are not predicted. The lower bound (M d)^rho of Oko et al.
    for statistical queries has no row: it says that for every rho there is some superorthogonal link that needs so
    many, of a degree that it does not bound, and gives no rho to a given link. Ben Arous et al. 2021; Damian et al.
    2023, 2024; Lee et al. 2024; Oko et al. 2024; Ghorbani et al. 2021.

    >>> once = sample_complexity("He3", method="online-sgd", d=100, tasks=1)
    >>> print(once.formula, once.n, sample_complexity("He3", method="batch-reuse", d=100).n)
    d^2 10000.0 100.0
    """
    check_choice("method", method, _METHODS)
    degree = _checked_degree(largest_degree)
    size = None if d is None else float(check_array("d", d, low=1, ndim=0))
    count = check_whole("tasks", tasks, 1, 10**12)
    if size is not None and count > size:
        raise InputError(f"tasks must be at most d = {size:g}, which has no more orthogonal directions, got {count}")
    function = as_function(link)
    logarithms = ""
    if count > 1 and method in ("batch-reuse", "spectral"):
        raise InputError(f"tasks must be 1 for method {method}, whose rate for sums of links is not known, got {count}")
    if method == "information":
        exponent, formula = 1.0, "d"
    elif method == "kernel":
        exponent, formula = _kernel_exponent(function)
    elif method in ("online-sgd", "smoothed-sgd"):
        k = information_exponent(link, largest_degree=degree).exponent
        if count > 1 and k < 3:
            raise InputError(f"tasks must be 1 for a link of information exponent {k} < 3, got {count}")
        exponent, formula, logarithms = _sgd_rate(k) if method == "online-sgd" else _half_rate(k)
    else:
        k = generative_exponent(link, largest_degree=degree).exponent
        exponent, formula, logarithms = _sgd_rate(k) if method == "batch-reuse" else _half_rate(k)
    copies = 1 if method == "kernel" else count
    n = None if size is None else math.inf
    if size is not None and math.isfinite(exponent):
        with np.errstate(over="ignore"):
            n = float(copies * np.float64(size) ** exponent)
    formula = formula if copies == 1 else f"M {formula}"
    return SampleComplexity(method, exponent, logarithms, formula, n)


def noise_deviation(noise_variance: Any) -> float:
    """The standard deviation of a noise variance that a label may have."""
    return math.sqrt(float(check_array("noise_variance", noise_variance, low=0, high=_LARGEST_VARIANCE, ndim=0)))


def _power(function: Function, i: int, z: np.ndarray) -> np.ndarray:
    return function(z) ** i


def _sgd_rate(k: int) -> tuple[float, str, str]:
    if k <= 2:
        return 1.0, "d" if k == 1 else "d log d", "" if k == 1 else "log d (log^2 d in older bounds)"
    return k - 1.0, f"d^{k - 1}", ""


def _half_rate(k: int) -> tuple[float, str, str]:
    return max(1.0, k / 2), "d" if k <= 2 else f"d^{k / 2:g}", ""


def _kernel_exponent(function: Function) -> tuple[float, str]:
    if function.hermite is None:
        return math.inf, "no power of d for a link that is not a polynomial"
    degree = max((k for k, a in enumerate(function.hermite) if a != 0), default=0)
    if degree == 0:
        raise InputError("link must not be constant")
    return float(degree), f"d^{degree}"


def _relative(values: np.ndarray, variance: float) -> np.ndarray:
    if variance <= 0:
        raise InputError("link must not be constant: it has variance 0 and no exponent")
    return values / math.sqrt(variance)


def _first(sizes: np.ndarray, tolerance: float, degree: int, name: str, what: str) -> int:
    seen = np.flatnonzero(sizes[1:] > tolerance)
    if not seen.size:
        raise InputError(
            f"largest_degree must be at least the {name} of a link that is not constant, got {degree}: {what} vanishes "
            f"for k = 1, ..., {degree}"
        )
    return int(seen[0]) + 1


def _remark(exponent: int, relative: np.ndarray) -> str:
    if relative[exponent] >= _TINY_SHARE:
        return ""
    larger = np.flatnonzero(relative[1:] >= _TINY_SHARE) + 1
    behaves = f"; the first of at least {_TINY_SHARE:g} is k = {larger[0]}" if larger.size else ""
    return (
        f"coefficient {exponent} is not 0 but only {relative[exponent]:.2g} of the link's deviation, so that finite "
        f"samples may see a larger exponent{behaves}"
    )


def _checked_degree(degree: Any) -> int:
    return check_whole("largest_degree", degree, 1, _LARGEST_DEGREE)

"""Moments of activations and links of a standard normal variable, and the resolvents of Gaussian weights."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array
from unlazy.functions.elementwise import Link, as_activation, as_link
from unlazy.numerics.gaussian import normal_averages

SMALLEST_RIDGE = 1e-12
VANISHING = 1e-9
LARGEST = 1e100
LARGEST_RATIO = 1e40
# ridge 0 and an infinite ratio are these numbers to rounding, where no formula cancels
_NO_RIDGE = 1e-150
_INFINITE_RATIO = 1e100
# of a moment from quadrature, in parts of the second moment
ROUNDING = 1e-18
_MISSED_SLOPE = 1e-3
_LARGEST_MOMENT = 1e20


class ActivationMoments(NamedTuple):
    """Of sigma(z), z standard normal."""

    constant: float
    """mu0 = E sigma."""
    linear: float
    """mu1 = E[z sigma] = E sigma'."""
    nonlinear: float
    """mu*^2 = E sigma^2 - mu0^2 - mu1^2."""
    squared_slope: float = math.nan
    """E sigma'^2, at least Var sigma; of use to gradients alone, and NaN for an activation with jumps."""

    def linear_square(self) -> float:
        """mu1^2, or an error that names the coefficient if it vanishes."""
        scale = math.sqrt(self.constant**2 + self.linear**2 + self.nonlinear)
        if abs(self.linear) <= VANISHING * scale:
            raise InputError(
                f"activation must have a linear coefficient mu1 = E[z sigma(z)] != 0, got {self.linear:g}: its "
                "features do not see x.beta to first order"
            )
        return self.linear**2

    def slope_square(self) -> float:
        """E sigma'^2, or an error that says why there is none."""
        if math.isnan(self.squared_slope):
            raise InputError(
                "activation must be continuous and have a moment slope = E sigma'^2 here, got nan: where it jumps "
                "there is no gradient (name the kinks of a continuous one by Link(name, function, breakpoints=...))"
            )
        return self.squared_slope


class LinkMoments(NamedTuple):
    """Of g(z), z standard normal."""

    linear: float
    """b1 = E[z g]."""
    nonlinear: float
    """|P_{>1} g|^2 = Var g - b1^2."""

    @property
    def variance(self) -> float:
        """Var g."""
        return self.linear**2 + self.nonlinear


class WishartResolvent(NamedTuple):
    """Of W W^T (d x d) and W^T W (N x N), N/d = ratio, W_ij ~ N(0, 1/d), at -t.

    t m (1 + u) = 1,                                 t u (1 + m) = ratio,
    dm/dt = -m (1 + m) / (t (1 + u + m)),            du/dt = -u (1 + u) / (t (1 + u + m))
    """

    direct: np.ndarray
    """m = (1/d) tr (W W^T + t)^-1, the root of t m^2 + (t + ratio - 1) m = 1."""
    companion: np.ndarray
    """u = (1/d) tr (W^T W + t)^-1 = m + (ratio - 1)/t, the root of t u^2 + (t + 1 - ratio) u = ratio."""


def activation_moments(activation: Any) -> ActivationMoments:
    """mu0, mu1, mu*^2 and E sigma'^2 of an activation; moments are returned as they are.

    >>> found = activation_moments(activation="relu")
    >>> print(f"{found.constant:.4f} {found.linear:.4f} {found.nonlinear:.4f} {found.squared_slope:.4f}")
    0.3989 0.5 0.0908 0.5
    """
    if isinstance(activation, ActivationMoments):
        check_array("activation.nonlinear", activation.nonlinear, low=0, high=_LARGEST_MOMENT, ndim=0)
        check_array("activation.linear", activation.linear, low=-_LARGEST_MOMENT, high=_LARGEST_MOMENT, ndim=0)
        # NaN passes, for those who need no slope
        if activation.squared_slope < (activation.linear**2 + activation.nonlinear) * (1 - VANISHING):
            raise InputError(
                f"activation.squared_slope = E sigma'^2 must be at least the variance, got {activation.squared_slope:g}"
            )
        return activation
    function = as_activation(activation)
    mean, linear, rest = (float(value) for value in normal_averages("activation", function, 0.0, 1.0))
    return ActivationMoments(mean, linear, rest, _mean_square_slope(function, linear, math.sqrt(linear**2 + rest)))


def _mean_square_slope(function: Link, linear: float, scale: float) -> float:
    """E sigma'^2, or NaN where E sigma' is not E[z sigma]: the derivative does not see jumps."""
    try:
        slopes = normal_averages("activation", Link("own", function.slope, breakpoints=function.breakpoints), 0.0, 1.0)
    except InputError:
        return math.nan
    if abs(slopes.mean - linear) > _MISSED_SLOPE * scale:
        return math.nan
    return float(slopes.mean**2 + slopes.linear**2 + slopes.rest)


def link_moments(link: Any) -> LinkMoments:
    """b1 and |P_{>1} g|^2 of a link; moments are returned as they are.

    >>> found = link_moments(link="sign")
    >>> print(f"{found.linear:.4f} {found.nonlinear:.4f}")
    0.7979 0.3634
    """
    if isinstance(link, LinkMoments):
        check_array("link.nonlinear", link.nonlinear, low=0, high=_LARGEST_MOMENT, ndim=0)
        check_array("link.linear", link.linear, low=-_LARGEST_MOMENT, high=_LARGEST_MOMENT, ndim=0)
        return link
    averages = normal_averages("link", as_link(link), 0.0, 1.0)
    return LinkMoments(float(averages.linear), float(averages.rest))


def check_ratio(name: str, value: ArrayLike) -> np.ndarray:
    """Return a ratio of sizes, from 1e-40 to 1e40 or infinite, or say what is wrong with it."""
    ratio = check_array(name, value, above=0, finite=False)
    outside = np.isfinite(ratio) & ((ratio > LARGEST_RATIO) | (ratio < 1 / LARGEST_RATIO))
    if outside.any():
        bad = ratio[outside].flat[0]
        raise InputError(f"{name} must be from {1 / LARGEST_RATIO:g} to {LARGEST_RATIO:g} or inf, got {bad:g}")
    return ratio


class Limits(NamedTuple):
    """Sizes at which formulas that do not cancel have the values of their limits, and the peak, which has none."""

    samples: np.ndarray
    features: np.ndarray
    ridge: np.ndarray
    inside: np.ndarray
    """Whether nothing was replaced."""
    peak: np.ndarray
    """No ridge, and as many samples as dimensions of the features: errors grow without bound as the ridge goes to 0."""


def at_limits(
    samples: np.ndarray, features: np.ndarray, ridge: np.ndarray, nonlinear: Any, scale: float, copies: Any = 1.0
) -> Limits:
    """Numbers for infinite ratios of samples and features and for ridge 0, for features of second moment `scale`."""
    if (np.isinf(samples * copies) & np.isinf(features)).any():
        many = "samples_per_dimension" if np.isinf(samples).any() else "copies"
        raise InputError(f"{many} and width_per_dimension must not both be inf: the limit depends on their quotient")
    rank = np.where(np.asarray(nonlinear) > 0, features, np.minimum(features, 1.0))
    # of infinitely many features each has an infinitely small share of the ridge
    inside = (ridge > 0) & np.isfinite(features)
    peak = ~inside & (rank == samples * copies)
    samples, features = (np.where(np.isinf(a), _INFINITE_RATIO, a) for a in (samples, features))
    return Limits(samples, features, np.where(ridge == 0, _NO_RIDGE * scale, ridge), inside, peak)


def wishart_resolvent(t: ArrayLike, ratio: ArrayLike) -> WishartResolvent:
    """The normalised resolvents of W W^T and W^T W at -t < 0 (Marchenko & Pastur 1967), without cancellation."""
    t, ratio = np.asarray(t), np.asarray(ratio)
    direct, companion = t + (ratio - 1), t + (1 - ratio)
    root = np.hypot(direct, 2 * np.sqrt(t))
    with np.errstate(divide="ignore"):
        m = np.where(direct > 0, 2 / (direct + root), (root - direct) / (2 * t))
        u = np.where(companion > 0, 2 * ratio / (companion + root), (root - companion) / (2 * t))
    return WishartResolvent(m, u)

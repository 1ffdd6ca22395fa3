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


class ActivationMoments(NamedTuple):
    """Of sigma(z), z standard normal."""

    mean: float
    """mu0 = E sigma."""
    linear: float
    """mu1 = E[z sigma] = E sigma'."""
    nonlinear: float
    """mu*^2 = E sigma^2 - mu0^2 - mu1^2."""
    slope: float = math.nan
    """E sigma'^2, of which only `rank_one_step` and gradient-step groups make use."""


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
    """Of W W^T (d x d) and W^T W (N x N), N/d = ratio, W_ij ~ N(0, 1/d), at -t."""

    direct: np.ndarray
    """m = (1/d) tr (W W^T + t)^-1, the root of t m^2 + (t + ratio - 1) m = 1."""
    companion: np.ndarray
    """u = (1/d) tr (W^T W + t)^-1 = m + (ratio - 1)/t, the root of t u^2 + (t + 1 - ratio) u = ratio."""
    direct_slope: np.ndarray
    """dm/dt."""
    companion_slope: np.ndarray
    """du/dt."""


def activation_moments(activation: Any) -> ActivationMoments:
    """mu0, mu1, mu*^2 and E sigma'^2 of an activation; moments are returned as they are."""
    if isinstance(activation, ActivationMoments):
        check_array("activation.nonlinear", activation.nonlinear, low=0, ndim=0)
        check_array("activation.linear", activation.linear, ndim=0)
        return activation
    function = as_activation(activation)
    mean, linear, rest = (float(value) for value in normal_averages("activation", function, 0.0, 1.0))
    slopes = normal_averages("activation", Link("own", function.slope, breakpoints=function.breakpoints), 0.0, 1.0)
    return ActivationMoments(mean, linear, rest, float(slopes.mean**2 + slopes.linear**2 + slopes.rest))


def link_moments(link: Any) -> LinkMoments:
    """b1 and |P_{>1} g|^2 of a link; moments are returned as they are."""
    if isinstance(link, LinkMoments):
        check_array("link.nonlinear", link.nonlinear, low=0, ndim=0)
        check_array("link.linear", link.linear, ndim=0)
        return link
    averages = normal_averages("link", as_link(link), 0.0, 1.0)
    return LinkMoments(float(averages.linear), float(averages.rest))


def wishart_resolvent(t: ArrayLike, ratio: ArrayLike) -> WishartResolvent:
    """The normalised resolvents of W W^T and W^T W at -t < 0 (Marchenko & Pastur 1967), without cancellation."""
    t, ratio = np.asarray(t), np.asarray(ratio)
    direct, companion = t + (ratio - 1), t + (1 - ratio)
    root = np.sqrt(direct**2 + 4 * t)
    with np.errstate(divide="ignore"):
        m = np.where(direct > 0, 2 / (direct + root), (root - direct) / (2 * t))
        u = np.where(companion > 0, 2 * ratio / (companion + root), (root - companion) / (2 * t))
    return WishartResolvent(m, u, -m * (1 + m) / root, -u * (1 + u) / root)


def require_linear(moments: ActivationMoments) -> float:
    """mu1^2, or an error that names the coefficient if it vanishes."""
    scale = math.sqrt(moments.mean**2 + moments.linear**2 + moments.nonlinear)
    if abs(moments.linear) <= VANISHING * scale:
        raise InputError(
            f"activation must have a linear coefficient mu1 = E[z sigma(z)] != 0, got {moments.linear:g}: its features "
            "do not see x.beta to first order"
        )
    return moments.linear**2

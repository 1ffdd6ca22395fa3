"""Kernels at n of order d: each is linear regression, with a ridge that its diagonal adds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array
from unlazy.theory.one_step.moments import activation_moments, link_moments, require_slope
from unlazy.theory.regression.ridge import ridge_equivalent


class LinearPart(NamedTuple):
    """What is left of a kernel of x.x'/d at |x|^2 = d; that of linear regression is (1, 0)."""

    linear: float
    """The coefficient of x.x'/d."""
    diagonal: float
    """What the diagonal has beyond its linear part."""


def tangent_kernel_part(activation: Any) -> LinearPart:
    """Of E sigma sigma + (x.x'/d) E sigma' sigma': (E sigma')^2 = mu_1^2 is linear in either term."""
    moments = activation_moments(activation)
    return LinearPart(2 * moments.linear**2, moments.nonlinear + require_slope(moments) - moments.linear**2)


def gaussian_kernel_part(bandwidth: float) -> LinearPart:
    """Of exp(-|x - x'|^2 / (2 d bandwidth))."""
    width = float(check_array("bandwidth", bandwidth, above=0, ndim=0))
    return LinearPart(np.exp(-1 / width) / width, 1 - np.exp(-1 / width) * (1 + 1 / width))


def linear_kernel_risk(
    kernel: LinearPart, link: Any, n: float, d: int, ridge: ArrayLike, noise_variance: float
) -> np.ndarray:
    """The risk of kernel ridge regression for y = g(x.beta) + noise, x ~ N(0, I_d): that of linear regression with

        ridge' = (diagonal / n + ridge) d / linear,      noise' = noise + |P_{>1} g|^2,

    plus |P_{>1} g|^2, which no kernel learns. Leading order as n and d grow in proportion.
    """
    target = link_moments(link)
    ridges = (kernel.diagonal / n + check_array("ridge", ridge, above=0)) * d / kernel.linear
    noise = noise_variance + target.nonlinear
    fit = ridge_equivalent([1.0], target.linear**2 / d, n, ridges, noise, multiplicities=[d])
    return fit.risk + target.nonlinear

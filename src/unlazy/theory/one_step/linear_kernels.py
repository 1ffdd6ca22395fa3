"""Kernels at n of order d: each is linear regression, with a ridge that its diagonal adds."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole, common_shape
from unlazy.theory.one_step.moments import activation_moments, link_moments
from unlazy.theory.regression.ridge import ridge_equivalent


class LinearPart(NamedTuple):
    """What is left of a kernel of x.x'/d at |x|^2 = d; that of linear regression is (1, 0)."""

    linear: float
    """The coefficient of x.x'/d."""
    diagonal: float
    """What the diagonal has beyond its linear part."""


def tangent_kernel_part(activation: Any) -> LinearPart:
    """Of E sigma sigma + (x.x'/d) E sigma' sigma': (E sigma')^2 = mu_1^2 is linear in either term.

    >>> linear, diagonal = tangent_kernel_part("erf")
    >>> print(f"{linear:.4f} {diagonal:.4f}")
    0.8488 0.1851
    """
    moments = activation_moments(activation)
    return LinearPart(2 * moments.linear**2, moments.nonlinear + moments.slope_square() - moments.linear**2)


def gaussian_kernel_part(squared_bandwidth: float) -> LinearPart:
    """Of exp(-|x - x'|^2 / (2 d w)), w = `squared_bandwidth` >= 0.01: below it the kernel is its diagonal.

    >>> linear, diagonal = gaussian_kernel_part(squared_bandwidth=4)
    >>> print(f"{linear:.4f} {diagonal:.4f}")
    0.1947 0.0265
    """
    from scipy.special import gammainc

    inverse = 1 / float(check_array("squared_bandwidth", squared_bandwidth, low=1e-2, high=1e100, ndim=0))
    # 1 - exp(-x) (1 + x) as the integral of x exp(-x), which does not cancel for wide kernels
    return LinearPart(inverse * math.exp(-inverse), float(gammainc(2, inverse)))


def linear_kernel_risk(
    linear_part: LinearPart, link: Any, n: ArrayLike, d: int, ridge: ArrayLike, noise_variance: ArrayLike
) -> np.ndarray:
    """The risk of kernel ridge regression for y = g(x.beta) + noise, x ~ N(0, I_d): that of linear regression with

        ridge' = (diagonal / n + ridge) d / linear,      noise' = noise + |P_{>1} g|^2,

    plus |P_{>1} g|^2, which no kernel learns. Leading order as n and d grow in proportion.

    >>> part = gaussian_kernel_part(squared_bandwidth=4)
    >>> print(linear_kernel_risk(part, "erf", n=[256, 1024], d=128, ridge=1e-3, noise_variance=0.01))
    [0.1659 0.1208]
    """
    if not isinstance(linear_part, LinearPart):
        raise InputError(f"linear_part must be a LinearPart(linear, diagonal), got {linear_part!r:.80}")
    linear = float(check_array("linear_part.linear", linear_part.linear, above=0, ndim=0))
    diagonal = float(check_array("linear_part.diagonal", linear_part.diagonal, low=0, ndim=0))
    target = link_moments(link)
    samples = check_array("n", n, low=1)
    dimension = check_whole("d", d, 1)
    penalty = check_array("ridge", ridge, low=0)
    noise = check_array("noise_variance", noise_variance, low=0) + target.nonlinear
    common_shape(n=samples, ridge=penalty, noise_variance=noise)
    ridges = (diagonal / samples + penalty) * dimension / linear
    fit = ridge_equivalent([1.0], target.linear**2 / dimension, samples, ridges, noise, multiplicities=[dimension])
    return fit.risk + target.nonlinear

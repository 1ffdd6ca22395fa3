"""Averages of the tilted mean of a noisy sign over a Gaussian cavity field and the teacher's label.

Notation: kappa the cavity field, N(0, tau) with overlap E[kappa theta*] = mk; theta* the teacher's latent variable, of
power rho*; y = sign(theta*) flipped with probability e; v the cavity variance; beta the student's inverse temperature.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr

_REACH = 9.5
_STEP = 0.025
_FINEST_STEP = 0.002
_EXPONENT = 30.0
_TABLE_EXPONENT = 20.0
_INNER_REACH = 8.5
_INNER_COUNT = 128
_LOGARITHMIC = 500.0
_LARGEST_EXPONENT = 700.0
_LOG_NORMALISER = 0.5 * math.log(2 * math.pi)
_SMALLEST = 1e-14


class Averages(NamedTuple):
    """Expectations over (kappa, y) of eta = the tilted mean; primes are derivatives with respect to kappa."""

    slope: float
    """E eta'."""
    slope_square: float
    """E eta'^2."""
    square: float
    """E eta^2."""
    field: float
    """E eta kappa."""
    teacher: float
    """E eta theta*."""
    label_response: float
    """E sum_y dP(y|kappa)/dmu (eta - kappa), mu the teacher's conditional mean."""
    gap_square: float
    """E (eta - kappa)^2."""
    gap_slope_square: float
    """E (eta' - 1)^2."""


def tilt(field: np.ndarray, label: np.ndarray | float, variance: float, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean eta of theta under N(field, variance) exp(-beta 1[label theta < 0]), and its derivative by the field."""
    u = label * field / math.sqrt(variance)
    if beta < _LOGARITHMIC:
        keep = -math.expm1(-beta)
        hazard = keep * _density(u) / (math.exp(-beta) + keep * ndtr(u))
    else:
        lost = np.exp(np.minimum(0.5 * u * u + _LOG_NORMALISER - beta, _LARGEST_EXPONENT))
        hazard = 1 / (lost + math.sqrt(math.pi / 2) * erfcx(-u / math.sqrt(2)))
    return field + label * math.sqrt(variance) * hazard, 1.0 - hazard * (u + hazard)


def _density(u: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * u * u - _LOG_NORMALISER)


def averages(v: float, tau: float, mk: float, rho: float, beta: float, flip: float) -> Averages:
    """All expectations that the static equations need, by one trapezoidal sum in asinh(kappa / scale).

    The integrand is even under (kappa, y) -> -(kappa, y), so y = 1 is enough.
    """
    kappa, weight, label, label_slope, mean, rest = _label_grid(v, tau, mk, rho, beta, flip)
    eta, slope = tilt(kappa, 1.0, v, beta)
    weighted = weight * label
    return Averages(
        weighted @ slope,
        weighted @ slope**2,
        weighted @ eta**2,
        weighted @ (eta * kappa),
        (weight * eta) @ (label * mean + rest * label_slope),
        (weight * label_slope) @ (eta - kappa),
        weighted @ (eta - kappa) ** 2,
        weighted @ (slope - 1.0) ** 2,
    )


def message_decorrelation(
    distances: np.ndarray, v: float, tau: float, mk: float, rho: float, beta: float, flip: float, gain: float
) -> np.ndarray:
    """[E f^2 - E f(kappa) f(kappa')]/D, f = gain eta - kappa, for two fields with D = tau - E kappa kappa'.

    Both fields are b + sqrt(D) z with the common part b ~ N(0, tau - D), so the numerator is the mean over (b, y) of
    the variance of f over z: no difference of large numbers, whatever D. 0 < D <= tau - mk^2/rho.
    """
    z = np.linspace(-_INNER_REACH, _INNER_REACH, _INNER_COUNT)
    z_weight = np.exp(-0.5 * z * z)
    z_weight /= z_weight.sum()
    values = []
    for distance in distances:
        common, weight, label, *_ = _label_grid(v, tau - distance, mk, rho, beta, flip, spread=distance)
        shift = math.sqrt(distance) * z
        here = gain * tilt(common, 1.0, v, beta)[0] - common
        moved = gain * tilt(common[:, None] + shift, 1.0, v, beta)[0] - (common[:, None] + shift)
        change = moved - here[:, None]
        variance = change**2 @ z_weight - (change @ z_weight) ** 2
        values.append((weight * label) @ variance / distance)
    return np.array(values)


def _label_grid(
    v: float, tau: float, mk: float, rho: float, beta: float, flip: float, spread: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Nodes kappa ~ N(0, tau), weights (two labels), P(1|kappa), its derivative by mu, mu, and v* = rho - mk^2/tau.

    Fields whose tilted mean is averaged over an independent part of variance `spread` vary on a coarser scale.
    """
    rest = max(rho - mk * mk / tau, _SMALLEST * rho)
    tilt_scale = math.sqrt((v + spread) / tau)
    label_scale = math.sqrt(rest * tau) / abs(mk) if mk else math.inf
    scale = min(1.0, tilt_scale, label_scale)
    # e^-beta + Phi(u) vanishes at a distance pi/|u| from the real line, u = -sqrt(2 beta): the trapezoidal error is
    # exp(-pi^2/(beta step)) unless that u is out of reach
    step = _STEP
    if math.sqrt(2 * beta) * tilt_scale < _REACH:
        step = max(min(step, math.pi**2 / ((_TABLE_EXPONENT if spread else _EXPONENT) * beta)), _FINEST_STEP)
    half = math.asinh(_REACH / scale)
    t = np.linspace(-half, half, 2 * math.ceil(half / step) + 1)
    x = scale * np.sinh(t)
    weight = _density(x) * scale * np.cosh(t) * (t[1] - t[0])
    mean = mk / tau * math.sqrt(tau) * x
    place = mean / math.sqrt(rest)
    label = flip + (1 - 2 * flip) * ndtr(place)
    label_slope = (1 - 2 * flip) * _density(place) / math.sqrt(rest)
    return math.sqrt(tau) * x, 2 * weight, label, label_slope, mean, rest

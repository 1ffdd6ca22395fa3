"""Averages of the tilted mean of a noisy sign over a Gaussian cavity field and the teacher's label.

Notation: kappa the cavity field, N(0, tau) with overlap E[kappa theta*] = mk; theta* the teacher's latent variable, of
power rho*, of which the field leaves the variance v* = rho* - mk^2/tau; y = sign(theta*) flipped with probability e; v
the cavity variance; beta the student's inverse temperature.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr, ndtri_exp

from unlazy.numerics.quadrature import panels

_REACH = 9.5
_NODES = 20
_NORMAL_PANEL = 3.5
_NORMAL_REACH = 9.0
_LARGEST_EXPONENT = 700.0
_LARGEST_FIELD = 37.0
_LOG_NORMALISER = 0.5 * math.log(2 * math.pi)
_SMALLEST = 1e-14
_SAFE = 500.0
_INNER_REACH = 8.5
_INNER_COUNT = 128
_INNER_EXPONENT = 20.0


class TiltedAverages(NamedTuple):
    """Expectations over (kappa, y) of eta = the tilted mean and f = eta/E eta' - kappa; primes derive by kappa."""

    gap_slope: float
    """E (1 - eta')."""
    gap_slope_square: float
    """E (1 - eta')^2."""
    gap_square: float
    """E (eta - kappa)^2."""
    gap_response: float
    """E sum_y dP(y|kappa)/dmu (eta - kappa), mu the teacher's conditional mean."""
    gap_teacher: float
    """E (eta - kappa) theta*."""
    square: float
    """E eta^2."""
    teacher: float
    """E eta theta*."""
    message_teacher: float
    """E f theta*."""
    message_square: float
    """E f^2."""
    message_noise: float
    """E (f - c theta*)^2 with c = E f theta*/rho*."""
    message_slope_square: float
    """E f'^2."""

    @property
    def slope(self) -> float:
        """E eta'."""
        return 1 - self.gap_slope


def tilt(field: np.ndarray, label: np.ndarray | float, variance: float, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean eta of theta under N(field, variance) exp(-beta 1[label theta < 0]), and its derivative by the field.

        u = label field / sqrt(variance),  h = (1 - e^-beta) phi(u) / (e^-beta + (1 - e^-beta) Phi(u)),
        eta = field + label sqrt(variance) h,  eta' = 1 - u h - h^2

    Labels are 1 or -1; beta = inf is the noiseless sign.
    """
    u = label * field / math.sqrt(variance)
    if beta < _SAFE:
        # a third faster than `_gap`
        keep = -math.expm1(-beta)
        hazard = keep * _density(u) / (math.exp(-beta) + keep * ndtr(u))
    else:
        hazard = _gap(u, beta)[0]
    return field + label * math.sqrt(variance) * hazard, 1.0 - hazard * (u + hazard)


def _gap(u: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """y (eta - kappa)/sqrt(v) = h and 1 - eta' = h (u + h), from 1/h so that nothing under- or overflows."""
    lost = np.exp(np.minimum(0.5 * u * u + (_LOG_NORMALISER + _log_odds(beta)), _LARGEST_EXPONENT))
    hazard = 1 / (lost + math.sqrt(math.pi / 2) * erfcx(-np.minimum(u, _LARGEST_FIELD) / math.sqrt(2)))
    return hazard, hazard * (u + hazard)


def _log_odds(beta: float) -> float:
    """log of e^-beta/(1 - e^-beta)."""
    return -beta - math.log(-math.expm1(-beta))


def _density(u: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * u * u - _LOG_NORMALISER)


def averages(v: float, tau: float, mk: float, rest: float, beta: float, flip: float) -> TiltedAverages:
    """All expectations that the static equations need, for rho* = 1; `rest` is v*.

    The integrand is even under (kappa, y) -> -(kappa, y), so y = 1 is enough.
    """
    kappa, weight, label, label_slope, mean = _label_grid(v, tau, mk, rest, beta, flip)
    hazard, gap_slope = _gap(kappa / math.sqrt(v), beta)
    gap = math.sqrt(v) * hazard
    weighted = weight * label
    loss = weighted @ gap_slope
    gain = 1 / (1 - loss)
    message = gain * (gap + loss * kappa)
    seen = label * mean + rest * label_slope
    overlap = (weight * message) @ seen
    # theta* = mean + sqrt(v*) noise: the large parts of f and c theta* cancel point by point
    noise = weighted @ (message - overlap * mean) ** 2
    noise += rest * overlap * (overlap - 2 * ((weight * label_slope) @ message))
    return TiltedAverages(
        loss,
        weighted @ gap_slope**2,
        weighted @ gap**2,
        (weight * label_slope) @ gap,
        (weight * gap) @ seen,
        weighted @ (kappa + gap) ** 2,
        (weight * (kappa + gap)) @ seen,
        overlap,
        weighted @ message**2,
        noise,
        gain**2 * (weighted @ (gap_slope - loss) ** 2),
    )


def inner_count(distance: float, v: float, beta: float) -> int:
    """Points of the average over z in `message_decorrelation` that resolve the step of eta at -sqrt(2 beta v)."""
    step = 2 * math.pi**2 / _INNER_EXPONENT * math.sqrt(v / distance) / max(1.0, _cliff(beta))
    return max(_INNER_COUNT, 2 * math.ceil(_INNER_REACH / step))


def message_decorrelation(
    distances: np.ndarray, v: float, tau: float, mk: float, rho: float, beta: float, flip: float, gain: float
) -> np.ndarray:
    """[E f^2 - E f(kappa) f(kappa')]/D, f = gain eta - kappa, for two fields with D = tau - E kappa kappa'.

    Both fields are b + sqrt(D) z with the common part b ~ N(0, tau - D), so the numerator is the mean over (b, y) of
    the variance of f over z: no difference of large numbers, whatever D. 0 < D <= tau - mk^2/rho.
    """
    values = []
    for distance in distances:
        z = np.linspace(-_INNER_REACH, _INNER_REACH, inner_count(distance, v, beta))
        z_weight = np.exp(-0.5 * z * z)
        z_weight /= z_weight.sum()
        common = tau - distance
        rest = max(rho - mk * mk / common, _SMALLEST * rho)
        field, weight, label, *_ = _label_grid(v, common, mk, rest, beta, flip, blur=distance)
        shift = math.sqrt(distance) * z
        here = gain * tilt(field, 1.0, v, beta)[0] - field
        moved = gain * tilt(field[:, None] + shift, 1.0, v, beta)[0] - (field[:, None] + shift)
        change = moved - here[:, None]
        variance = change**2 @ z_weight - (change @ z_weight) ** 2
        values.append((weight * label) @ variance / distance)
    return np.array(values)


def _label_grid(
    v: float, tau: float, mk: float, rest: float, beta: float, flip: float, blur: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Nodes kappa ~ N(0, tau), weights (two labels), P(1|kappa), its derivative by mu, and mu.

    Fields whose tilted mean is averaged over an independent part of variance `blur` vary on a coarser scale.
    """
    cliff = _cliff(beta)
    tilt_scale, place = math.sqrt((v + blur) / tau), -cliff * math.sqrt(v / tau)
    normal, poles = [(0.0, 1.0), (0.0, tilt_scale)], [(0.0, tilt_scale)]
    if mk:
        normal.append((0.0, math.sqrt(rest * tau) / abs(mk)))
    # e^-beta + (1 - e^-beta) Phi(u) vanishes at a distance pi/|u| from the real line
    sharp, soft = math.pi / max(1.0, cliff) * math.sqrt(v / tau), math.sqrt(blur / tau)
    poles.append((place, max(sharp, soft)))
    if soft > sharp / _NORMAL_PANEL:
        normal.append((place, soft))
    x, weight = _panels(normal, poles)
    mean = mk / math.sqrt(tau) * x
    scaled = mean / math.sqrt(rest)
    label = flip + (1 - 2 * flip) * ndtr(scaled)
    label_slope = (1 - 2 * flip) * _density(scaled) / math.sqrt(rest)
    return math.sqrt(tau) * x, 2 * weight, label, label_slope, mean


@cache
def _cliff(beta: float) -> float:
    """-u where e^-beta = (1 - e^-beta) Phi(u), about sqrt(2 beta): beyond it the student gives a label up."""
    odds = _log_odds(beta)
    return math.inf if math.isinf(odds) else float(-ndtri_exp(min(odds, -1e-3)))


def _panels(normal: list[tuple[float, float]], poles: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Nodes, weights for N(0, 1) times functions with normal shapes (centre, deviation) and poles (place +- i width).

    Gauss-Legendre rules on panels that end where one of these asks for it. Where the nearest pole is farther than half
    a panel, and a panel is at most `_NORMAL_PANEL` deviations of a normal shape, 20 nodes leave errors of about 1e-14.
    """
    edges = [-_REACH]
    while (edge := edges[-1]) < _REACH:
        length = _REACH - edge
        for centre, deviation in normal:
            before, after = centre - _NORMAL_REACH * deviation - edge, centre + _NORMAL_REACH * deviation - edge
            if before > 1e-12 * abs(edge):
                length = min(length, before)
            elif after > 0:
                length = min(length, _NORMAL_PANEL * deviation)
        for place, width in poles:
            away = edge - place
            length = min(length, max(1.5 * width, 3 * away, -0.75 * away))
        edges.append(edge + length)
    x, weights = panels(edges, _NODES)
    return x, weights * _density(x)

"""Where gradient descent takes a two-layer quadratic denoiser of several neurons.

The model and its loss are those of `denoising`. At its symmetric stationary point all neurons are the same vector;
descent moves them apart outside the span of the patches and keeps their overlaps with every patch alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, common_shape
from unlazy.numerics.roots import increasing_root
from unlazy.theory.signal_noise.denoising import denoiser_balance


class SpreadDenoiser(NamedTuple):
    """Every field has the broadcast shape of the arguments of `spread_denoiser`."""

    balance: np.ndarray
    """<w_r, mu> / <w_r, xi>, the same for all neurons."""
    loss: np.ndarray
    """Mean over samples of E |f - eps|^2 - d, summed over patches."""
    relative_depth: np.ndarray
    """The loss over that of the symmetric stationary point: how many times deeper this one is."""
    inside_share: np.ndarray
    """The share of |w_r|^2 in the span of the patches."""


def spread_denoiser(
    signal_strength: ArrayLike, signal_norm: ArrayLike, time: ArrayLike, *, width: ArrayLike
) -> SpreadDenoiser:
    """The lowest loss of m = `width` neurons that have the same overlap with every patch, the same length and angles.

    For patches that are orthogonal to one another. The neurons are w_r = u + z_r with u in the span of the patches and
    z_r outside, so that with |w_r|^2 = p, <w_r, w_s> = q and overlaps y = e^-t <u, x> the loss of a patch is

        p (A^2 + 4 beta^2 y^2 p + 2 beta^4 p^2) + (m - 1) q (A^2 + 4 beta^2 y^2 q + 2 beta^4 q^2) - 4 beta sqrt(m) y p,

    A = y^2 + beta^2 p. For m >= 3 it increases with q at every y and p, as q >= -p/(m - 1). So q is as small as it can
    be, p + (m - 1) q = m |u|^2: the z_r add up to 0 and are the corners of a regular simplex, for which d must be at
    least m - 1 more than the rank. The rest is a minimum over <u, mu>, <u, xi> and p. For large t the loss depends on
    the patches through their mean alone; then the balance is n SNR^2 / 2, as at the symmetric point, and

        inside_share = k/m,      relative_depth = 3 (2k + 1)/(2k + 7),      (k - 1)^2 (2k + 1) = (m - 1)^2,

    1.8 at m = 10 (k = 4) and 3 as m grows. For t -> 0 the balance tends to 1 and the loss to -2 (m - 1). Exact as d/n
    grows, for balanced labels and noise orthogonal to both signals. Neurons with unequal overlaps may be lower still:
    at small t one with an overlap of the other sign is, where signal and noise are of very different strength.

    >>> found = spread_denoiser(signal_strength=8, signal_norm=5, time=[0.1, 1, 4, 10], width=10)
    >>> print(found.balance, found.relative_depth)
    [1.359 2.806 3.994 4.000] [18.51 2.947 1.803 1.800]
    """
    strength = check_array("signal_strength", signal_strength, low=1e-6, high=1e6)
    norm = check_array("signal_norm", signal_norm, low=1e-6, high=1e6)
    time = check_array("time", time, low=1e-6, high=100)
    neurons = check_array("width", width, low=3, high=1e6, whole=True)
    shape = common_shape(signal_strength=strength, signal_norm=norm, time=time, width=neurons)
    half, square, t, m = (np.broadcast_to(a, shape) for a in (strength / 2, norm**2, time, neurons))
    spread = 2 * np.expm1(2 * t) / square
    balance = increasing_root(_imbalance, np.minimum(half, 1) / 2, 2 * np.maximum(half, 1), half, spread, m)
    found = _lengths(balance, half, spread, m)
    alike = _lengths(denoiser_balance(strength, norm, time).balance * np.ones(shape), half, spread, m, spread_out=False)
    share = found.total / (m * found.length)
    return SpreadDenoiser(balance[()], -found.depth[()], (found.depth / alike.depth)[()], share[()])


class _Lengths(NamedTuple):
    """At overlaps r and 1 with signal and noise, in units of 1 + |u|^2: p, m |u|^2, r^2 + 1, r^4 + 1, and the loss."""

    length: np.ndarray
    total: np.ndarray
    squares: np.ndarray
    fourths: np.ndarray
    quartic: np.ndarray
    """What is of sixth order in the weights."""
    depth: np.ndarray
    """Minus the loss, at the best multiple of the weights."""


def _lengths(
    r: np.ndarray, half: np.ndarray, spread: np.ndarray, m: np.ndarray, *, spread_out: bool = True
) -> _Lengths:
    """The best p for the balance r, or with `spread_out` False that of neurons which are all alike, p = |u|^2.

    Where the loss is A y^2 - B y in y, the third power of the weights' size, its least value is -B^2/(4 A).
    """
    inside = spread * (r**2 + half)
    unit, others = 1 + inside, m - 1
    e, squares, fourths = m * inside / unit, (r**2 + 1) / unit, (r**4 + 1) / unit**2
    p = e / m
    if spread_out:
        # A is a cubic in p, and p^2/A is largest where 2 a_0 + a_1 p = a_3 p^3: one change of sign
        constant = 2 * e * (fourths + 4 * squares * e / others + 4 * (e / others) ** 2)
        linear = e * (2 * squares - 8 * squares / others - 12 * e / others**2)
        cubic = 4 - 4 / others**2
        high = np.maximum(np.cbrt(2 * constant / cubic), np.sqrt(2 * np.maximum(linear, 0) / cubic))
        p = increasing_root(lambda p, a, b, c: c * p**3 - b * p - a, p / 2, 2 * high, constant, linear, cubic)
    rest = e - p
    quartic = p * (fourths + 6 * squares * p + 6 * p**2) + rest * _between(p, rest / others, squares, fourths)
    return _Lengths(p, e, squares, fourths, quartic, 4 * m * (1 + r) ** 2 * p**2 / quartic / unit)


def _between(p: np.ndarray, q: np.ndarray, squares: np.ndarray, fourths: np.ndarray) -> np.ndarray:
    """A^2 + 4 y^2 q + 2 q^2 of both patches."""
    return fourths + 2 * squares * p + 2 * p**2 + 4 * squares * q + 4 * q**2


def _imbalance(r: np.ndarray, half: np.ndarray, spread: np.ndarray, m: np.ndarray) -> np.ndarray:
    """The derivative of -log(depth) by log(1 + r) at the best p, which is that at fixed p."""
    found, unit = _lengths(r, half, spread, m), 1 + spread * (r**2 + half)
    p, e = found.length, found.total
    rest, q = e - p, (e - p) / (m - 1)
    by_squares = 6 * p**2 + rest * (2 * p + 4 * q)
    by_total = _between(p, q, found.squares, found.fourths) + q * (4 * found.squares + 8 * q)
    slope = 4 * r**3 / unit**2 * e + 2 * r / unit * by_squares + 2 * m * spread * r / unit * by_total
    return slope * (1 + r) / found.quartic - 2

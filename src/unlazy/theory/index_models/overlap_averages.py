"""Averages over an example of a neuron's update, by quadrature: S(m) and V(m) of `online_sgd`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from unlazy.checks import InputError
from unlazy.functions.elementwise import LINKS, Link
from unlazy.functions.orthogonal import Hermite
from unlazy.numerics.gaussian import normal_nodes
from unlazy.numerics.orthant_moments import orthant_moments
from unlazy.numerics.quadrature import panels
from unlazy.numerics.roots import ConvergenceError, bisect

_SETTLED, _TOLERATED = 1e-9, 1e-7
_LAST_REFINEMENT = 4
_FAINTEST = 1e-8
_PROBES = (0.0, 0.3, 0.8)
_SMOOTH_NODES = (60, 80, 200, 400, 800)
_SMOOTH_NODES_WITH_NOISE = (60, 80, 160, 240, 320)
_NOISE_NODES = (24, 28, 32, 36, 40)
_LEAST_WEIGHT = 1e-100
_MOST_VALUES = 1 << 21
_REACH = 8.5

Averages = Callable[[np.ndarray], np.ndarray]
"""Overlaps m -> (S(m), V(m)), stacked."""


def averages_of(
    link: Link, activation: Link, reuse: bool, sign: float, bias: float, reuse_step_size: float, noise_variance: float
) -> Averages:
    """m -> (S(m), V(m)), on the coarsest quadrature whose values at some overlaps do not change when it is refined.

    Errors are relative to V^(1/2) and V, or to 1e-4 of the label's size where the neuron is fainter than that.
    """
    if activation is LINKS["relu"]:
        make: Any = _ReluAverages
    elif not activation.breakpoints:
        make = _SmoothAverages
    else:
        raise InputError(f"activation must be relu or a function without kinks, got {activation.name}")

    def at(refinement: int) -> Any:
        return make(link, activation, reuse, sign, bias, reuse_step_size, math.sqrt(noise_variance), refinement)

    what = f"{activation.name} on {link.name} with bias {bias:g}, reuse_step_size {reuse_step_size:g}"
    return _Settled(at, f"{what} and noise_variance {noise_variance:g}")


class _Settled:
    """The averages on the coarsest quadrature that agrees with the next finer one up to the largest |m| asked for."""

    def __init__(self, at: Callable[[int], Any], what: str) -> None:
        self.at, self.what = at, what
        self.level, self.rule, self.reach = 0, at(0), -1.0

    def __call__(self, m: np.ndarray) -> np.ndarray:
        furthest = float(np.abs(m).max())
        if furthest > self.reach:
            self._settle(np.array([*_PROBES, furthest, -furthest]))
            self.reach = max(furthest, *_PROBES)
        return self.rule(m)

    def _settle(self, probes: np.ndarray) -> None:
        while True:
            finer = self.at(self.level + 1)
            with np.errstate(over="ignore", invalid="ignore"):
                one, other = self.rule(probes), finer(probes)
                scale = np.sqrt(max(np.abs(other[1]).max(), _FAINTEST * finer.label_square, 1e-300))
                change = np.max(np.abs(one - other) / np.array([[scale], [scale**2]]))
            last = self.level + 1 == _LAST_REFINEMENT or not finer.affordable
            if change <= (_TOLERATED if last else _SETTLED):
                return
            if last:
                raise ConvergenceError(
                    f"the drift of {self.what} still changes by {change:.2g} with twice the quadrature points"
                )
            self.level, self.rule = self.level + 1, finer


def _chunked(function: Callable[[np.ndarray], np.ndarray], m: np.ndarray, per_overlap: int) -> np.ndarray:
    block = max(_MOST_VALUES // per_overlap, 1)
    return np.concatenate([function(m[i : i + block]) for i in range(0, m.size, block)], axis=1)


def _zeros(function: Callable[[np.ndarray], np.ndarray]) -> list[float]:
    """Where a function changes its sign, for a split of the quadrature: a missed pair of zeros only costs digits."""
    z = np.linspace(-_REACH, _REACH, 4001) + 1e-7
    values = function(z)
    before = np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) < 0)
    side = np.sign(values[before])
    return bisect(lambda z: np.sign(function(z)) == side, z[before], z[before + 1], 52)[1].tolist()


class _ReluAverages:
    """psi = a y (1[u > t1] + 1[u > t2]), t1 = -b, t2 = max(-b, -b - s a y); the second with reuse only.

    E[(z - m u) 1[u > t] | z] = (1 - m^2) z P - m sqrt(1 - m^2) p with P and p the tail and the density of a standard
    normal number at (t - m z)/sqrt(1 - m^2), and psi^2 = y^2 (1[u > t1] + 3 1[u > t2]). Given z, label noise is
    averaged in closed form too.
    """

    affordable = True

    def __init__(
        self, link: Link, _: Link, reuse: bool, sign: float, bias: float, strength: float, noise: float, level: int
    ) -> None:
        breaks = [*link.breakpoints, -bias, bias]
        if reuse:
            # the label changes its sign, and t2 = u there for m near 1 and -1
            breaks += _zeros(link.value)
            for side in (1.0, -1.0):
                crossings = _zeros(lambda z: side * z + bias + strength * sign * link(z))  # noqa: B023
                breaks += [z for z in crossings if sign * float(link(np.array(z))) < 0]
        z, weights = Hermite().grid(level, breaks)
        kept = weights > _LEAST_WEIGHT
        self.z, self.weights = z[kept], weights[kept]
        self.labels = np.asarray(link(self.z), float) * sign
        self.label_square = float(self.weights @ self.labels**2) + noise**2
        self.bias, self.reuse, self.strength, self.noise = bias, reuse, strength, noise

    def __call__(self, m: np.ndarray) -> np.ndarray:
        return _chunked(self._at, m, self.z.size)

    def _at(self, m: np.ndarray) -> np.ndarray:
        m = m[:, None]
        signal, square = self._active(m, -self.bias, self.labels, self.labels**2 + self.noise**2)
        if self.reuse:
            again = self._again(m) if self.noise == 0 else self._again_with_noise(m)
            signal, square = signal + again[0], square + 3 * again[1]
        return np.stack([signal @ self.weights, np.maximum(square @ self.weights, 0.0)])

    def _active(self, m: np.ndarray, threshold: Any, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, ...]:
        """E[y (z - m u) 1[u > t] | z] and E[y^2 1[u > t] | z] for a label with these moments, independent of u."""
        from scipy.special import ndtr

        deviation = np.sqrt((1 - m) * (1 + m))
        place = (m * self.z - threshold) / deviation
        tail = ndtr(place)
        density = np.exp(-(place**2) / 2) / math.sqrt(2 * math.pi)
        return first * (deviation**2 * self.z * tail - m * deviation * density), second * tail

    def _again(self, m: np.ndarray) -> tuple[np.ndarray, ...]:
        threshold = -self.bias + self.strength * np.maximum(-self.labels, 0.0)
        return self._active(m, threshold, self.labels, self.labels**2)

    def _again_with_noise(self, m: np.ndarray) -> tuple[np.ndarray, ...]:
        """The label x = a y is positive and u > -b, or it is negative and w = u + b + s x > 0, a Gaussian pair."""
        from scipy.special import ndtr

        with np.errstate(over="ignore"):
            ratio = np.clip(self.labels / self.noise, -1e3, 1e3)
        above, edge = ndtr(ratio), self.noise * np.exp(-(ratio**2) / 2) / math.sqrt(2 * math.pi)
        positive = self._active(
            m, -self.bias, self.labels * above + edge, (self.labels**2 + self.noise**2) * above + self.labels * edge
        )
        deviation = np.sqrt((1 - m) * (1 + m))
        moved = self.strength * self.noise
        spread = np.hypot(deviation, moved)
        center = m * self.z + self.bias + self.strength * self.labels
        # of -noise and w in units of their deviations, over the quarter with x < 0 and w > 0
        part = orthant_moments(
            np.broadcast_to(ratio, center.shape), -center / spread, -moved / spread, deviation / spread
        )
        first = self.labels * part.chance - self.noise * part.x
        second = self.labels**2 * part.chance - 2 * self.labels * self.noise * part.x + self.noise**2 * part.xx
        mixed = center * first + spread * (self.labels * part.y - self.noise * part.xy)
        # u = w - b - s x
        signal = (self.z + m * self.bias) * first - m * mixed + m * self.strength * second
        return positive[0] + signal, positive[1] + second


class _SmoothAverages:
    """Tensor quadrature over z, the part of u that is independent of z, and, where it is needed, the noise."""

    def __init__(
        self, link: Link, activation: Link, reuse: bool, sign: float, bias: float, strength: float, noise: float,
        level: int,
    ) -> None:  # fmt: skip
        # without reuse the update is linear in the noise
        drawn = noise > 0 and reuse
        nodes = (_SMOOTH_NODES_WITH_NOISE if drawn else _SMOOTH_NODES)[level]
        self.z, weights = _pieces(nodes, link.breakpoints) if link.breakpoints else normal_nodes(nodes)
        self.rest, rest = normal_nodes(nodes)
        draws, shares = normal_nodes(_NOISE_NODES[level]) if drawn else (np.zeros(1), np.ones(1))
        self.extra = 0.0 if drawn else noise**2
        clean = np.asarray(link(self.z), float)
        self.label_square = float(weights @ clean**2) + noise**2
        self.labels = sign * (clean[:, None] + noise * draws)
        self.weights = weights[:, None, None] * rest[None, :, None] * shares
        self.activation, self.reuse, self.bias, self.strength = activation, reuse, bias, strength
        self.affordable = self.weights.size <= _MOST_VALUES

    def __call__(self, m: np.ndarray) -> np.ndarray:
        return _chunked(self._at, m, self.weights.size)

    def _at(self, m: np.ndarray) -> np.ndarray:
        m = m[:, None, None]
        deviation = np.sqrt((1 - m) * (1 + m))
        across = deviation**2 * self.z[:, None] - m * deviation * self.rest
        argument = m * self.z[:, None] + deviation * self.rest + self.bias
        slope = np.asarray(self.activation.slope(argument), float)[..., None]
        push = self.labels[:, None] * slope
        if self.reuse:
            push = push + self.labels[:, None] * self.activation.slope(argument[..., None] + self.strength * push)
        weighted = push * self.weights
        square = (weighted * push).sum((1, 2, 3)) + self.extra * (slope**2 * self.weights).sum((1, 2, 3))
        return np.stack([(weighted * across[..., None]).sum((1, 2, 3)), square])


def _pieces(nodes: int, breakpoints: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """A rule for E f(z) with f smooth between breakpoints: Gauss-Legendre points on each piece of |z| <= 8.5."""
    z, sizes = panels([-_REACH, *sorted(b for b in breakpoints if abs(b) < _REACH), _REACH], nodes // 2 + 20)
    weights = sizes * np.exp(-(z**2) / 2)
    return z, weights / weights.sum()

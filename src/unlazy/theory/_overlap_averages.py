"""Averages over an example of a neuron's update, by quadrature: S(m) and V(m) of `online_sgd`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from unlazy.errors import InputError
from unlazy.functions.links import LINKS, Link
from unlazy.functions.orthogonal import Hermite
from unlazy.numerics.gaussian import normal_nodes
from unlazy.numerics.roots import ConvergenceError

_SETTLED, _TOLERATED = 1e-9, 1e-7
_LAST_REFINEMENT = 4
_PROBES = (0.0, 0.3, 0.8)
_NOISE_NODES = 40
_SMOOTH_NODES = 60
_LEAST_WEIGHT = 1e-22
_MOST_VALUES = 1 << 21
_REACH = 8.5

Averages = Callable[[np.ndarray], np.ndarray]
"""Overlaps m -> (S(m), V(m)), stacked."""


def averages_of(
    teacher: Link, student: Link, reuse: bool, sign: float, bias: float, strength: float, noise: float
) -> Averages:
    """m -> (S(m), V(m)), on the coarsest quadrature whose values at some overlaps do not change when it is refined."""
    if student is LINKS["relu"]:
        make: Any = _ReluAverages
    elif not student.breakpoints:
        make = _SmoothAverages
    else:
        raise InputError(f"student must be relu or a link without kinks, got {student.name}")

    def at(refinement: int) -> Any:
        return make(teacher, student, reuse, sign, bias, strength, noise, refinement)

    return _Settled(at, f"{student.name} on {teacher.name} with bias {bias:g}, strength {strength:g}, noise {noise:g}")


class _Settled:
    """The averages on the coarsest quadrature that agrees with the next finer one up to the largest |m| asked for."""

    def __init__(self, at: Callable[[int], Averages], what: str) -> None:
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
                scale = np.sqrt(np.abs(other[1]).max() + 1e-300)
                change = np.max(np.abs(one - other) / np.array([[scale], [scale**2]]))
            last = self.level + 1 == _LAST_REFINEMENT
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
    found = []
    for i in np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) < 0):
        low, high, side = z[i], z[i + 1], np.sign(values[i])
        for _ in range(52):
            middle = (low + high) / 2
            low, high = (middle, high) if np.sign(function(np.array(middle))) == side else (low, middle)
        found.append(float(high))
    return found


class _ReluAverages:
    """psi = a y (1[u > t1] + 1[u > t2]), t1 = -b, t2 = max(-b, -b - s a y); the second with reuse only.

    E[(z - m u) 1[u > t] | z] = (1 - m^2) z P - m sqrt(1 - m^2) p with P and p the tail and the density of a standard
    normal number at (t - m z)/sqrt(1 - m^2), and psi^2 = y^2 (1[u > t1] + 3 1[u > t2]).
    """

    def __init__(
        self, teacher: Link, _: Link, reuse: bool, sign: float, bias: float, strength: float, noise: float, level: int
    ) -> None:
        breaks = [*teacher.breakpoints, -bias]
        if noise == 0:
            # the label changes its sign, and, for m near 1, the second derivative jumps
            breaks += _zeros(teacher.value) + _zeros(lambda z: z + bias + strength * sign * teacher(z))
        z, weights = Hermite().grid(level, breaks)
        kept = weights > _LEAST_WEIGHT
        z, weights = z[kept], weights[kept]
        clean = np.asarray(teacher(z), float) * sign
        if noise == 0 or not reuse:
            self.labels, self.weights, self.z = clean, weights, z
        else:
            self.labels, self.weights, self.z = _split_labels(clean, weights, z, noise, _NOISE_NODES * 2**level)
        self.extra = noise**2 if noise > 0 and not reuse else 0.0
        self.bias, self.reuse = bias, reuse
        self.second = -bias + strength * np.maximum(-self.labels, 0.0)

    def __call__(self, m: np.ndarray) -> np.ndarray:
        return _chunked(self._at, m, self.z.size)

    def _at(self, m: np.ndarray) -> np.ndarray:
        m = m[:, None]
        first = self._tails(m, -self.bias)
        second = self._tails(m, self.second) if self.reuse else (0.0, 0.0)
        signal = (first[0] + second[0]) @ (self.weights * self.labels)
        square = (first[1] + 3 * second[1]) @ (self.weights * (self.labels**2 + self.extra))
        return np.stack([signal, square])

    def _tails(self, m: np.ndarray, threshold: Any) -> tuple[np.ndarray, np.ndarray]:
        from scipy.special import ndtr

        deviation = np.sqrt((1 - m) * (1 + m))
        place = (m * self.z - threshold) / deviation
        tail = ndtr(place)
        density = np.exp(-(place**2) / 2) / math.sqrt(2 * math.pi)
        return deviation**2 * self.z * tail - m * deviation * density, tail


def _split_labels(
    clean: np.ndarray, weights: np.ndarray, z: np.ndarray, noise: float, nodes: int
) -> tuple[np.ndarray, ...]:
    """Points (label, weight, z) for normal noise, on both sides of the label 0 apart."""
    points, sizes = np.polynomial.legendre.leggauss(nodes)
    cut = np.clip(-clean / noise, -_REACH, _REACH)[:, None]
    found: tuple[list[np.ndarray], ...] = ([], [], [])
    for low, high in ((-_REACH, cut), (cut, _REACH)):
        draw = low + (high - low) * (1 + points) / 2
        share = sizes * (high - low) / 2 * np.exp(-(draw**2) / 2) / math.sqrt(2 * math.pi)
        found[0].append(clean[:, None] + noise * draw)
        found[1].append(weights[:, None] * share)
        found[2].append(np.broadcast_to(z[:, None], draw.shape))
    return tuple(np.concatenate(parts, axis=1).ravel() for parts in found)


class _SmoothAverages:
    """Tensor quadrature over z, the part of u that is independent of z, and the noise."""

    def __init__(
        self, teacher: Link, student: Link, reuse: bool, sign: float, bias: float, strength: float, noise: float,
        level: int,
    ) -> None:  # fmt: skip
        nodes = _SMOOTH_NODES + 20 * level if level < 2 else 100 * 2 ** (level - 1)
        if teacher.breakpoints:
            self.z, weights = Hermite().grid(level, teacher.breakpoints)
            kept = weights > _LEAST_WEIGHT
            self.z, weights = self.z[kept], weights[kept]
        else:
            self.z, weights = normal_nodes(nodes)
        self.rest, rest = normal_nodes(nodes)
        draws, shares = normal_nodes(_NOISE_NODES) if noise > 0 else (np.zeros(1), np.ones(1))
        self.labels = sign * (np.asarray(teacher(self.z), float)[:, None] + noise * draws)
        self.weights = weights[:, None, None] * rest[None, :, None] * shares
        self.student, self.reuse, self.bias, self.strength = student, reuse, bias, strength

    def __call__(self, m: np.ndarray) -> np.ndarray:
        return _chunked(self._at, m, self.weights.size)

    def _at(self, m: np.ndarray) -> np.ndarray:
        m = m[:, None, None]
        deviation = np.sqrt((1 - m) * (1 + m))
        across = deviation**2 * self.z[:, None] - m * deviation * self.rest
        argument = m * self.z[:, None] + deviation * self.rest + self.bias
        slope = np.asarray(self.student.derivative(argument), float)[..., None]
        push = self.labels[:, None] * slope
        if self.reuse:
            push = push + self.labels[:, None] * self.student.derivative(argument[..., None] + self.strength * push)
        weighted = push * self.weights
        return np.stack([(weighted * across[..., None]).sum((1, 2, 3)), (weighted * push).sum((1, 2, 3))])

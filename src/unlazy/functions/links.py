"""Links of index models by name: y = link(x . theta), each with its derivative and kinks, for NumPy and JAX alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_array, check_choice
from unlazy.functions.activations import ACTIVATIONS, Elementwise, array_namespace
from unlazy.functions.orthogonal import Hermite

_LARGEST_DEGREE = 12


class Link(NamedTuple):
    """A function of one variable that is smooth between its breakpoints, with its derivative; calling it evaluates it.

    `hermite` holds the coefficients in the orthonormal h_0, h_1, ... of a polynomial, and is None for other links.
    """

    name: str
    value: Elementwise
    derivative: Elementwise
    breakpoints: tuple[float, ...] = ()
    hermite: tuple[float, ...] | None = None

    def __call__(self, z: Any) -> Any:
        return self.value(z)


def link(name: str | Link) -> Link:
    """The link of that name: one of `LINKS`, where He2, ..., He12 are h_k = He_k / sqrt(k!), of variance 1."""
    if isinstance(name, Link):
        return name
    return LINKS[check_choice("link", name, LINKS)]


def polynomial(hermite: Sequence[float], name: str = "polynomial") -> Link:
    """sum_k hermite[k] h_k(z), h_k = He_k / sqrt(k!), with h_k' = sqrt(k) h_{k-1}."""
    found = tuple(check_array("hermite", hermite, ndim=1).tolist())
    if not found:
        raise InputError("hermite must have at least one coefficient, got none")
    slopes = [math.sqrt(k) * a for k, a in enumerate(found)][1:] or [0.0]
    return Link(name, lambda z: _sum(found, z), lambda z: _sum(slopes, z), (), found)


def _sum(coefficients: Sequence[float], z: Any) -> Any:
    """sum_k c_k h_k(z) by Clenshaw's recurrence from the highest degree."""
    xp = array_namespace(z)
    z = xp.asarray(z) * 1.0
    above, current = xp.zeros_like(z), xp.zeros_like(z)
    family = Hermite()
    for k in range(len(coefficients) - 1, -1, -1):
        up = family.recurrence(k + 1)
        further = up / family.recurrence(k + 2)
        above, current = current, coefficients[k] + z / up * current - further * above
    return current


def _sign(z: Any) -> Any:
    return array_namespace(z).sign(z)


def _zero(z: Any) -> Any:
    return array_namespace(z).zeros_like(z)


def _sin(z: Any) -> Any:
    return array_namespace(z).sin(z)


def _cos(z: Any) -> Any:
    return array_namespace(z).cos(z)


def _abs(z: Any) -> Any:
    return array_namespace(z).abs(z)


def _bump(z: Any) -> Any:
    return z**2 * array_namespace(z).exp(-(z**2))


def _bump_derivative(z: Any) -> Any:
    return 2 * z * (1 - z**2) * array_namespace(z).exp(-(z**2))


def _unit(k: int) -> tuple[float, ...]:
    return tuple(np.eye(k + 1)[k].tolist())


LINKS: dict[str, Link] = {
    entry.name: entry
    for entry in (
        *(polynomial(_unit(k), f"He{k}") for k in range(1, _LARGEST_DEGREE + 1)),
        Link("relu", ACTIVATIONS["relu"].value, ACTIVATIONS["relu"].derivative, (0.0,)),
        Link("abs", _abs, _sign, (0.0,)),
        Link("sign", _sign, _zero, (0.0,)),
        Link("tanh", ACTIVATIONS["tanh"].value, ACTIVATIONS["tanh"].derivative),
        Link("sin", _sin, _cos),
        Link("cos", _cos, lambda z: -_sin(z)),
        # information and generative exponent are both 4
        Link("z2exp", _bump, _bump_derivative),
    )
}

"""Activations and links by name, each with its derivative, for NumPy and JAX arrays alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import check_choice

Elementwise = Callable[[Any], Any]


class Activation(NamedTuple):
    """An elementwise function sigma and its derivative; calling it evaluates sigma.

    At a kink the derivative is the left one (relu'(0) = 0), which is also what JAX differentiates to.
    """

    name: str
    value: Elementwise
    derivative: Elementwise

    def __call__(self, x: Any) -> Any:
        return self.value(x)


def activation(name: str) -> Activation:
    """The activation of that name: one of `ACTIVATIONS`."""
    return ACTIVATIONS[check_choice("activation", name, ACTIVATIONS)]


def array_namespace(x: Any) -> Any:
    """The module that computes with `x`: jax.numpy for JAX arrays and tracers, else NumPy."""
    # NumPy before 2.0 and Python numbers do not name their namespace.
    return x.__array_namespace__() if hasattr(x, "__array_namespace__") else np


def _identity(x: Any) -> Any:
    return x


def _one(x: Any) -> Any:
    return array_namespace(x).ones_like(x)


def _tanh(x: Any) -> Any:
    return array_namespace(x).tanh(x)


def _tanh_derivative(x: Any) -> Any:
    return 1 - _tanh(x) ** 2


def _erf(x: Any) -> Any:
    if array_namespace(x) is np:
        from scipy.special import erf

        return erf(x)
    import jax.scipy.special

    return jax.scipy.special.erf(x)


def _erf_derivative(x: Any) -> Any:
    return 2 / math.sqrt(math.pi) * array_namespace(x).exp(-(x**2))


def _softplus(x: Any) -> Any:
    xp = array_namespace(x)
    return xp.logaddexp(x, xp.zeros_like(x))


def _sigmoid(x: Any) -> Any:
    return (1 + _tanh(x / 2)) / 2


def _relu(x: Any) -> Any:
    xp = array_namespace(x)
    # "x <= 0" so that NaN stays NaN; `where` so that JAX's slope at 0 is 0 (it takes 1/2 for `maximum`).
    return xp.where(x <= 0, xp.zeros_like(x), x)


def _step(x: Any) -> Any:
    xp = array_namespace(x)
    return xp.where(x <= 0, xp.zeros_like(x), xp.ones_like(x))


ACTIVATIONS: dict[str, Activation] = {
    entry.name: entry
    for entry in (
        Activation("identity", _identity, _one),
        Activation("tanh", _tanh, _tanh_derivative),
        Activation("erf", _erf, _erf_derivative),
        Activation("softplus", _softplus, _sigmoid),
        Activation("relu", _relu, _step),
        Activation("relu2", lambda x: _relu(x) ** 2, lambda x: 2 * _relu(x)),
        Activation("relu3", lambda x: _relu(x) ** 3, lambda x: 3 * _relu(x) ** 2),
    )
}

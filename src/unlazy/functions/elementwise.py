"""Functions of one variable by name, for NumPy and JAX arrays alike: links of targets and activations of networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_array, check_choice
from unlazy.functions.orthogonal import Hermite, check_breakpoints

Elementwise = Callable[[Any], Any]

_LARGEST_DEGREE = 12
_SLOPE_STEP = 1e-5


class Link(NamedTuple):
    """A function of one variable that is smooth between its breakpoints (kinks and jumps); calling it evaluates it.

    At a kink the derivative is the left one (relu'(0) = 0), which is also what JAX differentiates to.
    `hermite_coefficients` are those of a polynomial in the orthonormal h_0, h_1, ..., and None for other functions.
    """

    name: str
    value: Elementwise
    derivative: Elementwise | None = None
    breakpoints: tuple[float, ...] = ()
    hermite_coefficients: tuple[float, ...] | None = None

    def __call__(self, x: Any) -> Any:
        return self.value(x)

    def slope(self, x: Any) -> Any:
        """The derivative; where none is given JAX's, or central differences of NumPy arrays."""
        if self.derivative is not None:
            return self.derivative(x)
        if array_namespace(x) is np:
            return (self.value(x + _SLOPE_STEP) - self.value(x - _SLOPE_STEP)) / (2 * _SLOPE_STEP)
        import jax

        return jax.jvp(self.value, (x,), (array_namespace(x).ones_like(x),))[1]


Activation = Link
"""An activation is a function of one variable, too."""


def as_link(function: str | Link | Elementwise, name: str = "link") -> Link:
    """The function of a name of `LINKS`, a `Link` as it is, or any function of arrays as a link without breakpoints.

    He2, ..., He12 are h_k = He_k / sqrt(k!), of variance 1. `name` is what errors call it.
    """
    if isinstance(function, str):
        return LINKS[check_choice(name, function, LINKS)]
    if isinstance(function, Link):
        check_breakpoints(function.breakpoints)
        return function
    if callable(function):
        return Link(getattr(function, "__name__", "function"), _Asked(name, function))
    raise InputError(f"{name} must be one of {', '.join(LINKS)}, a Link or a function of arrays, got {function!r}")


def as_activation(function: str | Link | Elementwise, name: str = "activation") -> Link:
    """`as_link` for the activation of a network."""
    return as_link(function, name)


def polynomial(hermite_coefficients: Sequence[float], name: str = "polynomial") -> Link:
    """sum_k hermite_coefficients[k] h_k(z), h_k = He_k / sqrt(k!), with h_k' = sqrt(k) h_{k-1}."""
    found = tuple(check_array("hermite_coefficients", hermite_coefficients, ndim=1).tolist())
    slopes = [math.sqrt(k) * a for k, a in enumerate(found)][1:] or [0.0]
    return Link(name, lambda z: _sum(found, z), lambda z: _sum(slopes, z), (), found)


def array_namespace(x: Any) -> Any:
    """The module that computes with `x`: jax.numpy for JAX arrays and tracers, else NumPy."""
    # NumPy before 2.0 and Python numbers do not name their namespace.
    return x.__array_namespace__() if hasattr(x, "__array_namespace__") else np


@dataclass(frozen=True)
class _Asked:
    """A user's function: what it raises becomes a line about the argument that it was given as."""

    name: str
    function: Elementwise

    def __call__(self, x: Any) -> Any:
        try:
            found = self.function(x)
        except InputError:
            raise
        except Exception as error:
            kind = "NumPy" if array_namespace(x) is np else "JAX"
            said = (
                f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no reason'}"
            )
            raise InputError(f"{self.name} must be a function of {kind} arrays, but it raised {said}") from error
        try:
            shape = np.shape(found)
        except ValueError:
            raise InputError(f"{self.name} must return an array of numbers, got a ragged list") from None
        if shape not in ((), np.shape(x)):
            raise InputError(f"{self.name} must return one number per point, got shape {shape} for {np.shape(x)}")
        return found


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


ACTIVATIONS: dict[str, Link] = {
    entry.name: entry
    for entry in (
        Link("identity", _identity, _one),
        Link("tanh", _tanh, _tanh_derivative),
        Link("erf", _erf, _erf_derivative),
        Link("softplus", _softplus, _sigmoid),
        Link("relu", _relu, _step, (0.0,)),
        Link("relu2", lambda x: _relu(x) ** 2, lambda x: 2 * _relu(x), (0.0,)),
        Link("relu3", lambda x: _relu(x) ** 3, lambda x: 3 * _relu(x) ** 2, (0.0,)),
    )
}
"""What networks use."""

LINKS: dict[str, Link] = {
    entry.name: entry
    for entry in (
        *(polynomial(_unit(k), f"He{k}") for k in range(1, _LARGEST_DEGREE + 1)),
        Link("abs", _abs, _sign, (0.0,)),
        Link("sign", _sign, _zero, (0.0,)),
        Link("sin", _sin, _cos),
        Link("cos", _cos, lambda z: -_sin(z)),
        # information and generative exponent are both 4
        Link("z2exp", _bump, _bump_derivative),
        *ACTIVATIONS.values(),
    )
}
"""All of them."""

"""Networks in the standard, the neural-tangent and the maximal-update parametrisation: how they scale with width."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unlazy.checks import InputError, check_choice, check_whole
from unlazy.functions.elementwise import as_activation

_SIDE, _STRIDE = 3, 2
"""Pixels a side of a filter, and between two of its places."""


class Exponents(NamedTuple):
    """Weights of deviation N^-deviation times N^-multiplier: of the first layer, the hidden ones and the readout."""

    multiplier: tuple[float, float, float]
    deviation: tuple[float, float, float]


PARAMETRISATIONS = {
    "standard": Exponents((0, 0, 0), (0, 0.5, 0.5)),
    "ntk": Exponents((0, 0.5, 0.5), (0, 0, 0)),
    "mup": Exponents((-0.5, 0, 0.5), (0.5, 0.5, 0.5)),
}
"""a and b of Yang & Hu (2021), Table 1; their c, an exponent of the step size, is the trainer's."""


class ScaledMLP(eqx.Module):
    """Hidden layers of N neurons without biases, and a linear readout.

        h_1 = c_1 N^-a_1 W_1 x,    h_l = c N^-a_2 W_l sigma(h_(l-1)),    f = c N^-a_3 W sigma(h_depth).

    `layers` are the weights (outputs, inputs); `multipliers` are the factors before them, which are not trained. The
    numbers c, which do not depend on N, make every h, and in the parametrisations "standard" and "ntk" f, of variance 1
    at the start for rows x of mean square 1.
    """

    multipliers: Array
    layers: tuple[Array, ...]
    activation: str = eqx.field(static=True)

    def __call__(self, x: Array) -> Array:
        """The outputs (k,) of one row, or of one image as a row of its pixels."""
        *hidden, readout = zip(self.layers, jax.lax.stop_gradient(self.multipliers), strict=True)
        h = x.ravel()
        for weights, multiplier in hidden:
            h = as_activation(self.activation)(multiplier * (weights @ h))
        return readout[1] * (readout[0] @ h)

    @classmethod
    def random(
        cls,
        rng: np.random.Generator,
        shape: tuple[int, ...],
        width: int,
        *,
        depth: int = 2,
        outputs: int = 1,
        parametrisation: str = "standard",
        activation: str = "relu",
    ) -> ScaledMLP:
        """Normal weights for rows or images of a shape."""
        inputs = math.prod(shape)
        shapes: list[tuple[int, ...]] = [(width, inputs), *[(width, width)] * (_checked(depth) - 1), (outputs, width)]
        return cls(*_start(rng, shapes, [inputs, *[1] * depth], width, parametrisation, activation), activation)


class ScaledCNN(eqx.Module):
    """Hidden convolutions of N channels over 3 x 3 pixels, with stride 2, and a linear readout of the channels' means.

    As `ScaledMLP`, with weights (outputs, inputs, 3, 3). Pixels that a convolution does not reach are dropped. The
    patches of an image are its product with a matrix of 0 and 1: on small images this compiles and runs faster than
    other ways.
    """

    multipliers: Array
    layers: tuple[Array, ...]
    activation: str = eqx.field(static=True)

    def __call__(self, x: Array) -> Array:
        """The outputs (k,) of one image (rows, columns, colours)."""
        *hidden, readout = zip(self.layers, jax.lax.stop_gradient(self.multipliers), strict=True)
        sides, h = x.shape[:2], x.reshape(-1, x.shape[2])
        for weights, multiplier in hidden:
            patches = jnp.einsum("spq,qc->pcs", _patches(*sides), h)
            sides = tuple(map(_reached, sides))
            flat = patches.reshape(len(patches), -1) @ weights.reshape(len(weights), -1).T
            h = as_activation(self.activation)(multiplier * flat)
        return readout[1] * (readout[0] @ h.mean(axis=0))

    @classmethod
    def random(
        cls,
        rng: np.random.Generator,
        shape: tuple[int, ...],
        width: int,
        *,
        depth: int = 2,
        outputs: int = 1,
        parametrisation: str = "standard",
        activation: str = "relu",
    ) -> ScaledCNN:
        """Normal weights for images of a shape (rows, columns, colours)."""
        least = 2 ** (_checked(depth) + 1) - 1
        if len(shape) != 3 or min(shape[:2]) < least:
            raise InputError(
                f"{depth} convolutions need images (rows, columns, colours) of {least} x {least} pixels or more, got "
                f"{shape}"
            )
        area, side = _SIDE**2, (_SIDE, _SIDE)
        shapes = [(width, shape[2], *side), *[(width, width, *side)] * (_checked(depth) - 1), (outputs, width)]
        inputs = [area * shape[2], *[area] * (depth - 1), 1]
        return cls(*_start(rng, shapes, inputs, width, parametrisation, activation), activation)


def _checked(depth: int) -> int:
    return check_whole("depth", depth, 1)


def _start(
    rng: np.random.Generator,
    shapes: list[tuple[int, ...]],
    inputs: list[int],
    width: int,
    parametrisation: str,
    activation: str,
) -> tuple[Array, tuple[Array, ...]]:
    """The multipliers N^-a / sqrt(inputs), after the first layer also over sqrt(E sigma(z)^2), and the weights."""
    check_choice("parametrisation", parametrisation, PARAMETRISATIONS)
    exponents = PARAMETRISATIONS[parametrisation]
    places = [0, *[1] * (len(shapes) - 2), 2]
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    square = float(weights @ np.asarray(as_activation(activation)(points)) ** 2 / weights.sum())
    multipliers = [
        width ** -exponents.multiplier[place] / math.sqrt(count * (square if place else 1))
        for place, count in zip(places, inputs, strict=True)
    ]
    layers = tuple(
        jnp.asarray(rng.standard_normal(shape, np.float32) * np.float32(width ** -exponents.deviation[place]))
        for shape, place in zip(shapes, places, strict=True)
    )
    return jnp.asarray(multipliers, jnp.float32), layers


def _reached(side: int) -> int:
    """Places of a filter along a side."""
    return (side - _SIDE) // _STRIDE + 1


@cache
def _patches(rows: int, columns: int) -> np.ndarray:
    """(9, places, pixels): 1 where the pixel is that one of the nine under the filter at the place."""

    def along(side: int) -> np.ndarray:
        corners = _STRIDE * np.arange(_reached(side))
        return (corners[:, None] + np.arange(_SIDE)[:, None, None] == np.arange(side)).astype(np.float32)

    both = np.einsum("ipa,jqb->ijpqab", along(rows), along(columns))
    return both.reshape(_SIDE**2, -1, rows * columns)

"""What is checked of a functional before its particles move, and the curvature that limits the step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError
from unlazy.training.mean_field.langevin.engine import Functional, data_length, energy, variation_gradient

_ITERATIONS = 40
_TOLERANCE = 1e-5


def checked_particles(particles: Any) -> Array:
    """The particles as an array (N, d) of JAX's float, or an error."""
    try:
        array = np.asarray(particles)
        array = array if array.dtype in (np.float32, np.float64) else array.astype(float)
    except (TypeError, ValueError):
        raise InputError(f"start must be an array (N, d) of numbers, got {type(particles).__name__}") from None
    if array.ndim != 2 or array.shape[0] < 2 or array.shape[1] < 1:
        raise InputError(f"start must have the shape (N, d) with N >= 2 and d >= 1, got {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"start must be finite, got {array[~np.isfinite(array)].flat[0]} among them")
    return jnp.asarray(array)


def check_functional(functional: Functional, particles: Array, data: Any, *, mean_over_rows: bool) -> None:
    """Raise an `InputError` unless F is a finite, differentiable scalar that does not depend on the particles' order.

    With `mean_over_rows` F must also be a mean over rows, without which mini-batches are biased. The two are checked on
    one random permutation and one cut of the rows, to 1e-5 of the size of F (1e-4 for the cut and 1e-3 of the gradient
    in single precision). Convexity in the law, on which all guarantees rest, cannot be checked.
    """
    if not callable(functional):
        raise InputError(f"functional must be a function of the particles, got {functional!r}")
    arguments = () if data is None else (data,)
    shape = "F(particles)" if data is None else "F(particles, rows)"
    try:
        result = jax.eval_shape(functional, particles, *arguments)
    except (TypeError, ValueError, jax.errors.JAXTypeError) as error:
        raise InputError(f"functional must be a JAX function {shape}; calling it gave: {_first_line(error)}") from error
    leaves = jax.tree.leaves(result)
    if len(leaves) != 1 or leaves[0].shape != () or not jnp.issubdtype(leaves[0].dtype, jnp.floating):
        found = ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves) or "nothing"
        raise InputError(f"functional must return one real number for all particles, got {found}")

    # compiled once for the three evaluations here, and not primitive by primitive
    slope = jax.jit(jax.value_and_grad(functional))
    value, gradient = slope(particles, *arguments)
    _check_finite(float(value), np.asarray(gradient))
    precise = gradient.dtype == jnp.float64
    _check_order(slope, particles, arguments, _TOLERANCE if precise else 100 * _TOLERANCE)
    if mean_over_rows and data is not None:
        _check_mean_over_rows(functional, particles, data, float(value), _TOLERANCE if precise else 10 * _TOLERANCE)


def _check_order(slope: Callable, particles: Array, arguments: tuple[Any, ...], tolerance: float) -> None:
    # moved a little, as the gradient may vanish at the start
    start = np.asarray(particles)
    order = np.random.default_rng(0).permutation(len(start))
    jitter = np.random.default_rng(1).standard_normal(start.shape) * (0.1 * float(start.std()) + 1e-3)
    moved = (start + jitter).astype(start.dtype)
    (value, gradient), (other, permuted) = (
        (float(found), np.asarray(along, np.float64))
        for found, along in (slope(jnp.asarray(place), *arguments) for place in (moved, moved[order]))
    )
    size, change = float(np.linalg.norm(gradient)), float(np.linalg.norm(permuted - gradient[order]))
    scale = max(abs(value), size * float(np.linalg.norm(moved)))
    if abs(other - value) > _TOLERANCE * scale or change > tolerance * size:
        raise InputError(
            "functional must not depend on the order of the particles, as it stands for a functional of their law; a "
            f"permutation changed it from {value:.6g} to {other:.6g}, its gradient by "
            f"{change / size:.2g} of its norm"
        )


def _check_mean_over_rows(functional: Functional, particles: Array, data: Any, value: float, tolerance: float) -> None:
    n = data_length(data)
    half = n // 2
    if half == 0:
        return

    def parts(particles: Array, data: Any) -> list[Array]:
        cuts = slice(half), slice(half, None)
        return [functional(particles, jax.tree.map(lambda leaf, cut=cut: leaf[cut], data)) for cut in cuts]

    first, rest = map(float, jax.jit(parts)(particles, data))
    joined = (half * first + (n - half) * rest) / n
    if not abs(joined - value) <= tolerance * max(abs(value), abs(first), abs(rest)):
        raise InputError(
            "functional must be a mean over rows for mini-batches, else they are biased; on all rows it is "
            f"{value:.6g}, but {joined:.6g} as the mean over two parts of them"
        )


@partial(jax.jit, static_argnames="functional")
def curvature(functional: Functional, particles: Array, confinement: ArrayLike, data: Any = None) -> Array:
    """The largest eigenvalue of N times the Hessian of F + confinement mean|x|^2 in all particles.

    By power iteration, hence from below, within a few percent if it is isolated. One step multiplies deviations by
    1 - step_size times the Hessian: steps above 2/curvature are unstable at these particles, and exactly there if F is
    quadratic.
    """

    def hessian_times(vector: Array) -> Array:
        return jax.jvp(lambda x: variation_gradient(functional, x, data), (particles,), (vector,))[1]

    def iterate(vector: Array, shift: ArrayLike) -> tuple[Array, Array]:
        def one(_: int, pair: tuple[Array, Array]) -> tuple[Array, Array]:
            image = hessian_times(pair[0]) + shift * pair[0]
            size = jnp.linalg.norm(image)
            return image / jnp.where(size > 0, size, 1), jnp.vdot(pair[0], image)

        return jax.lax.fori_loop(0, _ITERATIONS, one, (vector, jnp.zeros((), particles.dtype)))

    begin = jax.random.normal(jax.random.key(0), (particles.size,), particles.dtype).reshape(particles.shape)
    begin /= jnp.linalg.norm(begin)
    vector, value = iterate(begin, 0.0)
    # a dominant negative eigenvalue hides the largest one until it is shifted away
    shift = jnp.maximum(-value, 0) * 1.1
    shifted = iterate(jnp.where(shift > 0, begin, vector), shift)[1] - shift
    return jnp.maximum(shifted, value) + 2 * jnp.asarray(confinement, particles.dtype)


@partial(jax.jit, static_argnames="functional")
def total_energy(functional: Functional, particles: Array, confinement: ArrayLike, data: Any = None) -> Array:
    """`energy`, compiled."""
    return energy(functional, particles, confinement, data)


def largest_energy(
    functional: Functional, particles: Array, temperature: float, confinement: float, data: Any
) -> float:
    """What only an unstable run exceeds: 1000 times the energies of the start and of the confinement's own law."""
    n, d = particles.shape
    own = abs(float(total_energy(functional, particles, confinement, data)))
    if confinement > 0:
        spread = np.sqrt(temperature / (2 * confinement))
        cloud = spread * np.random.default_rng(1).standard_normal((n, d))
        free = abs(float(total_energy(functional, jnp.asarray(cloud, particles.dtype), confinement, data)))
        own = max(own, free if np.isfinite(free) else 0.0)
    return 1e3 * (own + temperature * d)


def _check_finite(value: float, gradient: np.ndarray) -> None:
    if not np.isfinite(value):
        raise InputError(f"functional must be finite at the starting particles, got {value}")
    if not np.isfinite(gradient).all():
        raise InputError(
            "functional must have a finite gradient at the starting particles, got "
            f"{gradient[~np.isfinite(gradient)].flat[0]} in {np.count_nonzero(~np.isfinite(gradient))} of "
            f"{gradient.size} entries"
        )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]

"""Functionals of a law for the sampler: maximum mean discrepancy to data, kernel Stein discrepancy to a target.

Both are F(particles) of particles (N, d), without confinement, convex along mixtures of laws, and in Gram form: work is
O(N^2 d) and memory O(N^2), of the value and of its gradient. `smoothed_log_density` is the density estimate that the
first one fits. Sources: Suzuki, Wu & Nitanda (2023), examples; Chwialkowski, Strathmann & Gretton (2016) and Liu, Lee
& Jordan (2016) for the Stein discrepancy; Gretton et al. (2012) for the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unlazy.checks import InputError, check_array, check_known

_BLOCK = 4_000_000
"""Entries of a Gram matrix that are formed at once where only its mean is wanted."""
_FEW = 3


def mmd_functional(data: Any, bandwidth: float, smoothing: float) -> Callable[..., Array]:
    """F(particles) = MMD^2(g * mu_hat, data): how far the particles, smoothed by g = N(0, s^2 I), are from the data.

    With k = exp(-r^2/(2 l^2)), l the `bandwidth`, s the `smoothing`, and k convolved m times with g, which is
    k_m = (l^2/w)^(d/2) exp(-r^2/(2w)), w = l^2 + m s^2,

        F = mean_ij k_2(x_i - x_j) - 2 mean_ij k_1(x_i - data_j) + mean_ij k(data_i - data_j),

    terms i = j included. The second variation is 2 k_2. `data` has shape (n,) or (n, d); lengths are in its units. The
    result is also a function F(particles, rows) and then a mean over rows: `sample_mean_field(F, start, data=data,
    batch_size=32, ...)` takes mini-batches. The confinement of the dynamics pulls to 0, so that data should be centred.
    Exact; in single precision r^2 is right to about 1e-6 times the squared distance from the data's mean.
    """
    rows = _points("data", data)
    length = float(check_array("bandwidth", bandwidth, ndim=0, above=0))
    spread = float(check_array("smoothing", smoothing, ndim=0, low=0))
    n, d = rows.shape
    centre = rows.mean(axis=0)
    near = rows - centre
    step = max(_BLOCK // n, 1)
    within = sum(float(_gaussian(near[i : i + step], near, length**2).sum()) for i in range(0, n, step)) / n**2

    def smoothed(times: int, x: Array, y: Array) -> Array:
        wide = length**2 + times * spread**2
        return (length**2 / wide) ** (d / 2) * _gaussian(x, y, wide)

    def functional(particles: Array, rows: Any = near + centre) -> Array:
        _check_dimension(particles, d)
        x = particles - jnp.asarray(centre, particles.dtype)
        # moved in the precision of the data: far from 0 single precision would lose their differences
        y = jnp.asarray(rows - centre, particles.dtype).reshape(-1, d)
        return smoothed(2, x, x).mean() - 2 * smoothed(1, x, y).mean() + within

    return functional


def smoothed_log_density(particles: Any, smoothing: float, points: Any) -> np.ndarray:
    """log (g * mu_hat)(z) at points z (m, d) or (m,): the mixture of N(x_i, s^2 I), one component for each particle.

        log mean_i exp(-|z - x_i|^2/(2 s^2)) - (d/2) log(2 pi s^2),

    by logsumexp, hence finite far away. Particles (N, d) or (N,), or (T, N, d): clouds at T times, all taken together.
    In nats, per unit of volume of the particles' units.
    """
    from scipy.special import logsumexp

    array = check_array("particles", particles)
    centres = _points("particles", array.reshape(-1, array.shape[-1]) if array.ndim == 3 else array)
    places = _points("points", points)
    spread = float(check_array("smoothing", smoothing, ndim=0, above=0))
    count, d = centres.shape
    if places.shape[1] != d:
        raise InputError(f"points must have the dimension of the particles, {d}, got {places.shape[1]}")
    shift = centres.mean(axis=0)
    near, step = (centres - shift) / spread, max(_BLOCK // count, 1)
    blocks = [
        logsumexp(-_squares((places[i : i + step] - shift) / spread, near) / 2, axis=1)
        for i in range(0, len(places), step)
    ]
    return np.concatenate(blocks) - np.log(count) - d / 2 * np.log(2 * np.pi * spread**2)


def stein_functional(
    score: Callable[[Array], Array], damping_length: float = 10.0, bandwidth: float = 1.0
) -> Callable[[Array], Array]:
    """F(particles) = KSD^2(mu_hat, pi) = mean_ij u(x_i, x_j), the squared kernel Stein discrepancy to a target law pi.

    `score` is x -> grad log pi(x) of one point, (d,) to (d,), as a JAX function: `jax.grad(log_density)`, for which
    the constant of pi need not be known. u is `stein_gram`'s, terms i = j included, and F(pi) = 0. A gradient costs one
    score and one vector-Jacobian product of it for each particle. The kernel is damped around 0 with the length
    `damping_length`, without which u grows with |score|^2: pi should have most of its mass within it. F hardly sees the
    weights of modes that are farther apart than `bandwidth`. The second variation is 2u.
    """
    if not callable(score):
        raise InputError(f"score must be a function of one point (d,), got {score!r}")
    damping_length = float(check_array("damping_length", damping_length, ndim=0, above=0))
    bandwidth = float(check_array("bandwidth", bandwidth, ndim=0, above=0))

    def functional(particles: Array) -> Array:
        shape = jax.eval_shape(score, particles[0])
        if getattr(shape, "shape", None) != particles.shape[1:]:
            raise InputError(
                f"score must map a point of shape {particles.shape[1:]} to the same shape, got "
                f"{getattr(shape, 'shape', type(shape).__name__)}"
            )
        scores = jax.vmap(score)(particles)
        return stein_gram(particles, scores, particles, scores, damping_length, bandwidth).mean()

    return functional


def stein_gram(
    points: Any, scores: Any, others: Any, other_scores: Any, damping_length: float, bandwidth: float
) -> Any:
    """u(x, y), the Stein kernel of the damped Gaussian kernel, for points (N, d) and (M, d) with their scores; (N, M).

    k(x, y) = exp(-(|x|^2 + |y|^2)/(2 s1^2) - |x - y|^2/(2 s2^2)), s1 the `damping_length` and s2 the `bandwidth`, and

        u = s(x).s(y) k + s(x).grad_y k + grad_x k.s(y) + tr grad_x grad_y k
          = k [a(x).a(y) + (a(x) - a(y)).(x - y)/s2^2 - |x - y|^2/s2^4 + d/s2^2],     a(x) = s(x) - x/s1^2.

    E_pi u(x, .) = 0 for every x, and u is positive semidefinite. Of NumPy or JAX arrays.
    """
    damping_length, bandwidth = (
        check_known(name, value, ndim=0, above=0)
        for name, value in (("damping_length", damping_length), ("bandwidth", bandwidth))
    )
    x, own = _with_scores("points", points, "scores", scores)
    y, other = _with_scores("others", others, "other_scores", other_scores)
    if y.shape[1] != x.shape[1]:
        raise InputError(f"others must have the dimension of the points, {x.shape[1]}, got {y.shape[1]}")
    xp = jnp if isinstance(x, Array) else np
    wide = bandwidth**2
    a, b = own - x / damping_length**2, other - y / damping_length**2
    squares = _squares(x, y)
    size = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1)
    kernel = xp.exp(-size / (2 * damping_length**2) - squares / (2 * wide))
    crossed = (a * x).sum(axis=1)[:, None] + (b * y).sum(axis=1) - _products(a, y) - _products(x, b)
    return kernel * (_products(a, b) + crossed / wide - squares / wide**2 + x.shape[1] / wide)


def _with_scores(name: str, points: Any, scores_name: str, scores: Any) -> tuple[Any, Any]:
    """Points (N, d) and their scores, as they are if they are arrays."""
    found = []
    for called, value in ((name, points), (scores_name, scores)):
        array = value if isinstance(value, Array | np.ndarray) else check_array(called, value)
        found.append(check_known(called, array, ndim=2))
    if found[1].shape != found[0].shape:
        raise InputError(
            f"{scores_name} must have the shape {tuple(found[0].shape)} of {name}, got {tuple(found[1].shape)}"
        )
    return found[0], found[1]


def _gaussian(x: Any, y: Any, variance: float) -> Any:
    xp = jnp if isinstance(x, Array) else np
    return xp.exp(-_squares(x, y) / (2 * variance))


def _squares(x: Any, y: Any) -> Any:
    """|x_i - y_j|^2: axis by axis in few dimensions, else in Gram form, which rounding may leave a little below 0."""
    if x.shape[1] <= _FEW:
        return sum((x[:, axis, None] - y[:, axis]) ** 2 for axis in range(x.shape[1]))
    return (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2 * (x @ y.T)


def _products(x: Any, y: Any) -> Any:
    """x_i.y_j; axis by axis in few dimensions, where a batched matrix product is slow on a CPU."""
    if x.shape[1] <= _FEW:
        return sum(x[:, axis, None] * y[:, axis] for axis in range(x.shape[1]))
    return x @ y.T


def _points(name: str, value: Any) -> np.ndarray:
    array = check_array(name, value)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise InputError(f"{name} must have shape (n,) or (n, d), got {array.shape}")
    return array


def _check_dimension(particles: Array, d: int) -> None:
    if particles.ndim != 2 or particles.shape[1] != d:
        raise InputError(f"particles must have shape (N, {d}), the dimension of the data, got {particles.shape}")

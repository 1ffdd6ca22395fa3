"""Online SGD on a smoothed correlation loss: the drift of a neuron's overlap, and the samples until it is found.

The loss at w is averaged over (w + lambda e)/(1 + lambda^2)^(1/2), e uniform on the unit sphere orthogonal to w, where
lambda is the radius. Link and activation are h_k. With u = w.x, rho = |x - u w| and t = e.x/rho, a coordinate of a
uniform point of the sphere in d - 1 dimensions, an example pushes w by psi (x - u w),

    psi = y E_t[h_k'(v) (1 - lambda u t / rho)] / (1 + lambda^2)^(1/2),   v = (u + lambda rho t) / (1 + lambda^2)^(1/2).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole, common_shape
from unlazy.functions.orthogonal import Hermite
from unlazy.numerics.quadrature import hermite_rule, panels
from unlazy.theory.index_models.online_sgd import Drift

_LARGEST_DEGREE = 8
_LARGEST_D = 1e9
_GRADES = 12


def smoothed_drift(hermite_degree: int, overlap: ArrayLike, d: ArrayLike, smoothing_radius: ArrayLike) -> Drift:
    """Pull S(m) and square V(m) of a neuron's update on the smoothed loss, link and activation h_k, 1 <= k <= 8.

        S(m) = (1 - m^2) d/dm E_t[((m + lambda (1 - m^2)^(1/2) t) / (1 + lambda^2)^(1/2))^k],   V(m) = E[psi^2 rho^2]/d

    At the overlap m < lambda d^(-1/2) the pull is of order lambda^(-1) d^(-(k-1)/2) for odd k and m lambda^(-2)
    d^(-(k-2)/2) for even k, beyond it m^(k-1) lambda^(-k). Exact at every d >= 3, by Gauss rules of polynomials. |m| <
    1 and `smoothing_radius` lambda >= 0, where 0 is online SGD. All arguments but the degree broadcast. Source: Damian,
    Nichani, Ge & Lee (2023).

    >>> plain, smooth = smoothed_drift(hermite_degree=3, overlap=0.01, d=10_000, smoothing_radius=[0.0, 10.0]).pull
    >>> print(f"{plain:.6f} {smooth:.6f}")
    0.000300 0.000030
    """
    k = check_whole("hermite_degree", hermite_degree, 1, _LARGEST_DEGREE)
    m = check_array("overlap", overlap, above=-1, below=1)
    sizes = check_array("d", d, low=3, high=_LARGEST_D)
    radii = check_array("smoothing_radius", smoothing_radius, low=0, high=1e6)
    shape = common_shape(overlap=m, d=sizes, smoothing_radius=radii)
    flat = [np.broadcast_to(each, shape).ravel() for each in (m, sizes, radii)]
    found = np.empty((2, flat[0].size))
    for dimension, size in set(zip(flat[1].tolist(), flat[2].tolist(), strict=True)):
        here = (flat[1] == dimension) & (flat[2] == size)
        found[:, here] = _drift(k, flat[0][here], dimension, size)
    return Drift(*(row.reshape(shape)[()] for row in found))


def smoothed_samples(
    hermite_degree: int,
    d: float,
    smoothing_radius: float,
    step_size: float,
    *,
    start_overlap: float,
    target_overlap: float = 0.5,
) -> float:
    """Samples until the overlap grows from `start_overlap` to `target_overlap` on the smoothed loss.

        n = d int_start^target dm / (gamma S(m) - gamma^2 m V(m) / 2)

    with `smoothed_drift` and `step_size` gamma, which is that of an update over d. Infinite (inf) where the flow has a
    zero on the way. Fluctuations are left out. At lambda = d^(1/4) and gamma of order d^(1/2) n is of order d^(k/2) for
    k = 3 and 4, up to a logarithm.

    >>> n = smoothed_samples(3, d=1024, smoothing_radius=6.0, step_size=10.0, start_overlap=0.03, target_overlap=0.5)
    >>> print(round(n, -3))
    57000.0
    """
    from_m, to_m = (
        float(check_array(name, each, ndim=0, above=0, below=1))
        for name, each in (("start_overlap", start_overlap), ("target_overlap", target_overlap))
    )
    if from_m >= to_m:
        raise InputError(f"target_overlap must be above start_overlap = {from_m:g}, got {to_m:g}")
    gamma = float(check_array("step_size", step_size, ndim=0, above=0, high=1e12))
    edges = np.exp(np.linspace(math.log(from_m), math.log(to_m), _GRADES + 1))
    m, weights = panels(edges, 12)
    size = float(check_array("d", d, ndim=0, low=3, high=_LARGEST_D))
    pull, square = smoothed_drift(hermite_degree, m, size, check_array("smoothing_radius", smoothing_radius, ndim=0))
    speeds = gamma * pull - gamma**2 / 2 * m * square
    return float(size * np.sum(weights / speeds)) if (speeds > 0).all() else math.inf


def _drift(k: int, m: np.ndarray, d: float, smoothing_radius: float) -> tuple[np.ndarray, np.ndarray]:
    long = math.sqrt(1 + smoothing_radius**2)
    t, weights = _rule(np.zeros(k + 2), [_coordinate(i, d - 1) for i in range(1, k + 2)])
    side = np.sqrt(1 - m**2)[:, None]
    seen = (m[:, None] + smoothing_radius * side * t) / long
    pull = (1 - m**2) * (k * seen ** (k - 1) * (1 - smoothing_radius * m[:, None] * t / side) / long @ weights)
    # y^2 psi^2 rho^2 is a polynomial of degree 4 k in u and v and of 2 k in the square of what is orthogonal to both
    nodes, each = hermite_rule(2 * k + 2)
    half = (d - 4) / 2
    rest, share = _rule(2 * np.arange(k + 2) + 1 + half, [math.sqrt(i * (i + half)) for i in range(1, k + 2)])
    u, v, square = np.meshgrid(nodes, nodes, 2 * rest, indexing="ij")
    total = each[:, None, None] * each[:, None] * share
    rho = np.sqrt(v**2 + square)
    slope = np.zeros_like(u)
    for place, weight in zip(t, weights, strict=True):
        inner = (u + smoothing_radius * rho * place) / long
        slope += (
            weight
            * math.sqrt(k)
            * Hermite().values(inner.ravel(), k)[k - 1].reshape(u.shape)
            * (1 - smoothing_radius * u * place / rho)
        )
    factor = total * (slope / long) ** 2 * rho**2 / d
    squares = [
        np.sum(factor * Hermite().values((at * u + math.sqrt(1 - at**2) * v).ravel(), k)[k].reshape(u.shape) ** 2)
        for at in m
    ]
    return pull, np.array(squares)


def _coordinate(i: int, d: float) -> float:
    """The recurrence of polynomials orthogonal under a coordinate of a uniform point of the sphere in d dimensions."""
    if i == 1:
        return math.sqrt(1 / d)
    mu = (d - 2) / 2
    return math.sqrt(i * (i + 2 * mu - 1) / (4 * (i + mu) * (i + mu - 1)))


def _rule(diagonal: Any, beside: Any) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the Gauss rule of a probability law from its recurrence (Golub & Welsch 1969)."""
    from scipy.linalg import eigh_tridiagonal

    nodes, vectors = eigh_tridiagonal(np.asarray(diagonal, float), np.asarray(beside, float))
    return nodes, vectors[0] ** 2

"""How many prompts the first gradient step of attention needs: its noise, exactly, next to its expectation.

The setting is that of `first_step`. One prompt of n labelled inputs and one labelled query has the gradient

    g = y_q grad_w [relu(w.x_q + b) phi] / 2,      phi = (1/n) sum_l y_l relu(w.x_l + b),

whose mean is `prompt_gradient`. Its mean square needs the plane of w and the task's direction only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.functions.orthogonal import Hermite
from unlazy.theory.in_context.first_step import prompt_gradient

_LARGEST_DEGREE = 10
_FAR = 12.0
"""The normal density is 0 in floating point, next to 1, beyond."""
_NODES = 100
_LARGEST_COUNT = 10**15


class PromptGradientSquares(NamedTuple):
    """Mean squares of the gradient of every neuron, (..., m), with P the projection on the tasks' subspace."""

    inside: np.ndarray
    """E |P g|^2, in the subspace."""
    outside: np.ndarray
    """E |g - P g|^2, beside it."""


def prompt_gradient_squares(
    weights: ArrayLike,
    biases: ArrayLike,
    subspace: ArrayLike,
    lowest_degree: int,
    highest_degree: int,
    tasks: ArrayLike,
    context: float,
    noise_variance: float = 0.0,
) -> PromptGradientSquares:
    """Mean squares of the gradient's mean over T = `tasks` prompts of n = `context` rows and one query each.

    With R = P or I - P, y^2 short for f^2 + `noise_variance`, 1 for 1(w.x > -b) and relu for relu(w.x + b),

        E |R g|^2 = (1 - 1/T) |R E g|^2 + E_task[Q_0 C_0 + 2 Q_1.C_1 + Q_2 C_2] / (4 T),
        Q_0 = E y^2 1 |R x|^2,      C_0 = (1 - 1/n) phi^2 + Q_2/n,               phi = E f relu,
        Q_1 = E y^2 relu 1 R x,     C_1 = (1 - 1/n) phi R grad phi + Q_1/n,
        Q_2 = E y^2 relu^2,         C_2 = (1 - 1/n) |R grad phi|^2 + Q_0/n.

    The expectations over x are integrals over the plane of w and beta, those over the coefficients c are moments of the
    sphere, those over beta one more integral: all by Gauss quadrature, to about ten digits. The part outside is about
    (d - r) (E phi^2 + const/n) / T and that inside about (r/d)^(2k-1): so T ~ d^k prompts of n ~ d^k rows are needed.
    `weights` (m, d) must have length 1, `highest_degree` is at most 10, and `tasks` may be an array. Exact to first
    order in Gamma, for the algorithm of Oko, Song, Suzuki & Wu (2024); the project's formula.

    >>> weights, subspace = [[0.6, 0.8, 0]], [[1], [0], [0]]
    >>> few = prompt_gradient_squares(weights, 0.5, subspace, 2, 2, tasks=100, context=50)
    >>> print(few.inside / (few.inside + few.outside))
    [0.867]
    """
    weights = check_array("weights", weights, ndim=2)
    lengths = np.linalg.norm(weights, axis=1)
    if not np.allclose(lengths, 1.0, atol=1e-6):
        raise InputError(f"weights must have rows of length 1, got a row of length {lengths[_worst(lengths)]:g}")
    highest = check_whole("highest_degree", highest_degree, 1, _LARGEST_DEGREE)
    prompts = check_array("tasks", tasks, low=1, high=_LARGEST_COUNT)[..., None]
    rows = float(check_array("context", context, low=1, high=_LARGEST_COUNT, ndim=0))
    noise = float(check_array("noise_variance", noise_variance, low=0, high=1e6, ndim=0))
    mean = prompt_gradient(weights, biases, subspace, lowest_degree, highest)
    basis = np.linalg.qr(np.asarray(subspace, dtype=float))[0]
    along = weights @ basis
    shift = np.broadcast_to(np.asarray(biases, dtype=float), lengths.shape)
    sizes = weights.shape[1], basis.shape[1], int(lowest_degree), highest
    squares = _one_prompt(np.linalg.norm(along, axis=1), shift, *sizes, rows, noise)
    inner = mean.gradient @ basis
    means = np.sum(inner**2, axis=1), np.sum((mean.gradient - inner @ basis.T) ** 2, axis=1)
    return PromptGradientSquares(*((1 - 1 / prompts) * m + s / prompts for m, s in zip(means, squares, strict=True)))


def _worst(lengths: np.ndarray) -> int:
    return int(np.argmax(np.abs(lengths - 1)))


def tasks_for_signal(
    d: int,
    rank: int,
    lowest_degree: int,
    highest_degree: int,
    context: float,
    noise_variance: float = 0.0,
    expected_share: float = 0.5,
) -> float:
    """How many pretraining prompts make the first gradient its expectation rather than noise.

    After T prompts |E g|^2 is the fraction a = `expected_share` of E |g|^2, which is the squared cosine of g and E g:

        T = a/(1-a) E |g_1 - E g|^2 / |E g|^2,

    g_1 the gradient of one prompt, in sums over many neurons with weights uniform on the sphere and biases uniform on
    [-1, 1]. For d >> r it grows like d^k/r^(k-1) if n = `context` does like d^k, and like d^(2k)/(n r^(2k-1)) if n is
    less. `rank` must be below `d`. Assumption and source: those of `prompt_gradient_squares`.

    >>> print(f"{tasks_for_signal(d=32, rank=2, lowest_degree=2, highest_degree=2, context=1024):.3g}")
    4.84e+03
    """
    d = check_whole("d", d, 2, _LARGEST_COUNT)
    rank = check_whole("rank", rank, 1, d - 1)
    share = float(check_array("expected_share", expected_share, above=0, below=1, ndim=0))
    highest = check_whole("highest_degree", highest_degree, 1, _LARGEST_DEGREE)
    degrees = check_whole("lowest_degree", lowest_degree, 1, highest), highest
    rows_seen = float(check_array("context", context, low=1, high=_LARGEST_COUNT, ndim=0))
    noise = float(check_array("noise_variance", noise_variance, low=0, high=1e6, ndim=0))
    nodes, sizes, biases, heights = *_sphere_shares(d, rank), *np.polynomial.legendre.leggauss(16)
    weight = (sizes[:, None] * heights).ravel()
    inner, shift = (a.ravel() for a in np.meshgrid(np.sqrt(nodes), biases, indexing="ij"))
    rows = np.zeros((len(inner), rank + 1))
    rows[:, 0], rows[:, -1] = inner, np.sqrt(1 - inner**2)
    mean = prompt_gradient(rows, shift, np.eye(rank + 1)[:, :rank], *degrees).gradient
    squares = [weight @ square for square in _one_prompt(inner, shift, d, rank, *degrees, rows_seen, noise)]
    signal = weight @ np.sum(mean**2, axis=1)
    return float(share / (1 - share) * (sum(squares) / signal - 1))


def _sphere_shares(d: int, rank: int, count: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for |P w|^2 of w uniform on the sphere, which is Beta(r/2, (d-r)/2)."""
    nodes, weights = _jacobi(count, (d - rank) / 2 - 1, rank / 2 - 1)
    return (nodes + 1) / 2, weights


def _jacobi(count: int, alpha: float, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Gauss nodes and weights for the density (1-x)^alpha (1+x)^beta, from its recurrence, at any alpha."""
    n = np.arange(1.0, count)
    total = 2 * n + alpha + beta
    diagonal = np.append((beta - alpha) / (alpha + beta + 2), (beta**2 - alpha**2) / (total * (total + 2)))
    with np.errstate(invalid="ignore", divide="ignore"):
        beside = 4 * n * (n + alpha) * (n + beta) * (n + alpha + beta) / (total**2 * (total + 1) * (total - 1))
    beside[0] = 4 * (1 + alpha) * (1 + beta) / ((2 + alpha + beta) ** 2 * (3 + alpha + beta))
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(np.sqrt(beside), 1) + np.diag(np.sqrt(beside), -1))
    return np.clip(nodes, -1.0, 1.0), vectors[0] ** 2


def _one_prompt(
    inner: np.ndarray, biases: np.ndarray, d: int, rank: int, lowest: int, highest: int, context: float, noise: float
) -> list[np.ndarray]:
    """E |P g|^2 and E |g - P g|^2 for one prompt, (m,), at |P w| = `inner`."""
    cosines, shares = _cosines(rank, highest)
    rho = inner[:, None] * cosines
    square = 1 - rho**2
    apart = square > 1e-12
    s = np.sqrt(np.where(apart, square, 1.0))
    # Gram matrix of w and of the direction of beta beside it, under P
    crossed = np.where(apart, rho * (1 - inner[:, None] ** 2) / s, 0.0)
    beside = np.where(apart, (1 - 2 * rho**2 + (rho * inner[:, None]) ** 2) / s**2, 0.0)
    gram = np.stack(
        [np.stack([np.broadcast_to(inner[:, None] ** 2, rho.shape), crossed], -1), np.stack([crossed, beside], -1)], -2
    )
    moments = _GradientMoments.of(rho, np.where(apart, s, 0.0), biases, lowest, highest)
    found = []
    plane = np.stack([np.stack([np.ones_like(s), 0 * s], -1), np.stack([0 * s, 1.0 * apart], -1)], -2)
    for matrix, size in ((gram, rank), (plane - gram, d - rank)):
        rest = np.maximum(size - np.trace(matrix, axis1=-2, axis2=-1), 0.0)
        found.append(np.maximum(_products(moments, matrix, rest, context, noise), 0.0) @ shares / 4)
    return found


def _cosines(rank: int, highest: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for one coordinate of a point uniform on the unit sphere in `rank` dimensions."""
    if rank == 1:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    return _jacobi(2 * highest + 4, (rank - 3) / 2, (rank - 3) / 2)


class _GradientMoments(NamedTuple):
    """Expectations over the plane, with forms in the coefficients c as matrices on the last axes; (m, nodes, ...)."""

    values: np.ndarray
    """phi, (..., D)."""
    slopes: np.ndarray
    """grad phi, (..., 2, D)."""
    active: np.ndarray
    """E f^2 1, (..., D, D), and E 1."""
    turned: np.ndarray
    """E f^2 1 x x^T, (..., 2, 2, D, D)."""
    pulled: np.ndarray
    """E f^2 relu 1 x, (..., 2, D, D)."""
    squared: np.ndarray
    """E f^2 relu^2, (..., D, D)."""
    plain: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    """E 1, E 1 x x^T, E relu 1 x, E relu^2: what label noise multiplies."""

    @classmethod
    def of(cls, rho: np.ndarray, s: np.ndarray, biases: np.ndarray, lowest: int, highest: int) -> _GradientMoments:
        nodes, sizes = np.polynomial.legendre.leggauss(_NODES)
        start = np.clip(-biases, -_FAR, _FAR)[:, None]
        h = start + (_FAR - start) * (nodes + 1) / 2
        heights = (_FAR - start) / 2 * sizes * np.exp(-(h**2) / 2) / np.sqrt(2 * np.pi)
        relu = np.maximum(h + biases[:, None], 0.0)
        v, across = np.polynomial.hermite_e.hermegauss(highest + 3)
        across = across / across.sum()
        # axes: neurons, cosines, then h and v
        z = rho[:, :, None, None] * h[:, None, :, None] + s[:, :, None, None] * v
        f = Hermite().values(z, highest)[lowest:]
        weight = heights[:, None, :, None] * across
        x = [np.broadcast_to(h[:, None, :, None], z.shape), np.broadcast_to(v, z.shape)]
        up = np.broadcast_to(relu[:, None, :, None], z.shape)

        def form(g: np.ndarray) -> np.ndarray:
            return np.einsum("amthv,bmthv->mtab", f * (weight * g), f, optimize=True)

        def line(g: np.ndarray) -> np.ndarray:
            return np.einsum("amthv,mthv->mta", f, weight * g, optimize=True)

        def plain(g: np.ndarray) -> np.ndarray:
            return np.sum(weight * g, axis=(-2, -1))

        one = np.ones(z.shape)
        return cls(
            line(up),
            np.stack([line(one * c) for c in x], -2),
            form(one),
            np.stack([np.stack([form(a * c) for c in x], 2) for a in x], 2),
            np.stack([form(up * c) for c in x], 2),
            form(up**2),
            (
                plain(one),
                np.stack([np.stack([plain(a * c) for c in x], -1) for a in x], -2),
                np.stack([plain(up * c) for c in x], -1),
                plain(up**2),
            ),
        )


def _products(
    moments: _GradientMoments, gram: np.ndarray, rest: np.ndarray, context: float, noise: float
) -> np.ndarray:
    """E_c[Q_0 C_0 + 2 Q_1.C_1 + Q_2 C_2] for every neuron and cosine."""
    one, turned, pulled, squared = (noise * a for a in moments.plain)
    q0 = (
        np.einsum("mtxy,mtxyab->mtab", gram, moments.turned) + rest[..., None, None] * moments.active,
        np.einsum("mtxy,mtxy->mt", gram, turned) + rest * one,
    )
    q2 = moments.squared, squared
    far, near = 1 - 1 / context, 1 / context
    phi, slope = moments.values, moments.slopes
    leaned = np.einsum("mtxy,mtya->mtxa", gram, slope)
    c0 = far * phi[..., :, None] * phi[..., None, :] + near * q2[0], near * q2[1]
    c2 = far * np.einsum("mtxa,mtxb->mtab", leaned, slope) + near * q0[0], near * q0[1]
    total = _sphere_product(q0, c0) + _sphere_product(q2, c2)
    moved = np.einsum("mtxy,mtyab->mtxab", gram, moments.pulled), np.einsum("mtxy,mty->mtx", gram, pulled)
    for axis in range(2):
        both = phi[..., :, None] * slope[..., axis, None, :]
        c1 = far * (both + np.swapaxes(both, -1, -2)) / 2 + near * moments.pulled[:, :, axis], near * pulled[..., axis]
        total += 2 * _sphere_product((moved[0][:, :, axis], moved[1][..., axis]), c1)
    return total


def _sphere_product(first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """E (c^T A c + a)(c^T B c + b) for c uniform on the unit sphere in D dimensions and symmetric A and B."""
    (a, a0), (b, b0) = first, second
    size = a.shape[-1]
    traces = np.trace(a, axis1=-2, axis2=-1), np.trace(b, axis1=-2, axis2=-1)
    fourth = (traces[0] * traces[1] + 2 * np.einsum("...ab,...ab->...", a, b)) / (size * (size + 2))
    return fourth + (a0 * traces[1] + b0 * traces[0]) / size + a0 * b0

"""Additive index models learned by online SGD: what the overlaps of a neuron with the tasks do on average.

    y = M^(-1/2) sum_l link(<x, theta_l>) + noise,    x ~ N(0, I_d), theta_1, ..., theta_M orthonormal
    w <- normalise(w + (step_size/d) y student'(<w, x>) (x - <w, x> w),     one fresh pair (x, y) per step

with polynomial links, link = sum_j a_j h_j and student = sum_j b_j h_j (`unlazy.functions.elementwise`). The overlaps
m_l = <w, theta_l> are a Markov chain, drawn by `training.index_models.additive_chain`; here are its drift and spread in
closed form and the flow that they give. Sources: Oko, Song, Suzuki & Wu (2024), Ben Arous et al. (2021).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole, common_shape
from unlazy.functions.elementwise import Link
from unlazy.functions.elementwise import as_link as named_link
from unlazy.functions.orthogonal import Hermite
from unlazy.numerics.quadrature import hermite_rule, panels

_NODES = 16
_REAL = 1e-10
_SAME = 1e-12
_VANISHING = 1e-30
_LARGEST = 1e300


class _Moments(NamedTuple):
    """What drift and spread need of the two links."""

    signal: np.ndarray
    """j a_j b_j for j = 1, 2, ...: E[link'(z) student'(u)] = sum_j signal_j m^(j-1) at overlap m."""
    single: np.ndarray
    """E[link^2 h_j] E[student'^2 h_j]."""
    paired: np.ndarray
    """a_p a_q sqrt(C(p+q, p)) E[student'^2 h_(p+q)]."""
    slope: float
    """E[student'^2]."""


def additive_step(scale: ArrayLike, d: ArrayLike, tasks: ArrayLike, exponent: int) -> Any:
    """The step size scale * d^(-(k-2)/2) M^(-1/2) that learns M tasks of information exponent k from n ~ M d^(k-1).

    `exponent` is k >= 2; all other arguments broadcast. Source: Oko et al. (2024), constants ours.
    """
    exponent = check_whole("exponent", exponent, 2)
    scale = check_array("scale", scale, above=0)
    d, tasks = check_array("d", d, low=1), check_array("tasks", tasks, low=1, whole=True)
    common_shape(scale=scale, d=d, tasks=tasks)
    return (scale * d ** (-(exponent - 2) / 2) / np.sqrt(tasks))[()]


def additive_drift(overlaps: ArrayLike, link: str | Link, student: str | Link | None = None) -> Any:
    """S_l, the mean motion of each overlap in units of step_size/d per step; the last axis of `overlaps` is the task.

        S_l = M^(-1/2) (P(m_l) - m_l sum_i m_i P(m_i)),      P(m) = sum_j j a_j b_j m^(j-1)

    Exact to first order in the step size, for every d. For link = student = h_k and one task k m^(k-1) (1 - m^2).
    """
    m, moments = _overlaps(overlaps), _moments(link, student)
    push = np.polynomial.polynomial.polyval(m, moments.signal)
    return (push - m * np.sum(m * push, axis=-1, keepdims=True)) / math.sqrt(m.shape[-1])


def additive_spread(
    overlaps: ArrayLike, link: str | Link, noise_variance: ArrayLike = 0.0, student: str | Link | None = None
) -> Any:
    """V = E[y^2 student'(u)^2], the mean square of a step in units of step_size/d, without the factor |x|^2.

        V = (1/M) sum_l sum_j m_l^j E[link^2 h_j] E[student'^2 h_j] + noise_variance E[student'^2]
            + (1/M) sum_{l != i} sum_{p,q} a_p a_q m_l^p m_i^q sqrt(C(p+q, p)) E[student'^2 h_(p+q)]

    The second line is 0 for link = student = h_k. Exact.
    """
    m, moments = _overlaps(overlaps), _moments(link, student)
    noise = check_array("noise_variance", noise_variance, low=0)
    common_shape(overlaps=m[..., 0], noise_variance=noise)
    powers = np.sum(m[..., None] ** np.arange(moments.single.size), axis=-2)
    return (_spread(powers, m.shape[-1], moments) + noise * moments.slope)[()]


def additive_path(
    start: ArrayLike,
    samples_per_dimension: ArrayLike,
    link: str | Link,
    step_size: float,
    noise_variance: float = 0.0,
    student: str | Link | None = None,
) -> np.ndarray:
    """The overlaps after n = d t samples from `start` (M,), at the increasing times t: an array (times, M).

        dm_l/dt = step_size S_l(m) - (step_size^2 / 2) m_l V(m)

    The limit of the chain for d -> infinity at a fixed step size and start. At the step size of `additive_step` both
    terms and the diffusion, which is left out, matter while m is of order d^(-1/2).
    """
    from scipy.integrate import solve_ivp

    first = _overlaps(start)
    if first.ndim != 1:
        raise InputError(f"start must have 1 dimension(s), got shape {first.shape}")
    times = check_array("samples_per_dimension", samples_per_dimension, low=0, ndim=1)
    if (np.diff(times) <= 0).any():
        raise InputError("samples_per_dimension must increase")
    size = float(check_array("step_size", step_size, above=0, ndim=0))
    noise = float(check_array("noise_variance", noise_variance, low=0, ndim=0))
    teacher, pupil = named_link(link), None if student is None else named_link(student)

    def motion(_: float, m: np.ndarray) -> np.ndarray:
        inside = m / max(1.0, float(np.linalg.norm(m)))
        drift = additive_drift(inside, teacher, pupil)
        return size * drift - size**2 / 2 * m * additive_spread(inside, teacher, noise, pupil)

    found = solve_ivp(motion, (0.0, max(times[-1], 1e-12)), first, "LSODA", times, rtol=1e-9, atol=1e-12)
    if not found.success:
        raise InputError(f"step_size = {size:g} makes a flow that cannot be followed: {found.message}")
    return found.y.T


def escape_samples(
    link: str | Link,
    tasks: ArrayLike,
    d: ArrayLike,
    start: ArrayLike,
    threshold: ArrayLike,
    step_size: ArrayLike,
    noise_variance: ArrayLike = 0.0,
    *,
    student: str | Link | None = None,
    drift_only: bool = False,
) -> Any:
    """Samples until the overlap with one task grows from `start` to `threshold`, the others being 0.

        n = d int_start^threshold dm / (step_size M^(-1/2) P(m) (1 - m^2) - (step_size^2 / 2) m V(m))

    With `drift_only` the term with V, the price of the noise, is left out: then n is M d^(k-1) times a constant at
    the step size of `additive_step` and a start of order d^(-1/2). Infinite where the flow has a zero up to and
    including the threshold, 0 where the start is beyond it. The link must have information exponent >= 2, or the other
    overlaps would not stay 0, and tasks <= d. All numeric arguments broadcast. Diffusion is left out.
    """
    moments = _moments(link, student)
    if moments.signal[0] != 0:
        raise InputError("link must have information exponent >= 2 with this student: the other tasks would grow too")
    given = {
        "tasks": check_array("tasks", tasks, low=1, whole=True),
        "d": check_array("d", d, low=1),
        "start": check_array("start", start, above=0, high=1),
        "threshold": check_array("threshold", threshold, above=0, high=1),
        "step_size": check_array("step_size", step_size, above=0),
        "noise_variance": check_array("noise_variance", noise_variance, low=0),
    }
    shape = common_shape(**given)
    rows = np.stack([np.broadcast_to(one, shape).ravel() for one in given.values()], axis=1)
    crowded = rows[rows[:, 0] > rows[:, 1]]
    if crowded.size:
        raise InputError(
            f"tasks must be at most d = {crowded[0, 1]:g}, which has no more orthogonal directions, got "
            f"{crowded[0, 0]:g}"
        )
    found = []
    for count, dimension, low, high, size, noise in rows.tolist():
        speed = _speed(count, 0.0 if drift_only else size, noise, moments)
        found.append(dimension * _time(speed, low, high) / size)
    return np.array(found).reshape(shape)[()]


def additive_stall_overlap(
    link: str | Link,
    tasks: ArrayLike,
    step_size: ArrayLike,
    noise_variance: ArrayLike = 0.0,
    *,
    student: str | Link | None = None,
) -> Any:
    """The overlap with one task at which a constant step size stops gaining: the largest m < 1 with

        M^(-1/2) P(m) (1 - m^2) = (step_size / 2) m V(m),

    a root of a polynomial; 0 if the noise wins everywhere. The arguments broadcast.
    """
    moments = _moments(link, student)
    given = {
        "tasks": check_array("tasks", tasks, low=1, whole=True),
        "step_size": check_array("step_size", step_size, above=0),
        "noise_variance": check_array("noise_variance", noise_variance, low=0),
    }
    shape = common_shape(**given)
    found = []
    for count, size, noise in zip(
        *(np.broadcast_to(one, shape).ravel().tolist() for one in given.values()), strict=True
    ):
        roots = _roots(_speed(count, size, noise, moments))
        # the speed is negative at 1, but a stall next to it may be rounded beyond it
        inside = roots.real[(np.abs(roots.imag) <= _REAL) & (roots.real > 0) & (roots.real < 1 + _SAME)]
        found.append(min(inside.max(initial=0.0), 1.0))
    return np.array(found).reshape(shape)[()]


def _speed(tasks: float, size: float, noise: float, moments: _Moments) -> np.ndarray:
    """M^(-1/2) P(m) (1 - m^2) - (step_size/2) m V(m) at m, all other overlaps being 0: coefficients of powers of m."""
    spread = moments.single.copy()
    spread[0] *= tasks
    # of the pairs only those with a task at overlap 0 are left
    spread += (tasks - 1) * (moments.paired[0] + moments.paired[:, 0])
    spread[0] += (tasks - 1) * (tasks - 2) * moments.paired[0, 0]
    pull = np.append(0.0, spread / tasks)
    pull[1] += noise * moments.slope
    push = np.polynomial.polynomial.polymul(moments.signal, [1.0, 0.0, -1.0]) / math.sqrt(tasks)
    with np.errstate(over="ignore"):
        # a pull beyond the largest number leaves nothing of the push
        pull = np.clip(size / 2 * pull, -_LARGEST, _LARGEST)
    return np.polynomial.polynomial.polysub(push, pull)


def _roots(coefficients: np.ndarray) -> np.ndarray:
    """All roots but those far away that powers with a vanishing coefficient have."""
    scaled = coefficients / (np.abs(coefficients).max() or 1.0)
    kept = np.flatnonzero(np.abs(scaled) > _VANISHING)
    return np.roots(scaled[: kept[-1] + 1][::-1]) if kept.size else np.zeros(0)


def _time(speed: np.ndarray, low: float, high: float) -> float:
    """int_low^high dm / speed(m) for a polynomial, infinite if it is not positive up to and including the end.

    Gauss-Legendre panels half as long as the distance from the nearest complex root, where 16 points are exact.
    """
    if low >= high:
        return 0.0
    value = np.polynomial.polynomial.polyval
    roots = _roots(speed)
    zeros = roots.real[np.abs(roots.imag) <= _REAL]
    if value(low, speed) <= 0 or ((zeros >= low) & (zeros <= high * (1 + _SAME))).any():
        return math.inf
    edges = [low]
    while edges[-1] < high:
        nearest = np.abs(roots - edges[-1]).min(initial=2.0)
        edges.append(min(max(edges[-1] + nearest / 2, math.nextafter(edges[-1], 1)), high))
    overlaps, weights = panels(edges, _NODES)
    speeds = value(overlaps, speed)
    return float(np.sum(weights / speeds)) if (speeds > 0).all() else math.inf


def _spread(powers: np.ndarray, tasks: Any, moments: _Moments) -> np.ndarray:
    """V without label noise from the power sums sum_l m_l^j, j = 0, 1, ..."""
    size = moments.single.size
    total = powers @ moments.single
    for p, q in zip(*np.nonzero(moments.paired), strict=True):
        both = powers[..., p] * powers[..., q] - (powers[..., p + q] if p + q < size else 0.0)
        total = total + moments.paired[p, q] * both
    return total / tasks


def _overlaps(overlaps: ArrayLike) -> np.ndarray:
    m = np.atleast_1d(check_array("overlaps", overlaps, low=-1, high=1))
    if (np.sum(m**2, axis=-1) > 1 + 1e-12).any():
        raise InputError(
            f"overlaps must have squares that add up to at most 1, got {np.sum(m**2, axis=-1).max():.6g}: the tasks "
            "are orthonormal"
        )
    return m


def _moments(link: str | Link, student: str | Link | None) -> _Moments:
    """Exact by Gauss-Hermite rules: everything is a polynomial."""
    teacher, pupil = named_link(link), named_link(link if student is None else student)
    for name, one in (("link", teacher), ("student", pupil)):
        if one.hermite_coefficients is None:
            raise InputError(f"{name} must be a polynomial such as He3, got {one.name!r}")
    a, b = (np.array(one.hermite_coefficients) for one in (teacher, pupil))
    most = max(a.size, b.size) - 1
    signal = np.arange(most + 1) * np.pad(a, (0, most + 1 - a.size)) * np.pad(b, (0, most + 1 - b.size))
    degree = max(2 * (b.size - 1) - 2, 0)
    points, weights = hermite_rule(2 * most + 2)
    basis = Hermite().values(points, degree)
    slopes = basis @ (weights * np.asarray(pupil.slope(points)) ** 2)
    squares = basis @ (weights * np.asarray(teacher(points)) ** 2)
    paired = np.zeros((degree + 1, degree + 1))
    for p in range(min(a.size, degree + 1)):
        for q in range(min(a.size, degree + 1 - p)):
            paired[p, q] = a[p] * a[q] * math.sqrt(math.comb(p + q, p)) * slopes[p + q]
    return _Moments(signal[1:] if most else np.zeros(1), squares * slopes, paired, float(slopes[0]))

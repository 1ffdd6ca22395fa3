"""Additive index models learned by online SGD: what the overlaps of a neuron with the tasks do on average.

    y = M^(-1/2) sum_l link(<x, theta_l>) + noise,    x ~ N(0, I_d), theta_1, ..., theta_M orthonormal
    w <- normalise(w + (step_size/d) y activation'(<w, x>) (x - <w, x> w)),      one fresh pair (x, y) per step

with polynomials, link = sum_j a_j h_j and activation = sum_j b_j h_j (`unlazy.functions`), which is the link unless
another one is given. The overlaps m_l = <w, theta_l> are a Markov chain; here are its drift and spread in closed form
and the flow that they give. `training.index_models.additive_network` draws it, `task_race` adds the random start.
Sources: Oko, Song, Suzuki & Wu (2024), Ben Arous et al. (2021).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_flag, common_shape
from unlazy.functions.elementwise import Elementwise, Link, as_activation, as_link
from unlazy.functions.orthogonal import Hermite
from unlazy.numerics.quadrature import hermite_rule, panels
from unlazy.numerics.roots import ConvergenceError

_NODES = 16
_REAL = 1e-10
_SAME = 1e-12
_VANISHING = 1e-30
_LARGEST = 1e300

LinkLike = str | Link | Elementwise


class _Moments(NamedTuple):
    """What drift and spread need of the two links."""

    signal: np.ndarray
    """j a_j b_j for j = 1, 2, ...: E[link'(z) activation'(u)] = sum_j signal_j m^(j-1) at overlap m."""
    single: np.ndarray
    """E[link^2 h_j] E[activation'^2 h_j]."""
    paired: np.ndarray
    """a_p a_q sqrt(C(p+q, p)) E[activation'^2 h_(p+q)]."""
    slope: float
    """E[activation'^2]."""


def additive_step_size(link: LinkLike, d: ArrayLike, tasks: ArrayLike, relative_step_size: ArrayLike) -> Any:
    """The step size relative_step_size d^(-(k-2)/2) M^(-1/2) that learns M tasks from n of order M d^(k-1) samples.

    k >= 2 is the information exponent of the link, a polynomial; tasks <= d. The numbers broadcast. Source: Oko et al.
    (2024), constants ours.

    >>> print(additive_step_size("He3", d=[100, 400], tasks=4, relative_step_size=0.5))
    [0.025  0.0125]
    """
    signal = np.flatnonzero(hermite_polynomial("link", link)[1:]) + 1
    if not signal.size or signal[0] < 2:
        raise InputError("link must have information exponent >= 2, got a link that is constant or correlated with z")
    given = _checked(d=d, tasks=tasks, relative_step_size=relative_step_size)
    shape = common_shape(**given)
    _check_room(given["tasks"], given["d"])
    found = given["relative_step_size"] * given["d"] ** (-(signal[0] - 2) / 2) / np.sqrt(given["tasks"])
    return np.broadcast_to(found, shape)[()]


def additive_drift(link: LinkLike, task_overlaps: ArrayLike, *, activation: LinkLike | None = None) -> Any:
    """S_l, the mean motion of each overlap in units of step_size/d per step; the last axis of `task_overlaps` is tasks.

        S_l = M^(-1/2) (P(m_l) - m_l sum_i m_i P(m_i)),      P(m) = sum_j j a_j b_j m^(j-1)

    Exact to first order in the step size, for every d. For link = activation = h_k and one task k m^(k-1) (1 - m^2).

    >>> print(additive_drift("He3", task_overlaps=[0.3, 0.2]).round(4))
    [0.1686 0.07  ]
    """
    return _drift(_overlaps("task_overlaps", task_overlaps), _moments(link, activation))


def additive_spread(
    link: LinkLike,
    task_overlaps: ArrayLike,
    noise_variance: ArrayLike = 0.0,
    *,
    activation: LinkLike | None = None,
) -> Any:
    """V = E[y^2 activation'(u)^2], the mean square of a step in units of step_size/d, without the factor |x|^2.

        V = (1/M) sum_l sum_j m_l^j E[link^2 h_j] E[activation'^2 h_j] + noise_variance E[activation'^2]
            + (1/M) sum_{l != i} sum_{p,q} a_p a_q m_l^p m_i^q sqrt(C(p+q, p)) E[activation'^2 h_(p+q)]

    The second line is 0 for link = activation = h_k. Exact.

    >>> print(additive_spread("He3", task_overlaps=[0.3, 0.2], noise_variance=[0, 1]).round(3))
    [5.602 8.602]
    """
    m, moments = _overlaps("task_overlaps", task_overlaps), _moments(link, activation)
    noise = check_array("noise_variance", noise_variance, low=0, high=_LARGEST)
    common_shape(task_overlaps=m[..., 0], noise_variance=noise)
    return (_spread(m, moments) + noise * moments.slope)[()]


def additive_path(
    link: LinkLike,
    start_overlaps: ArrayLike,
    samples_per_dimension: ArrayLike,
    step_size: float,
    noise_variance: float = 0.0,
    *,
    activation: LinkLike | None = None,
) -> np.ndarray:
    """The overlaps after n = d t samples from `start_overlaps` (M,), at the increasing t = n/d: an array (times, M).

        dm_l/dt = step_size S_l(m) - (step_size^2 / 2) m_l V(m)

    The limit of the chain for d -> infinity at a fixed step size and start. At the step size of `additive_step_size`
    both terms and the diffusion, which is left out, matter while m is of order d^(-1/2).

    >>> path = additive_path("He3", start_overlaps=[0.3, 0.2], samples_per_dimension=[50, 200], step_size=0.05)
    >>> print(path.round(3))
    [[0.775 0.076]
     [0.793 0.   ]]
    """
    from scipy.integrate import solve_ivp

    first = _overlaps("start_overlaps", start_overlaps)
    if first.ndim != 1:
        raise InputError(f"start_overlaps must have 1 dimension(s), got shape {first.shape}")
    times = check_array("samples_per_dimension", samples_per_dimension, low=0, high=_LARGEST, ndim=1)
    if (np.diff(times) <= 0).any():
        raise InputError("samples_per_dimension must increase")
    size = float(check_array("step_size", step_size, low=0, high=_LARGEST, ndim=0))
    noise = float(check_array("noise_variance", noise_variance, low=0, high=_LARGEST, ndim=0))
    moments = _moments(link, activation)
    # in units of step_size t, in which the drift does not depend on the step size
    last = size * float(times[-1])
    if not (last <= _LARGEST and size * (1 + noise) <= _LARGEST):
        raise InputError(f"step_size must be smaller for {times[-1]:g} samples per dimension, got {size:g}")

    def motion(_: float, m: np.ndarray) -> np.ndarray:
        inside = m / max(1.0, float(np.linalg.norm(m)))
        return _drift(inside, moments) - size / 2 * m * (_spread(inside, moments) + noise * moments.slope)

    if last == 0:
        return np.tile(first, (times.size, 1))
    with np.errstate(all="ignore"):
        found = solve_ivp(motion, (0.0, last), first, "LSODA", size * times, rtol=1e-9, atol=1e-12)
    if not found.success or found.y.shape[1] != times.size or not np.isfinite(found.y).all():
        raise ConvergenceError(f"the flow cannot be followed to {times[-1]:g} at step_size {size:g}: {found.message}")
    return found.y.T


def escape_samples(
    link: LinkLike,
    d: ArrayLike,
    tasks: ArrayLike,
    start_overlap: ArrayLike,
    target_overlap: ArrayLike,
    step_size: ArrayLike,
    noise_variance: ArrayLike = 0.0,
    *,
    activation: LinkLike | None = None,
    drift_only: bool = False,
) -> Any:
    """Samples until the overlap with one task grows from `start_overlap` to `target_overlap`, the others being 0.

        n = d int_start^target dm / (step_size M^(-1/2) P(m) (1 - m^2) - (step_size^2 / 2) m V(m))

    With `drift_only` the term with V, the price of the noise, is left out: then n is M d^(k-1) times a constant at
    the step size of `additive_step_size` and a start of order d^(-1/2). Infinite (inf) where the flow has a zero up to
    and including the target, 0 where the start is beyond it. The start must be above 0; the link must have information
    exponent >= 2, or the other overlaps would not stay 0, and tasks <= d. All numeric arguments broadcast. Diffusion is
    left out.

    >>> n = escape_samples("He3", d=100, tasks=[1, 4], start_overlap=0.2, target_overlap=0.8, step_size=[0.02, 0.01])
    >>> print(n.round())
    [ 9185. 33018.]
    """
    moments = _moments(link, activation)
    drift_only = check_flag("drift_only", drift_only)
    if moments.signal[0] != 0:
        raise InputError(
            "link must have information exponent >= 2 with this activation: the other tasks would grow too"
        )
    given = _checked(
        d=d,
        tasks=tasks,
        start_overlap=start_overlap,
        target_overlap=target_overlap,
        step_size=step_size,
        noise_variance=noise_variance,
    )
    shape = common_shape(**given)
    _check_room(given["tasks"], given["d"])
    rows = np.stack([np.broadcast_to(one, shape).ravel() for one in given.values()], axis=1)
    found = []
    for dimension, count, low, high, size, noise in rows.tolist():
        speed = _speed(count, 0.0 if drift_only else size, noise, moments)
        time = _time(speed, low, high)
        found.append(dimension * (time / size if size > 0 else math.inf) if time > 0 else 0.0)
    return np.array(found).reshape(shape)[()]


def additive_stall_overlap(
    link: LinkLike,
    tasks: ArrayLike,
    step_size: ArrayLike,
    noise_variance: ArrayLike = 0.0,
    *,
    activation: LinkLike | None = None,
) -> Any:
    """The overlap with one task at which a constant step size stops gaining: the largest m <= 1 with

        M^(-1/2) P(m) (1 - m^2) = (step_size / 2) m V(m),

    a root of a polynomial; 0 if the noise wins everywhere. The arguments broadcast.

    >>> print(additive_stall_overlap("He3", tasks=8, step_size=[0.01, 0.03, 0.1]).round(3))
    [0.967 0.908 0.727]
    """
    moments = _moments(link, activation)
    given = _checked(tasks=tasks, step_size=step_size, noise_variance=noise_variance)
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


_ALLOWED: dict[str, dict[str, Any]] = {
    "d": {"low": 1, "high": _LARGEST},
    "tasks": {"low": 1, "high": _LARGEST, "whole": True},
    "start_overlap": {"above": 0, "high": 1},
    "target_overlap": {"above": 0, "high": 1},
    "relative_step_size": {"low": 0, "high": _LARGEST},
    "step_size": {"low": 0, "high": _LARGEST},
    "noise_variance": {"low": 0, "high": _LARGEST},
}


def _checked(**given: ArrayLike) -> dict[str, np.ndarray]:
    return {name: check_array(name, value, **_ALLOWED[name]) for name, value in given.items()}


def _check_room(tasks: np.ndarray, d: np.ndarray) -> None:
    tasks, d = np.broadcast_arrays(tasks, d)
    if (crowded := tasks > d).any():
        raise InputError(
            f"tasks must be at most d = {d[crowded][0]:g}, which has no more orthogonal directions, got "
            f"{tasks[crowded][0]:g}"
        )


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


def _drift(m: np.ndarray, moments: _Moments) -> np.ndarray:
    push = np.polynomial.polynomial.polyval(m, moments.signal)
    return (push - m * np.sum(m * push, axis=-1, keepdims=True)) / math.sqrt(m.shape[-1])


def _spread(m: np.ndarray, moments: _Moments) -> np.ndarray:
    """V without label noise, from the power sums sum_l m_l^j, j = 0, 1, ..."""
    size = moments.single.size
    powers = np.sum(m[..., None] ** np.arange(size), axis=-2)
    total = powers @ moments.single
    for p, q in zip(*np.nonzero(moments.paired), strict=True):
        both = powers[..., p] * powers[..., q] - (powers[..., p + q] if p + q < size else 0.0)
        total = total + moments.paired[p, q] * both
    return total / m.shape[-1]


def _overlaps(name: str, overlaps: ArrayLike) -> np.ndarray:
    m = np.atleast_1d(check_array(name, overlaps, low=-1, high=1))
    if (np.sum(m**2, axis=-1) > 1 + 1e-12).any():
        raise InputError(
            f"{name} must have squares that add up to at most 1, got {np.sum(m**2, axis=-1).max():.6g}: the tasks "
            "are orthonormal"
        )
    return m


def hermite_polynomial(name: str, function: LinkLike) -> np.ndarray:
    """The Hermite coefficients of a polynomial."""
    found = as_link(function, name)
    if found.hermite_coefficients is None:
        raise InputError(f"{name} must be a polynomial such as He3, got {found.name!r}")
    return np.array(found.hermite_coefficients)


def _moments(link: LinkLike, activation: LinkLike | None) -> _Moments:
    """Exact by Gauss-Hermite rules: everything is a polynomial."""
    a, b = (
        hermite_polynomial("link", link),
        hermite_polynomial("activation", link if activation is None else activation),
    )
    target, pupil = as_link(link), as_activation(link if activation is None else activation)
    most = max(a.size, b.size) - 1
    signal = np.arange(most + 1) * np.pad(a, (0, most + 1 - a.size)) * np.pad(b, (0, most + 1 - b.size))
    degree = max(2 * (b.size - 1) - 2, 0)
    points, weights = hermite_rule(2 * most + 2)
    basis = Hermite().values(points, degree)
    slopes = basis @ (weights * np.asarray(pupil.slope(points)) ** 2)
    squares = basis @ (weights * np.asarray(target(points)) ** 2)
    paired = np.zeros((degree + 1, degree + 1))
    for p in range(min(a.size, degree + 1)):
        for q in range(min(a.size, degree + 1 - p)):
            paired[p, q] = a[p] * a[q] * math.sqrt(math.comb(p + q, p)) * slopes[p + q]
    return _Moments(signal[1:] if most else np.zeros(1), squares * slopes, paired, float(slopes[0]))

"""Online SGD on a single-index model: the drift of a neuron's overlap, with and without reuse of each example.

One example (x, y = link(z) + noise, z = x.theta) per step; a neuron a student(w.x + b) with |w| = 1, u = w.x, overlap
m = w.theta. On the correlation loss its gradient is g1 = a y student'(u + b) times x; a second step on the same example
with step s/d sees the pre-activation moved by s g1, hence g2 = a y student'(u + b + s g1). The update is psi = g1 + g2
(g1 alone without reuse) times gamma/d along x minus its part along w, and then |w| = 1 again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.errors import InputError, check_array, common_shape
from unlazy.functions.links import Link, link
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory._overlap_averages import Averages, averages_of

_SETTLED = 1e-9
_LARGEST = 1e3
_LAST_ANGLE = 1.4
"""arcsin of the largest overlap that the series reach."""


class Drift(NamedTuple):
    """What moves the overlap m; both fields have the broadcast shape of the arguments."""

    signal: np.ndarray
    """S(m) = E[psi (z - m u)]: the pull towards the hidden direction."""
    square: np.ndarray
    """V(m) = E psi^2: what the other directions add to |w|^2, which pulls back."""


def overlap_drift(
    teacher: str | Link,
    overlap: ArrayLike,
    *,
    student: str | Link = "relu",
    sign: ArrayLike = 1.0,
    bias: ArrayLike = 0.0,
    strength: ArrayLike = 1.0,
    reuse: bool = True,
    noise: ArrayLike = 0.0,
) -> Drift:
    """Signal S(m) and square V(m) of a neuron's update, of which dm/dt = gamma S(m) - gamma^2 m V(m) / 2, t = n/d.

        psi = a y [student'(u + b) + student'(u + b + s a y student'(u + b))]          (the second term with reuse)

    with `sign` a, `bias` b and `strength` s; `noise` is the deviation of the label noise. Given z, u is normal with
    mean m z and variance 1 - m^2: for the ReLU all averages over u are closed forms, and what remains is a quadrature
    over z that is split where the label changes its sign. Students with other kinks are refused. Without reuse and with
    student = teacher = h_k, S(m) = k m^(k-1) (1 - m^2).

    Exact as d grows at fixed n/d, where |x|^2/d = 1. Source: Lee, Oko, Suzuki & Wu (2024), Algorithm 1; the reduction
    to one dimension as in Ben Arous, Gheissari & Jagannath (2021).
    """
    overlap = check_overlap("overlap", overlap)
    arrays = _checked(sign=sign, bias=bias, strength=strength, noise=noise)
    shape = common_shape(overlap=overlap, **arrays)
    flat = {name: np.broadcast_to(array, shape).ravel() for name, array in arrays.items()}
    overlaps = np.broadcast_to(overlap, shape).ravel()
    found = np.empty((2, overlaps.size))
    settings, group = np.unique(np.stack(list(flat.values())), axis=1, return_inverse=True)
    for index, setting in enumerate(settings.T):
        chosen = group.ravel() == index
        found[:, chosen] = averages_of(link(teacher), link(student), bool(reuse), *setting.tolist())(overlaps[chosen])
    return Drift(*(row.reshape(shape)[()] for row in found))


def overlap_path(
    teacher: str | Link, times: ArrayLike, step: float, *, start: float = 0.0, **neuron: Any
) -> np.ndarray:
    """The overlap m(t) at the given times t = n/d: dm/dt = gamma S(m) - gamma^2 m V(m) / 2 from m(0) = `start`.

    `step` is gamma; `neuron` as in `overlap_drift`, single numbers. The limit of one neuron as d grows at fixed n/d, in
    which its fluctuations of order d^(-1/2) vanish: it is no guide where m(0) is of their order and S(0) = 0.
    """
    from scipy.integrate import solve_ivp

    moments = check_array("times", times, low=0)
    velocity = _velocity(teacher, step, neuron)
    first = float(check_overlap("start", _single("start", start)))
    order, places = np.unique(moments.ravel(), return_inverse=True)
    run = solve_ivp(
        lambda _, m: velocity(np.clip(m, -1 + 1e-12, 1 - 1e-12)),
        (0.0, max(order[-1], 1e-300)), [first], method="DOP853", t_eval=order, rtol=1e-9, atol=1e-12,
    )  # fmt: skip
    if not run.success:
        raise ConvergenceError(f"the overlap could not be followed to t = {order[-1]:g}: {run.message}")
    return run.y[0][places.ravel()].reshape(moments.shape)[()]


def crossing_time(teacher: str | Link, step: float, *, start: float = 0.0, level: float = 0.5, **neuron: Any) -> float:
    """The time t = n/d at which `overlap_path` gets from `start` up to `level`, infinite if it never does.

    t = int_start^level dm / (gamma S(m) - gamma^2 m V(m) / 2).
    """
    velocity = _velocity(teacher, step, neuron)
    first, last = (float(check_overlap(name, _single(name, m))) for name, m in (("start", start), ("level", level)))
    if first >= last:
        return 0.0
    # panels that shrink towards the start, where the velocity may be a power of m
    edges = first + (last - first) * np.append(0.0, 2.0 ** np.arange(-24, 1))
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = np.diff(edges)[:, None] / 2
    speeds = velocity((edges[:-1, None] + half * (1 + nodes)).ravel()).reshape(-1, nodes.size)
    if not (speeds > 0).all():
        return math.inf
    return float(np.sum(half * weights / speeds))


def stall_step(teacher: str | Link, overlap: ArrayLike, **neuron: Any) -> np.ndarray:
    """The step gamma from which on m > 0 does not grow, 2 S(m) / (m V(m)); 0 where S(m) <= 0 and no step helps."""
    overlap = check_array("overlap", check_overlap("overlap", overlap), above=0)
    signal, square = overlap_drift(teacher, overlap, **neuron)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(signal > 0, 2 * signal / (overlap * square), 0.0)[()]


def stall_overlap(teacher: str | Link, step: float, *, start: float = 0.0, **neuron: Any) -> float:
    """Where `overlap_path` ends: the first overlap >= `start` (or below it, if m falls at first) that no longer moves.

    The nearest sign change of the velocity among some hundred equidistant angles, by bisection; a path that reaches
    none ends at +-1. A start at which nothing moves is itself the answer.
    """
    velocity = _velocity(teacher, step, neuron)
    first = float(check_overlap("start", _single("start", start)))
    here = float(velocity(np.array([first]))[0])
    if here == 0:
        return first
    angle = math.asin(first)
    ends = [math.copysign(end, here) for end in (_LAST_ANGLE, math.pi / 2 - 1e-3)]
    for end in ends:
        if (end - angle) * here <= 0:
            continue
        angles = np.linspace(angle, end, 400)
        passed = np.flatnonzero(velocity(np.sin(angles)) * here <= 0)
        if passed.size:
            return math.sin(_sign_change(velocity, here, angles[passed[0] - 1], angles[passed[0]]))
        angle = end
    return math.copysign(1.0, here)


def _sign_change(velocity: Averages, here: float, low: float, high: float) -> float:
    """The angle between two at which the velocity loses the sign of `here`."""
    for _ in range(50):
        middle = (low + high) / 2
        forward = float(velocity(np.array([math.sin(middle)]))[0]) * here > 0
        low, high = (middle, high) if forward else (low, middle)
    return (low + high) / 2


def check_overlap(name: str, overlap: ArrayLike) -> np.ndarray:
    """An overlap as an array, or an error unless it lies strictly between -1 and 1."""
    found = check_array(name, overlap)
    wrong = np.abs(found) >= 1
    if wrong.any():
        raise InputError(f"{name} must be > -1 and < 1, got {found[wrong].flat[0]:g}")
    return found


def _checked(*, sign: Any, bias: Any, strength: Any, noise: Any) -> dict[str, np.ndarray]:
    signs = check_array("sign", sign)
    wrong = np.abs(signs) != 1
    if wrong.any():
        raise InputError(f"sign must be 1 or -1, got {signs[wrong].flat[0]:g}")
    return {
        "sign": signs,
        "bias": check_array("bias", bias, low=-_LARGEST, high=_LARGEST),
        "strength": check_array("strength", strength, low=0, high=_LARGEST),
        "noise": check_array("noise", noise, low=0, high=_LARGEST),
    }


def _single(name: str, value: Any) -> float:
    return float(check_array(name, value, ndim=0))


def _velocity(teacher: str | Link, step: Any, neuron: dict[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    gamma = float(check_array("step", _single("step", step), above=0, high=_LARGEST))
    settings: dict[str, Any] = {"student": "relu", "reuse": True}
    numbers = {"sign": 1.0, "bias": 0.0, "strength": 1.0, "noise": 0.0}
    for name, value in neuron.items():
        if name in settings:
            settings[name] = value
        elif name in numbers:
            numbers[name] = _single(name, value)
        else:
            raise InputError(f"a neuron has {', '.join((*settings, *numbers))}; got {name!r}")
    _checked(**numbers)
    direct, series = _table(link(teacher), link(settings["student"]), bool(settings["reuse"]), **numbers)

    def velocity(m: np.ndarray) -> np.ndarray:
        angles = np.arcsin(m)
        if series is None or np.abs(angles).max() > _LAST_ANGLE:
            signal, square = direct(m)
        else:
            signal, square = np.polynomial.chebyshev.chebval(angles / _LAST_ANGLE, series)
        return gamma * signal - gamma**2 / 2 * m * square

    return velocity


@lru_cache(maxsize=64)
def _table(truth: Link, neuron: Link, reuse: bool, **numbers: float) -> tuple[Averages, np.ndarray | None]:
    """The averages, and as Chebyshev series in arcsin m where these converge to 1e-9: they are needed many times."""
    averages = averages_of(truth, neuron, reuse, **numbers)
    for count in (64, 128, 256):
        angles = math.pi * (np.arange(count) + 0.5) / count
        values = averages(np.sin(_LAST_ANGLE * np.cos(angles)))
        series = 2 / count * np.cos(np.outer(np.arange(count), angles)) @ values.T
        series[0] /= 2
        if (np.abs(series[-8:]).max(0) <= _SETTLED * (1 + np.abs(series).max(0))).all():
            return averages, series
    return averages, None

"""Online SGD on a single-index model: the drift of a neuron's overlap, with and without reuse of each example.

One example (x, y = link(z) + noise, z = x.theta) per step; a neuron a activation(w.x + b) with |w| = 1, u = w.x,
overlap m = w.theta. On the correlation loss its gradient is g1 = a y activation'(u + b) times x; a second step on the
same example sees the pre-activation moved by s g1, where s/d is the step size of the first (`reuse_step_size` s), hence
g2 = a y activation'(u + b + s g1). The update is psi = g1 + g2 (g1 alone without reuse) times gamma/d (`step_size`
gamma) along x minus its part along w, and then |w| = 1 again.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, check_flag, check_signs, common_shape
from unlazy.functions.elementwise import Elementwise, Link, as_activation, as_link
from unlazy.numerics.quadrature import panels
from unlazy.numerics.roots import ConvergenceError, bisect, scalar_minimum
from unlazy.theory.index_models.overlap_averages import Averages, averages_of

_SETTLED = 1e-9
_LARGEST, _LONGEST = 1e3, 1e300
_LAST_ANGLE = 1.4
"""arcsin of the largest overlap that the series reach for activations with a kink; for smooth ones they reach 1."""
_AT_REST = 1e-14
_ROUNDING = 1e-13
_ANGLES = 400
_GRADES = 50
_NODES = 12

LinkLike = str | Link | Elementwise


class Drift(NamedTuple):
    """What moves the overlap m; both fields have the broadcast shape of the arguments."""

    pull: np.ndarray
    """S(m) = E[psi (z - m u)]: the pull towards the hidden direction."""
    update_square: np.ndarray
    """V(m) = E psi^2: what the other directions add to |w|^2, which pulls back."""


def overlap_drift(
    link: LinkLike,
    overlap: ArrayLike,
    *,
    activation: LinkLike = "relu",
    sign: ArrayLike = 1.0,
    bias: ArrayLike = 0.0,
    reuse: bool = True,
    reuse_step_size: ArrayLike = 1.0,
    noise_variance: ArrayLike = 0.0,
) -> Drift:
    """Pull S(m) and square V(m) of a neuron's update, of which dm/dt = gamma S(m) - gamma^2 m V(m) / 2, t = n/d.

        psi = a y [activation'(u + b) + activation'(u + b + s a y activation'(u + b))]   (the second term with reuse)

    with `sign` a, `bias` b and `reuse_step_size` s. Given z, u is normal with mean m z and variance 1 - m^2: for the
    ReLU all averages over u and the noise are closed forms, and what remains is a quadrature over z that is split where
    the label changes its sign. Activations with other kinks are refused. Without reuse noise adds noise_variance
    E[activation'(u + b)^2] to V and nothing to S, and with activation = link = h_k, S(m) = k m^(k-1) (1 - m^2). Errors
    are at most 1e-7 of V^(1/2) and V, and of a neuron that is nearly silent 1e-11 of the label's deviation and 1e-15 of
    its variance. |overlap| < 1; |bias| and reuse_step_size at most 1000, noise_variance at most 1e6.

    Exact as d grows at fixed n/d, where |x|^2/d = 1. Source: Lee, Oko, Suzuki & Wu (2024), Algorithm 1; the reduction
    to one dimension as in Ben Arous, Gheissari & Jagannath (2021).

    >>> found = overlap_drift("He3", overlap=[0.0, 0.3], sign=-1, bias=0.0, reuse_step_size=1.0, noise_variance=0.01)
    >>> print(found.pull.round(4), found.update_square.round(2))
    [0.0396 0.0729] [1.38 1.06]
    """
    overlap, twice = _check_overlap("overlap", overlap), check_flag("reuse", reuse)
    truth, neuron = as_link(link), as_activation(activation)
    arrays = _checked(sign=sign, bias=bias, reuse_step_size=reuse_step_size, noise_variance=noise_variance)
    shape = common_shape(overlap=overlap, **arrays)
    flat = {name: np.broadcast_to(array, shape).ravel() for name, array in arrays.items()}
    overlaps = np.broadcast_to(overlap, shape).ravel()
    found = np.empty((2, overlaps.size))
    settings, group = np.unique(np.stack(list(flat.values())), axis=1, return_inverse=True)
    for index, setting in enumerate(settings.T):
        chosen = group.ravel() == index
        found[:, chosen] = averages_of(truth, neuron, twice, *setting.tolist())(overlaps[chosen])
    return Drift(*(row.reshape(shape)[()] for row in found))


def overlap_path(
    link: LinkLike,
    samples_per_dimension: ArrayLike,
    step_size: float,
    *,
    start_overlap: float = 0.0,
    activation: LinkLike = "relu",
    sign: float = 1.0,
    bias: float = 0.0,
    reuse: bool = True,
    reuse_step_size: float = 1.0,
    noise_variance: float = 0.0,
) -> np.ndarray:
    """The overlap m(t) at t = n/d samples per dimension: dm/dt = gamma S(m) - gamma^2 m V(m) / 2.

    It begins at `start_overlap`; `step_size` is gamma, from 0 to 1000, the rest as in `overlap_drift`, single numbers.
    The limit of one neuron as d grows at fixed n/d, in which its fluctuations of order d^(-1/2) vanish: it is no guide
    where m(0) is of their order and S(0) = 0. A start whose velocity is below 1e-14 gamma V^(1/2), which is rounding,
    is a fixed point.

    >>> path = overlap_path("He3", samples_per_dimension=[20, 60, 100], step_size=0.1, start_overlap=0.0, sign=-1)
    >>> print(path.round(3))
    [0.088 0.304 0.519]
    """
    from scipy.integrate import solve_ivp

    moments = check_array("samples_per_dimension", samples_per_dimension, low=0, high=_LONGEST)
    flow = _flow(link, step_size, activation, sign, bias, reuse, reuse_step_size, noise_variance)
    first = float(_check_overlap("start_overlap", _single("start_overlap", start_overlap)))
    if flow.rests_at(first):
        return np.full(moments.shape, first)[()]
    order, places = np.unique(moments.ravel(), return_inverse=True)
    run = solve_ivp(
        lambda _, m: flow(np.clip(m, -1 + 1e-12, 1 - 1e-12)),
        (0.0, max(order[-1], 1e-300)), [first], method="LSODA", t_eval=order, rtol=1e-12,
        atol=min(1e-14, 1e-11 * abs(first)) if first else 1e-14,
    )  # fmt: skip
    if not run.success:
        raise ConvergenceError(f"the overlap could not be followed to t = {order[-1]:g}: {run.message}")
    return run.y[0][places.ravel()].reshape(moments.shape)[()]


def crossing_time(
    link: LinkLike,
    step_size: float,
    *,
    start_overlap: float = 0.0,
    target_overlap: float = 0.5,
    activation: LinkLike = "relu",
    sign: float = 1.0,
    bias: float = 0.0,
    reuse: bool = True,
    reuse_step_size: float = 1.0,
    noise_variance: float = 0.0,
) -> float:
    """The samples per dimension t = n/d at which `overlap_path` gets from `start_overlap` up to `target_overlap`.

        t = int_start^target dm / (gamma S(m) - gamma^2 m V(m) / 2)

    Infinite (inf) from a fixed point, and where the velocity has a zero up to and including the target: where the
    target is never reached. 0 where the start is beyond it.

    >>> print(round(crossing_time("He3", step_size=0.1, start_overlap=0.0, target_overlap=0.5, sign=-1), 1))
    95.9
    """
    flow = _flow(link, step_size, activation, sign, bias, reuse, reuse_step_size, noise_variance)
    first, last = (
        float(_check_overlap(name, _single(name, m)))
        for name, m in (("start_overlap", start_overlap), ("target_overlap", target_overlap))
    )
    if first >= last:
        return 0.0
    if flow.rests_at(first) or float(flow(np.array([first]))[0]) < 0:
        return math.inf
    stop, slow = _first_stop(flow, 1.0, math.asin(first), math.asin(last))
    if stop is not None:
        return math.inf
    # panels that shrink towards the ends and the slowest places, next to which the velocity may have a zero
    ends = np.unique([first, *(m for m in np.sin(slow) if first < m < last), last])
    shares = np.concatenate([[0.0], 2.0 ** -np.arange(_GRADES, 0, -1), 1 - 2.0 ** -np.arange(2, _GRADES - 10), [1.0]])
    edges = np.append((ends[:-1, None] + np.diff(ends)[:, None] * shares[:-1]).ravel(), last)
    overlaps, weights = panels(edges, _NODES)
    speeds = flow(overlaps)
    return float(np.sum(weights / speeds)) if (speeds > 0).all() else math.inf


def stall_step_size(
    link: LinkLike,
    overlap: ArrayLike,
    *,
    activation: LinkLike = "relu",
    sign: ArrayLike = 1.0,
    bias: ArrayLike = 0.0,
    reuse: bool = True,
    reuse_step_size: ArrayLike = 1.0,
    noise_variance: ArrayLike = 0.0,
) -> np.ndarray:
    """The step size gamma from which on m > 0 does not grow, 2 S(m) / (m V(m)); 0 where S(m) <= 0 and none helps.

    The neuron is that of `overlap_drift`; infinite (inf) where V(m) is 0.

    >>> print(stall_step_size("He3", overlap=[0.3, 0.5, 0.7], sign=-1).round(2))
    [0.47 0.31 0.15]
    """
    overlap = check_array("overlap", _check_overlap("overlap", overlap), above=0)
    pull, square = overlap_drift(
        link,
        overlap,
        activation=activation,
        sign=sign,
        bias=bias,
        reuse=reuse,
        reuse_step_size=reuse_step_size,
        noise_variance=noise_variance,
    )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(pull > 0, 2 * pull / (overlap * square), 0.0)[()]


def stall_overlap(
    link: LinkLike,
    step_size: float,
    *,
    start_overlap: float = 0.0,
    activation: LinkLike = "relu",
    sign: float = 1.0,
    bias: float = 0.0,
    reuse: bool = True,
    reuse_step_size: float = 1.0,
    noise_variance: float = 0.0,
) -> float:
    """Where `overlap_path` ends: the first overlap >= `start_overlap` that no longer moves, or below it, if m falls.

    The nearest sign change of the velocity on some hundred angles and at its dips between them, by bisection; a path
    that reaches none ends at +-1. A start at which nothing moves is itself the answer.

    >>> print(round(stall_overlap("He3", step_size=0.1, start_overlap=0.0, sign=-1), 3))
    0.779
    """
    flow = _flow(link, step_size, activation, sign, bias, reuse, reuse_step_size, noise_variance)
    first = float(_check_overlap("start_overlap", _single("start_overlap", start_overlap)))
    if flow.rests_at(first):
        return first
    side = math.copysign(1.0, float(flow(np.array([first]))[0]))
    angle = math.asin(first)
    for end in (side * _LAST_ANGLE, side * (math.pi / 2 - 1e-3)):
        if (end - angle) * side <= 0:
            continue
        stop, _ = _first_stop(flow, side, angle, end)
        if stop is not None:
            return math.sin(stop)
        angle = end
    return side


def _first_stop(flow: _Flow, side: float, low: float, high: float) -> tuple[float | None, list[float]]:
    """The first angle from `low` on at which the velocity loses the sign `side`, and those of its dips before."""
    shares = np.union1d(np.linspace(0, 1, _ANGLES), 2.0 ** -np.arange(8, _GRADES))
    angles = low + (high - low) * shares
    angles[-1] = high
    speeds = side * flow(np.sin(angles))
    passed = np.flatnonzero(speeds[1:] <= 0) + 1
    last = int(passed[0]) if passed.size else angles.size
    # a zero and its partner may stand between two neighbours, where the speed has a dip
    dips = np.flatnonzero((speeds[1:-1] <= speeds[:-2]) & (speeds[1:-1] <= speeds[2:])) + 1
    found: list[float] = []
    for i in dips[dips < last]:
        first, second = sorted((angles[i - 1], angles[i + 1]))
        place, least = scalar_minimum(lambda at: side * float(flow(np.array([math.sin(at)]))[0]), first, second, 1e-10)
        if least <= 0:
            return _sign_change(flow, side, angles[i - 1], place), found
        found.append(place)
    if passed.size:
        return _sign_change(flow, side, angles[last - 1], angles[last]), found
    return None, found


def _sign_change(flow: _Flow, side: float, low: float, high: float) -> float:
    """The angle between two at which the velocity loses the sign `side`."""
    return float(np.mean(bisect(lambda angle: side * flow(np.sin(angle)[None])[0] > 0, low, high, 50)))


def _check_overlap(name: str, overlap: ArrayLike) -> np.ndarray:
    """An overlap as an array, or an error unless it lies strictly between -1 and 1."""
    return check_array(name, overlap, above=-1, below=1)


def _checked(*, sign: Any, bias: Any, reuse_step_size: Any, noise_variance: Any) -> dict[str, np.ndarray]:
    return {
        "sign": check_signs("sign", sign),
        "bias": check_array("bias", bias, low=-_LARGEST, high=_LARGEST),
        "reuse_step_size": check_array("reuse_step_size", reuse_step_size, low=0, high=_LARGEST),
        "noise_variance": check_array("noise_variance", noise_variance, low=0, high=_LARGEST**2),
    }


def _single(name: str, value: Any) -> float:
    return float(check_array(name, value, ndim=0))


class _Flow(NamedTuple):
    """dm/dt as a function of arrays of overlaps."""

    direct: Averages
    series: np.ndarray | None
    reach: float
    step_size: float

    def __call__(self, m: np.ndarray) -> np.ndarray:
        angles = np.arcsin(m)
        near = np.abs(angles) <= (self.reach if self.series is not None else -1.0)
        found = np.empty((2, m.size))
        if self.series is not None and near.any():
            found[:, near] = np.polynomial.chebyshev.chebval(angles[near] / self.reach, self.series)
        if not near.all():
            found[:, ~near] = self.direct(m[~near])
        return self.step_size * (found[0] - self.step_size / 2 * m * found[1])

    def rests_at(self, m: float) -> bool:
        """Whether the velocity is 0 up to rounding."""
        (pull,), (square,) = self.direct(np.array([m]))
        back = self.step_size / 2 * m * square
        return bool(abs(pull - back) <= _AT_REST * (math.sqrt(square) + abs(back)) or self.step_size == 0)


def _flow(
    link: LinkLike,
    step_size: Any,
    activation: LinkLike,
    sign: Any,
    bias: Any,
    reuse: Any,
    reuse_step_size: Any,
    noise_variance: Any,
) -> _Flow:
    gamma = float(check_array("step_size", step_size, low=0, high=_LARGEST, ndim=0))
    numbers = {"sign": sign, "bias": bias, "reuse_step_size": reuse_step_size, "noise_variance": noise_variance}
    found = {name: float(number) for name, number in _checked(**_singles(numbers)).items()}
    truth, neuron = as_link(link), as_activation(activation)
    reach = _LAST_ANGLE if neuron.breakpoints else math.pi / 2
    direct, series = _table(truth, neuron, check_flag("reuse", reuse), reach, **found)
    return _Flow(direct, series, reach, gamma)


def _singles(numbers: dict[str, Any]) -> dict[str, float]:
    return {name: _single(name, value) for name, value in numbers.items()}


@lru_cache(maxsize=64)
def _table(
    truth: Link, neuron: Link, reuse: bool, reach: float, **numbers: float
) -> tuple[Averages, np.ndarray | None]:
    """The averages, and as Chebyshev series in arcsin m where these converge: they are needed many times."""
    averages = averages_of(truth, neuron, reuse, **numbers)
    best, tail = None, _SETTLED
    for count in (64, 128, 256):
        angles = math.pi * (np.arange(count) + 0.5) / count
        values = averages(np.sin(reach * np.cos(angles)))
        series = 2 / count * np.cos(np.outer(np.arange(count), angles)) @ values.T
        series[0] /= 2
        left = (np.abs(series[-8:]).max(0) / (1 + np.abs(series).max(0))).max()
        if left <= tail:
            best, tail = series, left
        if left <= _ROUNDING:
            break
    return averages, best

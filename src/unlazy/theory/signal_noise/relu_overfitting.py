"""Test error of a ReLU network (q = 1) that has memorised its samples, and of the classifier that averages them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_symmetric, common_shape
from unlazy.numerics.quadrature import panels
from unlazy.numerics.roots import newton_root

_PATHS = 5_000
_LARGEST_TIME = 1e4
_LARGEST_STEP = 100.0
ACCURATE_STEP = 0.5
_TOLERANCE = 1e-14
_LEAST_FRACTION = 1e-100
_FAR = 30.0


class ActivePairs(NamedTuple):
    """Pairs of a sample and a neuron of its class; see `active_pairs`."""

    active_fraction: np.ndarray
    """p, the fraction of pairs that are active."""
    both_active_fraction: np.ndarray
    """C, the fraction of samples on which two given neurons are both active; p^2 + the variance of p over samples."""
    active_time_share: np.ndarray
    """p_1, the mean over pairs of the share of the time in which they were active: what they memorised."""
    squared_active_time_share: np.ndarray
    """p_2, the mean of its square."""


class SmallStart(NamedTuple):
    """What `small_start_error` predicts; every field has the broadcast shape of its arguments."""

    test_error: np.ndarray
    active_fraction: np.ndarray
    """p, the fraction of active pairs at the end."""
    memorised: np.ndarray
    """rho, the pre-activation of a pair that was active from the start, at the end."""


def relu_error(
    signal_level: ArrayLike, active_fraction: ArrayLike, both_active_fraction: ArrayLike | None = None
) -> np.ndarray:
    """Test error of a ReLU network trained to small loss from a small start, where noise outweighs signal.

    With Lambda = n |mu|^4 / (sigma^4 d) the `signal_level`, p the `active_fraction` of the pairs of a neuron and a
    sample of its class, and r = C / p^2 >= 1 from the `both_active_fraction` C of `active_pairs` (None: r = 1),

        error = P( h(z1) - h(z2) < -r sqrt(Lambda / 2) ),      z1, z2 independent N(0, 1),
        h(z) = E relu(p z + s N),   s^2 = r p - p^2.

    Reason: a fresh noise patch meets in a neuron the memorised patches on which it is active. p z is what all neurons
    of a class share, s N their own; a sample with few active neurons gets larger coefficients, which leaves p z alone
    and lifts the signal by r. An error that is exactly a tie (p = 1 and Lambda = 0) counts half. Exact as m and d/n
    grow, for n SNR^2 << 1 and noise orthogonal to mu; in simulations with measured p, r = 1 is high by up to 20%.
    Errors below 1e-30 are rough. Source: the regime of Kou, Chen, Chen & Gu (2023), the formula is this project's.

    >>> print(relu_error(signal_level=[0.3, 1, 3], active_fraction=0.8))
    [0.2177  0.1198 0.03670]
    """
    signal_level = check_array("signal_level", signal_level, low=0, high=1e100)
    active = check_array("active_fraction", active_fraction, low=_LEAST_FRACTION, high=1)
    boost = np.ones(())
    if both_active_fraction is not None:
        boost = _boost(active, check_array("both_active_fraction", both_active_fraction, low=0, high=1))
    shape = common_shape(signal_level=signal_level, active_fraction=active, both_active_fraction=boost)
    lift = np.broadcast_to(boost * np.sqrt(signal_level / 2), shape).ravel()
    shared = np.broadcast_to(active, shape).ravel()
    own = np.sqrt(np.maximum(np.broadcast_to(boost * active - active**2, shape).ravel(), 0.0))
    error = np.array([difference_probability(*case) for case in zip(lift, shared, own, strict=True)])
    return np.where(np.broadcast_to(signal_level, shape) == 0, 0.5, error.reshape(shape))[()]


def small_start_error(
    signal_level: ArrayLike,
    n: ArrayLike,
    d: ArrayLike,
    initial_scale: ArrayLike,
    *,
    stop_loss: ArrayLike = 0.02,
    relative_step_size: float = 0.0,
) -> SmallStart:
    """`relu_error` with nothing measured: the active pairs follow from the start, the final loss and the step size.

    s_0 = sigma_0 sqrt(d) is the `initial_scale`, times sigma if that is not 1: the standard deviation of <w0, xi>; eps
    is the `stop_loss`, so that margins are M = -log(e^eps - 1); `relative_step_size` is eta sigma^2 d / (nm), 0 for
    gradient flow. With `active_pairs` p, p_1, p_2, C at tau = rho sqrt(n / (2d)) / s_0,

        rho = M / p_1,      r = C / p^2,      shared p_1 z,      own s^2 = r p_2 - p_1^2

    in the formula of `relu_error`. Exact as m, n and d/n grow while n SNR^2 vanishes and the step is small. In three
    settings with n = 40 to 80, m = 40 and d/n of thousands it was within 2% of simulations at step size .1, 2-5%
    low at .3, 5-9% low at .5, but 10-16% low at 1 and 30-40% low at 4, where the true error grows with it: step
    sizes above 0.5 are refused. Source: this project's.

    >>> found = small_start_error(signal_level=[0.3, 1, 3], n=80, d=1e5, initial_scale=1e-3)
    >>> print(found.test_error, found.active_fraction)
    [0.2025 0.1007 0.02508] [0.7735 0.7735 0.7735]
    """
    signal_level = check_array("signal_level", signal_level, low=0, high=1e100)
    n, d = check_array("n", n, low=2), check_array("d", d, low=1)
    start = check_array("initial_scale", initial_scale, low=1e-100, high=1e100)
    loss = check_array("stop_loss", stop_loss, above=0, high=0.5)
    step = float(check_array("relative_step_size", relative_step_size, low=0, high=ACCURATE_STEP, ndim=0))
    shape = common_shape(signal_level=signal_level, n=n, d=d, initial_scale=start, stop_loss=loss)
    cases = (np.broadcast_to(a, shape).ravel() for a in (signal_level, n, d, start, -np.log(np.expm1(loss))))
    found = [_small_start(step, *map(float, case)) for case in zip(*cases, strict=True)]
    return SmallStart(*(np.array(field).reshape(shape)[()] for field in zip(*found, strict=True)))


def xor_level(signal_level: ArrayLike, feature_cosine: ArrayLike) -> np.ndarray:
    """The signal level of [y mu, xi] whose error is that of XOR data, [+-u, xi] and [+-v, xi] with |u| = |v|.

        Lambda (1 - cos^2)^2 / 16

    A neuron of the class of u is driven along u by the cluster on its side alone, n/4 samples and not n/2, and only
    half of the neurons are on the side of a fresh sample: the signal's part of the output is a quarter of what it is
    for [y mu, xi], and Lambda enters by its root. The other class keeps <w, v> at 0, so that w grows along the part of
    u orthogonal to v. What noise does is the same. Source: this project's.

    >>> print(xor_level(signal_level=160, feature_cosine=[0, 0.5]))
    [10.     5.625]
    """
    signal_level = check_array("signal_level", signal_level, low=0, high=1e100)
    cosine = check_array("feature_cosine", feature_cosine, low=-1, high=1)
    common_shape(signal_level=signal_level, feature_cosine=cosine)
    return (signal_level * (1 - cosine**2) ** 2 / 16)[()]


def active_pairs(time: ArrayLike, *, first_step_time: float = 0.0) -> ActivePairs:
    """The fraction of pairs (sample, neuron of its class) that are active after noise patches pushed each other.

    `time` is tau = rho sqrt(n / (2d)) / s_0: rho the pre-activation that a pair active from the start has gained,
    s_0 = sigma_0 sigma sqrt(d) that of a pair at the start, and sigma^2 sqrt(d n / 2) the overlap of a patch with the
    sum of those of its class. Half of the pairs are active at the start and remain so; the others are pushed by the
    active patches of their class, whose number grows, until they become active too:

        p(tau) = E Phi( max_(s <= tau) X(s) ),    X' = B(p(s)),    X(0) = 0,

    B a Brownian motion: an inactive pair does not act back, so that the pushes it receives are independent of it. For
    two neurons, B and B' have the covariance C(tau) = E Phi(max X) Phi(max X'). p is 1/2 at tau = 0 and about .78 at
    the end. Gradient descent whose step is not small (`first_step_time` is the tau of the first one) ends higher, at
    up to .83, because in the first step the patches of the other class push as well.

    Computed with 10,000 paths and a fixed seed, to about .003; times beyond 1e4 count as 1e4. Exact as n, m and d/n
    grow. Source: this project's.

    >>> print(active_pairs(time=[0, 1, 100]).active_fraction)
    [0.5        0.6015  0.7733]
    """
    time = check_array("time", time, low=0)
    scale, (times, *fields) = scaled_curve(float(check_array("first_step_time", first_step_time, low=0, ndim=0)))
    return ActivePairs(*(np.interp(time * scale, times, field)[()] for field in fields))


def averaging_error(signal_level: ArrayLike, signal_norm: ArrayLike = np.inf) -> np.ndarray:
    """Test error of the classifier sign <w, x> with w the mean of y_i x_i, for isotropic Gaussian classes.

        Phi( -1 / sqrt(1/Lambda + sigma^2/|mu|^2) ),      Lambda = n |mu|^4 / (sigma^4 d)

    `signal_norm` is |mu| / sigma, infinite (the default) if the noise is orthogonal to mu. Exact as d grows.

    >>> print(averaging_error(signal_level=[0.3, 1, 3], signal_norm=2))
    [0.2987 0.1855 0.09522]
    """
    from scipy.special import ndtr

    signal_level = check_array("signal_level", signal_level, low=0, high=1e100)
    signal_norm = check_array("signal_norm", signal_norm, low=0, finite=False)
    common_shape(signal_level=signal_level, signal_norm=signal_norm)
    with np.errstate(divide="ignore", over="ignore"):
        return ndtr(-1 / np.hypot(1 / np.sqrt(signal_level), 1 / signal_norm))[()]


def averaging_classifier_error(class_mean: ArrayLike, covariance: ArrayLike, n: ArrayLike) -> np.ndarray:
    """Test error of the averaging classifier for classes N(+-mu, S).

        Phi( -|mu|^2 / sqrt(mu.S mu + tr S^2 / n) )

    `class_mean` is mu (d,); `covariance` is a number (isotropic), d variances, or a matrix (d, d), whose eigenvalues
    are computed to check that none is negative. n broadcasts. Exact as tr S^2 / |S|^2 grows.

    >>> print(averaging_classifier_error(class_mean=[1, 0.5, 0], covariance=[1, 2, 3], n=[4, 40]))
    [0.2881 0.1790]
    """
    from scipy.special import ndtr

    n = check_array("n", n, low=1)
    mean = check_array("class_mean", class_mean, low=-1e50, high=1e50, ndim=1)
    covariance = check_array("covariance", covariance, low=-1e100, high=1e100)
    d = mean.size
    if covariance.shape not in ((), (d,), (d, d)):
        raise InputError(
            f"covariance must be a number or have shape ({d},) or ({d}, {d}) like class_mean, got {covariance.shape}"
        )
    if covariance.ndim == 2:
        check_symmetric("covariance", covariance)
    along = mean @ covariance @ mean if covariance.ndim == 2 else np.sum(mean**2 * covariance)
    square = np.sum(covariance**2) if covariance.ndim else d * covariance**2
    variances = np.linalg.eigvalsh(covariance) if covariance.ndim == 2 else covariance
    # rounding makes small eigenvalues of a covariance negative
    least = float(np.min(variances))
    if least < (-1e-10 * float(np.abs(variances).max()) if covariance.ndim == 2 else 0.0):
        raise InputError(f"covariance must be positive semi-definite, got the variance {least:g} in some direction")
    along = max(float(along), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = mean @ mean / np.sqrt(along + square / n)
    return ndtr(-np.where(mean.any(), ratio, 0.0))[()]


def _boost(active: np.ndarray, overlap: np.ndarray) -> np.ndarray:
    common_shape(active_fraction=active, both_active_fraction=overlap)
    wrong = (overlap < active**2 * (1 - 1e-9)) | (overlap > active)
    if wrong.any():
        p, c = (a[wrong].flat[0] for a in np.broadcast_arrays(active, overlap))
        raise InputError(f"both_active_fraction must be >= p^2 and <= p for the active_fraction p = {p:g}, got {c:g}")
    return np.maximum(overlap / active**2, 1.0)


def difference_probability(lift: float, shared: float, own: float, along: float = 0.0) -> float:
    """P(h(u1) - h(u2) < -lift) for h(u) = E relu(u + own N), u1 = shared z1 + along z, u2 = shared z2 - along z.

    z1, z2 and z are independent and normal; along is what fresh noise has of the signal's direction.
    """
    from scipy.special import ndtr

    if along > _FAR * shared:
        # either class is silent where the other is not
        return float(ndtr(-lift / np.hypot(along, shared)))
    scale = np.hypot(shared, along)
    # given u1 = scale z, u2 is normal around -against scale z
    against, left = (along / scale) ** 2, shared * np.sqrt(shared**2 + 2 * along**2) / scale**2
    # h bends within own/scale of 0, the normal density on the scale 1, the distribution of u2 within left of its mean
    near = own / scale * np.array([0.5, 1.0, 2.0, 4.0, 8.0])
    edges = np.unique(np.concatenate([[0.0], near[near < 13], np.linspace(0.5, 13, 1 + 25 * int(np.ceil(1 / left)))]))
    edges = np.concatenate([-edges[:0:-1], edges])
    z, weights = panels(edges, 12)
    weight = weights * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    if own == 0:
        reached = np.maximum(z, 0.0) + lift / scale
    else:
        reached = _inverse(_mean_relu(z, scale, own) + lift, z, scale, own)
    return float(weight @ ndtr(-(reached + against * z) / left))


def _mean_relu(z: np.ndarray, shared: float, own: float) -> np.ndarray:
    from scipy.special import erfcx, ndtr

    u = shared * z / own
    density = np.exp(-np.minimum(u**2, 1400.0) / 2) / np.sqrt(2 * np.pi)
    below = density * (1 + np.sqrt(np.pi / 2) * u * erfcx(np.maximum(-u, 0.0) / np.sqrt(2)))
    return own * np.where(u < 0, np.maximum(below, 0.0), density + u * ndtr(u))


def _inverse(values: np.ndarray, low: np.ndarray, shared: float, own: float) -> np.ndarray:
    """z >= low with h(z) = values, from the right, where the convex h makes Newton's method monotone."""
    from scipy.special import ndtr

    def equation(z: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _mean_relu(z, shared, own) - values[rows], shared * ndtr(shared * z / own)

    high = np.maximum(values / shared, low)
    return newton_root(equation, low, high, high, _TOLERANCE)


def _small_start(
    step: float, signal_level: float, n: float, d: float, start: float, margin: float
) -> tuple[float, float, float]:
    """(error, p, rho)."""
    found = memorise(step, n, d, start, margin)
    lift = found.boost * np.sqrt(signal_level / 2)
    error = difference_probability(lift, found.shared, found.own) if signal_level else 0.5
    return error, found.active_fraction, margin / found.shared


class Memorised(NamedTuple):
    """What `difference_probability` needs of a network whose samples have a margin by their noise, and p."""

    boost: float
    shared: float
    own: float
    active_fraction: float


def memorise(step: float, n: float, d: float, start: float, margin: float) -> Memorised:
    """Noise that is memorised until it gives a margin; `step` and `start` are the relative step size and s_0."""
    unit = np.sqrt(n / (2 * d)) / start
    scale, (times, fraction, overlap, mean, square) = scaled_curve(unit * step / 2)
    unit = unit * scale
    # the time at which rho p_1, which grows with it, is the margin
    end = float(np.interp(margin * unit, times * mean, times)) if margin * unit < (times * mean)[-1] else times[-1]
    p, c, p_1, p_2 = (float(np.interp(end, times, field)) for field in (fraction, overlap, mean, square))
    boost = max(c / p**2, 1.0)
    return Memorised(boost, p_1, np.sqrt(max(boost * p_2 - p_1**2, 0.0)), p)


def scaled_curve(first_step: float) -> tuple[float, tuple[np.ndarray, ...]]:
    """A factor for times, and the curve: where the first step decides all, only the number of steps matters."""
    scale = min(1.0, _LARGEST_STEP / first_step) if first_step else 1.0
    return scale, _activation_curve(float(f"{scale * first_step:.6g}"))


@lru_cache(maxsize=64)
def _activation_curve(first_step: float) -> tuple[np.ndarray, ...]:
    """Times and p, C, p_1, p_2 of `active_pairs` at them."""
    from scipy.special import ndtr

    rng = np.random.default_rng(0)

    def increments(own: float, shared: float) -> np.ndarray:
        """(2, paths) normal numbers with this variance, and this covariance between the two neurons."""
        common, different = max(shared, 0.0), max(own - max(shared, 0.0), 0.0)
        draws = rng.standard_normal((3, _PATHS))
        pairs = np.sqrt(common) * draws[0] + np.sqrt(different) * draws[1:]
        return np.concatenate([pairs, -pairs], axis=1)

    push = increments(0.5, 0.25)
    farthest = np.zeros(push.shape)
    # patches of the other class are inactive after one step, which in the flow takes no time
    reached = first_step * increments(0.5, 0.25)
    times, fraction, overlap = [0.0], [0.5], [0.25]
    while times[-1] < _LARGEST_TIME:
        step = max(first_step, 2e-3, 0.04 * times[-1])
        reached = reached + step * push
        farthest = np.maximum(farthest, reached)
        active = ndtr(farthest)
        times.append(times[-1] + step)
        fraction.append(max(float(active.mean()), fraction[-1]))
        overlap.append(max(float((active[0] * active[1]).mean()), overlap[-1]))
        push = push + increments(fraction[-1] - fraction[-2], overlap[-1] - overlap[-2])
    time, active_now = np.array(times), np.array(fraction)
    widths, midpoints = np.diff(time), (active_now[1:] + active_now[:-1]) / 2
    centres = (time[1:] + time[:-1]) / 2
    first, second = (np.append(0.0, np.cumsum(widths * midpoints * weight)) for weight in (1.0, centres))
    later = np.maximum(time, time[1])
    mean = np.where(time > 0, first / later, 0.5)
    # (2/t^2) int_0^t (t - s) p(s) ds
    square = np.where(time > 0, 2 * (later * first - second) / later**2, 0.5)
    return time, active_now, np.array(overlap), mean, square

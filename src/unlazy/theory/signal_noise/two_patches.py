"""The signal-noise sandbox without training: growth laws, the race of signal against noise, label noise, contrast.

A sample is two patches [y mu, xi], xi ~ N(0, sigma^2 I_d), SNR = |mu| / (sigma sqrt(d)). The network is f = F_1 - F_-1,
F_j = (1/m) sum_r relu(<w_jr, patch 1>)^q + relu(<w_jr, patch 2>)^q, trained by gradient descent on the mean logistic
loss from w ~ N(0, sigma_0^2 I). Time is step size times steps.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, common_shape
from unlazy.theory.signal_noise.growth import blow_up_time, growth_rates

_LARGEST_NORM = 1e50


class Race(NamedTuple):
    """Times for the classes 1 and -1, (..., 2), inf for never, and what follows from them, (...); see `race`."""

    signal_time: np.ndarray
    """When the signal of the class would be learned if no sample were memorised."""
    noise_time: np.ndarray
    """When the samples of the class are memorised: the mean over them (q > 2), or the last of them (q = 2)."""
    benign: np.ndarray
    """Whether the signal is earlier in both classes."""


class ContrastiveRates(NamedTuple):
    """In units of sigma^2 d / n."""

    signal_growth_rate: np.ndarray
    noise_growth_rate: np.ndarray


def race(
    signal_overlaps: ArrayLike,
    noise_overlaps: ArrayLike,
    signal_norm: ArrayLike,
    noise_norm: ArrayLike,
    labels: ArrayLike,
    power: float,
) -> Race:
    """Does a ReLU^q network, q >= 2, learn the signal before it has memorised every sample's noise?

    `signal_overlaps` (..., 2, m) holds j <w0_jr, mu> for the classes j = 1, -1, `noise_overlaps` (..., n, m) holds
    <w0_(y_i)r, xi_i>, `noise_norm` (..., n) holds |xi_i|, `signal_norm` (...) is |mu| and `labels` (n,) the y_i;
    leading dimensions broadcast. The best neuron blows up at

        T_j = 4m / (q (q-2) |mu|^2 A_j^(q-2)),        A_j = max_r j <w0_jr, mu>_+
        T_i = 2nm / (q (q-2) |xi_i|^2 B_i^(q-2)),     B_i = max_r <w0_(y_i)r, xi_i>_+

    but the pull on the signal is the share of the class's samples that are not memorised yet, whose integral over time
    is the mean of T_i. Overfitting is predicted benign iff T_j is less than the mean of T_i over y_i = j, for both j.
    At q = 2, where growth is exponential and the start enters by its logarithm only, the times are 1/c of
    `growth_rates`, and the last sample of a class counts: benign iff |mu|^2 / 2 > min_i |xi_i|^2 / n for both.

    A heuristic that neglects overlaps between samples and margins of order one. It told of 92-97% (q = 3), 91-95%
    (q = 4) and 81% (q = 5) of the networks trained in two rounds whether their test error is below .1. Most of these
    had a signal strength n SNR^q at which all networks end alike, so that these numbers say little more than that the
    strength decides; what the start of a single network adds, where strength leaves it open, is measured by the study
    benign-overfitting. Source: growth after Cao et al. (2022), Lemmas 5.3-5.7; the comparison with the mean is this
    project's.

    >>> signal_overlaps, noise_overlaps = [[0.2, 0.1], [0.1, 0.3]], [[0.4, 0.1], [0.2, 0.3]]
    >>> found = race(signal_overlaps, noise_overlaps, signal_norm=3, noise_norm=[2, 2], labels=[1, -1], power=3)
    >>> print(found.signal_time, found.noise_time, found.benign)
    [1.481 0.9877] [1.667 2.222] True
    """
    signal_overlaps, noise_overlaps = check_array("signal_overlaps", signal_overlaps), _matrix(noise_overlaps)
    signal_norm = check_array("signal_norm", signal_norm, low=0, high=_LARGEST_NORM)
    noise_norm = check_array("noise_norm", noise_norm, low=0, high=_LARGEST_NORM)
    power = float(check_array("power", power, low=2, high=100, ndim=0))
    n, width = noise_overlaps.shape[-2:]
    if signal_overlaps.ndim < 2 or signal_overlaps.shape[-2:] != (2, width):
        raise InputError(
            f"signal_overlaps must have shape (..., 2, {width}) like noise_overlaps' {width} neurons, "
            f"got {signal_overlaps.shape}"
        )
    if noise_norm.shape[-1:] != (n,):
        raise InputError(f"noise_norm must have shape (..., {n}) like noise_overlaps, got {noise_norm.shape}")
    classes = [check_array("labels", labels, ndim=1) == label for label in (1.0, -1.0)]
    if classes[0].shape != (n,) or not (classes[0] ^ classes[1]).all() or not all(part.any() for part in classes):
        raise InputError(f"labels must be {n} numbers 1 or -1, some of either, got {np.asarray(labels).tolist()!s:.60}")
    signal_rate = growth_rates(signal_norm[..., None], 0.0, power, n, width).signal_growth_rate
    noise_rate = growth_rates(0.0, noise_norm, power, n, width).noise_growth_rate
    if power == 2:
        with np.errstate(divide="ignore"):
            signal_time, each = 1 / signal_rate, 1 / noise_rate
        noise_time = np.stack([each[..., part].max(axis=-1) for part in classes], axis=-1)
    else:
        signal_time = blow_up_time(signal_overlaps.max(axis=-1), signal_rate, power)
        each = blow_up_time(noise_overlaps.max(axis=-1), noise_rate, power)
        noise_time = np.stack([each[..., part].mean(axis=-1) for part in classes], axis=-1)
    # at q = 2 the overlaps do not matter, but their leading dimensions do
    starts = {"signal_overlaps": signal_overlaps[..., 0], "noise_overlaps": noise_overlaps[..., :2, 0]}
    shape = common_shape(signal_norm=signal_time, noise_norm=noise_time, **starts)
    signal_time, noise_time = np.broadcast_to(signal_time, shape), np.broadcast_to(noise_time, shape)
    return Race(signal_time.copy(), noise_time.copy(), np.asarray((signal_time < noise_time).all(axis=-1))[()])


def benign_probability(
    signal_to_noise: ArrayLike, power: ArrayLike, n: ArrayLike, d: ArrayLike, width: ArrayLike
) -> np.ndarray:
    """The probability, over data and initial weights, that `race` predicts benign overfitting.

    With a, b_i the largest of m standard normal numbers and c_i = |xi_i|^2 / (sigma^2 d) a chi-square over d, a class
    learns its signal iff

        a > (n SNR^q / 2 mean_i c_i^(-q/2) b_i^-(q-2))^(-1/(q-2));      q = 2: iff n SNR^2 / 2 > min_i c_i,

    and both classes, n/2 samples each, are independent. The initial scale cancels. The probability over a is closed,
    the mean is drawn 4,000 times with a fixed seed (q > 2): accurate to about .005. Exact for `race` if noise is
    orthogonal to mu and the overlaps of a neuron with different samples are independent, which holds up to
    O(1/sqrt(d)). All arguments broadcast; m is the `width`.

    >>> print(benign_probability(signal_to_noise=[0.4, 0.46, 0.6], power=3, n=20, d=20_000, width=10))
    [0.05340 0.3663 0.9121]
    """
    n, d = check_array("n", n, low=2, high=1e6), check_array("d", d, low=1, high=1e15)
    if (n % 2).any():
        raise InputError(f"n must be even for two classes of equal size, got {n[n % 2 != 0].flat[0]:g}")
    ratio = check_array("signal_to_noise", signal_to_noise, low=0, high=1e6)
    width, power = check_array("width", width, low=1), check_array("power", power, low=2, high=100)
    shape = common_shape(signal_to_noise=ratio, power=power, n=n, d=d, width=width)
    cases = (np.broadcast_to(a, shape).ravel() for a in (n, d, ratio, width, power))
    found = [_class_probability(*map(float, case)) ** 2 for case in zip(*cases, strict=True)]
    return np.array(found).reshape(shape)[()]


def contrastive_rates(signal_strength: ArrayLike, signal_gain: ArrayLike | None = None) -> ContrastiveRates:
    """Exponential rates of signal and noise in contrastive learning, in units of sigma^2 d / n.

        signal x/2 with one modality, C x/2 with two whose second has the signal C mu;     noise 1,

    x = n SNR^2 the `signal_strength`, C the `signal_gain` (None: one modality). Exact for the linearised ReLU dynamics
    at small weights, where the two encoders grow together. Which is ahead at the end also depends on the start: the
    rates must differ clearly. Source: Huang et al. (2024).

    >>> print(contrastive_rates(signal_strength=0.6, signal_gain=[1, 8]).signal_growth_rate)
    [0.3 2.4]
    """
    signal_strength = check_array("signal_strength", signal_strength, low=0, high=1e12)
    gain = check_array("signal_gain", 1.0 if signal_gain is None else signal_gain, low=0, high=1e12)
    shape = common_shape(signal_strength=signal_strength, signal_gain=gain)
    return ContrastiveRates(np.broadcast_to(gain * signal_strength / 2, shape).copy()[()], np.ones(shape)[()])


def contrastive_threshold(
    signal_strength: ArrayLike, n: ArrayLike, d: ArrayLike, width: ArrayLike, initial_deviation: ArrayLike
) -> np.ndarray:
    """The gain C of the second modality at which contrastive learning has learned signal and noise at the same time.

        C_* = (2/x) log(1/s) / log(1/r),      s = sigma_0 |mu| a_m,      r = sigma_0 sigma sqrt(d) b_nm

    Both grow at the rates of `contrastive_rates` to the size 1, from the largest of m neurons and of nm pairs: a_k and
    b_k are the medians of the largest of k numbers |z| and z, z ~ N(0, 1/2) the mean of two encoders' starts; sigma is
    1. C_* tends to 2/x as the `initial_deviation` sigma_0 tends to 0, by logarithms only; it is 0 where s is above 1,
    inf where r is. Of logarithmic accuracy: overlaps of noises, which let them grow faster, and constants of order one
    in the sizes at the end are neglected. Source: this project's.

    >>> print(contrastive_threshold(signal_strength=0.6, n=40, d=1000, width=24, initial_deviation=[1e-4, 1e-24]))
    [5.001 3.495]
    """
    from scipy.special import ndtri

    strength = check_array("signal_strength", signal_strength, above=0, high=1e12)
    n, d = check_array("n", n, low=1, high=1e12), check_array("d", d, low=1, high=1e15)
    width, start = check_array("width", width, low=1, high=1e12), check_array("initial_deviation", initial_deviation)
    check_array("initial_deviation", initial_deviation, low=1e-200, high=1)
    shape = common_shape(signal_strength=strength, n=n, d=d, width=width, initial_deviation=start)
    # The largest of k is below its median with probability 1/2 = p^k.
    signal = np.log(start * np.sqrt(strength * d / (2 * n)) * -ndtri(-np.expm1(-np.log(2) / width) / 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = np.log(start * np.sqrt(d / 2) * np.maximum(-ndtri(-np.expm1(-np.log(2) / (n * width))), 0.0))
        found = 2 / strength * np.minimum(signal, 0.0) / noise
    return np.broadcast_to(np.where(noise < 0, found, np.inf), shape).copy()[()]


def _matrix(overlaps: ArrayLike) -> np.ndarray:
    found = check_array("noise_overlaps", overlaps)
    if found.ndim < 2:
        raise InputError(f"noise_overlaps must have shape (..., n, width), got {found.shape}")
    return found


def _class_probability(n: float, d: float, ratio: float, width: float, power: float) -> float:
    """That a class of n/2 samples learns its signal, in the sense of `race`."""
    from scipy.special import chdtr, chdtrc, log_ndtr

    if power == 2:
        end = d * n * ratio**2 / 2
        # 1 - P(c > end)^(n/2) by whichever tail is small
        none = np.log1p(-chdtr(d, end)) if end < d else np.log(max(chdtrc(d, end), 1e-300))
        return float(-np.expm1(n / 2 * none))
    if ratio == 0:
        return 0.0
    # at very many samples the mean hardly varies
    draws = int(np.clip(4e6 / n, 50, 4000))
    logarithms = _log_mean_times(n, d, width, power, draws)
    with np.errstate(over="ignore"):
        least = np.exp(-(np.log(n / 2) + power * np.log(ratio) + logarithms) / (power - 2))
    return float(np.mean(-np.expm1(width * log_ndtr(least))))


@lru_cache(maxsize=256)
def _log_mean_times(n: float, d: float, width: float, power: float, draws: int) -> np.ndarray:
    """log mean_i c_i^(-q/2) b_i^-(q-2) over n/2 samples, (draws,); infinite if no neuron is active on one of them."""
    from scipy.special import logsumexp, ndtri_exp

    rng = np.random.default_rng(0)
    best = ndtri_exp(np.log(rng.random((draws, int(n) // 2))) / width)
    squares = rng.chisquare(d, best.shape) / d
    with np.errstate(divide="ignore"):
        logarithms = -power / 2 * np.log(squares) - (power - 2) * np.log(np.maximum(best, 0.0))
    return logsumexp(logarithms, axis=1) - np.log(best.shape[1])

"""Growth of one pre-activation of a ReLU^q network, before the margin matters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, common_shape

_LARGEST = 1e100
_LARGEST_NORM = 1e50


class GrowthRates(NamedTuple):
    """c of x' = c x^(q-1) while all logistic factors are 1/2."""

    signal_growth_rate: np.ndarray
    """q |mu|^2 / (4m), of <w_jr, j mu>."""
    noise_growth_rate: np.ndarray
    """q |xi|^2 / (2nm), of <w_jr, xi_i> with j = y_i."""


def growth_rates(
    signal_norm: ArrayLike, noise_norm: ArrayLike, power: ArrayLike, n: ArrayLike, width: ArrayLike
) -> GrowthRates:
    """Rates c of x' = c x^(q-1) for the signal and for the noise of one sample, early in training.

        c_signal = q |mu|^2 / (4m),      c_noise = q |xi|^2 / (2nm)

    with m the `width`, neurons per class, q the `power`, and |xi| about sigma sqrt(d). Exact at the first step for
    balanced labels if different samples' noise is orthogonal and both logistic factors are 1/2. Source: Cao, Chen,
    Belkin & Gu (2022), section 5.

    >>> found = growth_rates(signal_norm=5, noise_norm=20, power=3, n=[8, 32], width=10)
    >>> print(found.signal_growth_rate, found.noise_growth_rate)
    [1.875 1.875] [7.5   1.875]
    """
    signal_norm = check_array("signal_norm", signal_norm, low=0, high=_LARGEST_NORM)
    noise_norm = check_array("noise_norm", noise_norm, low=0, high=_LARGEST_NORM)
    power = check_array("power", power, low=1, high=100)
    n, width = check_array("n", n, low=1), check_array("width", width, low=1)
    shape = common_shape(signal_norm=signal_norm, noise_norm=noise_norm, power=power, n=n, width=width)
    signal, noise = power * signal_norm**2 / (4 * width), power * noise_norm**2 / (2 * n * width)
    return GrowthRates(*(np.broadcast_to(rate, shape).copy()[()] for rate in (signal, noise)))


def blow_up_time(start: ArrayLike, growth_rate: ArrayLike, power: ArrayLike) -> np.ndarray:
    """When x' = c x^(q-1) from x0 > 0 is infinite.

        T = 1 / (c (q-2) x0^(q-2))

    for q > 2, never (inf) for q <= 2 or x0 <= 0 or c = 0. Exact. Source: Cao et al. (2022).

    >>> print(blow_up_time(start=0.1, growth_rate=2, power=[2, 3, 4]))
    [inf  5. 25.]
    """
    initial, rate, power = _growth_arguments(start, growth_rate, power)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        excess = np.maximum(power - 2, 0.0)
        time = 1 / (rate * excess * np.maximum(initial, 0.0) ** excess)
    return np.where((excess > 0) & (initial > 0) & (rate > 0), time, np.inf)[()]


def power_growth(start: ArrayLike, growth_rate: ArrayLike, power: ArrayLike, time: ArrayLike) -> np.ndarray:
    """x(t) of x' = c x^(q-1), the growth of an active pre-activation while the logistic factors are 1/2.

        q = 1: x0 + c t;    q = 2: x0 e^(ct);    else x0 (1 - (q-2) c t x0^(q-2))^(-1/(q-2)), inf from
        `blow_up_time` on.

    A pre-activation that starts at x0 <= 0 is not active and stays there. Exact for gradient flow, one neuron ahead of
    the others and orthogonal patches; fails where the margin is no longer small. The
    tutorial of Han & Huang (2025) prints (1 - eta) x^(q-1) for x + eta x^(q-1). Source: Cao et al. (2022).

    >>> print(power_growth(start=0.1, growth_rate=2, power=3, time=[0, 4, 4.9, 5]))
    [0.1 0.5 5.  inf]
    """
    initial, rate, power = _growth_arguments(start, growth_rate, power)
    time = check_array("time", time, low=0, high=_LARGEST)
    shape = common_shape(start=initial, growth_rate=rate, power=power, time=time)
    initial, rate, power, time = (np.broadcast_to(a, shape) for a in (initial, rate, power, time))
    active, excess = np.maximum(initial, 0.0), power - 2
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        # log(x/x0) = -log1p(-e s)/e with s = c t x0^e, whose limit at e = 0 is s; below q = 2 the sum x0^-e - e c t is
        # safe also where s is infinite
        scaled = rate * time * active**excess
        turned = np.where(excess == 0, 1.0, excess)
        logarithm = np.where(excess == 0, scaled, -np.log1p(-np.minimum(excess * scaled, 1.0)) / turned)
        below = (active**-excess - excess * rate * time) ** (-1 / turned)
        grown = np.where((excess < 0) & (np.abs(excess * scaled) > 1e-3), below, active * np.exp(logarithm))
    return np.where((initial > 0) & (rate * time > 0), grown, initial)[()]


def _growth_arguments(start: ArrayLike, growth_rate: ArrayLike, power: ArrayLike) -> tuple[np.ndarray, ...]:
    start = check_array("start", start, low=-_LARGEST, high=_LARGEST)
    growth_rate = check_array("growth_rate", growth_rate, low=0, high=_LARGEST)
    power = check_array("power", power, low=1, high=100)
    common_shape(start=start, growth_rate=growth_rate, power=power)
    return start, growth_rate, power

"""Growth of one pre-activation of a ReLU^q network, before the margin matters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, common_shape

_LARGEST = 1e100


class GrowthRates(NamedTuple):
    """c of x' = c x^(q-1) while all logistic factors are 1/2."""

    signal: np.ndarray
    """q |mu|^2 / (4m), of <w_jr, j mu>."""
    noise: np.ndarray
    """q |xi|^2 / (2nm), of <w_jr, xi_i> with j = y_i."""


def growth_rates(
    n: ArrayLike, neurons: ArrayLike, power: ArrayLike, signal_square: ArrayLike, noise_square: ArrayLike
) -> GrowthRates:
    """Rates c of x' = c x^(q-1) for the signal and for the noise of one sample, early in training.

        c_signal = q |mu|^2 / (4m),      c_noise = q |xi|^2 / (2nm)

    with m `neurons` per class, q `power`, |mu|^2 `signal_square` and |xi|^2 `noise_square` (about sigma^2 d). Exact at
    the first step for balanced labels if different samples' noise is orthogonal and both logistic factors are 1/2.
    Source: Cao, Chen, Belkin & Gu (2022), section 5.
    """
    n, neurons = check_array("n", n, low=1), check_array("neurons", neurons, low=1)
    power = check_array("power", power, low=1, high=100)
    signal_square = check_array("signal_square", signal_square, low=0, high=_LARGEST)
    noise_square = check_array("noise_square", noise_square, low=0, high=_LARGEST)
    common_shape(n=n, neurons=neurons, power=power, signal_square=signal_square, noise_square=noise_square)
    return GrowthRates(power * signal_square / (4 * neurons), power * noise_square / (2 * n * neurons))


def blow_up_time(initial: ArrayLike, rate: ArrayLike, power: ArrayLike) -> np.ndarray:
    """When x' = c x^(q-1) from x0 > 0 is infinite.

        T = 1 / (c (q-2) x0^(q-2))

    for q > 2, never for q <= 2 or x0 <= 0 or c = 0. Exact. Source: Cao et al. (2022).
    """
    initial, rate, power = _growth_arguments(initial, rate, power)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        excess = np.maximum(power - 2, 0.0)
        time = 1 / (rate * excess * np.maximum(initial, 0.0) ** excess)
    return np.where((excess > 0) & (initial > 0) & (rate > 0), time, np.inf)[()]


def power_growth(initial: ArrayLike, rate: ArrayLike, power: ArrayLike, time: ArrayLike) -> np.ndarray:
    """x(t) of x' = c x^(q-1), the growth of an active pre-activation while the logistic factors are 1/2.

        q = 1: x0 + c t;    q = 2: x0 e^(ct);    else x0 (1 - (q-2) c t x0^(q-2))^(-1/(q-2)), infinite from
        `blow_up_time` on.

    A pre-activation that starts at x0 <= 0 is not active and stays there. Exact for gradient flow, one neuron ahead of
    the others and orthogonal patches; fails where the margin is no longer small. The
    tutorial of Han & Huang (2025) prints (1 - eta) x^(q-1) for x + eta x^(q-1). Source: Cao et al. (2022).
    """
    initial, rate, power = _growth_arguments(initial, rate, power)
    time = check_array("time", time, low=0, high=_LARGEST)
    shape = common_shape(initial=initial, rate=rate, power=power, time=time)
    initial, rate, power, time = (np.broadcast_to(a, shape) for a in (initial, rate, power, time))
    start, excess = np.maximum(initial, 0.0), power - 2
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        # log(x/x0) = -log1p(-e s)/e with s = c t x0^e, whose limit at e = 0 is s; below q = 2 the sum x0^-e - e c t is
        # safe also where s is infinite
        scaled = rate * time * start**excess
        turned = np.where(excess == 0, 1.0, excess)
        logarithm = np.where(excess == 0, scaled, -np.log1p(-np.minimum(excess * scaled, 1.0)) / turned)
        below = (start**-excess - excess * rate * time) ** (-1 / turned)
        grown = np.where((excess < 0) & (np.abs(excess * scaled) > 1e-3), below, start * np.exp(logarithm))
    return np.where((initial > 0) & (rate * time > 0), grown, initial)[()]


def _growth_arguments(initial: ArrayLike, rate: ArrayLike, power: ArrayLike) -> tuple[np.ndarray, ...]:
    initial = check_array("initial", initial, low=-_LARGEST, high=_LARGEST)
    rate = check_array("rate", rate, low=0, high=_LARGEST)
    power = check_array("power", power, low=1, high=100)
    common_shape(initial=initial, rate=rate, power=power)
    return initial, rate, power

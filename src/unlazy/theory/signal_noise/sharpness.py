"""Sharpness-aware minimisation (SAM) of a ReLU network on [y mu, xi]: why the signal it needs does not grow with d."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, common_shape
from unlazy.numerics.roots import scalar_root
from unlazy.theory.signal_noise.relu_overfitting import ACCURATE_STEP, difference_probability, memorise

_LARGEST = 1e50
_MOST_TIME = 1e6
_LARGEST_SIGNAL = 1e10


class SamOutcome(NamedTuple):
    """What `sam_error` predicts; every field has the broadcast shape of its arguments."""

    test_error: np.ndarray
    mean_signal_coefficient: np.ndarray
    """gamma when SAM ends."""


def deactivating_radius(
    d: ArrayLike, width: ArrayLike, batch_size: ArrayLike, step_size: ArrayLike, noise_deviation: ArrayLike = 1.0
) -> np.ndarray:
    """The radius from which on the gradient of SAM does not see the noise of the samples.

        tau_* = eta sigma sqrt(d / (m B)) / 2,

    the length of the first step of descent: m B active pairs of a neuron and a sample of a batch of B, each with a
    gradient of sigma sqrt(d) / (2 m B). Going uphill by tau lowers the pre-activation of a pair that descent would
    raise by tau sigma sqrt(d / (m B)), and a step raises it by eta sigma^2 d / (2 m B). With tau >= tau_* a pair that
    was raised once is switched off at the point where the gradient is taken, and is not raised again. The signal goes
    on, for its patch has both signs: a neuron that is switched off on mu is switched on for -mu, and either pulls it
    along y mu. Exact in the first step where noise outweighs signal, B SNR^2 << 1. Source: this project's.

    >>> print(deactivating_radius(d=[1e4, 1e6], width=10, batch_size=20, step_size=0.01))
    [0.03536 0.3536]
    """
    numbers = {"step_size": step_size, "d": d, "noise_deviation": noise_deviation}
    checked = {name: check_array(name, value, low=0, high=_LARGEST) for name, value in numbers.items()}
    width = check_array("width", width, low=1, high=_LARGEST)
    batch_size = check_array("batch_size", batch_size, low=1, high=_LARGEST)
    common_shape(**checked, width=width, batch_size=batch_size)
    return (checked["step_size"] * checked["noise_deviation"] * np.sqrt(checked["d"] / (width * batch_size)) / 2)[()]


def sam_error(
    signal_norm: ArrayLike,
    n: ArrayLike,
    d: ArrayLike,
    initial_scale: ArrayLike,
    sam_time: ArrayLike,
    *,
    stop_loss: ArrayLike = 0.1,
    relative_step_size: float = 0.0,
) -> SamOutcome:
    """Test error after SAM whose radius is at least `deactivating_radius`, then descent to a training loss.

    xi ~ N(0, I_d), not orthogonal to mu, and |mu| the `signal_norm` in units of sigma. The `sam_time` is
    K = t eta sqrt(d/n) / m after t steps of SAM, 0 for descent alone. They leave the noise alone, and all neurons of a
    class learn the signal at the rate eta |mu|^2 / 2m times the logistic factor 1/(1 + e^gamma), so that

        gamma + e^gamma - 1 = K |mu|^2 sqrt(n/d) / 2.

    Descent then memorises the noise as in `small_start_error`, rho = (M - gamma) / p_1 up to the margin M of the final
    loss, and adds n SNR^2 rho / 2 to the signal. A fresh noise patch meets rho sqrt(n / 2d) of the memorised patches,
    and gamma/|mu| of the signal's direction:

        error = P( h(p_1 z1 + (l/|mu|) z) - h(p_1 z2 - (l/|mu|) z) < -l ),     l = gamma / (rho sqrt(n/2d)) + sqrt(L/2),

    L = n |mu|^4 / d. Descent alone has l = sqrt(L/2), so that |mu| ~ (d/n)^(1/4) keeps its error; after SAM
    l = K |mu|^2 / (2^(3/2) rho) does not depend on d, which takes t ~ d^(1/2) steps. As K grows
    the error falls to Phi(-|mu|), that of a network which has learned mu and nothing else.

    For n SNR^2 << 1; pairs are taken to become active as in descent alone. At n = 20 and m = 10 the |mu| with error 0.1
    was within 10% of simulations for d = 10^3 to 10^6, the K with error 0.1 at |mu| = 2 a fifth low. Source: this
    project's.

    >>> found = sam_error(signal_norm=2.0, n=20, d=[1e4, 1e6], initial_scale=0.01, sam_time=[[0], [20]])
    >>> print(found.test_error)
    [[0.3448 0.4767]
     [0.02369 0.02408]]
    """
    signal = check_array("signal_norm", signal_norm, low=0, high=_LARGEST_SIGNAL)
    others = {"n": n, "d": d, "initial_scale": initial_scale, "sam_time": sam_time, "stop_loss": stop_loss}
    shape, found = _in_cases(_outcome, relative_step_size, signal_norm=signal, **others)
    return SamOutcome(*(np.array(field).reshape(shape)[()] for field in zip(*found, strict=True)))


def sam_threshold(
    test_error: ArrayLike,
    n: ArrayLike,
    d: ArrayLike,
    initial_scale: ArrayLike,
    sam_time: ArrayLike,
    *,
    stop_loss: ArrayLike = 0.1,
    relative_step_size: float = 0.0,
) -> np.ndarray:
    """The length |mu| of the signal, in units of sigma, from which on `sam_error` is at most a test error.

    Without SAM it grows as (d/n)^(1/4). After a time K of SAM it has a limit as d grows, and as K grows it is the
    number with Phi(-|mu|) = `test_error`, whatever n and d. Source: this project's.

    >>> print(sam_threshold(test_error=0.1, n=20, d=[1e4, 1e6], initial_scale=0.01, sam_time=[[0], [20]]))
    [[ 4.616 12.86]
     [ 1.313 1.318]]
    """
    error = check_array("test_error", test_error, low=1e-10, high=0.49)
    others = {"n": n, "d": d, "initial_scale": initial_scale, "sam_time": sam_time, "stop_loss": stop_loss}

    def threshold(step: float, error: float, *case: float) -> float:
        def excess(logarithm: float) -> float:
            return _outcome(step, float(np.exp(logarithm)), *case)[0] - error

        return float(np.exp(scalar_root(excess, np.log(1e-6), np.log(_LARGEST_SIGNAL), 1e-10)))

    shape, found = _in_cases(threshold, relative_step_size, test_error=error, **others)
    return np.array(found).reshape(shape)[()]


def _in_cases(function: Callable[..., Any], relative_step_size: float, **given: Any) -> tuple[Any, list[Any]]:
    """The shape of the arguments, and the function in each case; of a loss it sees the margin."""
    step = float(check_array("relative_step_size", relative_step_size, low=0, high=ACCURATE_STEP, ndim=0))
    limits: dict[str, dict[str, Any]] = {
        "n": {"low": 2, "high": _LARGEST},
        "d": {"low": 1, "high": _LARGEST},
        "initial_scale": {"low": 1e-100, "high": 1e100},
        "sam_time": {"low": 0, "high": _MOST_TIME},
        "stop_loss": {"above": 0, "high": 0.5},
    }
    checked = {name: check_array(name, value, **limits.get(name, {})) for name, value in given.items()}
    shape = common_shape(**checked)
    checked["stop_loss"] = -np.log(np.expm1(checked["stop_loss"]))
    cases = zip(*(np.broadcast_to(a, shape).ravel() for a in checked.values()), strict=True)
    return shape, [function(step, *map(float, case)) for case in cases]


def _outcome(
    step: float, signal: float, n: float, d: float, start: float, time: float, margin: float
) -> tuple[float, float]:
    """(error, gamma)."""
    from scipy.special import ndtr, wrightomega

    grown = 1 + time * signal**2 * np.sqrt(n / d) / 2
    gamma = min(grown - float(wrightomega(grown)), margin)
    if signal == 0:
        return 0.5, 0.0
    rest = margin - gamma
    if rest < 1e-9 * margin:
        return float(ndtr(-signal)), gamma
    noise = memorise(step, n, d, start, rest)
    lift = gamma * noise.shared / (rest * np.sqrt(n / (2 * d))) + noise.boost * signal**2 * np.sqrt(n / (2 * d))
    return difference_probability(lift, noise.shared, noise.own, lift / signal), gamma

"""Where a training strategy decides between signal and noise: first steps, weight decay, large step sizes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, common_shape

_LARGEST = 1e60
"""Numbers whose products do not overflow."""


class StableOutput(NamedTuple):
    """What descent at a step size can keep; see `stable_output`."""

    edge: np.ndarray
    """The largest stable step size of the solution that uses the strong feature alone, in units of m/|u|^2."""
    strong_output: np.ndarray
    """f_u, the largest stable part of the output that is due to the strong feature."""


def stable_output(step_size: ArrayLike, n: ArrayLike, weak: ArrayLike, ratio: ArrayLike) -> StableOutput:
    """The edge of stability of ReLU^2 networks on [y u or 0, y v, xi] with squared loss, u missing in `weak` samples.

    Where f uses u alone, f_u = (1/m) sum_r z_r^2 = 1 on the samples of a class that carry u, a part s = (n - n')/(2n)
    of all. The gradient of f has the square 4 sum_r z_r^2 |u|^2/m^2 = 4 f_u |u|^2/m, so that the loss has the curvature
    4 s f_u |u|^2/m, and descent is stable for eta < 2/(4s) m/|u|^2 = n/(n - n') m/|u|^2. Where the weak feature gives
    the rest of the output, f_v = 1 - f_u, the square is 4 (f_u |u|^2 + f_v |v|^2)/m, and the largest stable f_u
    follows. `ratio` is |u|/|v|, `step_size` is in units of m/|u|^2. Noise is neglected. Source: this project's.
    """
    step_size = check_array("step_size", step_size, above=0)
    ratio = check_array("ratio", ratio, low=1 / _LARGEST, high=_LARGEST)
    n, weak = check_array("n", n, low=1), check_array("weak", weak, low=0)
    common_shape(step_size=step_size, n=n, weak=weak, ratio=ratio)
    _check_at_most("weak", weak, "n", n)
    edge, part = n / np.maximum(n - weak, 1e-300), 1 / ratio**2
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        stable = np.where(ratio > 1, (edge / step_size - part) / (1 - part), 1.0)
    return StableOutput(edge, np.clip(stable, 0.0, 1.0)[()])


def sign_step_balance(
    strength: ArrayLike, n: ArrayLike, d: ArrayLike, length: ArrayLike, support: ArrayLike = 1
) -> np.ndarray:
    """Signal over noise in an attention layer's value direction after a first step of sign gradient descent.

    A step of gradient descent moves v by a multiple of S = sum_i y_i sum_l x_il, whose balance is n SNR^2 (`strength`);
    a sign step moves it by a multiple of sign(S). With k the `support`, over which mu is spread evenly, each of the k
    coordinates of S on it is normal with mean n |mu|/sqrt(k), the others have mean 0, and all have variance n(L-1). So

        sign(S).mu = |mu| sqrt(k) (2 Phi(a) - 1),      a = |mu| sqrt(n/(k(L-1)))
        y_i sign(S).xi_il = 2 [k phi(a) + (d-k) phi(0)]/sqrt(n(L-1)).

    Exact on average at uniform attention and equal margins. Where a spread signal decides nearly all signs (k near d,
    a > 2), the noise that is left is below the errors of the two assumptions. Source: this project's.
    """
    from scipy.special import ndtr

    strength, support = check_array("strength", strength, low=0), check_array("support", support, low=1)
    n, d, length = check_array("n", n, low=1), check_array("d", d, low=1), check_array("length", length, low=2)
    common_shape(strength=strength, n=n, d=d, length=length, support=support)
    _check_at_most("support", support, "d", d)

    def density(z: ArrayLike) -> np.ndarray:
        return np.exp(-(np.asarray(z) ** 2) / 2) / np.sqrt(2 * np.pi)

    noises, norm = n * (length - 1), np.sqrt(strength * d / n)
    mean = n * norm / np.sqrt(support * noises)
    signal = norm * np.sqrt(support) * (2 * ndtr(mean) - 1)
    noise = 2 * (support * density(mean) + (d - support) * density(0.0)) / np.sqrt(noises)
    return (signal / noise)[()]


def balancing_penalty(n: ArrayLike, sparsity: ArrayLike, deviation: ArrayLike, scale: ArrayLike) -> np.ndarray:
    """The L2 penalty at which the start's pulls of data and penalty on a noisy coordinate are equal.

        lambda_* = 1.5 s sigma^3 sigma_0 / n

    With logistic factors 1/2 and activation ReLU^3, sample i pulls coordinate k of its support by
    (1/2n) 3 <w, xi>^2 xi_ik, where <w, xi>^2 is s sigma^2 sigma_0^2 and |xi_ik| is sigma in size; the penalty pulls by
    lambda sigma_0. s is the `sparsity`, sigma the noise's `deviation`, sigma_0 the `scale` of the start. An order of
    magnitude. Source: this project's.
    """
    n = check_array("n", n, low=1)
    sparsity, deviation, scale = (
        check_array(name, value, low=0, high=_LARGEST)
        for name, value in (("sparsity", sparsity), ("deviation", deviation), ("scale", scale))
    )
    common_shape(n=n, sparsity=sparsity, deviation=deviation, scale=scale)
    return (1.5 * sparsity * deviation**3 * scale / n)[()]


def _check_at_most(name: str, value: np.ndarray, bound_name: str, bound: np.ndarray) -> None:
    value, bound = np.broadcast_arrays(value, bound)
    if (wrong := value > bound).any():
        raise InputError(
            f"{name} must be at most {bound_name} = {bound[wrong].flat[0]:g}, got {value[wrong].flat[0]:g}"
        )

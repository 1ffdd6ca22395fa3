"""A ReLU network that fits labels of which some are flipped, in three numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, common_shape
from unlazy.numerics.roots import ConvergenceError

_MOST_STEPS = 500_000
"""Less than ten seconds for a few cases."""


class LabelNoiseFlow(NamedTuple):
    """Every field has the broadcast shape of the arguments of `label_noise_flow`."""

    mean_signal_coefficient: np.ndarray
    """gamma, the mean of <w_jr, j mu> over the neurons of a class."""
    clean_noise: np.ndarray
    """rho of samples with the right label: the coefficient of xi_i/|xi_i|^2 in w_jr, a mean over the label's neurons.

    It leaves out what other samples add to <w_jr, xi_i>, which at n = d/5 is a tenth.
    """
    flipped_noise: np.ndarray
    """rho of samples with a flipped label."""
    clean_margin: np.ndarray
    """gamma + rho, the margin with respect to the observed (and true) label."""
    flipped_margin: np.ndarray
    """-gamma + rho, the margin with respect to the observed (and wrong) label."""


class Plateau(NamedTuple):
    """Where gradient descent with fresh label flips ends."""

    margin: np.ndarray
    """log((1-p)/p), inf at p = 0."""
    clean_loss: np.ndarray
    """-log(1-p), the logistic loss of this margin with the true label."""


def label_noise_flow(
    signal_strength: ArrayLike,
    active_fraction: ArrayLike,
    time: ArrayLike,
    flip_probability: ArrayLike,
    *,
    relative_step_size: float | None = None,
) -> LabelNoiseFlow:
    """Signal and noise of a ReLU network while it fits labels of which a fraction is flipped.

    With x = n SNR^2 the `signal_strength`, tau the `flip_probability`, p the `active_fraction` of a class's neurons on
    a sample, and time in units of nm / (sigma^2 d) (that is, step size times steps times sigma^2 d / (nm)),

        gamma' = (x/2) ((1 - tau) g_c - tau g_n),     rho_c' = p g_c,     rho_n' = p g_n,
        g_c = 1 / (1 + exp(gamma + rho_c)),           g_n = 1 / (1 + exp(-gamma + rho_n)),

    from 0. Gradient flow (relative accuracy 1e-8), or Euler's method if a `relative_step_size` is given, that of
    gradient descent times sigma^2 d / (nm): at the whole number of steps nearest to `time`, at most 5e5. All
    arguments broadcast. Exact for orthogonal noise patches whose activations do not change; p is an input. Source:
    after Han et al. (2025), the three numbers are this project's.

    >>> found = label_noise_flow(signal_strength=8, active_fraction=0.7, time=[1, 30], flip_probability=0.3)
    >>> print(found.clean_margin, found.flipped_margin)
    [0.7531 3.378] [-0.1091  2.625]
    """
    strength, active, flips = _label_noise(signal_strength, active_fraction, flip_probability)
    time = check_array("time", time, low=0, high=1e12)
    shape = common_shape(signal_strength=strength, active_fraction=active, time=time, flip_probability=flips)
    *parameters, ends = (np.broadcast_to(a, shape).ravel() for a in (strength, flips, active, time))
    if relative_step_size is None:
        state = _label_noise_flow(parameters, ends)
    else:
        size = float(check_array("relative_step_size", relative_step_size, above=0, ndim=0))
        state = _label_noise_descent(parameters, ends, size)
    signal, clean, noisy = (part.reshape(shape)[()] for part in state)
    return LabelNoiseFlow(signal, clean, noisy, signal + clean, noisy - signal)


def fits_clean_labels_first(
    signal_strength: ArrayLike, active_fraction: ArrayLike, flip_probability: ArrayLike
) -> np.ndarray:
    """Does the signal outrun the noise of mislabelled samples at first, so that stopping early helps?

        n SNR^2 > 2p / (1 - 2 tau)

    Exact for `label_noise_flow` at time 0. Source: stage I of Han et al. (2025); the constant is this
    project's.

    >>> print(fits_clean_labels_first(signal_strength=[1, 8], active_fraction=0.7, flip_probability=0.3))
    [False  True]
    """
    strength, active, flips = _label_noise(signal_strength, active_fraction, flip_probability)
    return (strength * (1 - 2 * flips) > 2 * active)[()]


def label_noise_plateau(flip_probability: ArrayLike) -> Plateau:
    """The margin and the loss at which gradient descent with fresh label flips comes to rest.

        (1 - p) sigmoid(-f) = p sigmoid(f):     f = log((1-p)/p),      loss with the true label -log(1-p)

    Exact where the expected gradient vanishes for every sample; p = 0 has no plateau (the margin is inf). Source: Huang
    et al. (2025).

    >>> found = label_noise_plateau(flip_probability=[0, 0.1, 0.4])
    >>> print(found.margin, found.clean_loss)
    [       inf 2.197 0.4055] [0.         0.1054 0.5108]
    """
    p = check_array("flip_probability", flip_probability, low=0, below=0.5)
    with np.errstate(divide="ignore"):
        return Plateau((np.log1p(-p) - np.log(p))[()], (-np.log1p(-p))[()])


def _label_noise(
    signal_strength: ArrayLike, active_fraction: ArrayLike, flip_probability: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    strength = check_array("signal_strength", signal_strength, low=0, high=1e12)
    active = check_array("active_fraction", active_fraction, low=0, high=1)
    flips = check_array("flip_probability", flip_probability, low=0, below=0.5)
    common_shape(signal_strength=strength, active_fraction=active, flip_probability=flips)
    # LSODA divides by what is below the normal numbers
    return strength, np.where(active < 1e-300, 0.0, active), flips


def _label_noise_slopes(parameters: Sequence[np.ndarray], state: np.ndarray) -> np.ndarray:
    from scipy.special import expit

    ratio, flips, fraction = parameters
    signal, clean, noisy = state
    clean_pull, noisy_pull = expit(-signal - clean), expit(signal - noisy)
    return np.stack(
        [ratio / 2 * ((1 - flips) * clean_pull - flips * noisy_pull), fraction * clean_pull, fraction * noisy_pull]
    )


def _label_noise_flow(parameters: Sequence[np.ndarray], ends: np.ndarray) -> np.ndarray:
    from scipy.integrate import solve_ivp

    def slope(_: float, flat: np.ndarray) -> np.ndarray:
        return (ends * _label_noise_slopes(parameters, flat.reshape(-1, 3).T)).T.ravel()

    # the three numbers of a case side by side: the Jacobian has two bands on either side, however many cases there are
    options = {"rtol": 1e-9, "atol": 1e-10, "t_eval": [1.0], "lband": 2, "uband": 2}
    with warnings.catch_warnings():
        # LSODA's, which say what the message says
        warnings.simplefilter("ignore")
        found = solve_ivp(slope, (0.0, 1.0), np.zeros(3 * ends.size), method="LSODA", **options)
    if not found.success or not np.isfinite(found.y).all():
        raise ConvergenceError(
            f"the flow was not integrated to its end: signal_strength times time is up to "
            f"{(parameters[0] * ends).max():.1e}, and digits are lost from 1e16 on"
        )
    return found.y[:, -1].reshape(-1, 3).T


def _label_noise_descent(parameters: Sequence[np.ndarray], ends: np.ndarray, step: float) -> np.ndarray:
    if ends.max() > _MOST_STEPS * step:
        raise InputError(
            f"time / relative_step_size must be at most {_MOST_STEPS:g} steps, got time = {ends.max():g} and "
            f"relative_step_size = {step:g}"
        )
    steps = np.rint(ends / step).astype(np.int64)
    state, result, done = np.zeros((3, ends.size)), np.zeros((3, ends.size)), 0
    for wanted in np.unique(steps):
        for _ in range(wanted - done):
            state = state + step * _label_noise_slopes(parameters, state)
        result, done = np.where(steps == wanted, state, result), wanted
    return result

"""A ReLU network that fits labels of which some are flipped, in three numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, common_shape
from unlazy.numerics.roots import ConvergenceError

_MOST_STEPS = 500_000
"""Less than ten seconds for a few cases."""


class LabelNoiseFlow(NamedTuple):
    """Every field has the broadcast shape of the arguments of `label_noise_flow`."""

    signal: np.ndarray
    """gamma, the mean of <w_jr, j mu> over the neurons of a class."""
    clean: np.ndarray
    """rho of samples with the right label: the coefficient of xi_i/|xi_i|^2 in w_jr, a mean over the label's neurons.

    It leaves out what other samples add to <w_jr, xi_i>, which at n = d/5 is a tenth.
    """
    noisy: np.ndarray
    """rho of samples with a flipped label."""
    clean_margin: np.ndarray
    """gamma + rho, the margin with respect to the observed (and true) label."""
    noisy_margin: np.ndarray
    """-gamma + rho, the margin with respect to the observed (and wrong) label."""


class Plateau(NamedTuple):
    """Where gradient descent with fresh label flips ends."""

    margin: np.ndarray
    """log((1-p)/p)."""
    clean_loss: np.ndarray
    """-log(1-p), the logistic loss of this margin with the true label."""


def label_noise_flow(
    time: ArrayLike,
    growth_ratio: ArrayLike,
    flipped: ArrayLike,
    active: ArrayLike,
    *,
    step: float | None = None,
) -> LabelNoiseFlow:
    """Signal and noise of a ReLU network while it fits labels of which a fraction is flipped.

    With x = n SNR^2 (`growth_ratio`), tau = `flipped`, p = `active` the fraction of a class's neurons that are active
    on a sample, and time in units of nm / (sigma^2 d) (that is, step size times steps times sigma^2 d / (nm)),

        gamma' = (x/2) ((1 - tau) g_c - tau g_n),     rho_c' = p g_c,     rho_n' = p g_n,
        g_c = 1 / (1 + exp(gamma + rho_c)),           g_n = 1 / (1 + exp(-gamma + rho_n)),

    from 0. Gradient flow (relative accuracy 1e-8), or Euler's method if `step` is given: gradient descent with that
    step, at the whole number of steps nearest to `time`, at most 5e5. All arguments broadcast. Exact for orthogonal
    noise patches whose activations do not change; p is an input. Source: after Han et al. (2025), the three numbers
    are this project's.
    """
    time = check_array("time", time, low=0, high=1e12)
    growth_ratio = check_array("growth_ratio", growth_ratio, low=0, high=1e12)
    flipped = check_array("flipped", flipped, low=0, below=0.5)
    active = check_array("active", active, low=0, high=1)
    shape = common_shape(time=time, growth_ratio=growth_ratio, flipped=flipped, active=active)
    ratio, flips, fraction, ends = (np.broadcast_to(a, shape).ravel() for a in (growth_ratio, flipped, active, time))
    parameters = ratio, flips, fraction
    if step is None:
        state = _label_noise_flow(parameters, ends)
    else:
        state = _label_noise_descent(parameters, ends, float(check_array("step", step, above=0, ndim=0)))
    signal, clean, noisy = (part.reshape(shape)[()] for part in state)
    return LabelNoiseFlow(signal, clean, noisy, signal + clean, noisy - signal)


def fits_clean_labels_first(growth_ratio: ArrayLike, flipped: ArrayLike, active: ArrayLike) -> np.ndarray:
    """Does the signal outrun the noise of mislabelled samples at first, so that stopping early helps?

        n SNR^2 > 2p / (1 - 2 tau)

    Exact for `label_noise_flow` at time 0. Source: stage I of Han et al. (2025); the constant is this
    project's.
    """
    growth_ratio = check_array("growth_ratio", growth_ratio, low=0, high=1e12)
    flipped, active = check_array("flipped", flipped, low=0, below=0.5), check_array("active", active, low=0, high=1)
    common_shape(growth_ratio=growth_ratio, flipped=flipped, active=active)
    return (growth_ratio * (1 - 2 * flipped) > 2 * active)[()]


def label_noise_plateau(flip_probability: ArrayLike) -> Plateau:
    """The margin and the loss at which gradient descent with fresh label flips comes to rest.

        (1 - p) sigmoid(-f) = p sigmoid(f):     f = log((1-p)/p),      loss with the true label -log(1-p)

    Exact where the expected gradient vanishes for every sample; p = 0 has no plateau (an infinite margin). Source:
    Huang et al. (2025).
    """
    p = check_array("flip_probability", flip_probability, low=0, below=0.5)
    with np.errstate(divide="ignore"):
        return Plateau((np.log1p(-p) - np.log(p))[()], (-np.log1p(-p))[()])


def _label_noise_slopes(parameters: tuple[np.ndarray, ...], state: np.ndarray) -> np.ndarray:
    from scipy.special import expit

    ratio, flips, fraction = parameters
    signal, clean, noisy = state
    clean_pull, noisy_pull = expit(-signal - clean), expit(signal - noisy)
    return np.stack(
        [ratio / 2 * ((1 - flips) * clean_pull - flips * noisy_pull), fraction * clean_pull, fraction * noisy_pull]
    )


def _label_noise_flow(parameters: tuple[np.ndarray, ...], ends: np.ndarray) -> np.ndarray:
    from scipy.integrate import solve_ivp

    def slope(_: float, flat: np.ndarray) -> np.ndarray:
        return (ends * _label_noise_slopes(parameters, flat.reshape(-1, 3).T)).T.ravel()

    # the three numbers of a case side by side: the Jacobian has two bands on either side, however many cases there are
    options = {"rtol": 1e-9, "atol": 1e-10, "t_eval": [1.0], "lband": 2, "uband": 2}
    found = solve_ivp(slope, (0.0, 1.0), np.zeros(3 * ends.size), method="LSODA", **options)
    if not found.success:
        raise ConvergenceError(f"the flow was not integrated to its end: {found.message}")
    return found.y[:, -1].reshape(-1, 3).T


def _label_noise_descent(parameters: tuple[np.ndarray, ...], ends: np.ndarray, step: float) -> np.ndarray:
    if ends.max() > _MOST_STEPS * step:
        raise InputError(
            f"time / step must be at most {_MOST_STEPS:g} steps, got time = {ends.max():g} and step = {step:g}"
        )
    steps = np.rint(ends / step).astype(np.int64)
    state, result, done = np.zeros((3, ends.size)), np.zeros((3, ends.size)), 0
    for wanted in np.unique(steps):
        for _ in range(wanted - done):
            state = state + step * _label_noise_slopes(parameters, state)
        result, done = np.where(steps == wanted, state, result), wanted
    return result

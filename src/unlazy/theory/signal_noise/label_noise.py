"""A ReLU network that fits labels of which some are flipped, in five numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, common_shape
from unlazy.theory.signal_noise.relu_overfitting import ACCURATE_STEP, difference_probability, scaled_curve

_MOST_STEPS = 50_000
"""Less than ten seconds for a few cases."""


class LabelNoiseDescent(NamedTuple):
    """Every field has the broadcast shape of the arguments of `label_noise_descent`."""

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
    active_fraction: np.ndarray
    """p, the fraction of a label's neurons that are active on a sample."""
    test_error: np.ndarray
    """On true labels."""


def label_noise_descent(
    signal_strength: ArrayLike,
    n: ArrayLike,
    d: ArrayLike,
    initial_scale: ArrayLike,
    relative_step_size: ArrayLike,
    steps: ArrayLike,
    flip_probability: ArrayLike,
) -> LabelNoiseDescent:
    """Signal and noise of a ReLU network after steps of gradient descent on labels of which a fraction is flipped.

    With x = n SNR^2 the `signal_strength`, f the `flip_probability`, s_0 the `initial_scale` and e the
    `relative_step_size`, eta sigma^2 d / (nm), every step adds

        gamma += e (x/2) ((1 - f) g_c - f g_n),   rho_c += e p g_c,   rho_n += e p g_n,   R_c += e g_c,   R_n += e g_n,
        g_c = 1 / (1 + exp(gamma + rho_c)),       g_n = 1 / (1 + exp(-gamma + rho_n)),

    from 0. p is that of `active_pairs` at tau = R sqrt(n / (2d)) / s_0 with R^2 = (1 - f) R_c^2 + f R_n^2: R_c and R_n
    are what a pair has gained that was active from the start, and R is what pushes others. A fresh noise patch meets
    all that was memorised, so that as in `small_start_error`

        test error = P( h(z1) - h(z2) < -gamma / (R sqrt(n / (2d))) ).

    Without a first step it is 1/2. All arguments broadcast; at most 5e4 steps. p takes the first step at the next power
    of 2, which moves it by less than .01. Exact as n, m and d/n grow, if pushes of clean and flipped samples keep their
    ratio. Source: after Han et al. (2025), the equations are this project's.

    >>> found = label_noise_descent(8, n=60, d=6000, initial_scale=0.01, relative_step_size=0.05, steps=[10, 1500],
    ...                             flip_probability=0.3)
    >>> print(found.flipped_margin, found.active_fraction)
    [-0.160 3.698] [0.649 0.771]
    """
    arguments = {
        "signal_strength": check_array("signal_strength", signal_strength, low=0, high=1e12),
        "n": check_array("n", n, low=2),
        "d": check_array("d", d, low=1),
        "initial_scale": check_array("initial_scale", initial_scale, low=1e-100, high=1e100),
        "relative_step_size": check_array("relative_step_size", relative_step_size, above=0, high=ACCURATE_STEP),
        "steps": check_array("steps", steps, low=0, high=_MOST_STEPS),
        "flip_probability": check_array("flip_probability", flip_probability, low=0, below=0.5),
    }
    shape = common_shape(**arguments)
    flat = {name: np.broadcast_to(array, shape).ravel() for name, array in arguments.items()}
    strength, size, flips = (flat[word] for word in ("signal_strength", "relative_step_size", "flip_probability"))
    spread = np.sqrt(flat["n"] / (2 * flat["d"]))
    pairs = _Pairs(spread / flat["initial_scale"], size)
    ends = np.rint(flat["steps"]).astype(np.int64)
    state, result, done = np.zeros((5, ends.size)), np.zeros((5, ends.size)), 0
    for wanted in np.unique(ends):
        for _ in range(wanted - done):
            state = state + size * _slopes(state, strength, flips, pairs.fraction(_pushing(state, flips)))
        result, done = np.where(ends == wanted, state, result), wanted
    pushing = _pushing(result, flips)
    error = [
        difference_probability(signal / push, mean, np.sqrt(max(square - mean**2, 0.0))) if push else 0.5
        for signal, push, mean, square in zip(result[0], spread * pushing, *pairs.shares(pushing), strict=True)
    ]
    signal, clean, noisy = result[:3]
    fields = (signal, clean, noisy, signal + clean, noisy - signal, pairs.fraction(pushing), np.array(error))
    return LabelNoiseDescent(*(field.reshape(shape)[()] for field in fields))


def fits_clean_labels_first(
    signal_strength: ArrayLike, active_fraction: ArrayLike, flip_probability: ArrayLike
) -> np.ndarray:
    """Does the signal outrun the noise of mislabelled samples at first, so that stopping early helps?

        n SNR^2 > 2p / (1 - 2 tau)

    Exact for `label_noise_descent` while p is the `active_fraction`, which at the start is 1/2. Source: stage I of Han
    et al. (2025); the constant is this project's.

    >>> print(fits_clean_labels_first(signal_strength=[1, 8], active_fraction=0.7, flip_probability=0.3))
    [False  True]
    """
    strength = check_array("signal_strength", signal_strength, low=0, high=1e12)
    active = check_array("active_fraction", active_fraction, low=0, high=1)
    flips = check_array("flip_probability", flip_probability, low=0, below=0.5)
    common_shape(signal_strength=strength, active_fraction=active, flip_probability=flips)
    return (strength * (1 - 2 * flips) > 2 * active)[()]


class _Pairs:
    """`active_pairs` of many cases, whose first steps differ: one curve for each power of 2."""

    def __init__(self, unit: np.ndarray, size: np.ndarray) -> None:
        self._unit = unit
        powers = np.ceil(np.log2(unit * size / 2))
        self._curves = [(powers == power, *scaled_curve(float(2.0**power))) for power in np.unique(powers)]

    def _at(self, field: int, pushing: np.ndarray) -> np.ndarray:
        found = np.empty(pushing.shape)
        for here, scale, (times, *fields) in self._curves:
            found[here] = np.interp((pushing * self._unit)[here] * scale, times, fields[field])
        return found

    def fraction(self, pushing: np.ndarray) -> np.ndarray:
        return self._at(0, pushing)

    def shares(self, pushing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean share of the time in which a pair was active, and the mean of its square."""
        return self._at(2, pushing), self._at(3, pushing)


def _pushing(state: np.ndarray, flips: np.ndarray) -> np.ndarray:
    return np.sqrt((1 - flips) * state[3] ** 2 + flips * state[4] ** 2)


def _slopes(state: np.ndarray, strength: np.ndarray, flips: np.ndarray, active: np.ndarray) -> np.ndarray:
    from scipy.special import expit

    signal, clean, noisy = state[:3]
    clean_pull, noisy_pull = expit(-signal - clean), expit(signal - noisy)
    drive = strength / 2 * ((1 - flips) * clean_pull - flips * noisy_pull)
    return np.stack([drive, active * clean_pull, active * noisy_pull, clean_pull, noisy_pull])

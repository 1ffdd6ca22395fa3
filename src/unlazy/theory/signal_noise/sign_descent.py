"""What rules that follow signs of gradients learn of a signal on few coordinates and of sparse noise on many."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, common_shape
from unlazy.numerics.roots import root_between

_LARGEST = 1e60
"""Numbers whose products do not overflow."""


def sign_descent_balance(
    signal_to_noise: ArrayLike, noise_coordinates: ArrayLike, signal_coordinates: ArrayLike = 1
) -> np.ndarray:
    """Signal over noise in what sign gradient descent learns of a signal mu and of sparse noises that do not meet.

        balance = SNR sqrt(pi k/(2 s)),        SNR = |mu|/(sigma sqrt(s))

    A step moves every coordinate by as much: a weight along mu, spread evenly over k = `signal_coordinates`, by
    |mu|_1 = |mu| sqrt(k), and along a noise with s = `noise_coordinates` normal entries by |xi|_1, sigma s sqrt(2/pi)
    on average. Exact while no sign changes. The balance of gradient descent is n SNR^2, whatever s and k. Source: the
    rates are those of Zou et al. (2023) and Li et al. (2025), the constant is this project's.

    >>> print(sign_descent_balance(signal_to_noise=1, noise_coordinates=[16, 64, 64], signal_coordinates=[1, 1, 64]))
    [0.3133 0.1567 1.2533]
    """
    ratio = check_array("signal_to_noise", signal_to_noise, low=0, high=_LARGEST)
    coordinates = check_array("noise_coordinates", noise_coordinates, low=1, high=_LARGEST)
    support = check_array("signal_coordinates", signal_coordinates, low=1, high=_LARGEST)
    common_shape(signal_to_noise=ratio, noise_coordinates=coordinates, signal_coordinates=support)
    return (ratio * np.sqrt(np.pi * support / (2 * coordinates)))[()]


def noise_token_attention(value_noise: ArrayLike) -> np.ndarray:
    """How much the noise token of a training sample (y mu, xi) attends to the signal under sign gradient descent.

        1/(1 + exp(u^2)),        u = <v, xi>, v = W_V w_o the value direction

    In t steps of size eta from a small start every column of W_Q and of W_K reads xi as +-eta t |xi|_1, both with the
    same sign: each moves as the sign of the other tells. Steps must be small against the start, eta |xi|_1 << sigma_0,
    else columns of opposite signs change them at once for ever. So the score of xi with itself is h (eta t |xi|_1)^2
    with h columns. The values gain u = sqrt(h) eta t |xi|_1 meanwhile, as |w_o|_1 = sqrt(h): the score is u^2, whatever
    the sizes. The signal's own score is left out, of order u^2 times the balance. Source: this project's, for the
    stages of Li et al. (2025).

    >>> print(noise_token_attention(value_noise=[0, 1, 2]))
    [0.5    0.2689 0.018]
    """
    from scipy.special import expit

    return expit(-(check_array("value_noise", value_noise, low=-1e150, high=1e150) ** 2))[()]


def memorised_test_loss(balance: ArrayLike, stop_loss: ArrayLike) -> np.ndarray:
    """The least test loss of an attention layer that fits samples (y mu, xi) at a balance of signal and noise.

        log(1 + exp(-2 M b/(3 + b))),        M = -log(exp(stop_loss) - 1)

    M is the margin at the training loss at which descent stops. Where b = `balance` is below 1, attention moves to the
    noise: that of the noise token does at once, that of the signal token at the latest never, so that the margin is at
    least (3 u + a)/4 of u = <v, xi> and a = <v, mu> = b u, and a is at most 4 M b/(3 + b). A fresh sample's noise is
    not read, and at most half of a is. Source: this project's.

    >>> print(memorised_test_loss(balance=[0, 0.1, 0.5], stop_loss=0.02))
    [0.6931 0.5752 0.2836]
    """
    share = check_array("balance", balance, low=0, high=1)
    loss = check_array("stop_loss", stop_loss, above=0, high=np.log(2))
    common_shape(balance=share, stop_loss=loss)
    margin = -np.log(np.expm1(loss))
    return np.logaddexp(0.0, -2 * margin * share / (3 + share))[()]


def reversing_adversary(noise_coordinates: ArrayLike, noise_norm: ArrayLike = 1.0) -> np.ndarray:
    """The adversarial feature noise alpha above which Adam reverses the signal of patches [y e_1, xi], for ReLU^3.

        (alpha/2) (L - alpha)^2 = 1,        L = |xi|_1 = noise_norm sqrt(2 s/pi), the smaller solution

    Rules that follow signs move a = j <w, e_1> by eta and an active <w, xi> by eta (L - alpha) in a step, -alpha y
    being the first entry of xi. The signal's patch pulls a by a^2 and the adversarial entry by -alpha <w, xi>^2 where a
    sample is active, as half of them are: both are quadratic in t, and the ratio of their pulls is the left side. About
    pi/s at noise_norm = 1; inf where even the worst alpha, L/3, does not reverse it. Exact for a small start and many
    samples, while margins are small. Source: the mechanism is that of Zou et al. (2023), the constant this project's.

    >>> print(reversing_adversary(noise_coordinates=[4, 16, 64, 256]))
    [   inf 0.2277 0.0499 0.0123]
    """
    coordinates = check_array("noise_coordinates", noise_coordinates, low=1, high=_LARGEST)
    norm = check_array("noise_norm", noise_norm, low=0, high=_LARGEST)
    common_shape(noise_coordinates=coordinates, noise_norm=norm)
    length = norm * np.sqrt(2 * coordinates / np.pi)
    reached = 2 * length**3 / 27 >= 1
    length = np.where(reached, length, 3.0)
    found = root_between(lambda share, size: share / 2 * size**3 * (1 - share) ** 2 - 1, 0.0, 1 / 3, length)
    return np.where(reached, found * length, np.inf)[()]


def kept_signal(
    adversary: ArrayLike, noise_coordinates: ArrayLike, n: ArrayLike, noise_norm: ArrayLike = 1.0
) -> np.ndarray:
    """The share of Adam's neurons whose signal has the right sign in the end, half of them at the start, for ReLU^3.

        Phi(sqrt(n/2) (1/r - 1))/2,        r = (alpha/2) (L - alpha)^2, L = noise_norm sqrt(2 s/pi)

    A neuron of the right sign keeps it if the pull of `reversing_adversary`, alpha p (L - alpha)^2 with p the share of
    the n/2 samples of its class on which it is active, is below 1; p is about N(1/2, 1/(2n)). Neurons of the wrong sign
    keep theirs, but far below that adversary, where they hover about 0 and end with either. Source: this project's.

    >>> print(kept_signal(adversary=[0.01, 0.05, 0.1], noise_coordinates=64, n=20))
    [0.5    0.2483 0.0297]
    """
    from scipy.special import ndtr

    alpha = check_array("adversary", adversary, low=0, high=_LARGEST)
    n = check_array("n", n, low=1)
    coordinates = check_array("noise_coordinates", noise_coordinates, low=1, high=_LARGEST)
    norm = check_array("noise_norm", noise_norm, low=0, high=_LARGEST)
    common_shape(adversary=alpha, noise_coordinates=coordinates, n=n, noise_norm=norm)
    with np.errstate(divide="ignore"):
        pull = alpha / 2 * (norm * np.sqrt(2 * coordinates / np.pi) - alpha) ** 2
        return (ndtr(np.sqrt(n / 2) * (1 / pull - 1)) / 2)[()]


def memorising_ridge(
    n: ArrayLike, width: ArrayLike, initial_deviation: ArrayLike, noise_norm: ArrayLike = 1.0
) -> np.ndarray:
    """The ridge above which Adam forgets the noise of most samples from the start, for ReLU^3.

        lambda_c = 1.5 |xi|^3 sigma_0 g/n,        g = Phi^-1(2^(-1/m))

    With the ridge in the objective Adam moves a weight w_k on the noise of sample i towards (3/2n) z^2 xi_ik/lambda,
    z = <w, xi_i>, logistic factors being 1/2: z is left alone at z = 2 n lambda/(3 |xi|^2), falls below it and grows
    above, also from a normal start. g sigma_0 |xi| is the median of the largest z of a sample among m = `width` neurons
    of its class at the start. Source: this project's.

    >>> print(memorising_ridge(n=20, width=20, initial_deviation=[0.01, 0.001]))
    [0.001368 0.0001368]
    """
    from scipy.special import ndtri

    n, width = check_array("n", n, low=1), check_array("width", width, low=1)
    start = check_array("initial_deviation", initial_deviation, low=0, high=_LARGEST)
    norm = check_array("noise_norm", noise_norm, low=0, high=_LARGEST)
    common_shape(n=n, width=width, initial_deviation=start, noise_norm=norm)
    return (1.5 * norm**3 * start * ndtri(0.5 ** (1 / width)) / n)[()]

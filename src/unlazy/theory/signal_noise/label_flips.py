"""A network of squared ReLUs whose labels are flipped anew at every step: noise is a random walk, signal an average."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import check_array, common_shape

_SAMPLES = 4000
_DRAWS = 20_000
_NUMBERS = 2_000_000
_MOST_STEPS = 20_000


class Plateau(NamedTuple):
    """Where gradient descent with fresh label flips ends."""

    margin: np.ndarray
    """log((1-p)/p), inf at p = 0."""
    clean_loss: np.ndarray
    """-log(1-p), the logistic loss of this margin with the true label."""


class LabelFlipDescent(NamedTuple):
    """Every field has the broadcast shape of the arguments of `label_flip_descent`."""

    test_error: np.ndarray
    """The mean over starts."""
    log_signal_growth: np.ndarray
    """The logarithm of what <w, mu> has been multiplied with since the start."""
    noise_margin: np.ndarray
    """F, the mean over samples of the margin that their own noise gives them."""
    mean_pull: np.ndarray
    """The mean over samples of s in the next step; it is what the signal feels."""


def label_flip_descent(
    signal_strength: ArrayLike,
    n: ArrayLike,
    d: ArrayLike,
    width: ArrayLike,
    initial_scale: ArrayLike,
    relative_step_size: ArrayLike,
    steps: ArrayLike,
    flip_probability: ArrayLike,
) -> LabelFlipDescent:
    """Test error of a network with activation ReLU^2 on [y mu, xi] while labels are flipped anew at every step.

    With x = n SNR^2 the `signal_strength`, p the `flip_probability`, s_0 the `initial_scale`, m the `width` of a class
    and e the `relative_step_size`, eta sigma^2 d / (nm): a step multiplies what all neurons have of a sample's noise by
    the same number, and what they have of the signal by its average. The margins F_i and G that these give follow

        F_i <- F_i (1 + 2 e s_i)^2,    s_i = 1 / (1 + exp(F_i)), or with probability p -1 / (1 + exp(-F_i)),
        G <- G (1 + e x mean s)^2.

    Without flips the noise is fitted and s vanishes: G = G_0 (F/F_0)^(x/2), which is small unless n SNR^2 is of order
    1. With flips log F is a random walk that comes to rest where its mean step is 0; as the logarithm is concave, mean
    s stays positive there (e p (1 - p) for small steps) and the signal grows on, at any n SNR^2. A fresh noise patch
    meets V = s_0^2 + n (mean F) / (2d), so that

        test error = P( V (Q' - Q) > G ),    G_0 = s_0^2 (x/n) Q_0,    Q = mean_r relu(v_r)^2 over m neurons,

    v_r standard normal, independent in Q_0 and with correlation 1/pi in Q and Q', which is that of neurons that have
    the same samples at independent starts. Computed with 4000 samples and a fixed seed, to about 2%; at most 2e4 steps
    of e <= 1/2, beyond which a flip may switch a neuron off. Exact as n and d/n grow until the signal takes over. Of
    samples on which no neuron is active at the start, 1 in 2^m, there are none. Source: the mechanism of Huang et al.
    (2025), the equations are this project's.

    >>> found = label_flip_descent(0.2, n=40, d=4000, width=10, initial_scale=0.05, relative_step_size=0.5,
    ...                            steps=[100, 300], flip_probability=[[0], [0.2]])
    >>> print(found.test_error)
    [[0.4981   0.4983  ]
     [0.453625 0.0019  ]]
    """
    arguments = {
        "signal_strength": check_array("signal_strength", signal_strength, low=0, high=1e4),
        "n": check_array("n", n, low=2),
        "d": check_array("d", d, low=1),
        "width": check_array("width", width, low=1, high=100_000, whole=True),
        "initial_scale": check_array("initial_scale", initial_scale, low=1e-100, high=1),
        "relative_step_size": check_array("relative_step_size", relative_step_size, above=0, high=0.5),
        "steps": check_array("steps", steps, low=0, high=_MOST_STEPS),
        "flip_probability": check_array("flip_probability", flip_probability, low=0, below=0.5),
    }
    shape = common_shape(**arguments)
    flat = {name: np.broadcast_to(array, shape).ravel() for name, array in arguments.items()}
    ends = np.rint(flat["steps"]).astype(np.int64)
    result = np.empty((4, ends.size))
    words = ("width", "initial_scale", "relative_step_size", "flip_probability", "signal_strength")
    walks = np.stack([flat[word] for word in words])
    for walk in np.unique(walks, axis=1).T:
        neurons, start, size, flips, strength = map(float, walk)
        here = (walks == walk[:, None]).all(axis=0)
        at = ends[here]
        pull, margin = _walk(neurons, start, size, flips, int(at.max()))
        growth = np.append(0.0, np.cumsum(np.log1p(size * strength * pull[:-1])))[at]
        noise = start**2 + flat["n"][here] * margin[at] / (2 * flat["d"][here])
        with np.errstate(over="ignore"):
            signal = start**2 * strength / flat["n"][here] * np.exp(2 * growth)
        result[:, here] = _error(int(neurons))(signal / noise), growth, margin[at], pull[at]
    return LabelFlipDescent(*(field.reshape(shape)[()] for field in result))


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


@lru_cache(maxsize=64)
def _walk(width: float, start: float, size: float, flips: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean pull and the mean margin before each step, and after the last."""
    from scipy.special import expit

    rng = np.random.default_rng(0)
    # the sum of m squares of ReLUs is a chi-square with as many degrees of freedom as are positive
    margin = start**2 / width * rng.chisquare(np.maximum(rng.binomial(int(width), 0.5, _SAMPLES), 1))
    pulls, margins = np.empty(steps + 1), np.empty(steps + 1)
    for step in range(steps + 1):
        pull = np.where(rng.random(_SAMPLES) < flips, -expit(margin), expit(-margin))
        pulls[step], margins[step] = pull.mean(), margin.mean()
        margin = margin * (1 + 2 * size * pull) ** 2
    return pulls, margins


@lru_cache(maxsize=8)
def _error(width: int) -> Callable[[np.ndarray], np.ndarray]:
    """P(Q' - Q > c Q_0) as a function of c >= 0."""
    rng = np.random.default_rng(1)
    draws = max(_NUMBERS // 1000, min(_DRAWS, _NUMBERS // width))

    def fresh() -> np.ndarray:
        shared, own = rng.standard_normal((draws, 1)), rng.standard_normal((draws, width))
        return np.mean(np.maximum(np.sqrt(1 / np.pi) * shared + np.sqrt(1 - 1 / np.pi) * own, 0) ** 2, axis=1)

    apart = np.abs(fresh() - fresh())
    at_start = rng.chisquare(np.maximum(rng.binomial(width, 0.5, draws), 1)) / width
    # either sign is as likely, so that without signal the error is 1/2
    ratios = np.sort(apart / at_start)
    return lambda ratio: (1 - np.searchsorted(ratios, ratio) / draws) / 2

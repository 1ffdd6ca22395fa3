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

    stable_step_size: np.ndarray
    """The largest stable step size of the solution that uses the strong feature alone, in units of m/|u|^2."""
    strong_output: np.ndarray
    """f_u, the largest stable part of the output that is due to the strong feature."""


def stable_output(
    feature_ratio: ArrayLike, n: ArrayLike, weak_samples: ArrayLike, relative_step_size: ArrayLike
) -> StableOutput:
    """The edge of stability of ReLU^2 networks on [y u or 0, y v, xi] with squared loss, u missing in n' samples.

    Where f uses u alone, f_u = (1/m) sum_r z_r^2 = 1 on the samples of a class that carry u, a part s = (n - n')/(2n)
    of all. The gradient of f has the square 4 sum_r z_r^2 |u|^2/m^2 = 4 f_u |u|^2/m, so that the loss has the curvature
    4 s f_u |u|^2/m, and descent is stable for eta < 2/(4s) m/|u|^2 = n/(n - n') m/|u|^2. Where the weak feature gives
    the rest of the output, f_v = 1 - f_u, the square is 4 (f_u |u|^2 + f_v |v|^2)/m, and the largest stable f_u
    follows. `feature_ratio` is |u|/|v|, n' are the `weak_samples`, `relative_step_size` is in units of m/|u|^2; where
    no sample carries u, the stable step size is inf. Noise is neglected. Source: this project's.

    >>> found = stable_output(feature_ratio=2, n=40, weak_samples=4, relative_step_size=[1.0, 1.5])
    >>> print(found.stable_step_size, found.strong_output)
    [1.111 1.111] [1.         0.6543]
    """
    ratio = check_array("feature_ratio", feature_ratio, low=1 / _LARGEST, high=_LARGEST)
    n, weak = check_array("n", n, low=1), check_array("weak_samples", weak_samples, low=0)
    step_size = check_array("relative_step_size", relative_step_size, above=0)
    shape = common_shape(feature_ratio=ratio, n=n, weak_samples=weak, relative_step_size=step_size)
    _check_at_most("weak_samples", weak, "n", n)
    ratio, n, weak, step_size = (np.broadcast_to(a, shape) for a in (ratio, n, weak, step_size))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        edge, part = n / (n - weak), 1 / ratio**2
        stable = np.where(ratio > 1, (edge / step_size - part) / (1 - part), 1.0)
    return StableOutput(edge[()], np.clip(stable, 0.0, 1.0)[()])


class FeatureBalance(NamedTuple):
    """A rare feature's mean coefficient over that of a common one after a first step; see `feature_balance`."""

    descent: np.ndarray
    muon: np.ndarray


def feature_balance(share_ratio: ArrayLike, power: ArrayLike = 2) -> FeatureBalance:
    """How far a first step moves a rare feature relative to a common one of the same length, by descent and by Muon.

        descent: b;      Muon: (1 - c + b k)/(b (1 - c) + k),      c = E[|z|^(q-1)]^2/E[|z|^(2q-2)],  k = sqrt(1 - c^2)

    with b <= 1 the `share_ratio` of their samples, z ~ N(0, 1) and activation ReLU^q. The gradient moves neuron r along
    feature k by share_k |<w_r, z_k>|^(q-1), towards its own class on either side of the feature: two columns at the
    cosine c. The polar factor D (D^T D)^(-1/2) orthogonalises them, so that the rare feature's part beside the common
    one has the common one's pace: with q = 2 the ratio is at least sqrt((1-c)/(1+c)) = 0.47, however rare it is. With
    q = 1 the columns are parallel (c = 1), and Muon moves the features as descent does. Exact for infinite width, noise
    that is negligible and all logistic factors 1/2. Source: this project's.

    >>> found = feature_balance(share_ratio=[0.01, 0.1, 1])
    >>> print(found.descent, found.muon)
    [0.01 0.1  1.  ] [0.4789 0.5455 1.    ]
    """
    from scipy.special import gammaln

    ratio = check_array("share_ratio", share_ratio, low=0, high=1)
    power = check_array("power", power, low=1, high=100)
    shape = common_shape(share_ratio=ratio, power=power)
    # E|z|^a = 2^(a/2) Gamma((a+1)/2)/sqrt(pi)
    log_cosine = 2 * gammaln(power / 2) - gammaln(power - 0.5) - np.log(np.pi) / 2
    beside, sine = -np.expm1(log_cosine), np.sqrt(-np.expm1(2 * log_cosine))
    with np.errstate(invalid="ignore"):
        moved = np.where(power == 1, ratio, (beside + ratio * sine) / (ratio * beside + sine))
    return FeatureBalance(*(np.broadcast_to(a, shape).copy()[()] for a in (ratio, moved)))


class MomentumGrowth(NamedTuple):
    """How momentum grows and how far it coasts; see `momentum_growth`."""

    relative_speed: np.ndarray
    """Of a pre-activation at a level, over that of gradient descent at the same level."""
    coast: np.ndarray
    """How far it goes on at most once the gradient is gone."""


def momentum_growth(
    memory_time: ArrayLike, growth_rate: ArrayLike, power: ArrayLike, preactivation: ArrayLike, loss: ArrayLike
) -> MomentumGrowth:
    """Growth x' = c x^(q-1) of a pre-activation under momentum that remembers gradients for a time T, and its coasting.

        T x'' + x' = c x^(q-1):      u = 2/(1 + sqrt(1 + 2 q k)),  k = T c x^(q-2);      coast = sqrt(2 T L)

    u is the speed x' over c x^(q-1): 1 where k is small, sqrt(2/(qk)) where it is large, so that x blows up as
    (t* - t)^(-2/(q-2)) where descent has (t* - t)^(-1/(q-2)). It is exact in both limits and at q = 2, and up to 8%
    off between them at q = 3. T |w'|^2/2 + L falls along the flow: of the loss L that the growth uses up momentum keeps
    a kinetic energy, and goes on by T |w'| <= sqrt(2 T L) where the gradient is gone; nearly that if k is large. With
    W <- W - eta M, M <- b M + (1-b) g the `memory_time` T is eta b/(1-b); for unit features. Source: this project's.

    >>> found = momentum_growth(memory_time=[0, 3, 300], growth_rate=1.5, power=3, preactivation=1, loss=0.69)
    >>> print(found.relative_speed, found.coast)
    [1.     0.3179 0.03776 ] [ 0.     2.035 20.35]
    """
    numbers = {"memory_time": memory_time, "growth_rate": growth_rate, "preactivation": preactivation, "loss": loss}
    time, rate, x, lost = (check_array(name, value, low=0, high=1e30) for name, value in numbers.items())
    power = check_array("power", power, low=2, high=10)
    shape = common_shape(memory_time=time, growth_rate=rate, power=power, preactivation=x, loss=lost)
    with np.errstate(over="ignore"):
        speed = 2 / (1 + np.sqrt(1 + 2 * power * time * rate * x ** (power - 2)))
    return MomentumGrowth(*(np.broadcast_to(a, shape).copy()[()] for a in (speed, np.sqrt(2 * time * lost))))


class MixupGrowth(NamedTuple):
    """Rates in units of that of a feature which all samples carry, without mixup; see `mixup_growth`."""

    common_growth_rate: np.ndarray
    rare_growth_rate: np.ndarray
    drive: np.ndarray
    """By how much the common feature's pre-activation moves the rare one's, and the other way round."""
    balance: np.ndarray
    """The rare feature over the common one where both grow together."""


def mixup_growth(mixing_weight: ArrayLike, rare_share: ArrayLike) -> MixupGrowth:
    """How mixup makes a rare feature grow with a common one, early in training.

    z' and z of the features that e and 1 - e of the samples carry follow (z, z')' = A (z, z'), A = ((c, d), (d, r)),

        c = (1-e)^2 h + e(1-e) (l^3 + (1-l)^3),    r = d + e^2 h,    d = e(1-e) l(1-l),    h = l (4 l^2 - 6 l + 3)

    with l the `mixing_weight` and e the `rare_share`: patches l x_i + (1-l) x_j of random pairs and the loss
    l l(y_i) + (1-l) l(y_j), whose effective label is l y_i + (1-l) y_j, 2l - 1 in size where the classes differ. The
    common feature decides which mixtures are active, and a rare feature in them is pulled to its class: d is 0 without
    mixup only, where z'/z falls as the difference of the rates lets it. With it z'/z tends to `balance`, about d/(c-r).
    Exact for ReLU^2 while logistic factors are 1/2, for neurons with z much larger than z' (e small; 1 - l not).
    Source: this project's, after Zou et al. (2023).

    >>> found = mixup_growth(mixing_weight=[0.5, 0.9], rare_share=0.05)
    >>> print(found.drive, found.balance)
    [0.01187 0.004275] [0.02637 0.006014]
    """
    weight = check_array("mixing_weight", mixing_weight, low=0, high=1)
    rare = check_array("rare_share", rare_share, low=0, high=1)
    shape = common_shape(mixing_weight=weight, rare_share=rare)
    alike = weight * (4 * weight**2 - 6 * weight + 3)
    drive = rare * (1 - rare) * weight * (1 - weight)
    common = (1 - rare) ** 2 * alike + rare * (1 - rare) * (weight**3 + (1 - weight) ** 3)
    own = drive + rare**2 * alike
    ahead = common - own + np.hypot(common - own, 2 * drive)
    balance = np.divide(2 * drive, ahead, out=np.zeros(shape), where=ahead > 0)
    return MixupGrowth(*(np.broadcast_to(a, shape).copy()[()] for a in (common, own, drive, balance)))


def _check_at_most(name: str, value: np.ndarray, bound_name: str, bound: np.ndarray) -> None:
    value, bound = np.broadcast_arrays(value, bound)
    if (wrong := value > bound).any():
        raise InputError(
            f"{name} must be at most {bound_name} = {bound[wrong].flat[0]:g}, got {value[wrong].flat[0]:g}"
        )

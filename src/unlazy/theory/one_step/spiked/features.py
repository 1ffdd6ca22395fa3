"""Ridge regression on features whose weights share one direction: any step size of one gradient step, planted spikes.

    labels     y = g(x.beta) + noise, x ~ N(0, I_d), |beta| = 1
    features   F = sigma(X W), column i of W is c_i v + a generic vector of norm r_i; v.beta = cosine, |v| = 1
    readout    b minimises (1/n)|y - F b|^2 + ridge |b|^2 on n samples that W does not know

The step, the ridge and the network are those of `unlazy.theory.one_step.gradient_step`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice, check_whole, common_shape
from unlazy.functions.elementwise import Link, as_activation, as_link
from unlazy.numerics.gaussian import normal_averages, normal_nodes
from unlazy.theory.one_step.gradient_step import gradient_cosine
from unlazy.theory.one_step.moments import SMALLEST_RIDGE, activation_moments, link_moments
from unlazy.theory.one_step.spiked.curved_step import (
    Curvatures,
    CurvedStep,
    CurvedSystem,
    StepLabels,
    norm_spread,
    normal_values,
    solve_curved,
)
from unlazy.theory.one_step.spiked.fixed_point import FeatureSizes, Solution, solve
from unlazy.theory.one_step.spiked.statistics import (
    NeuronGroups,
    checked_groups,
    resolution,
    statistics,
)

_LARGEST = 1e150
# initial overlaps w.v ~ N(0, 1/d) of neurons with the same second-layer weight
_OVERLAP_NODES = 7
_STEEPEST_GROUPS = 50
_NO_SECOND_ORDER = 1e-6


class SpikedEquivalent(NamedTuple):
    """Deterministic equivalents; every field has the broadcast shape of the numeric arguments."""

    risk: np.ndarray
    """E (f_hat - g)^2."""
    test_error: np.ndarray
    """risk + noise_variance."""
    training_error: np.ndarray
    """Mean squared residual on the readout's samples."""
    objective: np.ndarray
    """training_error + ridge norm."""
    norm: np.ndarray
    """|b|^2."""


class GradientStep(NamedTuple):
    """The neurons after one gradient step, and the cosine of their common direction with beta."""

    neuron_groups: NeuronGroups
    cosine: float


def spiked_features_equivalent(
    activation: Any,
    link: Any,
    neuron_groups: NeuronGroups,
    cosine: float,
    n: ArrayLike,
    d: ArrayLike,
    width: ArrayLike,
    ridge: ArrayLike,
    noise_variance: ArrayLike,
    *,
    index_nodes: int | None = None,
) -> SpikedEquivalent:
    """Risk, training error and norm of the readout on spiked features, without drawing data.

    Given s = x.v the features are Gaussian up to their moments M_a(s), L_a(s), V_a(s). With the fixed point Q_a, chi_j
    of `unlazy.theory.one_step.spiked.fixed_point` at p_j = 1/(1 + chi_j) + J,

        Phi = sum_j w_j p_j E_h y^2 - h.(P^-1 + C)^-1 h - u.(K^-1 + H)^-1 u,    h = L^T(w p l),   u = M^T(w p m),
        test error = dPhi/dJ,    norm = dPhi/dridge,    objective = Phi,    training error = Phi - ridge norm

    at J = 0 by total derivatives, where m(s) and l(s) are mean and slope of g given s. `neuron_groups` holds the
    fractions, spikes and radii of the neurons (`gradient_step_groups`, `groups_of_weights`, `normal_groups`); n, d,
    width (N), ridge >= 1e-12 and noise_variance broadcast. `index_nodes` is the number of points s_j, by default 40 for
    spikes up to half a radius in root mean square, 80 up to two radii and 30 per radius beyond, and up to 400 for a
    target that is steep in s; a link with a jump at cosine 1 keeps errors of some 1e-3.

    Leading order as n, d and N grow in proportion with spikes O(1); simulations at d of some hundreds agree to 1-4 %,
    at worst 7 %. Same object as in Cui et al. (2024) and Dandi et al. (2024), in other coordinates.

    >>> groups = NeuronGroups(fractions=[0.5, 0.5], spikes=[2.0, -1.0], radii=[1.0, 1.0])
    >>> found = spiked_features_equivalent(
    ...     "tanh", "sign", groups, cosine=0.8, n=[300, 1600], d=400, width=600, ridge=0.01, noise_variance=0.1
    ... )
    >>> print(found.risk)
    [0.9442 0.5195]
    """
    checked = checked_groups(neuron_groups)
    cosine = float(check_array("cosine", cosine, low=-1, high=1, ndim=0))
    arguments = _checked_sizes(n, d, width, ridge, noise_variance)
    known, target = statistics(activation, link, cosine, checked, index_nodes)
    found = []
    for samples, dimension, neurons, penalty, noise in np.broadcast(*arguments.values()):
        sizes = FeatureSizes(samples, dimension, neurons * checked.fractions, checked.radii)
        found.append(_fields(solve(known, target, float(noise), sizes, float(penalty)), noise))
    shape = common_shape(**arguments)
    return SpikedEquivalent(*(np.array(field).reshape(shape)[()] for field in zip(*found, strict=True)))


def gradient_step_equivalent(
    activation: Any,
    link: Any,
    n: ArrayLike,
    d: ArrayLike,
    width: ArrayLike,
    step_size: ArrayLike,
    ridge: ArrayLike,
    noise_variance: ArrayLike,
    *,
    step_samples: ArrayLike | None = None,
    second_layer: Any = "normal",
    probabilities: ArrayLike | None = None,
    index_nodes: int | None = None,
) -> SpikedEquivalent:
    """`spiked_features_equivalent` after one gradient step of any size from 0 to O(sqrt(N)); all numbers broadcast.

    The step takes `step_samples` (as many as the readout unless given), the readout n fresh ones; both see centred
    labels. The second layer is that of `gradient_step_groups`.

    For odd activations what the step adds beside its rank-one part is taken for isotropic. For others the second-order
    part kappa A w, A = mu2 X^T diag(y) X / n0, kappa = eta alpha_i / sqrt(N), mu2 = E sigma'', knows the weights w, and
    their covariance after the step is S / d,

        S = (I + kappa A)^2 + kappa^2 (d / n0) (E sigma'^2 - mu1^2 - mu2^2) X^T diag(y^2) X / n0

    which takes the place of r^2 I in the fixed point (`unlazy.theory.one_step.spiked.curved_step`). The readout also
    uses that neurons differ in w.v, in |w| and in their overlap with beta beside v. The squares of the last matter at
    finite d only, are kept to first order, and are refused where they lower the objective by more than 5 %: there
    risks of relu with second_layer [-1, 1] and .3 x + x^2 - 1 were 5 to 8 % low (d = 150 and 300). That bound was
    chosen after these simulations; it also refuses normal second layers that were right (x^2 - 1, d = 400).

    Simulations of relu and softplus at 2 to 10 sqrt(N) on x, x + (x^2 - 1)/2, .3 x + x^2 - 1 and a cubic (d = 350, 16
    seeds drawn after the formula was fixed, standard errors 1 to 4 %): normal second layers within 3.1 %, [-1, 1]
    within 2.8 %, [1] within 2.3 %.

    >>> found = gradient_step_equivalent(
    ...     "erf", "erf", n=2048, d=256, width=512, step_size=[0, 1, 22.6], ridge=1e-3, noise_variance=0.01
    ... )
    >>> print(found.risk.round(4))
    [0.101 0.0976 0.0339]
    """
    function = as_link(link)
    mean = float(normal_averages("link", function, 0.0, 1.0).mean)
    centred = function._replace(value=lambda x: function.value(x) - mean) if mean else function
    arguments = _checked_sizes(n, d, width, ridge, noise_variance)
    arguments["step_size"] = check_array("step_size", step_size, low=0, high=_LARGEST)
    given_samples = arguments["n"] if step_samples is None else step_samples
    arguments["step_samples"] = check_array("step_samples", given_samples, low=1, high=_LARGEST)
    shape = common_shape(**arguments)
    step = _Step(activation, link, centred, second_layer, probabilities, index_nodes)
    found = [_fields(step.solved(*point), point[4]) for point in np.broadcast(*arguments.values())]
    return SpikedEquivalent(*(np.array(field).reshape(shape)[()] for field in zip(*found, strict=True)))


class _Step:
    """A gradient step and the readout after it, at any sizes; what the readout's sizes do not change is kept."""

    def __init__(
        self,
        activation: Any,
        link: Any,
        centred: Link,
        second_layer: Any,
        probabilities: ArrayLike | None,
        index_nodes: int | None,
    ) -> None:
        self.activation, self.centred, self.index_nodes = as_activation(activation), centred, index_nodes
        self.moments, self.target = activation_moments(activation), link_moments(link)
        self.second_layer, self.probabilities = second_layer, probabilities
        self.second_order = _second_coefficient(self.activation)
        self.known: dict[tuple[float, ...], tuple[Any, ...]] = {}

    def solved(
        self, n: float, d: float, width: float, ridge: float, noise: float, step_size: float, step_samples: float
    ) -> Solution:
        curved = abs(self.second_order) * step_size / math.sqrt(width) > _NO_SECOND_ORDER
        key = (step_size, step_samples, d, width, noise)
        if key not in self.known:
            self.known[key] = (self._curved if curved else self._generic)(*key)
        if curved:
            fractions, step, known, target, curvatures = self.known[key]
            system = CurvedSystem(step, known, target, curvatures, noise, n, d, width * fractions)
            return solve_curved(system, ridge)
        groups, known, target = self.known[key]
        sizes = FeatureSizes(n, d, width * groups.fractions, groups.radii)
        return solve(known, target, float(noise), sizes, float(ridge))

    def _generic(self, step_size: float, step_samples: float, d: float, width: float, noise: float) -> tuple[Any, ...]:
        groups, cosine = gradient_step_groups(
            self.moments,
            self.target,
            step_samples,
            d,
            width,
            step_size,
            noise,
            second_layer=self.second_layer,
            probabilities=self.probabilities,
        )
        return groups, *statistics(self.activation, self.centred, cosine, groups, self.index_nodes)

    def _curved(self, step_size: float, step_samples: float, d: float, width: float, noise: float) -> tuple[Any, ...]:
        change, ratio = step_size / math.sqrt(width), d / step_samples
        output = _initial_output(self.moments.constant, self.second_layer, self.probabilities)
        square = self.target.variance + noise + output**2
        spike = change * self.moments.linear * math.sqrt(self.target.linear**2 + ratio * square)
        if isinstance(self.second_layer, str):
            values, fractions = normal_values(abs(spike))
        else:
            values, fractions = _support(self.second_layer, self.probabilities)
        slope = max(self.moments.slope_square() - self.moments.linear**2, 0.0)
        # labels of mean -output turn w0 into this multiple of itself
        kept = 1 - self.second_order * output * change * values
        radii = np.sqrt(kept**2 + slope * ratio * square * (change * values) ** 2)
        groups = NeuronGroups(fractions, spike * values, radii)
        cosine = float(gradient_cosine(self.target, 1 / ratio, noise + output**2))
        known, target = statistics(self.activation, self.centred, cosine, groups, self.index_nodes)
        points = normal_nodes(known.weights.size)[0]
        curvatures = Curvatures.of(self.activation, self.centred, cosine, groups, points)
        rest = max(slope - self.second_order**2, 0.0)
        labels = StepLabels.of(self.centred, noise)
        labels = labels._replace(labels=labels.labels - output)
        spread = norm_spread(self.activation, labels, change * values, ratio)
        step = CurvedStep(labels, change * values, ratio, self.second_order, rest, spread)
        return fractions, step, known, target, curvatures


def _second_coefficient(function: Link) -> float:
    """E[(z^2 - 1) f(z)]."""
    times = function._replace(value=lambda x: x * function.value(x))
    mean = normal_averages("activation", function, 0.0, 1.0).mean
    return float(normal_averages("activation", times, 0.0, 1.0).linear - mean)


def gradient_step_groups(
    activation: Any,
    link: Any,
    step_samples: float,
    d: float,
    width: float,
    step_size: float,
    noise_variance: float,
    *,
    second_layer: Any = "normal",
    probabilities: ArrayLike | None = None,
    group_count: int | None = None,
) -> GradientStep:
    """The groups of neurons after one gradient step of size eta on n0 = `step_samples`.

        c_i = eta mu1 |g| alpha_i / sqrt(N) + N(0, 1/d),    r_i^2 = 1 + eta^2 tau^2 alpha_i^2 / N,
        |g|^2 = b1^2 + d E y^2 / n0,     tau^2 = (E sigma'^2 - mu1^2) d E y^2 / n0,        cosine = b1 / |g|

    where y are the centred labels less what the network says before the step, E alpha E sigma; alpha_i = sqrt(N) a_i is
    standard normal (`second_layer` "normal") or one of the numbers `second_layer`, equally likely unless
    `probabilities` are given. N(0, 1/d) is the overlap of the initial weights with the gradient, which makes the groups
    right at eta = 0. Spikes are right for every activation, radii and generic weights beside v for odd ones alone: the
    risk after the step of others is that of `gradient_step_equivalent`. `group_count` is for a
    normal second layer, the more the larger the spikes.

    >>> groups, cosine = gradient_step_groups(
    ...     "erf", "erf", step_samples=1000, d=400, width=600, step_size=30, noise_variance=0.01, group_count=3
    ... )
    >>> print(f"{cosine:.4f}", groups.spikes, groups.radii)
    0.8312 [-1.087 0. 1.087] [1.06 1. 1.06]
    """
    moments, target = activation_moments(activation), link_moments(link)
    slope = moments.slope_square()
    eta = float(check_array("step_size", step_size, low=0, high=_LARGEST, ndim=0))
    n0 = float(check_array("step_samples", step_samples, low=1, high=_LARGEST, ndim=0))
    dimension = float(check_array("d", d, low=1, high=_LARGEST, ndim=0))
    neurons = float(check_array("width", width, low=1, high=_LARGEST, ndim=0))
    noise = float(check_array("noise_variance", noise_variance, low=0, high=_LARGEST, ndim=0))
    square = noise + _initial_output(moments.constant, second_layer, probabilities) ** 2
    spread = (target.variance + square) * dimension / n0
    cosine = float(gradient_cosine(target, n0 / dimension, square))
    spike = eta * moments.linear * math.sqrt((target.linear**2 + spread) / neurons)
    growth = eta**2 / neurons * max(slope - moments.linear**2, 0.0) * spread
    if isinstance(second_layer, str):
        deviation = math.hypot(spike, dimension**-0.5)
        points, weights = _normal_points(deviation, group_count)
        return GradientStep(NeuronGroups(weights, deviation * points, np.sqrt(1 + growth * points**2)), cosine)
    values, shares = _support(second_layer, probabilities)
    points, weights = normal_nodes(_OVERLAP_NODES)
    spikes = spike * values[:, None] + points / math.sqrt(dimension)
    radii = np.broadcast_to(np.sqrt(1 + growth * values[:, None] ** 2), spikes.shape)
    fractions = shares[:, None] * weights
    return GradientStep(NeuronGroups(fractions.ravel() / fractions.sum(), spikes.ravel(), radii.ravel()), cosine)


def _initial_output(constant: float, second_layer: Any, probabilities: ArrayLike | None) -> float:
    """E alpha E sigma, the output of many neurons: what the step fits is the labels less this."""
    if isinstance(second_layer, str):
        check_choice("second_layer", second_layer, ("normal",))
        return 0.0
    values, shares = _support(second_layer, probabilities)
    return float(shares @ values) * constant


def _support(second_layer: Any, probabilities: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    values = check_array("second_layer", second_layer, ndim=1)
    shares = check_array(
        "probabilities",
        np.full(values.size, 1 / values.size) if probabilities is None else probabilities,
        above=0,
        ndim=1,
    )
    if shares.shape != values.shape or abs(shares.sum() - 1) > 1e-9:
        raise InputError(f"probabilities must be {values.size} numbers that add up to 1, got {shares}")
    return values, shares


def normal_groups(spike_deviation: float, *, radii: float = 1.0, group_count: int | None = None) -> NeuronGroups:
    """Neurons with normal spikes of that standard deviation and one radius, as `group_count` groups.

    >>> groups = normal_groups(spike_deviation=1.5, radii=2.0, group_count=3)
    >>> print(groups.spikes, groups.fractions)
    [-2.598 0. 2.598] [0.1667 0.6667 0.1667]
    """
    deviation = float(check_array("spike_deviation", spike_deviation, low=0, high=_LARGEST, ndim=0))
    radius = float(check_array("radii", radii, above=0, high=_LARGEST, ndim=0))
    if deviation == 0:
        return NeuronGroups(np.ones(1), np.zeros(1), np.full(1, radius))
    points, weights = _normal_points(deviation / radius, group_count)
    return NeuronGroups(weights, deviation * points, np.full(points.size, radius))


def groups_of_weights(first_layer: ArrayLike, direction: ArrayLike, *, group_count: int = 60) -> NeuronGroups:
    """The neurons of an actual first layer W (d x N), sorted by w.v and merged into `group_count` groups.

    c is the mean of w.v in a group and r the root mean square of |w - (w.v) v|; `direction` v need not be normalised.

    >>> groups = groups_of_weights(first_layer=[[2.0, 0.0, 1.0], [0.5, 1.0, 1.0]], direction=[1, 0], group_count=2)
    >>> print(groups.spikes, groups.radii)
    [0.5 2. ] [1. 0.5]
    """
    weights = check_array("first_layer", first_layer, ndim=2)
    v = check_array("direction", direction, ndim=1)
    if v.size != len(weights):
        raise InputError(f"direction must be {len(weights)} numbers like the rows of first_layer, got {v.size}")
    count = check_whole("group_count", group_count, 1)
    length = np.linalg.norm(v)
    if not 0 < length < math.inf:
        raise InputError("direction must not be 0")
    v = v / length
    overlaps = v @ weights
    squares = np.sum((weights - np.outer(v, overlaps)) ** 2, axis=0)
    if not (squares > 0).all():
        raise InputError("first_layer must have a part orthogonal to direction in every column")
    order = np.argsort(overlaps, kind="stable")
    parts = np.array_split(order, min(count, order.size))
    return NeuronGroups(
        np.array([part.size / order.size for part in parts]),
        np.array([overlaps[part].mean() for part in parts]),
        np.array([math.sqrt(squares[part].mean()) for part in parts]),
    )


def target_alignment(
    activation: Any, link: Any, neuron_groups: NeuronGroups, cosine: float, d: float, *, index_nodes: int | None = None
) -> float:
    """E[y y' phi(x).phi(x')] of independent pairs, phi = sigma(W^T x) / sqrt(N): how well the kernel fits the labels.

        T = sum_a pi_a [(sum_j w_j m M_a)^2 + (r_a^2 / d) (sum_j w_j l L_a)^2]

    Leading order in 1/d, as `spiked_features_equivalent`.

    >>> print(f"{target_alignment('erf', 'erf', neuron_groups=normal_groups(1.5), cosine=0.8, d=200):.4f}")
    0.0782
    """
    checked = checked_groups(neuron_groups)
    cosine = float(check_array("cosine", cosine, low=-1, high=1, ndim=0))
    dimension = float(check_array("d", d, low=1, high=_LARGEST, ndim=0))
    known, target = statistics(activation, link, cosine, checked, index_nodes)
    mean = (known.weights * target.mean) @ known.mean
    linear = (known.weights * target.linear) @ known.linear
    return float(checked.fractions @ (mean**2 + checked.radii**2 / dimension * linear**2))


def _normal_points(steepness: float, count: int | None) -> tuple[np.ndarray, np.ndarray]:
    return normal_nodes(resolution(min(steepness, _STEEPEST_GROUPS))[0] if count is None else count, "group_count")


def _fields(found: Solution, noise: float) -> tuple[float, ...]:
    return found.test_error - noise, found.test_error, found.training_error, found.objective, found.norm


def _checked_sizes(
    n: ArrayLike, d: ArrayLike, width: ArrayLike, ridge: ArrayLike, noise_variance: ArrayLike
) -> dict[str, np.ndarray]:
    arguments = {
        "n": check_array("n", n, low=1, high=_LARGEST),
        "d": check_array("d", d, low=1, high=_LARGEST),
        "width": check_array("width", width, low=1, high=_LARGEST),
        "ridge": check_array("ridge", ridge, low=SMALLEST_RIDGE, high=_LARGEST),
        "noise_variance": check_array("noise_variance", noise_variance, low=0, high=_LARGEST),
    }
    common_shape(**arguments)
    return arguments

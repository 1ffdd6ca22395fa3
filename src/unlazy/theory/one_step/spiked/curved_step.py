"""Ridge regression after one gradient step whose second-order part knows the initial weights.

With X (n0 x d) and y of the step, kappa_a = eta alpha_a / sqrt(N), gamma = d / n0, mu2 = E sigma'' and
rho = E sigma'^2 - mu1^2 - mu2^2, a neuron's weights are kappa_a mu1 X^T y / n0 plus a vector that given X and y is
Gaussian to leading order, of covariance S_a / d,

    S_a = (I + kappa_a A)^2 + kappa_a^2 gamma rho B,     A = mu2 X^T diag(y) X / n0,     B = X^T diag(y^2) X / n0

The fixed point of `fixed_point` has diag(N_a Q_a S_a / d), a matrix in groups and dimensions, for P. Of it only

    Pi = tr (P^-1 + C)^-1 / d      and its elements Pi_vv, Pi_vh, Pi_hh

are needed, v the direction of X^T y and h that of beta beside v. P is quadratic in X: (P^-1 + C)^-1 is minus the first
block of the inverse of J + (1/n0) sum_i K(y_i) x_i x_i^T, in groups (and dimensions where X acts),

    J = [-C, 1, 0; 1, 0, sqrt(q); 0, sqrt(q), -1],   K(y) = [0, 0, 0; 0, q gamma rho kappa^2 y^2, mu2 kappa sqrt(q) y;
                                                             0, mu2 kappa sqrt(q) y, 0],      q_a = N_a Q_a / d

and Gaussian rows give the inverses, with T[f] = E[f(y, z) K (1 + gamma G K)^-1] over y and z = x.beta,

    G = (J + T[1])^-1,    G_beta = (J + T[z^2])^-1,
    G_beta,g = -gamma G_beta T[y z] G,    G_gg = gamma E y^2 G - gamma^2 G (T[y^2] - T[y z] G_beta T[y z]) G

for the directions beta and g = X^T y / n0 - b1 beta.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.functions.elementwise import Link
from unlazy.numerics.fixed_points import fixed_points
from unlazy.numerics.gaussian import normal_averages, normal_nodes
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.one_step.spiked.fixed_point import Solution
from unlazy.theory.one_step.spiked.statistics import FeatureStatistics, NeuronGroups, TargetStatistics

_INDEX_POINTS = 30
_NOISE_POINTS = 3
_LEAST_WEIGHT = 1e-7
_LARGEST_VALUE = 4.5
_VALUE_SPACING = 0.5
_LEAST_SCALE = 0.3
_SHIFT = 1e-3
_DIFFERENCE = 1e-3
_LEAST_DIFFERENCE = 1e-7
_TOLERANCE = 1e-11
_SETTLED = 1e-13
_MOST_SWEEPS = 500
_NO_WIDTH = 1e-6
_LARGEST_FINITE = 0.05
_REACH = 9.0
_SLOPE_POINTS = 4001
_NO_VARIANCE = 1e-150


class StepLabels(NamedTuple):
    """Points and weights of z = x.beta and y = g(z) + noise."""

    indices: np.ndarray
    labels: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, link: Link, noise_variance: float) -> StepLabels:
        points, weights = normal_nodes(_INDEX_POINTS)
        noises, shares = normal_nodes(_NOISE_POINTS if noise_variance else 1)
        labels = link.value(points)[:, None] + math.sqrt(noise_variance) * noises
        total = np.outer(weights, shares).ravel()
        kept = total > _LEAST_WEIGHT
        index = np.repeat(points, noises.size)
        return cls(index[kept], labels.ravel()[kept], total[kept] / total[kept].sum())


class CurvedStep(NamedTuple):
    """The step: its labels, kappa_a of the groups, gamma, mu2, rho, and d Var |w|^2 of the groups."""

    labels: StepLabels
    changes: np.ndarray
    inputs_per_sample: float
    second_order: float
    rest: float
    norm_spread: np.ndarray


def norm_spread(activation: Link, labels: StepLabels, changes: np.ndarray, gamma: float) -> np.ndarray:
    """d Var |w|^2 of the neurons of a group, from f = sigma' - mu1 of u = x.w0.

    |w|^2 is w0.(1 + a D + b D^2 + c B) w0, D = X^T diag(y) X / n0, beside parts of higher order in w0.
    """
    u = np.linspace(-_REACH, _REACH, _SLOPE_POINTS)
    weights = np.exp(-(u**2) / 2)
    weights /= weights.sum()
    f = np.asarray(activation.slope(u), np.float64)
    f = f - weights @ f
    curve = (u**2 - 1) / 2
    mu2, of_first, of_square = (float(weights @ (g * f)) for g in (u, curve * u, curve * f))
    rest = float(weights @ f**2) - mu2**2
    first, square = (g - weights @ g - 2 * curve * by for g, by in ((u * f, of_first), (f**2, of_square)))
    y1, y2, y3, y4 = (float(labels.weights @ labels.labels**power) for power in (1, 2, 3, 4))
    # of the squared length the part along w0 is the square of w0.w, where labels of mean y1 make w0 grow
    growth = 1 + changes * mu2 * y1
    linear = 2 * changes * (growth * of_first - changes * mu2**2 * y1)
    form = np.stack([linear, changes**2 * mu2**2, changes**2 * gamma * (of_square - mu2**2)])
    # traces of D, D^2, B and of their products, from free cumulants gamma^(k-1) E[y^i y^(2j)], i + j = k
    square_trace = gamma * y2 + y1**2
    cube_trace = gamma**2 * y3 + 3 * gamma * y2 * y1 + y1**3
    fourth = gamma**3 * y4 + 4 * gamma**2 * y3 * y1 + 2 * gamma**2 * y2**2 + 6 * gamma * y2 * y1**2 + y1**4
    mixed = gamma**2 * y4 + gamma * y2**2 + 2 * gamma * y3 * y1 + y2 * y1**2
    crossed = gamma * y3 + y2 * y1
    single = np.array([y1, square_trace, y2])
    double = np.array(
        [[square_trace, cube_trace, crossed], [cube_trace, fourth, mixed], [crossed, mixed, gamma * y4 + y2**2]]
    )
    diagonal = 4 * changes**2 * growth**2 * y2 * (weights @ first**2)
    diagonal += changes**4 * gamma**2 * y4 * (weights @ square**2)
    diagonal += 4 * changes**3 * growth * gamma * y3 * (weights @ (first * square))
    spread = 2 * (1 + 2 * single @ form + np.sum(form * (double @ form), axis=0)) + gamma * diagonal
    return spread + changes**4 * gamma**2 * y2**2 * (4 * mu2**2 * rest + 2 * rest**2)


class Curvatures(NamedTuple):
    """E[(z^2 - 1) f] / sqrt(2) given s at the nodes: of the features over r_a^2 (nodes x groups), and of the target."""

    features: np.ndarray
    target: np.ndarray

    @classmethod
    def of(cls, activation: Link, link: Link, cosine: float, groups: NeuronGroups, points: np.ndarray) -> Curvatures:
        features = _curvature("activation", activation, points[:, None] * groups.spikes, groups.radii)
        width = math.sqrt(max((1 - cosine) * (1 + cosine), 0.0))
        return cls(features / groups.radii**2, _curvature("link", link, cosine * points, width))


def normal_values(spike: float) -> tuple[np.ndarray, np.ndarray]:
    """Values and fractions of a standard normal second layer, whose neurons have spikes of that standard deviation.

    Equidistant in asinh(spike value): neurons of large spikes are alike but for their size, those of spikes of order 1
    are not, however few they are.
    """
    scale = max(spike, _LEAST_SCALE)
    end = math.asinh(scale * _LARGEST_VALUE)
    count = math.ceil(end / _VALUE_SPACING)
    places = np.arange(-count, count + 1) * (end / count)
    values = np.sinh(places) / scale
    fractions = np.exp(-(values**2) / 2) * np.cosh(places)
    fractions /= fractions.sum()
    return values / math.sqrt(fractions @ values**2), fractions


def solve_curved(system: CurvedSystem, ridge: float) -> Solution:
    """Phi and its derivatives by differences through the fixed point, to about 1e-5 of their values."""
    n, d, neurons, nodes = system.n, system.d, system.neurons, system.features.weights.size
    start = np.concatenate([np.full(neurons.size, -math.log(ridge + 0.1)), np.full(nodes, math.log(neurons.sum() / n))])
    none = np.zeros(nodes)
    unknown, objective = system.solved(start, ridge, none)
    finite = 1 - objective / system.objective(unknown, none, squares=False)
    if finite > _LARGEST_FINITE:
        raise InputError(
            f"d must be larger or step_size smaller: at d = {d:g} squares of the weights' overlaps with the target, "
            f"which vanish as d grows, lower the objective by {100 * finite:.2g} %, more than "
            f"{100 * _LARGEST_FINITE:g} %"
        )
    weights = 1 / (1 + np.exp(unknown[neurons.size :]))

    def derivative(more_ridge: float, more: np.ndarray) -> float:
        ahead, upper = system.solved(unknown, ridge + more_ridge, more)
        return (upper - system.solved(2 * unknown - ahead, ridge - more_ridge, -more)[1]) / 2

    def norm() -> float:
        if _DIFFERENCE * ridge >= _LEAST_DIFFERENCE:
            return derivative(_DIFFERENCE * ridge, none) / (_DIFFERENCE * ridge)
        # a smaller difference is lost in rounding, and a larger one leaves the positive ridges: forwards
        near, first = system.solved(unknown, ridge + _LEAST_DIFFERENCE, none)
        second = system.solved(near, ridge + 2 * _LEAST_DIFFERENCE, none)[1]
        return (4 * first - 3 * objective - second) / (2 * _LEAST_DIFFERENCE)

    size = _DIFFERENCE * weights.min()
    return Solution(
        objective,
        derivative(0.0, np.full(nodes, size)) / size,
        derivative(0.0, _DIFFERENCE * weights**2) / _DIFFERENCE,
        norm(),
        _TOLERANCE,
    )


class CurvedSystem:
    """The fixed point of ridge regression on the features of a step, by the numbers of neurons of its groups."""

    def __init__(
        self,
        step: CurvedStep,
        features: FeatureStatistics,
        target: TargetStatistics,
        curvatures: Curvatures,
        noise: float,
        n: float,
        d: float,
        neurons: np.ndarray,
    ) -> None:
        self.step, self.features, self.target, self.curvatures = step, features, target, curvatures
        self.noise, self.n, self.d, self.neurons = noise, n, d, neurons
        k = self.groups = neurons.size
        self.points = normal_nodes(features.weights.size)[0]
        self.sum = np.zeros((2 * k, 2 * k))
        labels = step.labels
        self.slope = float(labels.weights @ (labels.indices * labels.labels))
        self.square = float(labels.weights @ labels.labels**2)
        length = math.hypot(self.slope, math.sqrt(step.inputs_per_sample * self.square))
        self.length, self.cosine = length, self.slope / length
        # S_hh is what Pi_hh is at q = 1 without C
        self._settle(np.zeros((k, k)), np.ones(k))
        self.overlap = np.diagonal(self.directions(np.zeros((k, k)), np.ones(k))[2])

    def solved(self, start: np.ndarray, ridge: float, more: np.ndarray) -> tuple[np.ndarray, float]:
        """log Q and log chi with p = 1/(1 + chi) + more, and Phi there."""

        def swept(unknown: np.ndarray, _: np.ndarray) -> np.ndarray:
            return self.sweep(unknown[0], ridge, more)[None]

        found = fixed_points(
            swept,
            start[None],
            lambda _: f"n = {self.n:g}, N = {self.neurons.sum():g}, d = {self.d:g}, ridge = {ridge:g}",
            tolerance=_TOLERANCE,
        )[0]
        return found, self.objective(found, more)

    def sweep(self, unknown: np.ndarray, ridge: float, more: np.ndarray) -> np.ndarray:
        """The right sides of the equations, in logarithms."""
        weights, mean, linear, rest = self.features
        q, p = self._parts(unknown, more)
        c, h = (linear.T * (weights * p)) @ linear, (mean.T * (weights * p)) @ mean
        bulk, whole = self.neurons * q / self.d, self.neurons * q
        self._settle(c, bulk)
        pi = -self._inverse(c, bulk, self.sum)[: self.groups, : self.groups]
        outliers = np.linalg.solve(np.eye(self.groups) + whole[:, None] * h, (mean * whole).T)
        inverse = ridge + (weights * p) @ rest + np.diagonal(c @ pi) / bulk
        variance = rest @ whole + self.d * np.sum((linear @ pi) * linear, axis=1) + np.sum(mean * outliers.T, axis=1)
        return np.concatenate([-np.log(inverse), np.log(np.maximum(variance / self.n, _NO_VARIANCE))])

    def objective(self, unknown: np.ndarray, more: np.ndarray, *, squares: bool = True) -> float:
        """Phi: what the labels are less what the readout predicts of them.

        The readout's unknowns are sums over the neurons of a group: of b times w.v, w.h, 1, |w|^2 and, with `squares`,
        (w.h)^2, which is of order 1/d.
        """
        k, target, points = self.groups, self.target, self.points
        q, p = self._parts(unknown, more)
        weights = self.features.weights * p
        linear, mean, curved = self.features.linear, self.features.mean, self.curvatures.features
        c = (linear.T * weights) @ linear
        whole = self.neurons * q
        vv, vh, hh = self.directions(c, whole / self.d)
        overlap = self.overlap / self.d if squares else np.zeros(k)
        nothing, diagonal = np.zeros((k, k)), np.diag(whole)
        prior = np.block(
            [
                [vv, vh, nothing, nothing, nothing],
                [vh.T, hh, nothing, nothing, nothing],
                [nothing, nothing, diagonal, nothing, diagonal * overlap],
                [nothing, nothing, nothing, diagonal * (self.step.norm_spread / self.d), nothing],
                [nothing, nothing, diagonal * overlap, nothing, 3 * diagonal * overlap**2],
            ]
        )
        added = np.zeros_like(prior)
        # given s the part of x along v is not random: s^2 where C has 1, and it adds to the mean
        known = np.hstack([points[:, None] * linear, mean, curved / math.sqrt(2)])
        places = np.r_[0:k, 2 * k : 4 * k]
        added[np.ix_(places, places)] = (known.T * weights) @ known
        added[:k, :k] -= c
        added[4 * k :, 4 * k :] = (curved.T * weights) @ curved
        source = np.concatenate(
            [
                linear.T @ (weights * points * target.mean),
                linear.T @ (weights * target.linear),
                mean.T @ (weights * target.mean),
                curved.T @ (weights * target.mean) / math.sqrt(2),
                curved.T @ (weights * self.curvatures.target),
            ]
        )
        learned = source @ prior @ np.linalg.solve(np.eye(5 * k) + added @ prior, source)
        return float(weights @ (target.mean**2 + target.linear**2 + target.rest + self.noise) - learned)

    def directions(self, c: np.ndarray, bulk: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pi_vv, Pi_vh and Pi_hh."""
        k, labels, gamma = self.groups, self.step.labels, self.step.inputs_per_sample
        g = self._inverse(c, bulk, self.sum)
        z, y = labels.indices, labels.labels
        by_index, crossed, by_label = self._sums(g[k:, k:], bulk, np.stack([z**2, y * z, y**2]))
        along = self._inverse(c, bulk, by_index)
        turned = gamma * g[:k, k:] @ crossed
        beta = -along[:k, :k]
        mixed = turned @ along[k:, :k]
        others = gamma**2 * g[:k, k:] @ by_label @ g[k:, :k] - turned @ along[k:, k:] @ turned.T
        others -= gamma * self.square * g[:k, :k]
        vv = (self.slope**2 * beta + self.slope * (mixed + mixed.T) + others) / self.length**2
        v_beta = (self.slope * beta + mixed) / self.length
        width = math.sqrt(max((1 - self.cosine) * (1 + self.cosine), 0.0))
        if width < _NO_WIDTH:
            return vv, np.zeros_like(vv), vv
        hh = (beta - self.cosine * (v_beta + v_beta.T) + self.cosine**2 * vv) / width**2
        return vv, (v_beta - self.cosine * vv) / width, hh

    def _parts(self, unknown: np.ndarray, more: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.exp(unknown[: self.groups]), 1 / (1 + np.exp(unknown[self.groups :])) + more

    def _settle(self, c: np.ndarray, bulk: np.ndarray) -> None:
        """T[1] at the fixed point of its own, from where it was."""
        k = self.groups
        for _ in range(_MOST_SWEEPS):
            inner = self._inverse(c, bulk, self.sum)[k:, k:]
            found = self._sums(inner, bulk, np.ones((1, self.step.labels.labels.size)))[0]
            change = np.abs(found - self.sum).max()
            self.sum = found
            if change <= _SETTLED * (1 + np.abs(found).max()):
                return
        raise ConvergenceError(f"the weights' covariance after the step was not found at d = {self.d:g}")

    def _inverse(self, c: np.ndarray, bulk: np.ndarray, total: np.ndarray) -> np.ndarray:
        """(J + T)^-1."""
        k, root, one = self.groups, np.diag(np.sqrt(bulk)), np.eye(self.groups)
        nothing = np.zeros((k, k))
        matrix = np.block([[-c, one, nothing], [one, nothing, root], [nothing, root, -one]])
        matrix[k:, k:] += total
        return np.linalg.inv(matrix)

    def _sums(self, inner: np.ndarray, bulk: np.ndarray, of: np.ndarray) -> np.ndarray:
        """T[f] for each row f of `of`."""
        k, (labels, changes, gamma, second_order, rest, _) = self.groups, self.step
        y, each = labels.labels[:, None], np.arange(self.groups)
        matrices = np.zeros((labels.labels.size, 2 * k, 2 * k))
        matrices[:, each, each] = y**2 * (gamma * rest * changes**2 * bulk)
        matrices[:, each, k + each] = matrices[:, k + each, each] = y * (second_order * changes * np.sqrt(bulk))
        found = np.linalg.solve(np.eye(2 * k) + gamma * matrices @ inner, matrices)
        return np.tensordot(of * labels.weights, found, 1)


def _curvature(name: str, function: Link, means: np.ndarray, deviations: np.ndarray | float) -> np.ndarray:
    """E[(z^2 - 1) f(mean + deviation z)] / sqrt(2), deviation times the slope of E[z f] in the mean."""
    shift = _SHIFT * np.maximum(deviations, _NO_WIDTH)
    upper, lower = (normal_averages(name, function, means + sign * shift, deviations).linear for sign in (1, -1))
    return (upper - lower) / (2 * shift) * deviations / math.sqrt(2)

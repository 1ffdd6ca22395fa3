"""Groups of neurons with spikes c_a along one direction v, and what their features know of s = x.v."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_array
from unlazy.functions.elementwise import Link, as_activation, as_link
from unlazy.numerics.gaussian import normal_averages, normal_nodes

_STEEPEST = 25
_MORE_NODES = (80, 120, 200, 400)
_SETTLED = 1e-6


class NeuronGroups(NamedTuple):
    """Weights w = c v + r times a generic direction: the fraction, c and r of each group of neurons."""

    fractions: np.ndarray
    """pi_a, which add up to 1."""
    spikes: np.ndarray
    """c_a = w.v."""
    radii: np.ndarray
    """r_a > 0, the norm of what is orthogonal to v."""


class FeatureStatistics(NamedTuple):
    """Of the features given s at the nodes s_j (rows), for each group (columns), and the weights of the nodes."""

    weights: np.ndarray
    """omega_j."""
    mean: np.ndarray
    """M_a(s) = E_z sigma(c_a s + r_a z)."""
    linear: np.ndarray
    """L_a(s) = E_z[z sigma] / r_a."""
    rest: np.ndarray
    """V_a(s) = E_z sigma^2 - M_a^2 - r_a^2 L_a^2."""


class TargetStatistics(NamedTuple):
    """Of g(zeta s + sqrt(1 - zeta^2) h), h standard normal, given s at the nodes."""

    mean: np.ndarray
    """m(s) = E_h g."""
    linear: np.ndarray
    """l(s) = E_h[h g]."""
    rest: np.ndarray
    """Var_h g - l^2."""


def checked_groups(groups: Any) -> NeuronGroups:
    """Groups as arrays of one length with fractions that add up to 1, or what is wrong with them."""
    try:
        fractions, spikes, radii = groups
    except (TypeError, ValueError):
        raise InputError(f"neuron_groups must be fractions, spikes and radii (NeuronGroups), got {groups!r}") from None
    fractions = check_array("neuron_groups.fractions", fractions, above=0, ndim=1)
    spikes = check_array("neuron_groups.spikes", spikes)
    radii = check_array("neuron_groups.radii", radii, above=0)
    for name, array in (("spikes", spikes), ("radii", radii)):
        if array.ndim and array.shape != fractions.shape:
            raise InputError(
                f"neuron_groups.{name} must be {fractions.size} numbers like fractions, got shape {array.shape}"
            )
    if abs(fractions.sum() - 1) > 1e-9:
        raise InputError(f"neuron_groups.fractions must add up to 1, got {fractions.sum():g}")
    return NeuronGroups(
        fractions / fractions.sum(),
        np.broadcast_to(spikes, fractions.shape),
        np.broadcast_to(radii, fractions.shape),
    )


def resolution(steepness: float) -> tuple[int, int]:
    """Points for normal spikes and for s: features vary with s on the scale 1 / steepness."""
    if steepness <= 0.5:
        return 20, 40
    if steepness <= 2:
        return 40, 80
    return max(100, math.ceil(14 * steepness)), max(100, math.ceil(30 * steepness))


def feature_statistics(activation: Any, groups: NeuronGroups, nodes: int | None) -> FeatureStatistics:
    """At `nodes` points s_j, by default as many as the spikes need."""
    points, weights = normal_nodes(_nodes_for_spikes(groups) if nodes is None else nodes, "index_nodes")
    function = as_activation(activation)
    averages = normal_averages("activation", function, points[:, None] * groups.spikes, groups.radii)
    return FeatureStatistics(weights, averages.mean, averages.linear / groups.radii, averages.rest)


def statistics(
    activation: Any, link: Any, cosine: float, groups: NeuronGroups, nodes: int | None
) -> tuple[FeatureStatistics, TargetStatistics]:
    """Of features and target at the same points, by default as many as spikes and target need.

    A target that is steep in s (cosine near 1, steep link) needs more than the spikes: enough is where the points give
    its mean, its slope E[s m] = cosine b1 and its second moment.
    """
    function = as_link(link)
    if nodes is not None:
        features = feature_statistics(activation, groups, nodes)
        return features, _target(function, cosine, normal_nodes(nodes)[0])
    whole = normal_averages("link", function, 0.0, 1.0)
    second = whole.mean**2 + whole.linear**2 + whole.rest
    fewest = _nodes_for_spikes(groups)
    for count in (fewest, *(more for more in _MORE_NODES if more > fewest)):
        points, weights = normal_nodes(count)
        target = _target(function, cosine, points)
        mean = weights @ target.mean - whole.mean
        linear = (weights * points) @ target.mean - cosine * whole.linear
        total = weights @ (target.mean**2 + target.linear**2 + target.rest) - second
        if mean**2 + linear**2 <= _SETTLED**2 * second and abs(total) <= _SETTLED * second:
            break
    return feature_statistics(activation, groups, count), target


def _nodes_for_spikes(groups: NeuronGroups) -> int:
    steepness = math.sqrt(groups.fractions @ (groups.spikes / groups.radii) ** 2)
    if steepness > _STEEPEST:
        raise InputError(
            f"neuron_groups must have spikes of root mean square <= {_STEEPEST} radii unless index_nodes is given, got "
            f"{steepness:g}"
        )
    return resolution(steepness)[1]


def _target(function: Link, cosine: float, points: np.ndarray) -> TargetStatistics:
    width = math.sqrt(max((1 - cosine) * (1 + cosine), 0.0))
    return TargetStatistics(*normal_averages("link", function, cosine * points, width))

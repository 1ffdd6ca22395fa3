"""The eigenvalues of F^T F / n of spiked features: a bulk, and outliers that the spike makes.

Features and groups are those of `unlazy.theory.one_step.spiked.features`: F = sigma(X W), n x N.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array
from unlazy.numerics.roots import ConvergenceError, scalar_root
from unlazy.theory.one_step.spiked.fixed_point import FeatureSizes
from unlazy.theory.one_step.spiked.resolvent import BulkSystem, Resolvent
from unlazy.theory.one_step.spiked.statistics import FeatureStatistics, NeuronGroups, checked_groups, feature_statistics

_LARGEST = 1e150
_FIRST_STEP = 0.2
_LAST_STEP = 1e-7
# beyond one such step in log Q the real solution has been lost
_JUMP = 1.0
_UNREACHED = 0.01
_CONSTANT = 1e-25


class FeatureSpectrum(NamedTuple):
    """The bulk at given eigenvalues x; both fields have their shape."""

    density: np.ndarray
    """The density of the N eigenvalues without outliers and without the atom of n < N at 0."""
    distribution: np.ndarray
    """The share of eigenvalues <= x, the atom at 0 included."""


class FeatureOutliers(NamedTuple):
    """The end of the bulk, and the eigenvalues beyond it in descending order."""

    bulk_edge: float
    outliers: np.ndarray


def feature_spectrum(
    activation: Any,
    neuron_groups: NeuronGroups,
    n: float,
    d: float,
    width: float,
    eigenvalue: ArrayLike,
    *,
    resolution: float = 1e-6,
    index_nodes: int | None = None,
) -> FeatureSpectrum:
    """Density and distribution of the bulk of eigenvalues of F^T F / n at x = `eigenvalue` > 0.

        density = Im sum_a pi_a Q_a / pi,       distribution = -Im log det(F^T F / n - x) / (pi N)

    with the fixed point Q, chi of `spiked_features_equivalent` without the means M_a at ridge -x (1 + i resolution);
    log det is the potential whose stationary point that is, so that no grid of x is needed to integrate. Leading order
    as n, d and N grow in proportion; the few outliers (`feature_outliers`) have no weight in this limit.

    >>> groups = NeuronGroups(fractions=[1.0], spikes=[1.5], radii=[1.0])
    >>> print(feature_spectrum("tanh", groups, n=1000, d=400, width=600, eigenvalue=[0.05, 0.2, 1]).distribution)
    [0.4245 0.6715 0.9571]
    """
    system = _system(activation, neuron_groups, n, d, width, index_nodes)
    x = check_array("eigenvalue", eigenvalue, above=0, high=_LARGEST)
    blur = float(check_array("resolution", resolution, above=0, high=0.1, ndim=0))
    fractions = system.sizes.neurons / system.neurons
    density, distribution = np.empty(x.size), np.empty(x.size)
    found: Resolvent | None = None
    for i in np.argsort(x, axis=None):
        point = x.flat[i] * (1 + 1j * blur)
        found = system.above(point, found)
        density[i] = (fractions @ found.groups).imag / np.pi
        distribution[i] = -system.log_determinant(point, found).imag / (np.pi * system.neurons)
    # the tail that `resolution` gives the atom
    atom = max(1 - system.sizes.samples / system.neurons, 0.0)
    density = np.maximum(density - atom * blur / (np.pi * x.ravel() * (1 + blur**2)), 0.0)
    return FeatureSpectrum(density.reshape(x.shape)[()], np.clip(distribution, 0, 1).reshape(x.shape)[()])


def feature_outliers(
    activation: Any, neuron_groups: NeuronGroups, n: float, d: float, width: float, *, index_nodes: int | None = None
) -> FeatureOutliers:
    """The upper end of the bulk of F^T F / n and the eigenvalues x beyond it, which solve

        det(I + K H(x)) = 0,     K = diag(N_a Q_a),     H = sum_j w_j p_j M(s_j) M(s_j)^T

    with the fixed point of `feature_spectrum` at ridge -x. The largest are about N times the eigenvalues of
    sqrt(pi_a pi_b) E_s[M_a M_b]. Points s that only one in a hundred draws of n samples reaches are left out: each
    would end the bulk with less than one eigenvalue of its own. Leading order as `feature_spectrum`.

    >>> groups = NeuronGroups(fractions=[0.5, 0.5], spikes=[2.0, -1.0], radii=[1.0, 1.0])
    >>> found = feature_outliers("tanh", groups, n=1000, d=400, width=600)
    >>> print(f"{found.bulk_edge:.3f}", found.outliers)
    1.572 [215.6 1.875]
    """
    system = _system(activation, neuron_groups, n, d, width, index_nodes, only_reached=True)
    top = 10 * (system.scale + system.neurons * system.largest_mean)
    x, found = top, system.newton(top, system.far(top))
    values: list[float] = []
    step = _FIRST_STEP
    while step > _LAST_STEP:
        lower = x * (1 - step)
        below = _real_neighbour(system, lower, found)
        if below is None:
            step /= 2
            continue
        for index in range(len(values), int(np.sum(system.outlier_gains(below) > 1))):
            values.append(_where_gain_is_one(system, index, lower, x, found))
        x, found = lower, below
        step = min(1.5 * step, _FIRST_STEP)
    return FeatureOutliers(float(x), np.array(values))


def _real_neighbour(system: BulkSystem, x: float, start: Resolvent) -> Resolvent | None:
    """The real solution at x if it continues the one at `start`."""
    try:
        found = system.newton(x, start)
    except ConvergenceError:
        return None
    if not ((found.groups < 0).all() and (found.nodes < 0).all() and (found.nodes > -1).all()):
        return None
    return found if np.abs(np.log(found.groups / start.groups)).max() < _JUMP else None


def _where_gain_is_one(system: BulkSystem, index: int, low: float, high: float, start: Resolvent) -> float:
    def excess(x: float) -> float:
        found = _real_neighbour(system, x, start)
        if found is None:
            raise ConvergenceError(f"the resolvent of the features was not found at x = {x:g}")
        return float(system.outlier_gains(found)[index] - 1)

    return scalar_root(excess, low, high, 1e-12 * high)


def _system(
    activation: Any,
    groups: NeuronGroups,
    n: float,
    d: float,
    width: float,
    nodes: int | None,
    *,
    only_reached: bool = False,
) -> BulkSystem:
    checked = checked_groups(groups)
    samples, dimension, count = (
        float(check_array(name, value, low=1, high=_LARGEST, ndim=0))
        for name, value in (("n", n), ("d", d), ("width", width))
    )
    known = feature_statistics(activation, checked, nodes)
    if (known.rest + known.linear**2).max() <= _CONSTANT * (known.mean**2).max():
        raise InputError("activation must not be constant on the groups: its features have no bulk")
    if only_reached:
        weights = known.weights
        # the nodes are in ascending order and symmetric
        reached = samples * np.minimum(np.cumsum(weights), np.cumsum(weights[::-1])[::-1]) >= _UNREACHED / 2
        known = FeatureStatistics(
            weights[reached] / weights[reached].sum(), known.mean[reached], known.linear[reached], known.rest[reached]
        )
    return BulkSystem(known, FeatureSizes(samples, dimension, count * checked.fractions, checked.radii))

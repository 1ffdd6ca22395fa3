"""Learning curves of ridge regression on random features after one gradient step, for a single-index model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_array, check_choice, check_flag
from unlazy.diagnostics.curves import FEWEST_ROWS, MOST_DEVIATION
from unlazy.diagnostics.learning_curve import pages
from unlazy.diagnostics.learning_curve.index_model import (
    IndexEvidence,
    IndexModel,
    index_evidence,
    left_out_models,
    random_folds,
)
from unlazy.diagnostics.learning_curve.results import BestPenalty
from unlazy.diagnostics.learning_curve.theory import CurveLists, Theory
from unlazy.functions.elementwise import Link, as_activation
from unlazy.numerics.gaussian import normal_averages, normal_nodes
from unlazy.numerics.roots import ConvergenceError, scalar_minimum
from unlazy.theory.one_step.gradient_step import best_direction_ridge, gradient_cosine, preconditioned_cosine
from unlazy.theory.one_step.moments import SMALLEST_RIDGE
from unlazy.theory.one_step.spiked.features import gradient_step_groups, normal_groups
from unlazy.theory.one_step.spiked.fixed_point import FeatureSizes, Solution, solve
from unlazy.theory.one_step.spiked.statistics import FeatureStatistics, NeuronGroups, TargetStatistics

# stands for infinitely many features: the error differs from the limit by about 1e-6
_ALL_FEATURES = 1e9
# below it simulations with more than d^2 rows had errors up to 65% above the theory
_LEAST_PENALTY, _LARGEST_PENALTY = 1e-2, 1e3
_PENALTY_GRID = 6
_PENALTY_TOLERANCE = 0.05
# numbers of groups of neurons and of points x.v: for an error, and for how it changes with the penalty and the rows
_FINE, _COARSE = (100, 60), (40, 40)
_SPIKES = 30
# a penalty of the direction beyond which it is that of the gradient
_GRADIENT = 1e100
# spreads multiples of it evenly: 1/x for the root of x^3 = x + 1 (Roberts 2018)
_LATTICE = 0.7548776662466927
# simulations with fewer had errors up to 40% from the theory, with at least so many within 10%
_LEAST_WIDTH, _LEAST_DIMENSION = 20, 2
# a penalty that raises the error more than so far above that of the least one is in the interpolation peak
_MOST_PEAK = 1.5
_VARIANCE_RATIOS = (0.8, 1.25)
# below it regressors that do not whiten the inputs do better than the theory
_LEAST_ISOTROPY = 0.5
# beyond it y depends on more directions than one
_MOST_OTHER_SIGNAL = 4.0
# beyond it, links like s^3, the rows do not show the tails: the error was found 26% too small
_MOST_TAILS = 0.2
# of the index: that of uniform numbers, 3 is normal and two values have 1
_LEAST_KURTOSIS = 1.8
# with fewer the noise is found too large, by a factor of two at 3.5 and a steep link
_ROWS_PER_DIMENSION = 5
_OPTIONS = ("activation", "spike_deviation", "bias_deviation", "precondition", "step_samples", "step_size")


class OneStepOptions(NamedTuple):
    """Features sigma(W^T x + c), W = W0 + v a^T with a normal, or W after a gradient step of `step_size`."""

    activation: Link
    spike_deviations: tuple[float, ...]
    precondition: bool
    """v is the direction of a ridge regression, or that of the gradient X^T y."""
    step_size: float | None
    step_samples: float | None
    bias_deviation: float


def one_step_options(given: dict[str, Any] | None) -> OneStepOptions:
    """`kernel_params` of kernel="one-step", with their defaults."""
    given = given or {}
    for name in given:
        check_choice("kernel_params of kernel='one-step'", name, _OPTIONS)
    step_size = given.get("step_size")
    others = given.get("spike_deviation") is not None or given.get("precondition") or given.get("bias_deviation")
    if step_size is not None and others:
        raise InputError(
            "step_size is that of the plain gradient without biases: give no spike_deviation, precondition or "
            "bias_deviation"
        )
    precondition = check_flag("precondition", given.get("precondition", True))
    spikes = np.atleast_1d(check_array("spike_deviation", given.get("spike_deviation", 1.5), low=0, high=10))
    bias = float(check_array("bias_deviation", given.get("bias_deviation", 1.0), low=0, high=10, ndim=0))
    step_samples = given.get("step_samples")
    return OneStepOptions(
        as_activation(given.get("activation", "tanh")),
        tuple(spikes.ravel().tolist()),
        bool(precondition),
        None if step_size is None else float(check_array("step_size", step_size, low=0, high=1e6, ndim=0)),
        None if step_samples is None else float(check_array("step_samples", step_samples, low=1, high=1e15, ndim=0)),
        0.0 if step_size is not None else bias,
    )


class OneStepTheory(Theory):
    """A single-index model, given or found in rows."""

    takes_no_penalty = False
    without_matrix = "a kernel matrix, and kernel='one-step' has none"
    page = pages.ONE_STEP

    def __init__(
        self,
        model: IndexModel,
        options: OneStepOptions,
        evidence: IndexEvidence | None = None,
        others: Sequence[IndexModel] = (),
    ):
        self.model, self.options, self.evidence = model, options, evidence
        # the one of all rows first
        self._models = (model, *others)
        self._points: dict[tuple[float, str, float], tuple[float, float, float, float]] = {}
        self._targets: dict[tuple[Any, ...], TargetStatistics] = {}
        self._known_features: dict[tuple[Any, ...], tuple[NeuronGroups, FeatureStatistics]] = {}
        self._cosine(model, 10 * model.dimension)

    @classmethod
    def of_rows(cls, X: np.ndarray, y: np.ndarray, options: OneStepOptions, random_state: Any) -> OneStepTheory:
        from sklearn.utils import check_random_state

        seed = check_random_state(random_state).randint(2**31)
        folds = random_folds(len(X), np.random.default_rng(seed))
        evidence = index_evidence(X, y, folds)
        return cls(evidence.model, options, evidence, left_out_models(X, y, folds, evidence.smoothing))

    def predict(self, n: np.ndarray, penalty: np.ndarray, width: np.ndarray, method: str) -> CurveLists:
        found = [self._point(float(a), float(b), float(c)) for a, b, c in zip(n, penalty, width, strict=True)]
        error, training, deviation, used = (np.array(column) for column in zip(*found, strict=True))
        in_range = np.isfinite(error)
        with np.errstate(invalid="ignore"):
            reliable = in_range & self._credible() & (deviation <= MOST_DEVIATION)
        reliable &= (used >= _LEAST_PENALTY) | (n <= self.model.dimension**2)
        reliable &= (np.minimum(n, self._step_rows(n)) >= FEWEST_ROWS) & (width >= _LEAST_WIDTH)
        reliable &= self.model.dimension >= _LEAST_DIMENSION
        for i in np.flatnonzero(reliable & (used < _LEAST_PENALTY)):
            reliable[i] = error[i] <= _MOST_PEAK * self._point(float(n[i]), _LEAST_PENALTY, float(width[i]))[0]
        kinds = np.full(n.shape, "one-step", dtype="<U9")
        return CurveLists(used, error, deviation, training, in_range, reliable, kinds)

    def best_penalty(self, n: float) -> BestPenalty:
        error, _, _, penalty = self._point(n, math.nan, math.inf)
        near = 1 + _PENALTY_TOLERANCE
        where = (
            "smallest"
            if penalty < _LEAST_PENALTY * near
            else "largest"
            if penalty > _LARGEST_PENALTY / near
            else "inside"
        )
        return BestPenalty(penalty, error, where)

    def noise_estimate(self) -> tuple[float, float]:
        return self.model.noise_variance, math.nan

    def link(self, index: Any, kernel: Any) -> np.ndarray:
        return self.model.link(check_array("index", index))

    def _credible(self) -> bool:
        evidence = self.evidence
        if evidence is None:
            return True
        low, high = _VARIANCE_RATIOS
        return (
            evidence.whitened
            and evidence.scores.size >= _ROWS_PER_DIMENSION * self.model.dimension
            and low <= evidence.variance_ratio <= high
            and evidence.isotropy >= _LEAST_ISOTROPY
            and evidence.other_signal <= _MOST_OTHER_SIGNAL
            and evidence.tails <= _MOST_TAILS
            and float(np.mean(evidence.scores**4)) >= _LEAST_KURTOSIS
            and len(self._models) > 2
        )

    def _point(self, n: float, penalty: float, width: float) -> tuple[float, float, float, float]:
        """Error, training error, standard deviation of log error, penalty."""
        key = (n, str(penalty), width)
        if key not in self._points:
            self._points[key] = self._new_point(n, penalty, width)
        return self._points[key]

    def _new_point(self, n: float, penalty: float, width: float) -> tuple[float, float, float, float]:
        count = min(width, _ALL_FEATURES)
        best = (math.inf, math.nan, penalty, 0.0)
        for spike in self.options.spike_deviations:
            level = self._least(n, count, spike) if math.isnan(penalty) else penalty
            found = self._solved(0, n, count, spike, level, _FINE)
            if found is not None and found.test_error < best[0]:
                best = (found.test_error, found.training_error, level, spike)
        error, training, level, spike = best
        if not math.isfinite(error):
            return math.nan, math.nan, math.nan, penalty
        if self.evidence is None:
            return error, training, 0.0, level
        others = range(1, len(self._models))
        solved = [self._solved(other, n, count, spike, level, _COARSE) for other in others]
        logs = [math.log(found.test_error) for found in solved if found is not None]
        # the jackknife over parts of the rows
        deviation = math.sqrt((len(logs) - 1) * np.var(logs)) if len(logs) > 1 else math.inf
        # which does not know of tails that no row has, nor of a misfit that all parts share
        noise = self.model.noise_variance
        tails = self.evidence.tails * max(error - noise, 0.0) / error
        return (
            error,
            training,
            math.hypot(deviation, tails, (noise - self.evidence.least_noise_variance) / error),
            level,
        )

    def _least(self, n: float, count: float, spike: float) -> float:
        def error(log_penalty: float) -> float:
            found = self._solved(0, n, count, spike, math.exp(log_penalty), _COARSE)
            return math.inf if found is None else found.test_error

        # not unimodal for a fitted link: the best of a grid first
        grid = np.linspace(math.log(_LEAST_PENALTY), math.log(_LARGEST_PENALTY), _PENALTY_GRID)
        at = int(np.argmin([error(place) for place in grid]))
        ends = (grid[max(at - 1, 0)], grid[min(at + 1, grid.size - 1)])
        return math.exp(scalar_minimum(error, *ends, _PENALTY_TOLERANCE)[0])

    def _solved(
        self, which: int, n: float, count: float, spike: float, penalty: float, resolution: tuple[int, int]
    ) -> Solution | None:
        model = self._models[which]
        groups, features = self._features(which, n, count, spike, resolution)
        sizes = FeatureSizes(n, model.dimension, count * groups.fractions, groups.radii)
        target = self._target(which, n, resolution)
        try:
            # KernelRidge(alpha=penalty) on F F^T / N is the ridge penalty N / n of the theory
            return solve(features, target, model.noise_variance, sizes, max(penalty * count / n, SMALLEST_RIDGE))
        except ConvergenceError:
            return None

    def _target(self, which: int, n: float, resolution: tuple[int, int]) -> TargetStatistics:
        key = (which, n, resolution)
        if key not in self._targets:
            model = self._models[which]
            cosine = self._cosine(model, self._step_rows(n))
            width = math.sqrt(max((1 - cosine) * (1 + cosine), 0.0))
            averages = normal_averages("link", model.link, cosine * normal_nodes(resolution[1])[0], width)
            self._targets[key] = TargetStatistics(*averages)
        return self._targets[key]

    def _features(
        self, which: int, n: float, count: float, spike: float, resolution: tuple[int, int]
    ) -> tuple[NeuronGroups, FeatureStatistics]:
        options, step_samples, model = self.options, self._step_rows(n), self._models[which]
        key: tuple[Any, ...] = (model.dimension, spike, resolution)
        if options.step_size is not None:
            key = (which, step_samples, count, resolution)
        if key not in self._known_features:
            biases = np.zeros(1)
            if options.step_size is not None:
                noise, d = model.noise_variance, model.dimension
                arguments = (options.activation, model.moments, step_samples, d, count, options.step_size, noise)
                groups = gradient_step_groups(*arguments, group_count=_SPIKES).neuron_groups
            else:
                groups, biases = _neurons(
                    math.hypot(spike, model.dimension**-0.5), options.bias_deviation, resolution[0]
                )
            points, weights = normal_nodes(resolution[1])
            places = points[:, None] * groups.spikes + biases
            averages = normal_averages("activation", options.activation, places, groups.radii)
            statistics = FeatureStatistics(weights, averages.mean, averages.linear / groups.radii, averages.rest)
            self._known_features[key] = (groups, statistics)
        return self._known_features[key]

    def _step_rows(self, n: Any) -> Any:
        return n if self.options.step_samples is None else self.options.step_samples

    def _cosine(self, model: IndexModel, step_samples: float) -> float:
        ratio = step_samples / model.dimension
        # raises where the link is even
        best = min(best_direction_ridge(model.moments, ratio, model.noise_variance), _GRADIENT)
        if not self.options.precondition or self.options.step_size is not None:
            return float(gradient_cosine(model.moments, ratio, model.noise_variance))
        return float(preconditioned_cosine(model.moments, ratio, max(best, 1e-12), model.noise_variance))


def _neurons(deviation: float, bias: float, count: int) -> tuple[NeuronGroups, np.ndarray]:
    """Groups of neurons with normal spikes and normal biases, independent of each other, and the biases.

    A bias is a shift of the activation. The pairs lie on a lattice: a product of few spikes and few biases would span
    too few functions of x.v.
    """
    from scipy.special import ndtri

    if not bias:
        groups = normal_groups(deviation, group_count=_SPIKES)
        return groups, np.zeros(groups.spikes.size)
    order = np.arange(count) + 0.5
    spikes, biases = ndtri(order / count), ndtri((order * _LATTICE) % 1)
    spikes, biases = (field * (scale / np.std(field)) for field, scale in ((spikes, deviation), (biases, bias)))
    return NeuronGroups(np.full(count, 1 / count), spikes, np.ones(count)), biases

"""What is possible at all: the best estimate of a teacher's weights, and the best that message passing reaches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array
from unlazy.numerics.quadrature import gauss_rule, panels
from unlazy.numerics.roots import increasing_root, scalar_minimum, scalar_root
from unlazy.theory.message_passing.teachers import (
    LinearTeacher,
    LogitTeacher,
    ProbitTeacher,
    SignTeacher,
    check_teacher,
    label_average,
    teacher_error,
    width,
)

_LEAST, _MOST = 1e-8, 1e16
_MOST_OF_SIGNS = 150.0
"""The precisions between which fixed points are sought; signs are known to e^-75 at the last."""
_LEAST_SAMPLES, _MOST_SAMPLES = 1e-6, 1e4
_PANELS_PER_DECADE, _PANEL_NODES = 12, 4
_SCALED = panels(np.append(np.arange(0.0, 6.0, 0.5), np.arange(6.0, 37.0, 2.0)), 8)
_SPARSE = panels(np.append(0.0, 1.2 ** np.arange(-140.0, 140.0)), 8)
_STEPS = np.arange(-133, 134)


@dataclass(frozen=True)
class NormalWeights:
    """Weights N(0, 1)."""

    def unknown(self, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return 1 / (1 + precision), 1 / (1 + precision) ** 2


@dataclass(frozen=True)
class SignWeights:
    """Weights 1 and -1, each with probability 1/2."""

    def unknown(self, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # E sech^2(r + sqrt(r) z) = e^(-r/2) E sech(sqrt(r) z), and the same with 4 and 3
        precision = precision[:, None]
        step = 0.3 * np.minimum(1.0, np.sqrt(precision))
        points = step * _STEPS
        weights = np.exp(-(points**2) / (2 * precision))
        weights *= step / np.sqrt(2 * np.pi * precision) * np.exp(-precision / 2)
        falling = np.exp(-np.abs(points))
        sech = 2 * falling / (1 + falling**2)
        return (sech * weights).sum(axis=1), (sech**3 * weights).sum(axis=1)


@dataclass(frozen=True)
class SparseWeights:
    """Weights 0, and with probability `nonzero_share` in (0, 1) N(0, 1/nonzero_share)."""

    nonzero_share: float

    def __post_init__(self) -> None:
        check_array("nonzero_share", self.nonzero_share, above=0, below=1, ndim=0)

    def unknown(self, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from scipy.special import expit

        share, total = self.nonzero_share, self.nonzero_share + precision[:, None]
        # in units of the deviation of a nonzero weight's posterior the odds are the same function at every precision
        points, weights = _SPARSE
        odds = np.log(share / (1 - share)) + np.log(share / total) / 2 + points**2 / 2
        present = expit(odds)
        variance = present / total + present * expit(-odds) * points**2 / total
        law = np.zeros(1)
        for probability, spread in ((1 - share, precision[:, None] / total), (share, precision[:, None] / share)):
            law = law + probability * np.exp(-(points**2) / (2 * spread)) * np.sqrt(2 / (np.pi * spread))
        return (variance * law) @ weights, (variance**2 * law) @ weights


WeightLaw = NormalWeights | SignWeights | SparseWeights
LabelLaw = LinearTeacher | SignTeacher | ProbitTeacher | LogitTeacher


class OptimalEstimate(NamedTuple):
    """Limits of two estimates of the weights; every field has the shape of `samples_per_dimension`."""

    overlap: np.ndarray
    """Of the posterior mean with the weights, per weight: its mean squared error is 1 - overlap."""
    error: np.ndarray
    """Of the labels that the posterior mean gives to new rows; of real labels the squared error."""
    algorithmic_overlap: np.ndarray
    """Of the estimate of message passing that knows nothing at its start."""
    algorithmic_error: np.ndarray


class HardPhase(NamedTuple):
    """Samples per dimension between which message passing misses what the samples tell; NaN if there are none."""

    possible_from: float
    """Where the overlap of the best estimate jumps."""
    easy_from: float
    """Where that of message passing does."""


def optimal_estimate(samples_per_dimension: ArrayLike, weight_law: WeightLaw, label_law: LabelLaw) -> OptimalEstimate:
    """Overlap and error of the best estimate of the weights w of t = x.w/sqrt(d), and of message passing.

    Rows are normal with independent entries, n/d is the number of samples per dimension, w has independent entries of
    mean square 1 with the given law, and labels follow `label_law` given t. With r the precision of a weight seen alone
    with normal noise, q = 1 - mmse(r) its overlap, s(q) = E (dZ/dw)^2 / (Z (1 - Z)) what a label tells, where Z = P(y =
    1) given a field N(w, 1 - q) and w ~ N(0, q), and s = 1/(noise_variance + 1 - q) for real labels,

        r = (n/d) s(q).

    Message passing ends at the smallest solution; the best estimate is the solution, or the full overlap, with the
    largest free entropy, whose slope in q is ((n/d) s - r)/2. Exact as n and d grow; samples per dimension from 1e-6 to
    1e4, real labels with noise. Source: Barbier, Krzakala, Macris, Miolane & Zdeborova (2019), Theorem 1.

    >>> found = optimal_estimate([1.0, 1.4, 1.6], SignWeights(), SignTeacher())
    >>> print(found.overlap.round(3), found.algorithmic_overlap.round(3))
    [0.561 1.    1.   ] [0.561 0.79  1.   ]
    """
    ratio = check_array("samples_per_dimension", samples_per_dimension, low=_LEAST_SAMPLES, high=_MOST_SAMPLES)
    curve = _fixed_points(*_checked(weight_law, label_law))
    best, reached = np.array([curve.overlaps(float(one)) for one in ratio.ravel()]).reshape(-1, 2).T
    errors = [[teacher_error(label_law, one, one) for one in overlaps] for overlaps in (best, reached)]
    fields = (best, errors[0], reached, errors[1])
    return OptimalEstimate(*(np.reshape(field, ratio.shape)[()] for field in fields))


def hard_phase(weight_law: WeightLaw, label_law: LabelLaw) -> HardPhase:
    """From how many samples per dimension on the weights can be found, and from how many on message passing does so.

    The jumps of `optimal_estimate`, where there is one of each.

    >>> print(*(round(end, 3) for end in hard_phase(SignWeights(), SignTeacher())))
    1.245 1.493
    """
    return _fixed_points(*_checked(weight_law, label_law)).hard_phase()


def _checked(weight_law: WeightLaw, label_law: LabelLaw) -> tuple[WeightLaw, LabelLaw]:
    if not isinstance(weight_law, WeightLaw):
        raise InputError(f"weight_law must be NormalWeights(), SignWeights() or SparseWeights(…), got {weight_law!r}")
    check_teacher(label_law)
    if not isinstance(label_law, LabelLaw):
        raise InputError(
            f"label_law must be a LinearTeacher, SignTeacher, ProbitTeacher or LogitTeacher, got {label_law!r}"
        )
    if isinstance(label_law, LinearTeacher):
        check_array("noise_variance", label_law.noise_variance, low=1e-12, ndim=0)
    return weight_law, label_law


class _FixedPoints:
    """The samples per dimension at which each precision is a fixed point, with the integrals of the free entropy."""

    def __init__(self, weight_law: WeightLaw, label_law: LabelLaw) -> None:
        self._weights, self._labels = weight_law, label_law
        most = _MOST_OF_SIGNS if isinstance(weight_law, SignWeights) else _MOST
        # more than all samples tell of known weights is no fixed point
        most = min(most, 2 * _MOST_SAMPLES * float(self._information(np.array([1e-300]))[0]))
        decades = np.log10(most / _LEAST)
        grid = np.geomspace(_LEAST, most, int(_PANELS_PER_DECADE * decades) + 1)
        # with the places where the curve turns no fixed point falls between two others of the grid
        self.precision = np.sort(np.append(grid, self._turns(grid)))
        self.samples = self.samples_at(self.precision)
        told, kept = self._integrals(self.precision[:-1], self.precision[1:])
        # below the first precision both r and the overlap grow from 0
        self._told = np.append(0.0, np.cumsum(told)) + _LEAST * self._information(np.ones(1))[0]
        self._kept = np.append(0.0, np.cumsum(kept)) + _LEAST**2 / 2

    def samples_at(self, precision: np.ndarray) -> np.ndarray:
        return precision / self._information(self._weights.unknown(precision)[0])

    def _turns(self, grid: np.ndarray) -> list[float]:
        rises, logs = np.sign(np.diff(self.samples_at(grid))), np.log(grid)

        def turn(i: int) -> float:
            def height(log: float) -> float:
                return -rises[i] * self.samples_at(np.exp([log]))[0]

            return float(np.exp(scalar_minimum(height, logs[i], logs[i + 2], 1e-9)[0]))

        return [turn(i) for i in np.flatnonzero(rises[:-1] != rises[1:]).tolist()]

    def _information(self, unknown: np.ndarray) -> np.ndarray:
        """What a label tells of the weights when a share of them is unknown."""
        if isinstance(self._labels, LinearTeacher):
            return 1 / (self._labels.noise_variance + unknown)
        unknown = np.maximum(unknown, 1e-280)[:, None]
        known = np.maximum(1 - unknown, 1e-280)
        # labels turn on one scale and fields are spread on another: the smaller one bounds the integrand
        scale = 1 / np.sqrt(1 / width(self._labels, unknown) ** 2 + 1 / known)
        points, weights = scale * _SCALED.points, scale * _SCALED.weights
        spread = np.broadcast_to(unknown, points.shape)
        # both ends of a symmetric law, so that neither probability loses its digits
        yes, slope = label_average(self._labels, points, spread)
        no, _ = label_average(self._labels, -points, spread)
        law = np.exp(-(points**2) / (2 * known)) * np.sqrt(2 / (np.pi * known))
        with np.errstate(invalid="ignore", divide="ignore"):
            told = slope**2 / (yes * no)
        return (np.where(np.isfinite(told), told, 0.0) * law * weights).sum(axis=1)

    def _integrals(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of what a label tells and of the precision, over the overlap between two precisions."""
        logs, weights = gauss_rule(np.log(low), np.log(high / low), _PANEL_NODES)
        precision = np.exp(logs).ravel()
        unknown, squared = self._weights.unknown(precision)
        measure = squared * precision * weights.ravel()
        information = self._information(unknown)
        return tuple((f * measure).reshape(weights.shape).sum(axis=1) for f in (information, precision))

    def _free_entropy(self, samples: float, precision: float) -> float:
        """Twice the free entropy over its value where nothing is known."""
        if np.isinf(precision):
            return samples * self._told[-1] - self._kept[-1]
        if precision < _LEAST:
            # overlap and precision are alike there
            return samples * precision * self._information(np.ones(1))[0] - precision**2 / 2
        panel = min(int(np.searchsorted(self.precision, precision, "right")) - 1, len(self.precision) - 2)
        told, kept = self._integrals(self.precision[panel : panel + 1], np.array([precision]))
        return samples * (self._told[panel] + told[0]) - (self._kept[panel] + kept[0])

    def stable(self, samples: float) -> list[float]:
        """The precisions of the stable fixed points; infinite where nothing is left unknown."""
        below = self.samples < samples
        ends = np.flatnonzero(below[:-1] & ~below[1:])
        found = []
        if not below[0]:
            found.append(samples * float(self._information(np.ones(1))[0]))
        if ends.size:
            low, high = self.precision[ends], self.precision[ends + 1]
            found += increasing_root(lambda r: self.samples_at(r) - samples, low, high).tolist()
        return [*found, np.inf] if below[-1] else found

    def overlaps(self, samples: float) -> tuple[float, float]:
        """Of the best estimate, and of message passing."""
        found = self.stable(samples)
        best = max(found, key=lambda r: self._free_entropy(samples, r)) if len(found) > 1 else found[0]
        return self._overlap(best), self._overlap(found[0])

    def _overlap(self, precision: float) -> float:
        return 1.0 if np.isinf(precision) else float(1 - self._weights.unknown(np.array([precision]))[0][0])

    def hard_phase(self) -> HardPhase:
        rises = np.diff(self.samples) > 0
        turns = np.flatnonzero(rises[:-1] & ~rises[1:]) + 1
        if not turns.size:
            return HardPhase(np.nan, np.nan)
        easy = float(self.samples[turns[0]])

        def lead(samples: float) -> float:
            """Of the best of the later fixed points over the first."""
            first, *others = self.stable(samples)
            return max(self._free_entropy(samples, r) for r in others) - self._free_entropy(samples, first)

        low = max(self.samples[turns[0] :].min(), 1e-3 * easy)
        return HardPhase(scalar_root(lead, low * (1 + 1e-9), easy * (1 - 1e-9), 1e-12), easy)


@lru_cache(maxsize=16)
def _fixed_points(weight_law: WeightLaw, label_law: LabelLaw) -> _FixedPoints:
    return _FixedPoints(weight_law, label_law)

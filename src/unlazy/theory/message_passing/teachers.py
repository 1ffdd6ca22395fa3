"""Teachers of state evolution: the law of the label y given the teacher's field t."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array
from unlazy.numerics.quadrature import panels

# steps at which the trapezoidal rule is exact to rounding for the normal and for the logistic density
_NORMAL_STEP, _NORMAL_REACH = 0.6, 8.5
_LOGISTIC_STEP, _LOGISTIC_REACH = 0.6, 36.0
_WIDE = 3.0
_CALLABLE_NODES = 201
_SCALES = np.append(0.0, 2.0 ** np.arange(-40.0, 4.0))
_PANEL_NODES = 16


class LinearTeacher(NamedTuple):
    """y = t + noise, real labels, for the square loss only."""

    noise_variance: float = 0.0


class SignTeacher(NamedTuple):
    """y = sign(t), the other sign with a probability in [0, 1/2)."""

    flip_probability: float = 0.0


class ProbitTeacher(NamedTuple):
    """y = sign(t + noise) with normal noise: P(1|t) = Phi(t / sqrt(noise_variance))."""

    noise_variance: float = 1.0


class LogitTeacher(NamedTuple):
    """P(1|t) = 1 / (1 + exp(-logit_slope t))."""

    logit_slope: float = 1.0


Teacher = LinearTeacher | SignTeacher | ProbitTeacher | LogitTeacher | Callable[[np.ndarray], np.ndarray]


def check_flip_probability(value: ArrayLike) -> float:
    """A probability of flipped labels in [0, 1/2), or what is wrong with it."""
    return float(check_array("flip_probability", value, low=0, below=0.5, ndim=0))


def check_teacher(teacher: Teacher) -> Teacher:
    """The teacher, or what is wrong with it."""
    if isinstance(teacher, LinearTeacher | ProbitTeacher):
        check_array("noise_variance", teacher.noise_variance, low=0, ndim=0)
    elif isinstance(teacher, SignTeacher):
        check_flip_probability(teacher.flip_probability)
    elif isinstance(teacher, LogitTeacher):
        check_array("logit_slope", teacher.logit_slope, above=0, ndim=0)
    elif not callable(teacher) or isinstance(teacher, type):
        raise InputError(
            "label_law must be a LinearTeacher, SignTeacher, ProbitTeacher or LogitTeacher, or a function that gives "
            f"P(y = 1 | t), got {teacher!r}"
        )
    return teacher


def is_symmetric(teacher: Teacher) -> bool:
    """Whether P(-y|-t) = P(y|t)."""
    return isinstance(teacher, SignTeacher | ProbitTeacher | LogitTeacher)


def width(teacher: Teacher, variance: np.ndarray) -> np.ndarray:
    """The scale in the mean of t on which `label_average` rises."""
    if isinstance(teacher, ProbitTeacher):
        return np.sqrt(variance + teacher.noise_variance)
    if isinstance(teacher, LogitTeacher):
        return np.sqrt(variance + (1.7 / teacher.logit_slope) ** 2)
    return np.sqrt(variance)


def label_average(
    teacher: Teacher, mean: np.ndarray, variance: np.ndarray, refinement: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Z = E P(1|t) over t ~ N(mean, variance), and dZ/dmean."""
    if isinstance(teacher, SignTeacher | ProbitTeacher):
        flip = teacher.flip_probability if isinstance(teacher, SignTeacher) else 0.0
        share, density = _normal(mean, width(teacher, variance))
        return flip + (1 - 2 * flip) * share, (1 - 2 * flip) * density
    if isinstance(teacher, LogitTeacher):
        return _logit_average(teacher.logit_slope, mean, np.broadcast_to(np.sqrt(variance), mean.shape))
    assert callable(teacher)
    return _callable_average(teacher, mean, np.broadcast_to(np.sqrt(variance), mean.shape), refinement)


def teacher_error(
    label_law: LinearTeacher | SignTeacher | ProbitTeacher | LogitTeacher, overlap: float, norm: float
) -> float:
    """P(y z < 0), of real labels E (y - z)^2, for a score z of variance `norm` and a field t of variance 1.

    `overlap` is the covariance of z and t, which are normal. A score that is 0 is wrong half of the time.

    >>> print(f"{teacher_error(SignTeacher(flip_probability=0.1), overlap=0.8, norm=1.0):.4f}")
    0.2639
    """
    from scipy.special import expit, ndtr

    check_teacher(label_law)
    if not isinstance(label_law, LinearTeacher | SignTeacher | ProbitTeacher | LogitTeacher):
        raise InputError(
            f"label_law must be a LinearTeacher, SignTeacher, ProbitTeacher or LogitTeacher, got {label_law!r}"
        )
    norm = float(check_array("norm", norm, low=0, ndim=0))
    overlap = float(check_array("overlap", overlap, ndim=0))
    if abs(overlap) > np.sqrt(norm) * (1 + 1e-9):
        raise InputError(f"overlap must be at most sqrt(norm) = {np.sqrt(norm):g} in size, got {overlap:g}")
    cosine = float(np.clip(overlap / np.sqrt(norm), -1, 1)) if norm > 0 else 0.0
    if isinstance(label_law, LinearTeacher):
        return 1 + label_law.noise_variance - 2 * overlap + norm
    if isinstance(label_law, SignTeacher):
        return label_law.flip_probability + (1 - 2 * label_law.flip_probability) * np.arccos(cosine) / np.pi
    if isinstance(label_law, ProbitTeacher):
        return np.arccos(cosine / np.sqrt(1 + label_law.noise_variance)) / np.pi
    # the other half of the fields is a mirror image; panels of every scale, as both factors may be steep at 0
    fields, weights = panels(_SCALES, _PANEL_NODES)
    same = ndtr(cosine * fields / np.sqrt(max((1 - cosine) * (1 + cosine), 1e-300)))
    positive = expit(label_law.logit_slope * fields)
    density = np.exp(-(fields**2) / 2) * np.sqrt(2 / np.pi)
    return float((positive * (1 - same) + (1 - positive) * same) @ (weights * density))


def _normal(mean: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import ndtr

    scaled = mean / deviation
    return ndtr(scaled), np.exp(-(scaled**2) / 2) / (np.sqrt(2 * np.pi) * deviation)


def _logit_average(slope: float, mean: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E expit(slope t): over the normal law of t, or over logistic noise L by P(t + L/slope > 0) where t is spread."""
    from scipy.special import expit

    share, derivative = np.empty(mean.shape), np.empty(mean.shape)
    wide = slope * deviation > _WIDE
    if wide.any():
        noise = np.arange(-_LOGISTIC_REACH, _LOGISTIC_REACH + _LOGISTIC_STEP / 2, _LOGISTIC_STEP)
        weights = expit(noise) * expit(-noise) * _LOGISTIC_STEP
        rise = _normal(mean[wide][:, None] + noise / slope, deviation[wide][:, None])
        share[wide], derivative[wide] = (part @ weights for part in rise)
    narrow = ~wide
    if narrow.any():
        step = min(_NORMAL_STEP, 0.6 / max(float((slope * deviation[narrow]).max()), 1e-300))
        points, weights = _normal_grid(step)
        value = expit(slope * (mean[narrow][:, None] + deviation[narrow][:, None] * points))
        share[narrow] = value @ weights
        derivative[narrow] = slope * ((value * (1 - value)) @ weights)
    return share, derivative


def _callable_average(
    teacher: Callable[[np.ndarray], np.ndarray], mean: np.ndarray, deviation: np.ndarray, refinement: int
) -> tuple[np.ndarray, np.ndarray]:
    """The derivative by parts: dZ/dmean = E[z P] / deviation."""
    points, weights = _normal_grid(2 * _NORMAL_REACH / (_CALLABLE_NODES * refinement))
    fields = mean[..., None] + deviation[..., None] * points
    try:
        value = np.asarray(teacher(fields), dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(
            "label_law must be a function of an array of fields that returns one number for each, got the error: "
            f"{error}"
        ) from None
    if value.shape != (*mean.shape, points.size):
        raise InputError(
            f"label_law must return one number per field, got shape {value.shape} for {(*mean.shape, points.size)}"
        )
    wrong = ~((value >= 0) & (value <= 1))
    if wrong.any():
        raise InputError(f"label_law must return probabilities P(y = 1 | t) in [0, 1], got {value[wrong][0]:g}")
    centred = value - value[..., points.size // 2, None]
    return value @ weights, (centred @ (points * weights)) / deviation


def _normal_grid(step: float) -> tuple[np.ndarray, np.ndarray]:
    half = np.arange(1, np.ceil(_NORMAL_REACH / step) + 1) * step
    points = np.concatenate([-half[::-1], [0.0], half])
    weights = np.exp(-(points**2) / 2)
    return points, weights / weights.sum()

"""The normal prior that many small regressions share: its mean and covariance by expectation-maximisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unlazy.estimators.common.inputs import Pairs
from unlazy.estimators.in_context.steps import Prior, around, left_out, step
from unlazy.estimators.in_context.tasks import cut
from unlazy.estimators.metric.task_batches import TaskBatch, make_batches, start_state

_PENALTY_FACTORS = np.logspace(-3, 3, 25)
# steps without a gain of a thousandth after which the path ends
_PATIENCE, _GAIN = 4, 1e-3
_LEAST_NOISE = 1e-8
_GROWTH = 1.35
# where few tasks make steps cheap, a finer path is a little better
_FEWEST_SINGLE, _MOST_SINGLE, _SINGLE_TASKS = 4, 20, 800


class PriorPath(NamedTuple):
    """What held-out tasks say after 0, 1, ... steps: least leave-one-out error, its penalty, and the noise there."""

    errors: list[float]
    penalties: list[float]
    noises: list[float]
    schedule: list[float]
    """The noise variance of every step."""

    @property
    def best(self) -> int:
        return int(np.argmin(self.errors))


class LearnedPrior(NamedTuple):
    """The prior of a new task, whose covariance counts what is not known of the mean, and how it was found."""

    prior: Prior
    error: float
    """Mean squared leave-one-out error of held-out tasks."""
    steps: int
    effective_tasks: float
    """The sum over tasks of the share of prior variance that their rows determine."""


class _Start(NamedTuple):
    """The tasks of each fold, to learn from and held out, and where its steps start."""

    learned: list[list[TaskBatch]]
    held: list[list[TaskBatch]]
    priors: list[Prior]
    strides: np.ndarray
    """Of the steps."""


def learn_prior(
    pairs: Pairs,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    max_steps: int,
    means: Sequence[bool],
    context: int | None = None,
) -> LearnedPrior:
    """The prior by `step`, whose number, noise variance and use of a mean (`means`) held-out tasks choose.

    The error depends on C / s2 only, so the penalty with the least one fixes the ratio, and both are scaled so that
    the squared held-out residuals are as large as the prior expects.
    """
    short = [_compressed(pair) for pair in pairs]
    start = _Start(
        [make_batches([short[i] for i in inside], centre=False) for inside, _ in folds],
        [make_batches([piece for i in outside for piece in cut(pairs[i], context)], False) for _, outside in folds],
        [start_with_intercepts([pairs[i] for i in inside]) for inside, _ in folds],
        strides(max_steps, len(pairs)),
    )
    paths = [(held_out_path(start, mean), mean) for mean in means]
    path, with_mean = min(paths, key=lambda item: min(item[0].errors))
    batches = make_batches(short, centre=False)
    prior, count = start_with_intercepts(pairs), path.best
    for noise_variance, stride in zip(path.schedule[:count], start.strides, strict=False):
        prior, _ = step(batches, prior._replace(noise_variance=noise_variance), learn_mean=with_mean, stride=stride)
    penalty, noise = path.penalties[count], max(path.noises[count], _LEAST_NOISE)
    told = step(batches, prior._replace(noise_variance=penalty), learn_mean=with_mean and count > 0)[1]
    covariance = (prior.covariance + told.mean_covariance) * (noise / penalty)
    share = float(np.trace(told.variance_told) / np.trace(prior.covariance))
    return LearnedPrior(Prior(prior.mean, covariance, noise), path.errors[count], count, share * told.tasks)


def held_out_path(start: _Start, learn_mean: bool) -> PriorPath:
    """Leave-one-out errors of held-out tasks after 0, 1, 2, ... steps of growing stride, while they fall.

    The noise variance of the next step is that of the held-out residuals: steps of expectation-maximisation for it
    drive it far below the truth where a task has no more rows than coefficients.
    """
    priors = start.priors
    penalty = float(np.mean([prior.noise_variance for prior in priors]))
    path = PriorPath([], [], [], [])
    penalty = _look(path, start.held, priors, penalty)
    for stride in start.strides:
        path.schedule.append(penalty)
        priors = [
            step(batches, prior._replace(noise_variance=penalty), learn_mean=learn_mean, stride=stride)[0]
            for batches, prior in zip(start.learned, priors, strict=True)
        ]
        penalty = _look(path, start.held, priors, penalty)
        recent, before = path.errors[-_PATIENCE:], path.errors[:-_PATIENCE]
        if before and min(recent) > (1 - _GAIN) * min(before):
            break
    return path


def strides(max_steps: int, tasks: int) -> np.ndarray:
    """Single steps of expectation-maximisation first, where the path changes fastest, then longer and longer ones."""
    single = int(np.clip(_SINGLE_TASKS // tasks, _FEWEST_SINGLE, _MOST_SINGLE))
    return _GROWTH ** np.maximum(np.arange(max_steps) - single + 1.0, 0.0)


def start_with_intercepts(pairs: Pairs) -> Prior:
    """Ridge around intercepts of their own variance; the first column of the designs is the constant.

    Scale and noise are those of the centred tasks, and the variance of the intercepts is that of the tasks' means less
    what their rows' scatter adds. Levels that differ far more than slopes would else take many steps to be learned.
    """
    centred = make_batches([(design[:, 1:], target) for design, target in pairs], centre=True)
    width = pairs[0][0].shape[1]
    within = sum(float(np.sum(batch.targets**2)) for batch in centred)
    freedom = sum(float(batch.freedoms.sum()) for batch in centred)
    if width == 1 or freedom < 1 or not within > 0:
        return start_prior(make_batches(pairs, centre=False), width)
    state = start_state(centred)
    means = np.array([target.mean() for _, target in pairs])
    scatter = within / freedom * float(np.mean([1 / len(target) for _, target in pairs]))
    between = max(float(np.var(means)) - scatter, float(state.metric[0]))
    covariance = np.diag(np.append(between, state.metric))
    return Prior(np.zeros(width), covariance, max(state.noise_variance, _LEAST_NOISE))


def start_prior(batches: Sequence[TaskBatch], width: int) -> Prior:
    """Ridge: mean 0 and the multiple of the identity that explains all tasks best."""
    state = start_state(batches)
    return Prior(np.zeros(width), np.diag(state.metric), max(state.noise_variance, _LEAST_NOISE))


def _look(path: PriorPath, held: Sequence[list[TaskBatch]], priors: Sequence[Prior], penalty: float) -> float:
    """Record what the held-out tasks say, and return the noise variance for the next step."""
    penalties = penalty * _PENALTY_FACTORS
    errors, noises, rows = np.zeros(len(penalties)), np.zeros(len(penalties)), 0
    for batches, prior in zip(held, priors, strict=True):
        part = left_out(around(batches, prior.mean), prior.covariance, penalties)
        errors, noises, rows = errors + part.errors, noises + part.noise, rows + part.rows
    i = int(np.argmin(errors))
    path.errors.append(float(errors[i]) / rows)
    path.penalties.append(float(penalties[i]))
    path.noises.append(float(noises[i]) / rows)
    # at the end of the grid the errors only say that the penalty is small
    return max(path.noises[-1] if i else min(penalty, path.errors[-1]), _LEAST_NOISE)


def _compressed(pair: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """A task with as many rows as coefficients at most and the same X^T X and X^T y, which are all that a step sees."""
    design, target = pair
    n, width = design.shape
    if n <= width:
        return pair
    triangle = np.asarray(np.linalg.qr(np.column_stack([design, target]), mode="r"))[:width]
    return triangle[:, :width], triangle[:, width]

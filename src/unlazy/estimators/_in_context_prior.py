"""The normal prior that many small regressions share: its mean and covariance by expectation-maximisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unlazy.estimators._in_context_tasks import Pairs, cut
from unlazy.estimators.task_batches import Batch, LeftOut, left_out_errors, make_batches, start_state

_PENALTY_FACTORS = np.logspace(-3, 3, 25)
_PATIENCE = 4
_LEAST_NOISE = 1e-8


class Prior(NamedTuple):
    """Coefficients b ~ N(mean, covariance) of a task y = X b + noise."""

    mean: np.ndarray
    covariance: np.ndarray
    noise_variance: float


class Told(NamedTuple):
    """What the tasks' rows tell about the coefficients, for G_t = (X_t C X_t^T + s2 I)^-1."""

    mean_covariance: np.ndarray
    """Of the prior mean given all rows."""
    variance_told: np.ndarray
    """The mean over the tasks of C X^T G X C, by which a task's rows lower the covariance of its coefficients."""
    tasks: int


class PriorPath(NamedTuple):
    """What held-out tasks say after some of the steps: least leave-one-out error, its penalty, and the noise there."""

    steps: list[int]
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
    learned_mean: bool
    effective_tasks: float
    """The sum over tasks of the share of prior variance that their rows determine."""


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
    paths = [(held_out_path(pairs, folds, max_steps, mean, context), mean) for mean in means]
    path, with_mean = min(paths, key=lambda item: min(item[0].errors))
    batches = make_batches([_compressed(pair) for pair in pairs], centre=False)
    prior = start_with_intercepts(pairs)
    count = path.steps[path.best]
    for noise_variance in path.schedule[:count]:
        prior, _ = step(batches, prior._replace(noise_variance=noise_variance), learn_mean=with_mean)
    penalty, noise = path.penalties[path.best], max(path.noises[path.best], _LEAST_NOISE)
    told = step(batches, prior._replace(noise_variance=penalty), learn_mean=with_mean and count > 0)[1]
    covariance = (prior.covariance + told.mean_covariance) * (noise / penalty)
    share = float(np.trace(told.variance_told) / np.trace(prior.covariance))
    return LearnedPrior(
        Prior(prior.mean, covariance, noise), path.errors[path.best], count, with_mean and count > 0, share * told.tasks
    )


def start_prior(batches: Sequence[Batch], width: int) -> Prior:
    """Ridge: mean 0 and the multiple of the identity that explains all tasks best."""
    state = start_state(batches)
    return Prior(np.zeros(width), np.diag(state.metric), max(state.noise_variance, _LEAST_NOISE))


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


def evidence(batches: Sequence[Batch], prior: Prior) -> float:
    """Minus twice the log of the density of the tasks and of the mean, m ~ N(0, C), up to a constant.

    The mean's own law counts as one more task whose coefficients were seen: it keeps the steps well-posed where
    the tasks have fewer rows in all than there are coefficients.
    """
    total = 0.0
    for batch in batches:
        root, _, residual = _whiten(batch, prior)
        filling = batch.targets.size - batch.freedoms.sum()
        log_roots = np.log(np.diagonal(root, axis1=1, axis2=2)).sum()
        total += float(np.sum(residual**2) - 2 * log_roots - filling * np.log(prior.noise_variance))
    return total + float(
        np.linalg.slogdet(prior.covariance)[1] + prior.mean @ np.linalg.solve(prior.covariance, prior.mean)
    )


def step(batches: Sequence[Batch], prior: Prior, *, learn_mean: bool = True) -> tuple[Prior, Told]:
    """The next mean and covariance at the same noise variance; `evidence` does not rise.

    First the mean that is best given C, then a step of expectation-maximisation for C around it; d_t and V_t are mean
    and covariance of b_t - m given the rows of task t, and the tasks are k:

        (sum_t X^T G X + C^-1) m = sum_t X^T G y,     C <- (m m^T + sum_t (d_t d_t^T + V_t)) / (k + 1).

    Sources: Dempster, Laird & Rubin (1977); Laird & Ware (1982) for random coefficients; Meng & Rubin (1993).
    """
    covariance = prior.covariance
    width = len(covariance)
    solved = [_whiten(batch, prior)[1:] for batch in batches]
    information = sum((_gram(design) for design, _ in solved), np.zeros((width, width)))
    pulls = [np.einsum("tij,ti->tj", design, residual) for design, residual in solved]
    tasks = sum(map(len, pulls))
    # with C^-1 taken out of the equations they hold for a singular C too
    system = information @ covariance + np.eye(width)
    mean = prior.mean
    if learn_mean:
        total = sum((pull.sum(axis=0) for pull in pulls), np.zeros(width)) + information @ prior.mean
        mean = covariance @ np.linalg.solve(system, total)
    shift = mean - prior.mean
    told = covariance @ information @ covariance
    moment = tasks * covariance - told + np.outer(mean, mean)
    for (design, _), pull in zip(solved, pulls, strict=True):
        deviation = (pull - np.einsum("tij,ti->tj", design, design @ shift)) @ covariance
        moment += deviation.T @ deviation
    mean_covariance = covariance @ np.linalg.inv(system) if learn_mean else np.zeros_like(covariance)
    found = Prior(mean, _symmetric(moment) / (tasks + learn_mean), prior.noise_variance)
    return found, Told(_symmetric(mean_covariance), _symmetric(told) / tasks, tasks)


def held_out_path(
    pairs: Pairs,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    max_steps: int,
    learn_mean: bool,
    context: int | None = None,
) -> PriorPath:
    """Leave-one-out errors of held-out tasks after 0, 1, 2, 3, 4, 6, 8, 11, ... steps, while they fall.

    The noise variance of the next steps is that of the held-out residuals: steps of expectation-maximisation for it
    drive it far below the truth where a task has no more rows than coefficients.
    """
    learned = [make_batches([_compressed(pairs[i]) for i in inside], centre=False) for inside, _ in folds]
    held = [make_batches([piece for i in outside for piece in cut(pairs[i], context)], False) for _, outside in folds]
    priors = [start_with_intercepts([pairs[i] for i in inside]) for inside, _ in folds]
    penalty = float(np.mean([prior.noise_variance for prior in priors]))
    path = PriorPath([], [], [], [], [])
    for count in range(max_steps + 1):
        if count == _next_look(path.steps):
            penalty = _look(path, held, priors, penalty, count)
            if len(path.errors) - path.best > _PATIENCE:
                break
        path.schedule.append(penalty)
        priors = [
            step(batches, prior._replace(noise_variance=penalty), learn_mean=learn_mean)[0]
            for batches, prior in zip(learned, priors, strict=True)
        ]
    return path


def _next_look(steps: Sequence[int]) -> int:
    return max(steps[-1] + 1, int(1.35 * steps[-1])) if steps else 0


def _look(path: PriorPath, held: Sequence[list[Batch]], priors: Sequence[Prior], penalty: float, count: int) -> float:
    """Record what the held-out tasks say, and return the noise variance for the next steps."""
    penalties = penalty * _PENALTY_FACTORS
    parts = [
        part
        for batches, prior in zip(held, priors, strict=True)
        for part in _left_out(around(batches, prior.mean), prior.covariance, penalties)
    ]
    rows = sum(part.rows for part in parts)
    errors = np.sum([part.errors for part in parts], axis=0) / rows
    noises = np.sum([part.noise for part in parts], axis=0) / rows
    i = int(np.argmin(errors))
    path.steps.append(count)
    path.errors.append(float(errors[i]))
    path.penalties.append(float(penalties[i]))
    path.noises.append(float(noises[i]))
    # at the end of the grid the errors only say that the penalty is small
    return max(float(noises[i]) if i else min(penalty, path.errors[-1]), _LEAST_NOISE)


def around(batches: Sequence[Batch], mean: np.ndarray) -> list[Batch]:
    """The tasks with the prediction of the prior mean taken from their targets."""
    return [batch._replace(targets=batch.targets - batch.designs @ mean) for batch in batches]


def _left_out(batches: Sequence[Batch], covariance: np.ndarray, penalties: np.ndarray) -> list[LeftOut]:
    """`left_out_errors`, for tasks with more rows than coefficients through matrices of the size of C.

    With C = A A^T, F = X A and F^T F = V diag(s) V^T, c G = I - F V (diag(s) + c)^-1 V^T F^T.
    """
    width = len(covariance)
    short = [batch for batch in batches if batch.targets.shape[1] <= width]
    parts = [left_out_errors(short, covariance, penalties, centred=False)] if short else []
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    for batch in batches:
        if batch.targets.shape[1] <= width:
            continue
        features = batch.designs @ root
        spectrum, rotation = np.linalg.eigh(features.swapaxes(1, 2) @ features)
        features = features @ rotation
        projected = np.einsum("tij,ti->tj", features, batch.targets)
        real = np.arange(batch.targets.shape[1]) < batch.sizes[:, None]
        errors, noise = np.zeros(len(penalties)), np.zeros(len(penalties))
        for i, penalty in enumerate(penalties):
            inverse = 1 / (np.maximum(spectrum, 0.0) + penalty)
            diagonal = 1 - np.einsum("tij,tj->ti", features**2, inverse)
            diagonal = np.maximum(diagonal, np.finfo(np.float64).eps)[real]
            dual = batch.targets - np.einsum("tij,tj->ti", features, inverse * projected)
            residual = dual[real] / diagonal
            errors[i], noise[i] = np.sum(residual**2), np.sum(diagonal * residual**2)
        parts.append(LeftOut(errors, noise, int(real.sum())))
    return parts


def _whiten(batch: Batch, prior: Prior) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """R, R X and R (y - X m) of each task, R^T R = (X C X^T + s2 I)^-1."""
    kernel = batch.designs @ prior.covariance @ batch.designs.swapaxes(1, 2)
    kernel = (kernel + kernel.swapaxes(1, 2)) / 2 + prior.noise_variance * np.eye(kernel.shape[1])
    root = np.linalg.inv(np.linalg.cholesky(kernel))
    residual = batch.targets - batch.designs @ prior.mean
    return root, root @ batch.designs, np.einsum("tij,tj->ti", root, residual)


def _gram(designs: np.ndarray) -> np.ndarray:
    rows = designs.reshape(-1, designs.shape[2])
    return rows.T @ rows


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2


def _compressed(pair: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """A task with as many rows as coefficients at most and the same X^T X and X^T y, which are all that a step sees."""
    design, target = pair
    n, width = design.shape
    if n <= width:
        return pair
    triangle = np.asarray(np.linalg.qr(np.column_stack([design, target]), mode="r"))[:width]
    return triangle[:, :width], triangle[:, width]

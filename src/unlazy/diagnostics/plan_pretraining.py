"""How many tasks, context rows and prompts pretraining needs for a wanted error in context."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.errors import InputError, check_array
from unlazy.theory.linear_attention import finite_size_errors, gaussian_task_moments, task_moments
from unlazy.theory.ridge import ridge_equivalent

REACHABLE, UNREACHABLE = "reachable", "unreachable"
MORE_TASKS, LONGER_CONTEXTS, MORE_PROMPTS = "needs more tasks", "needs longer contexts", "needs more prompts"

_FEWEST_DIMENSIONS, _MOST_DIMENSIONS = 8, 200
_PATIENCE = 3
_LARGEST = 1e12
_UNLIMITED = 1e15
_LEAST_NOISE = 1e-9
_RIDGES = np.concatenate([[0.0], np.logspace(-6, 2, 25)])
_TASK_SETS = 2
# limits where the user gives none, in units of the dimension or its square
_MOST_TASKS, _MOST_CONTEXT, _MOST_PROMPTS = 100, 100, 1000


class PlanOption(NamedTuple):
    """One way to reach the wanted error."""

    tasks: int
    context: int
    prompts: int
    error: float
    ridge: float

    @property
    def rows(self) -> int:
        """Labelled rows of pretraining: a context and a query for each prompt."""
        return self.prompts * (self.context + 1)


@dataclass(frozen=True)
class PretrainingPlan:
    """What `plan_pretraining` found; errors are mean squared errors of new tasks, label noise included."""

    verdict: str
    """One of "reachable", "unreachable", "needs more tasks", "needs longer contexts" and "needs more prompts"."""
    reason: str
    target_error: float
    dimension: int
    noise_variance: float
    limits: tuple[int, int, int]
    """The most tasks, context rows and prompts."""
    bayes_error: float
    """Of the best predictor there is, at the longest context allowed."""
    floor: float
    """Of linear attention with the most tasks, the best context allowed, and unlimited prompts."""
    options: tuple[PlanOption, ...]
    """For each context length up to three beyond the best its fewest rows, shortest first; empty if none can."""
    fewer_tasks: tuple[PlanOption, ...]
    """At the context of `best`: fewer tasks for more prompts, fewest tasks first."""

    @property
    def reachable(self) -> bool:
        return self.verdict == REACHABLE

    @property
    def best(self) -> PlanOption | None:
        """The option with the fewest labelled rows."""
        return min(self.options, key=lambda option: (option.rows, option.tasks)) if self.options else None

    def __str__(self) -> str:
        head = f"error {self.target_error:.4g} in {self.dimension} dimensions, noise {self.noise_variance:.3g}: "
        best = self.best
        if best is None:
            return f"{head}{self.verdict}; {self.reason}"
        lines = [
            f"{head}{best.tasks} tasks, {best.context} context rows, {best.prompts} prompts (ridge {best.ridge:.2g}); "
            f"{self.reason}",
            *_table("other contexts, each with its fewest rows:", self.options, best),
            *_table("fewer tasks at that context:", self.fewer_tasks, best),
        ]
        return "\n".join(lines)


def plan_pretraining(
    dimension: int,
    noise_variance: float,
    target_error: float,
    *,
    max_tasks: int | None = None,
    max_context: int | None = None,
    max_prompts: int | None = None,
    task_covariance: ArrayLike | None = None,
    random_state: int = 0,
) -> PretrainingPlan:
    """The fewest rows with which pretrained linear attention reaches a wanted error on new tasks, or why it cannot.

    Tokens are N(0, I/d), labels y = x.w + noise with tasks w ~ N(0, C), C = I if not given, so that the labels have the
    signal variance tr C/d; `target_error` is E (y - prediction)^2 with the label noise. The errors are those of
    `finite_size_errors` at the best ridge, mean over two drawn sets of tasks; over a grid of contexts and tasks the
    fewest prompts are found for each. Default limits are 100 d tasks, 100 d context rows and 1000 d^2 prompts.

    The least error of any predictor at context l is the Bayes error (ridge regression on the context); with fewer
    tasks than dimensions linear attention stays above noise + 1 - k/d. Corrections are of order 1/d: simulations
    reach the target within about 5% at d = 20. Source: Lu, Letey, Zavatone-Veth, Maiti & Pehlevan (2024).
    """
    d = _whole("dimension", dimension, _FEWEST_DIMENSIONS, _MOST_DIMENSIONS)
    noise = float(check_array("noise_variance", noise_variance, low=0, high=_LARGEST, ndim=0))
    target = float(check_array("target_error", target_error, above=0, high=_LARGEST, ndim=0))
    covariance = _covariance(task_covariance, d)
    most_tasks = _whole("max_tasks", max_tasks, 1, _LARGEST, _MOST_TASKS * d)
    most_context = _whole("max_context", max_context, 1, _LARGEST, _MOST_CONTEXT * d)
    most_prompts = _whole("max_prompts", max_prompts, 1, _LARGEST, _MOST_PROMPTS * d * d)
    errors = _Errors(d, noise, covariance, np.random.default_rng(random_state))
    contexts = _grid(1, most_context)
    bayes = _bayes_error(covariance, noise, most_context)
    floors = np.array([errors.least(most_tasks, context) for context in contexts])
    floor = float(floors.min())
    options: list[PlanOption] = []
    fewer_tasks: list[PlanOption] = []
    verdict, reason = _verdict(target, noise, bayes, floor, errors, contexts, most_tasks, most_context)
    if verdict == REACHABLE:
        able = contexts[floors <= target].tolist()
        paths: list[list[PlanOption]] = []
        for context in able:
            if path := _task_options(target, errors, context, most_tasks, most_prompts):
                paths.append(path)
                options.append(_fewest(path))
            # beyond its best length a longer context only costs rows
            if options and len(options) - options.index(_fewest(options)) > _PATIENCE:
                break
        if not options:
            verdict, reason = MORE_PROMPTS, f"{most_prompts} prompts do not suffice, unlimited ones reach {floor:.4g}"
        else:
            best = options.index(_fewest(options))
            fewer_tasks = paths[best]
            reason = f"Bayes at that context {_bayes_error(covariance, noise, options[best].context):.4g}"
    limits = (most_tasks, most_context, most_prompts)
    return PretrainingPlan(verdict, reason, target, d, noise, limits, bayes, floor, tuple(options), tuple(fewer_tasks))


class _Errors:
    """Errors of linear attention with the best ridge, for drawn sets of tasks that are prefixes of one another."""

    def __init__(self, d: int, noise: float, covariance: np.ndarray, rng: np.random.Generator) -> None:
        self.d, self.covariance = d, covariance
        # one task without noise makes the moments singular
        self.noise = max(noise, _LEAST_NOISE * float(np.trace(covariance)) / d)
        values, vectors = np.linalg.eigh(covariance)
        self._root = vectors * np.sqrt(np.maximum(values, 0.0))
        self._drawn = [rng.standard_normal((_MOST_TASKS * d, d)) @ self._root.T for _ in range(_TASK_SETS)]

    def of(self, tasks: float, context: float, prompts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Errors and best ridges for numbers of prompts; above 100 d tasks as for infinitely many."""
        test = gaussian_task_moments(self.covariance, context, self.noise)
        total = np.zeros((len(prompts), len(_RIDGES)))
        many = tasks > _MOST_TASKS * self.d
        sets = [test] if many else [task_moments(part[: int(tasks)], context, self.noise) for part in self._drawn]
        for moments in sets:
            total += finite_size_errors(moments, prompts[:, None], _RIDGES, test=test).error / len(sets)
        best = np.argmin(total, axis=1)
        return total[np.arange(len(prompts)), best], _RIDGES[best]

    def least(self, tasks: float, context: float) -> float:
        """With unlimited prompts."""
        return float(self.of(tasks, context, np.array([_UNLIMITED]))[0][0])


def _task_options(target: float, errors: _Errors, context: int, most_tasks: int, most_prompts: int) -> list[PlanOption]:
    """For numbers of tasks the fewest prompts; as far as more tasks save prompts."""
    found: list[PlanOption] = []
    for tasks in _grid(1, most_tasks).tolist():
        if found and tasks >= found[-1].prompts:
            break
        option = _fewest_prompts(target, errors, tasks, context, most_prompts)
        if option and (not found or option.prompts < found[-1].prompts):
            found.append(option)
    return found


def _fewest_prompts(target: float, errors: _Errors, tasks: int, context: int, most: int) -> PlanOption | None:
    """The least n >= tasks with an error at most `target`, within a thousandth: the error falls with n."""
    if tasks > most or errors.least(tasks, context) > target:
        return None
    low, high = tasks, most
    prompts = np.unique(np.round(np.geomspace(low, high, 13)).astype(np.int64))
    while True:
        values, ridges = errors.of(tasks, context, prompts.astype(np.float64))
        reached = np.flatnonzero(values <= target)
        if not len(reached):
            return None
        i = int(reached[0])
        if i == 0 or prompts[i] - prompts[i - 1] <= max(1, prompts[i] // 1000):
            return PlanOption(tasks, context, int(prompts[i]), float(values[i]), float(ridges[i]))
        prompts = np.unique(np.round(np.geomspace(prompts[i - 1], prompts[i], 13)).astype(np.int64))


def _verdict(
    target: float,
    noise: float,
    bayes: float,
    floor: float,
    errors: _Errors,
    contexts: np.ndarray,
    most_tasks: int,
    most_context: int,
) -> tuple[str, str]:
    if target <= noise:
        return UNREACHABLE, f"no predictor errs by less than the label noise {noise:.4g}"
    if target <= bayes:
        return UNREACHABLE, f"with {most_context} context rows even the Bayes predictor errs by {bayes:.4g}"
    if floor <= target:
        return REACHABLE, ""
    unlimited = min(errors.least(np.inf, context) for context in contexts)
    if unlimited <= target:
        return MORE_TASKS, (
            f"{most_tasks} tasks reach {floor:.4g} with unlimited prompts, unlimited tasks {unlimited:.4g}"
        )
    return LONGER_CONTEXTS, (
        f"linear attention reaches {unlimited:.4g} with {most_context} context rows and unlimited tasks and prompts, "
        f"the Bayes predictor {bayes:.4g}"
    )


def _table(title: str, options: tuple[PlanOption, ...], best: PlanOption) -> list[str]:
    lines = [title, f"{'context':>8} {'tasks':>8} {'prompts':>9} {'rows':>11} {'error':>8} {'ridge':>8}"]
    for option in options:
        lines.append(
            f"{option.context:>8} {option.tasks:>8} {option.prompts:>9} {option.rows:>11} {option.error:>8.4f} "
            f"{option.ridge:>8.2g}" + ("  <- fewest rows" if option == best else "")
        )
    return lines


def _fewest(options: list[PlanOption]) -> PlanOption:
    return min(options, key=lambda option: (option.rows, option.tasks))


def _bayes_error(covariance: np.ndarray, noise: float, context: float) -> float:
    """Ridge regression with the prior C is ridge regression with penalty rho on inputs of covariance C/d."""
    spectrum = np.maximum(np.linalg.eigvalsh(covariance), 0.0) / len(covariance)
    spectrum = spectrum[spectrum > 0]
    return noise + float(ridge_equivalent(spectrum, 1.0, context, noise / context, noise).risk)


def _grid(low: int, high: int) -> np.ndarray:
    """Whole numbers, each about four tenths above the last."""
    count = max(2, int(np.ceil(np.log(high / low) / np.log(1.4))) + 1) if high > low else 1
    return np.unique(np.round(np.geomspace(low, high, count)).astype(np.int64))


def _covariance(value: ArrayLike | None, d: int) -> np.ndarray:
    if value is None:
        return np.eye(d)
    matrix = check_array("task_covariance", value, ndim=2, low=-_LARGEST, high=_LARGEST)
    if matrix.shape != (d, d) or not np.allclose(matrix, matrix.T, rtol=1e-8, atol=1e-12 * np.abs(matrix).max()):
        raise InputError(f"task_covariance must be a symmetric ({d}, {d}) matrix, got shape {matrix.shape}")
    values = np.linalg.eigvalsh(matrix)
    if values[0] < -1e-8 * values[-1] or values[-1] <= 0:
        raise InputError(
            f"task_covariance must be positive semidefinite and not zero, got the eigenvalue {values[0]:g}"
        )
    return (matrix + matrix.T) / 2


def _whole(name: str, value: float | None, low: int, high: float, default: int | None = None) -> int:
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= value <= high:
        raise InputError(f"{name} must be an integer >= {low} and <= {high:g}, got {value!r}")
    return int(value)

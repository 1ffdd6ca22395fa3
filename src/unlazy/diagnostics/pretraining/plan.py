"""How many tasks, context rows and prompts pretraining needs for a wanted error in context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.diagnostics.pages import table
from unlazy.diagnostics.pretraining.errors import MOST_TASKS, AttentionErrors
from unlazy.theory.regression.ridge import ridge_equivalent

REACHABLE, UNREACHABLE = "reachable", "unreachable"
MORE_TASKS, LONGER_CONTEXTS, MORE_PROMPTS = "needs more tasks", "needs longer contexts", "needs more prompts"

_FEWEST_DIMENSIONS, _MOST_DIMENSIONS = 8, 200
_PATIENCE = 3
_LARGEST = 1e12
# limits where the user gives none, in units of the dimension or its square
_MOST_CONTEXT, _MOST_PROMPTS = 100, 1000


class PlanOption(NamedTuple):
    """One way to reach the wanted error."""

    tasks: int
    context: int
    prompts: int
    new_task_error: float
    ridge_times_dimension: float

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
    d: int
    target_error: float
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
        return _fewest(self.options) if self.options else None

    def __str__(self) -> str:
        head = f"error {self.target_error:.4g} in {self.d} dimensions, noise {self.noise_variance:.3g}: "
        best = self.best
        if best is None:
            return f"{head}{self.verdict}; {self.reason}"
        lines = [
            f"{head}{best.tasks} tasks, {best.context} context rows, {best.prompts} prompts (ridge times d "
            f"{best.ridge_times_dimension:.2g}); "
            f"{self.reason}",
            *_table("other contexts, each with its fewest rows:", self.options, best),
            *_table("fewer tasks at that context:", self.fewer_tasks, best),
        ]
        return "\n".join(lines)


def plan_pretraining(
    d: int,
    target_error: float,
    noise_variance: float,
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
    `theory.in_context.finite_size_errors` at the best ridge, for two drawn sets of tasks; over a grid of contexts
    and tasks the fewest prompts are found for each. Default limits are 100 d tasks, 100 d context rows and 1000 d^2
    prompts.

    The least error of any predictor at context l is the Bayes error (ridge regression on the context); with fewer
    tasks than dimensions linear attention stays above noise + 1 - k/d. Corrections are of order 1/d: simulations
    reach the target within about 5% at d = 20. Source: Lu, Letey, Zavatone-Veth, Maiti & Pehlevan (2024).
    """
    d = check_whole("d", d, _FEWEST_DIMENSIONS, _MOST_DIMENSIONS)
    noise = float(check_array("noise_variance", noise_variance, low=0, high=_LARGEST, ndim=0))
    target = float(check_array("target_error", target_error, above=0, high=_LARGEST, ndim=0))
    covariance = _covariance(task_covariance, d)
    most_tasks = MOST_TASKS * d if max_tasks is None else check_whole("max_tasks", max_tasks, 1, _LARGEST)
    most_context = _MOST_CONTEXT * d if max_context is None else check_whole("max_context", max_context, 1, _LARGEST)
    most_prompts = (
        _MOST_PROMPTS * d * d if max_prompts is None else check_whole("max_prompts", max_prompts, 1, _LARGEST)
    )
    seed = check_whole("random_state", random_state, 0, _LARGEST)
    errors = AttentionErrors(d, noise, covariance, np.random.default_rng(seed))
    contexts = _grid(1, most_context)
    bayes = _bayes_error(covariance, noise, most_context)
    floors = np.array([errors.at(most_tasks, context).least for context in contexts])
    floor = float(floors.min())
    options: list[PlanOption] = []
    fewer_tasks: list[PlanOption] = []
    verdict, reason = _verdict(target, noise, bayes, floor, errors, contexts, most_tasks, most_context)
    if verdict == REACHABLE:
        search = _Search(target, errors, most_prompts)
        for context in contexts[floors <= target].tolist():
            if option := _fewest_rows(search, context, most_tasks):
                options.append(option)
            # beyond its best length a longer context only costs rows
            if options and len(options) - options.index(_fewest(options)) > _PATIENCE:
                break
        if not options:
            verdict, reason = MORE_PROMPTS, f"{most_prompts} prompts do not suffice, unlimited ones reach {floor:.4g}"
        else:
            best = _fewest(options)
            fewer_tasks = _fewer_tasks(search, best, most_tasks)
            reason = f"Bayes at that context {_bayes_error(covariance, noise, best.context):.4g}"
    limits = (most_tasks, most_context, most_prompts)
    return PretrainingPlan(verdict, reason, d, target, noise, limits, bayes, floor, tuple(options), tuple(fewer_tasks))


class _Search(NamedTuple):
    target: float
    errors: AttentionErrors
    most_prompts: int

    def needed_prompts(self, tasks: int, context: int) -> float:
        """The least n with an error at most the target, at the best ridge >= 0; inf if there is none.

        At each xi the error is explicit in n, and falls; the ridge is not negative from n = d used on.
        """
        curve = self.errors.at(tasks, context)
        spare = self.target - curve.missed
        able = spare > 0
        needed = np.maximum(curve.price[able] / spare[able] + curve.twice[able], curve.used[able])
        return float(self.errors.d * needed.min(initial=np.inf))

    def fewest_prompts(self, tasks: int, context: int) -> PlanOption | None:
        """As many prompts as needed, and one for every task at least, with the ridge that is best then."""
        needed = max(self.needed_prompts(tasks, context), tasks)
        if needed > self.most_prompts:
            return None
        n = int(np.ceil(needed))
        curve, share = self.errors.at(tasks, context), self.errors.d / n
        allowed = share * curve.used <= 1
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(allowed, curve.missed + share * curve.price / (1 - share * curve.twice), np.inf)
        i = int(np.argmin(found))
        ridge = float(curve.effective_ridge[i] * (1 - share * curve.used[i])) if i else 0.0
        return PlanOption(tasks, context, n, float(found[i]), ridge)


def _fewest_rows(search: _Search, context: int, most_tasks: int) -> PlanOption | None:
    """Over the numbers of tasks: more of them save prompts, but there are at least as many prompts as tasks."""
    enough = search.needed_prompts(most_tasks, context)
    grid = _grid(1, most_tasks)
    grid = grid[: np.searchsorted(grid, enough) + 1]
    best = None
    for tasks in grid[grid <= search.most_prompts][::-1].tolist():
        option = search.fewest_prompts(tasks, context)
        if option is None or (best and option.prompts > best.prompts):
            break
        best = option
    return best


def _fewer_tasks(search: _Search, best: PlanOption, most_tasks: int) -> list[PlanOption]:
    """From the fewest tasks that can on to `best`, as far as more of them save prompts."""
    found: list[PlanOption] = []
    for tasks in _grid(1, most_tasks).tolist():
        option = search.fewest_prompts(tasks, best.context) if tasks < best.tasks else best
        if option and (not found or option.prompts < found[-1].prompts):
            found.append(option)
        if option == best:
            break
    return found


def _verdict(
    target: float,
    noise: float,
    bayes: float,
    floor: float,
    errors: AttentionErrors,
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
    unlimited = min(errors.at(np.inf, context).least for context in contexts)
    if unlimited <= target:
        return MORE_TASKS, (
            f"{most_tasks} tasks reach {floor:.4g} with unlimited prompts, unlimited tasks {unlimited:.4g}"
        )
    return LONGER_CONTEXTS, (
        f"linear attention reaches {unlimited:.4g} with {most_context} context rows and unlimited tasks and prompts, "
        f"the Bayes predictor {bayes:.4g}"
    )


def _table(title: str, options: tuple[PlanOption, ...], best: PlanOption) -> list[str]:
    rows: list[tuple[str, ...]] = [("context", "tasks", "prompts", "rows", "error", "ridge times d", "")]
    for option in options:
        counts = (option.context, option.tasks, option.prompts, option.rows)
        remark = " <- fewest rows" if option == best else ""
        rows.append((*map(str, counts), f"{option.new_task_error:.4f}", f"{option.ridge_times_dimension:.2g}", remark))
    return [title, *table(rows, (8, 8, 9, 11, 8, 8), gap=" ", indent="")]


def _fewest(options: Sequence[PlanOption]) -> PlanOption:
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

"""The search for the directions of a sum of links: greedy, joint, with exchanges and restarts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from unlazy.estimators.common.folds import some_rows
from unlazy.estimators.index.additive.links import (
    SMOOTH,
    SumOfLinks,
    TermSmoother,
    choose_kinds,
    fit_terms,
    limited_terms,
)
from unlazy.estimators.index.candidates import candidates, compressed, ridge_fit
from unlazy.estimators.index.certainty import effective_rows, is_certain_compressed
from unlazy.estimators.index.links import spline_fit
from unlazy.estimators.index.near import Near
from unlazy.estimators.index.newton import Refined, most_rows, refine
from unlazy.estimators.index.search import FEW_COLUMNS, MOST_COORDINATES, Effort, searched_rows, span_search

# Gauss-Newton steps for a new term alone, for all after it, for all in the end, and on y with the chosen links
_TERM_STEPS, _ADD_STEPS, _JOINT_STEPS, _POLISH_STEPS = 12, 6, 25, 15
# starts of a new term from which all are refined
_STARTS = 2
# how often the links may change while the directions are refined with them
_POLISH_ROUNDS = 3
# polynomials that stand against every spline
_SIMPLE = ("p2", "p3", "p4")


class Plan(NamedTuple):
    """How widely directions are searched."""

    restarts: tuple[Effort, ...]
    exchanges: int
    """Passes in which each term in turn is taken out and searched anew."""


FULL = Plan((Effort(1, 24, 12, 3), Effort(2, 64, 16, 4), Effort(1, 64, 16, 4), Effort(3, 64, 16, 4)), 2)
NARROW = Plan((Effort(1, 16, 6, 2),), 1)
QUICK = Effort(1, 8, 4, 1)
"""For folds, where many searches are made and none has to be certain."""


class AdditiveModel(NamedTuple):
    """y ~ mean + sum_m g_m(z.w_m)."""

    directions: np.ndarray
    function: SumOfLinks
    intercept: float
    kinds: tuple[str, ...]
    near: Near
    """What the whole is kept to."""

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        indices = rows @ self.directions
        return self.near.kept(self.intercept + self.function(indices), indices)


def search(rows: np.ndarray, labels: np.ndarray, count: int, random: np.random.RandomState) -> tuple[Refined, bool]:
    """The joint fit of least GCV of all restarts, and whether it is certain; none follows a certain one.

    Many rows are searched in a part that is still many times the number of parameters.
    """
    d = rows.shape[1]
    rows, labels = searched_rows(rows, labels, count, random)
    plan = NARROW if d <= FEW_COLUMNS else FULL
    best: Refined | None = None
    # where noise could be fitted almost as well nothing is ever certain, and restarts would only fit it better
    hopeless = d * count > MOST_COORDINATES * effective_rows(compressed(labels))
    for effort in plan.restarts[: 1 if hopeless else None]:
        *_, found = greedy(rows, labels, count, random, effort)
        found = refine(rows, labels, found.directions, TermSmoother((SMOOTH,) * count), _JOINT_STEPS)
        for _ in range(plan.exchanges if count > 1 else 0):
            if is_certain_compressed(found.fit, labels, d * count):
                break
            before = found.objective
            found = exchange(rows, labels, found, random, effort)
            if found.objective >= before:
                break
        best = found if best is None or found.objective < best.objective else best
        if is_certain_compressed(best.fit, labels, d * count):
            return best, True
    assert best is not None
    return best, False


def greedy(
    rows: np.ndarray, labels: np.ndarray, count: int, random: np.random.RandomState, effort: Effort
) -> Iterator[Refined]:
    """Term after term on what the others leave, all directions refined together after each; a joint fit for each M."""
    directions = np.zeros((rows.shape[1], 0))
    residual = labels
    for m in range(1, count + 1):
        starts = term_starts(rows, residual, random, effort)
        tries = [
            refine(rows, labels, np.column_stack([directions, start]), TermSmoother((SMOOTH,) * m), _ADD_STEPS)
            for start in starts[: 1 if m == 1 else _STARTS]
        ]
        found = min(tries, key=lambda one: one.objective)
        directions = found.directions
        residual = labels - found.fit.values
        yield found


def exchange(
    rows: np.ndarray, labels: np.ndarray, found: Refined, random: np.random.RandomState, effort: Effort
) -> Refined:
    """Every term in turn is searched anew on what the others leave; kept if the joint fit is better for it."""
    count = found.directions.shape[1]
    smooth = (SMOOTH,) * count
    for m in range(count):
        others = np.delete(found.directions, m, axis=1)
        rest = fit_terms(rows @ others, labels, smooth[1:], np.zeros((len(rows), count - 1)), 3)
        for start in term_starts(rows, labels - rest.values, random, effort)[:_STARTS]:
            trial = refine(rows, labels, np.column_stack([others, start]), TermSmoother(smooth), _JOINT_STEPS)
            if trial.objective < found.objective:
                found = trial
                break
        if is_certain_compressed(found.fit, labels, found.directions.size):
            break
    return found


def term_starts(
    rows: np.ndarray, residual: np.ndarray, random: np.random.RandomState, effort: Effort
) -> list[np.ndarray]:
    """Directions of one index in the residual, best first."""
    tamed = compressed(residual)
    started = candidates(
        rows, residual / max(float(residual.std()), 1e-300), ridge_fit(rows, residual).coefficients, effort.per_moment
    )
    inside = span_search(rows, tamed, started, random, effort)
    full = [refine(rows, tamed, one.directions, spline_fit, _TERM_STEPS) for one in inside[: effort.full_starts]]
    return [one.directions for one in sorted(full, key=lambda one: one.objective)]


def polish(
    rows: np.ndarray, labels: np.ndarray, directions: np.ndarray, random: np.random.RandomState
) -> AdditiveModel:
    """Directions refined on y with the links of least BIC; the links of all rows at last.

    Directions that were found with splines prefer them, and a spline's ends are known badly: so each spline has to
    stand against polynomials after a refinement with them.
    """
    d, count = directions.shape
    x, y = some_rows(rows, labels, most_rows(d, count), random)
    fit = TermSmoother((SMOOTH,) * count)(x @ directions, y)
    wanted = choose_kinds(x @ directions, y, fit, d)
    for _ in range(_POLISH_ROUNDS):
        used = wanted
        found = refine(x, y, directions, TermSmoother(wanted), _POLISH_STEPS)
        directions, fit = found.directions, found.fit
        wanted = choose_kinds(x @ directions, y, fit, d)
        if wanted == used:
            break
    wanted, best = used, fit.information(y, d * count)
    for m in range(count):
        if wanted[m][0] == "p":
            continue
        for simple in dict.fromkeys((choose_kinds(x @ directions, y, fit, d, {m: "p"})[m], *_SIMPLE)):
            trial_kinds = (*wanted[:m], simple, *wanted[m + 1 :])
            trial = refine(x, y, directions, TermSmoother(trial_kinds), _POLISH_STEPS)
            score = trial.fit.information(y, d * count)
            if score < best:
                best, wanted, directions, fit = score, trial_kinds, trial.directions, trial.fit
    return model_along(rows, labels, directions, wanted)


def model_along(
    rows: np.ndarray, labels: np.ndarray, directions: np.ndarray, wanted: tuple[str, ...] | None = None
) -> AdditiveModel:
    """Links of these kinds, or those of least BIC, along directions that stay."""
    indices = rows @ directions
    if wanted is None:
        wanted = choose_kinds(
            indices, labels, TermSmoother((SMOOTH,) * directions.shape[1])(indices, labels), len(directions)
        )
    fit = TermSmoother(wanted)(indices, labels)
    function = limited_terms(indices, labels, fit, wanted)
    return AdditiveModel(directions, function, float(labels.mean()), wanted, Near(indices, labels))

"""The search for the direction of one index: candidates, their span, and Gauss-Newton steps in the whole space."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from unlazy.estimators.common.folds import some_rows
from unlazy.estimators.index.candidates import Candidates, RidgeFit, candidates, compressed, ridge_fit
from unlazy.estimators.index.certainty import has_few_values, is_certain
from unlazy.estimators.index.links import choose_kind, continues, fit_kind, kind_scores, kinds, spline_fit
from unlazy.estimators.index.newton import Refined, refine, unit
from unlazy.functions.orthogonal import Hermite

FEW_COLUMNS = 15
"""The first candidates span them all, and wider rounds add nothing."""
MOST_COORDINATES = 0.5
"""Share of the rows: with more coordinates of several directions nothing is ever certain."""
# Gauss-Newton steps in the span of the candidates, in the whole space, on y itself, and on all rows after a part
_SPAN_STEPS, _FULL_STEPS, _POLISH_STEPS, _WHOLE_STEPS = 6, 12, 8, 4
# a step of this length ends a search in the span, whose minima are only starts
_SPAN_SETTLED = 1e-2
# cosine above which two minima are one
_ALIKE = 0.95
# of the variance of y, left by ridge regression: then the span holds the direction, and wider rounds add nothing
_LINEAR_SHOWS = 0.85
# rows that are searched, at least, per column of one direction, and per coordinate of several
_MOST_ROWS, _MOST_ROWS_PER_COLUMN, _MOST_ROWS_PER_COORDINATE = 3000, 12, 8
# links of least score that are refined, beside the best spline and, up to so many products, the simple polynomials
_RIVALS = 2
_SIMPLE, _MOST_WORK = ("p2", "p3", "p4", "p5"), 5e8
# polynomials that must be better than a spline by this evidence, in units of BIC
_STEEP, _EVIDENCE = ("p5", "p6", "p7", "p8"), 10.0
# the power search: degrees, starts and the products that they may cost, steps, and directions that each degree keeps
_POWERS = (3, 4)
_POWER_STARTS, _FEWEST_POWER_STARTS, _MOST_PRODUCTS = 600, 8, 6e7
_POWER_STEPS, _POWER_KEPT = 10, 3
# standardised labels and indices count at most so much in it
_POWER_CLIP, _INDEX_CLIP = 2.0, 4.0
# rows per column that links of every exponent need
HARD_ROWS_PER_COLUMN = 15


class Effort(NamedTuple):
    """How widely one round searches."""

    per_moment: int
    """Eigenvectors of each moment and side among the candidates."""
    random_starts: int
    span_starts: int
    """Local searches in the span."""
    full_starts: int
    """Of their minima, those from which the whole space is searched."""


ROUNDS = (
    Effort(1, 24, 12, 3),
    Effort(2, 64, 24, 8),
    Effort(3, 64, 24, 8),
    Effort(1, 96, 48, 12),
    Effort(2, 96, 48, 12),
)

QUICK = (Effort(1, 12, 6, 2),)
"""For folds, where many searches are made and none has to be certain."""


class FoundDirection(NamedTuple):
    """Directions of one index, unit vectors of whitened rows, from the coarsest to the finest."""

    linear: RidgeFit
    span: np.ndarray
    """The best direction in the span of the candidates of the first round."""
    full: Refined
    """The best of the whole space, for compressed labels."""
    certain: bool
    """`full` fits far better than anything fits noise."""


def find(
    rows: np.ndarray, labels: np.ndarray, random: np.random.RandomState, rounds: tuple[Effort, ...] = ROUNDS
) -> FoundDirection:
    """Search in rounds of growing effort for a direction of whitened rows until the fit is `certain`.

    Many rows are searched in a part that is still many times d, and the result is refined on all.
    """
    linear = ridge_fit(rows, labels)
    most = max(_MOST_ROWS, _MOST_ROWS_PER_COLUMN * rows.shape[1])
    if len(rows) > most:
        part = random.permutation(len(rows))[:most]
        found = _find(rows[part], labels[part], linear, random, rounds)
        full = refine(rows, compressed(labels), found.full.directions, spline_fit, _WHOLE_STEPS)
        found = found._replace(full=full, certain=is_certain(full.fit, compressed(labels), rows.shape[1]))
    else:
        found = _find(rows, labels, linear, random, rounds)
    return found._replace(certain=found.certain and not has_few_values(labels))


def _find(
    rows: np.ndarray, labels: np.ndarray, linear: RidgeFit, random: np.random.RandomState, rounds: tuple[Effort, ...]
) -> FoundDirection:
    tamed = compressed(labels)
    span, best = None, None
    for effort in rounds:
        started = candidates(rows, labels, linear.coefficients, effort.per_moment)
        inside = span_search(rows, tamed, started, random, effort)
        span = inside[0].directions if span is None else span
        for one in inside[: effort.full_starts]:
            full = refine(rows, tamed, one.directions, spline_fit, _FULL_STEPS)
            best = full if best is None or full.objective < best.objective else best
            if is_certain(best.fit, tamed, rows.shape[1]):
                return FoundDirection(linear, span, best, True)
        if linear.left_out_error < _LINEAR_SHOWS * float(np.var(labels)):
            break
    assert span is not None
    assert best is not None
    return FoundDirection(linear, span, best, False)


def searched_rows(
    rows: np.ndarray, labels: np.ndarray, count: int, random: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """The rows on which several directions are searched: a part that is still many times their coordinates."""
    return some_rows(rows, labels, max(_MOST_ROWS, _MOST_ROWS_PER_COORDINATE * rows.shape[1] * count), random)


def span_search(
    rows: np.ndarray,
    labels: np.ndarray,
    found: Candidates,
    random: np.random.RandomState,
    effort: Effort = ROUNDS[0],
) -> list[Refined]:
    """Local minima of the GCV of a spline inside the span of the candidates, best first, no two alike.

    Single candidates overlap with the index less than their span does: at n = 4 d and the link He3 0.7 against 0.85.
    """
    inside = rows @ found.span
    drawn = random.standard_normal((found.span.shape[1], effort.random_starts))
    directions = np.column_stack([found.span.T @ found.directions, drawn])
    directions /= np.linalg.norm(directions, axis=0)
    scores = [spline_fit(index, labels).gcv() for index in (inside @ directions).T]
    best = [
        refine(inside, labels, directions[:, i], spline_fit, _SPAN_STEPS, settled=_SPAN_SETTLED)
        for i in np.argsort(scores)[: effort.span_starts]
    ]
    kept: list[Refined] = []
    for one in sorted(best, key=lambda one: one.objective):
        if all(abs(one.directions @ other.directions) < _ALIKE for other in kept):
            kept.append(one)
    return [one._replace(directions=unit(found.span @ one.directions)) for one in kept]


def polish(rows: np.ndarray, labels: np.ndarray, direction: np.ndarray) -> tuple[Refined, str]:
    """Gauss-Newton on the labels themselves, with the link of least score; returns the kind of link too.

    A direction fits itself to the link with which it was refined, so in the end the best few links and the simplest
    polynomials compete after a refinement each. A polynomial of degree 5 and more, which goes astray beyond the rows if
    it is not the truth, must be better than a spline by 10, which is very strong evidence (Kass and Raftery 1995), and
    predict the outer rows from the others.
    """
    d = rows.shape[1]
    index = rows @ direction
    allowed = kinds(labels.size, np.unique(index).size)
    first = choose_kind(index, labels, allowed, d)
    start = refine(rows, labels, direction, partial(fit_kind, kind=first), _POLISH_STEPS)
    scores = kind_scores(rows @ start.directions, labels, allowed, d)
    splines = [kind for kind in scores if kind[0] == "s"][:1]
    rivals = {first, *list(scores)[:_RIVALS], *splines}
    if rows.size * d <= _MOST_WORK:
        rivals |= {kind for kind in _SIMPLE if kind in scores}
    found = {}
    for kind in sorted(rivals):
        result = refine(rows, labels, start.directions, partial(fit_kind, kind=kind), _POLISH_STEPS)
        score = kind_scores(rows @ result.directions, labels, (kind,), d)[kind]
        found[kind] = score, result
    handicap = {kind: _EVIDENCE if kind in _STEEP and splines else 0.0 for kind in found}
    ordered = sorted(found, key=lambda kind: found[kind][0] + handicap[kind])
    proven = (kind for kind in ordered if continues(rows @ found[kind][1].directions, labels, kind))
    best = next(proven, ordered[0])
    return found[best][1], best


def power_search(rows: np.ndarray, labels: np.ndarray, random: np.random.RandomState) -> list[np.ndarray]:
    """Directions from w <- sum_i +-clip(y_i, +-2) h_{k-1}(w.z_i) z_i, k = 3, 4, from many random starts, best first.

    It maximises |E[y h_k(w.z)]| and finds links whose generative exponent is 3 or 4, of which no first or second moment
    knows, at small d; the number of rows that any method needs grows like d^(k/2), that of this one faster.
    """
    n, d = rows.shape
    starts = int(min(_POWER_STARTS, max(_MOST_PRODUCTS // (n * d), _FEWEST_POWER_STARTS)))
    weights = np.clip(labels, -_POWER_CLIP, _POWER_CLIP)
    weights = weights - weights.mean()
    found: list[tuple[float, np.ndarray]] = []
    for k in _POWERS:
        for sign in (1.0, -1.0):
            w = random.standard_normal((d, starts))
            w /= np.linalg.norm(w, axis=0)
            for _ in range(_POWER_STEPS):
                index = np.clip(rows @ w, -_INDEX_CLIP, _INDEX_CLIP)
                w = rows.T @ (sign * weights[:, None] * Hermite().values(index, k - 1)[-1])
                w /= np.maximum(np.linalg.norm(w, axis=0), 1e-300)
            index = np.clip(rows @ w, -_INDEX_CLIP, _INDEX_CLIP)
            scores = sign * (weights @ Hermite().values(index, k)[-1]) / n
            found += [(float(scores[i]), w[:, i]) for i in np.argsort(-scores)[:_POWER_KEPT]]
    return [w for _, w in sorted(found, key=lambda one: -one[0])]


def hard_find(rows: np.ndarray, labels: np.ndarray, random: np.random.RandomState) -> Refined | None:
    """A certain fit from the power search, if there is one."""
    tamed = compressed(labels)
    for start in power_search(rows, labels, random):
        full = refine(rows, tamed, start, spline_fit, _FULL_STEPS)
        if is_certain(full.fit, tamed, rows.shape[1]):
            return full
    return None


def rows_for_exponent(d: int, exponent: int) -> int:
    """The order of the number of rows below which no efficient method is known: d^(exponent/2), and at least 15 d."""
    return math.ceil(max(HARD_ROWS_PER_COLUMN * d, d ** (exponent / 2)))

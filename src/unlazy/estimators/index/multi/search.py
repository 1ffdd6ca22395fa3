"""The search for the subspace of several indices: candidates, their span, and Gauss-Newton in the whole space."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unlazy.estimators.common.folds import some_rows
from unlazy.estimators.index.candidates import candidates, compressed, ridge_fit
from unlazy.estimators.index.certainty import is_certain_compressed
from unlazy.estimators.index.multi.links import KNOTS, SEARCH_KNOTS, SurfaceSmoother, bounded, surface_kinds
from unlazy.estimators.index.newton import Refined, most_rows, orthonormal, refine
from unlazy.estimators.index.search import FEW_COLUMNS, MOST_COORDINATES, searched_rows

# Gauss-Newton steps in the span of the candidates, in the whole space, and on y itself
_SPAN_STEPS, _FULL_STEPS, _POLISH_STEPS = 8, 20, 12
# a step of this length ends a search in the span, whose minima are only starts
_SPAN_SETTLED = 1e-2
# least cosine above which two subspaces are one
_ALIKE = 0.95
# how often the function may change while the directions are refined with it
_POLISH_ROUNDS = 3
# rows that refine directions on y itself, at most, if that is enough of them for each coordinate
_POLISHED_ROWS, _PER_COORDINATE = 15_000, 100
# functions with which directions are refined in any case
_SIMPLE = ("p2", "p3", "p4")
# by which pairs of candidates are turned, so that no two starts agree
_TURN = 1e-3


class Round(NamedTuple):
    """How widely one round searches."""

    span: int
    """Leading singular directions of the candidates that are searched, at most."""
    random_starts: int
    span_starts: int
    full_starts: int


ROUNDS = (Round(16, 24, 6, 2), Round(24, 64, 10, 4), Round(40, 96, 16, 6))
QUICK = (Round(16, 16, 4, 1),)


class MultiModel(NamedTuple):
    """y ~ f(W^T z)."""

    directions: np.ndarray
    function: Any
    kind: str

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return self.function(rows @ self.directions)


def search(
    rows: np.ndarray, labels: np.ndarray, count: int, random: np.random.RandomState, rounds: tuple[Round, ...] = ROUNDS
) -> tuple[Refined, bool]:
    """The subspace of least GCV for compressed labels, and whether its fit is certain; no round follows a certain one.

    A monotone transform of y depends on the same indices, so the tails of y need not be fitted yet.
    """
    d = rows.shape[1]
    rows, labels = searched_rows(rows, labels, count, random)
    tamed = compressed(labels)
    smoother = _random_smoother(len(rows), count, random)
    started = candidates(rows, labels, ridge_fit(rows, labels).coefficients, max(2, count)).directions
    left = np.linalg.svd(started, full_matrices=False)[0]
    best: Refined | None = None
    # a span of all columns grows no wider; and where noise could be fitted almost as well nothing is ever certain
    hopeless = d <= FEW_COLUMNS or d * count > MOST_COORDINATES * len(rows)
    for effort in rounds[: 1 if hopeless else None]:
        span = left[:, : max(effort.span, count)]
        for start in _span_starts(rows, tamed, span, span.T @ started, count, smoother, random, effort):
            found = refine(rows, tamed, start, smoother, _FULL_STEPS, retract=orthonormal)
            best = found if best is None or found.objective < best.objective else best
            if is_certain_compressed(best.fit, tamed, d * count):
                return best, True
    assert best is not None
    return best, False


def _span_starts(
    rows: np.ndarray,
    labels: np.ndarray,
    span: np.ndarray,
    known: np.ndarray,
    count: int,
    smoother: SurfaceSmoother,
    random: np.random.RandomState,
    effort: Round,
) -> list[np.ndarray]:
    """Local minima in the span, best first, no two alike; from its leading directions, pairs of candidates, chance."""
    inside = rows @ span
    width = span.shape[1]
    starts = [np.eye(width)[:, :count]]
    for i in range(effort.random_starts):
        drawn = random.standard_normal((width, count))
        if i % 2:
            drawn = known[:, random.permutation(known.shape[1])[:count]] + _TURN * drawn
        starts.append(orthonormal(drawn))
    scores = [smoother(inside @ one, labels).gcv() for one in starts]
    found = [
        refine(inside, labels, starts[i], smoother, _SPAN_STEPS, retract=orthonormal, settled=_SPAN_SETTLED)
        for i in np.argsort(scores)[: effort.span_starts]
    ]
    kept: list[Refined] = []
    for one in sorted(found, key=lambda one: one.objective):
        cosines = [np.linalg.svd(one.directions.T @ other.directions)[1].min() for other in kept]
        if all(cosine < _ALIKE for cosine in cosines):
            kept.append(one)
    return [span @ one.directions for one in kept[: effort.full_starts]]


def polish(rows: np.ndarray, labels: np.ndarray, directions: np.ndarray, random: np.random.RandomState) -> MultiModel:
    """Directions refined on y with the function of least BIC; that of all rows at last, important directions first."""
    d, count = directions.shape
    x, y = some_rows(rows, labels, min(most_rows(d, count), max(_POLISHED_ROWS, _PER_COORDINATE * d * count)), random)
    allowed = surface_kinds(len(x), count)
    places = _spread(x @ directions, max(KNOTS))
    smoothers = {kind: SurfaceSmoother(kind, places) for kind in allowed}
    spent = float(d * count)

    def scores(w: np.ndarray) -> dict[str, float]:
        return {kind: one(x @ w, y).information(y, spent) for kind, one in smoothers.items()}

    judged = scores(directions)
    tried = dict.fromkeys([min(judged, key=lambda kind: judged[kind]), *(k for k in _SIMPLE if k in allowed)])
    best: tuple[float, str, np.ndarray] | None = None
    for kind in tried:
        w = directions
        for _ in range(_POLISH_ROUNDS):
            found = refine(x, y, w, smoothers[kind], _POLISH_STEPS, retract=orthonormal)
            w, score = found.directions, found.fit.information(y, spent)
            if best is None or score < best[0]:
                best = score, kind, w
            judged = scores(w)
            better = min(judged, key=lambda kind: judged[kind])
            if better == kind:
                break
            kind = better
    assert best is not None
    _, kind, w = best
    knots = _spread(rows @ w, max(KNOTS))
    slopes = SurfaceSmoother(kind, knots)(rows @ w, labels).function.slopes(rows @ w)
    # the average outer product of gradients: its axes are a gauge for the subspace
    w = w @ np.linalg.eigh(slopes.T @ slopes)[1][:, ::-1]
    return MultiModel(w, bounded(kind, knots, rows @ w, labels), kind)


def _random_smoother(n: int, count: int, random: np.random.RandomState) -> SurfaceSmoother:
    """A spline with few knots, at rows drawn by chance."""
    size = min(SEARCH_KNOTS, max(n // 4, count + 3), n)
    return SurfaceSmoother(f"t{size}", random.permutation(n)[:size])


def _spread(indices: np.ndarray, size: int) -> np.ndarray:
    """Rows of which each is the farthest from those before, the first next to the mean.

    Such knots reach to the edge, where rows drawn by chance leave a spline without any.
    """
    distance = np.linalg.norm(indices - indices.mean(axis=0), axis=1)
    found = [int(np.argmin(distance))]
    distance = np.full(len(indices), np.inf)
    while len(found) < min(size, len(indices)):
        distance = np.minimum(distance, np.linalg.norm(indices - indices[found[-1]], axis=1))
        found.append(int(np.argmax(distance)))
    return np.array(found)

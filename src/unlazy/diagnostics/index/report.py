"""Whether y depends on X through one index, by which moment, and how many rows a direction takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_whole
from unlazy.data.encoding import encode_table
from unlazy.diagnostics.index import pages
from unlazy.diagnostics.index.evidence import (
    even_part,
    linear_part,
    linear_statistics,
    ranks_of,
    slices_of,
    spectral_statistics,
    transforms,
)
from unlazy.estimators.common.scaling import scale_data
from unlazy.estimators.index.whitening import whiten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = ("linear", "even")
VERDICTS = ("spectral works", "needs hard search", "no signal seen")
_LARGEST_ENTRY = 1e100
_SMALLEST_SIZE = 20
_MOST_SLICES = 60
# per root of n/d: more slices show more of y, and add noise
_LINEAR_SLICES, _EVEN_SLICES = 4.0, 2.5
_LEAST_PERMUTATIONS = 39
_WORK = 4e10
_EXCLUDED = 0.15
_LEAST_SQUARE = 1e-3


@dataclass(frozen=True)
class IndexReport:
    """What `index_report` found. Pairs are (linear, even): of E[z | y] and of E[z^2 | y]."""

    n: int
    d: int
    """Directions in which the rows of X vary."""
    slices: tuple[int, int]
    squared_correlations: tuple[float, float]
    """Estimates of lambda_1^2 and lambda_2^2; chance makes them negative as often as positive if there is nothing."""
    intervals: tuple[tuple[float, float], tuple[float, float]]
    """Within [0, 1], at the report's confidence."""
    confidence: float
    p_values: tuple[float, float]
    """Of 'no linear part' and of 'no dependence'."""
    permutations: int
    significance_level: float
    target_overlap: float
    rows_needed: tuple[tuple[float, float], tuple[float, float]]
    """For this overlap by the best linear and spectral estimator, from the ends of the intervals; infinity where the
    part is not seen, or its interval contains 0."""
    recommended_rows: float
    """By the part that needs fewer: from its estimate, or from the end of its interval if that contains 0."""
    verdict: str
    """'spectral works', 'needs hard search' or 'no signal seen'."""
    reason: str

    @property
    def carriers(self) -> tuple[str, ...]:
        """Which parts carry signal: 'linear', 'even', both or none, with Holm's correction for two tests."""
        return _carriers(self.p_values, self.significance_level)

    def __str__(self) -> str:
        return pages.text(self)

    def figure(self) -> Figure:
        """The two lambda^2 with their intervals, and the overlap against the number of rows."""
        return pages.figure_of(self)


def index_report(
    X: ArrayLike,
    y: ArrayLike,
    *,
    target_overlap: float = 0.9,
    significance_level: float = 0.05,
    confidence: float = 0.95,
    permutations: int = 199,
    random_state: Any = 0,
) -> IndexReport:
    """Whether rows X (n, d) and labels y (n,) show an index, y = link(x . theta) + noise, before any model is fitted.

    A DataFrame with text, dates or gaps is encoded by `TableEncoder`.

        lambda_k^2 = E[E[h_k(z) | y]^2],   z = x . theta standard normal,   k = 1 (linear), 2 (even)

    are estimated from pairs of whitened rows within slices of y, less the mean over all pairs. Slices show less than y
    does: with n = 4 d two thirds of it for He3, with n = 16 d nearly all. Whether the two differ from 0 is tested by
    permutations of y, with the largest of the estimate and of |sum_i T(y_i) x_i|^2, or the extreme eigenvalues of sum_i
    T(y_i) x_i x_i^T, for four transforms of the rank of y; the linear part also by mirrored rows, +-x_i, since an even
    part alone makes its sums wider. The rows for an overlap are those of the best linear estimator, d q/((1-q)
    lambda_1^2) with q = target_overlap^2, and for the spectral one d/lambda_2^2 times what a square link without noise
    needs; other links of the same lambda_2^2 can need more (He3 about four times as many).

    If neither part is seen, links with a generative exponent of 3 or more (n of order d^(3/2) and hard search) cannot
    be told from no signal at all: the verdict is 'needs hard search' if both intervals end below 0.15, else 'no signal
    seen'. lambda_k^2 are those of normal X, of any covariance; p-values are exact for any X with independent rows (that
    of the linear part next to an even one for rows whose law is symmetric). The number of permutations is lowered where
    they would take minutes. `random_state` is an integer, a RandomState or None. Damian et al. 2024; Li 1991; Cook &
    Weisberg 1991; Mondelli & Montanari 2018.
    """
    design, labels = _checked(X, y)
    target, level, share = (
        float(check_array(name, value, ndim=0, above=0, below=1))
        for name, value in (
            ("target_overlap", target_overlap),
            ("significance_level", significance_level),
            ("confidence", confidence),
        )
    )
    count = check_whole("permutations", permutations, _LEAST_PERMUTATIONS, 100_000)
    rng = _generator(random_state)
    rows = whiten(scale_data(design, labels[:, None], "float64"))[1]
    n, d = rows.shape
    if d < 2:
        raise InputError(f"X must vary in at least 2 directions, got {d}: one column is its own index")
    if n < max(2 * d, _SMALLEST_SIZE):
        raise InputError(
            f"X must have at least {max(2 * d, _SMALLEST_SIZE)} rows, twice its {d} directions, got {n}: use ridge "
            "regression (ridge_report), or reduce the columns first (PCA)"
        )
    slices = [
        slices_of(labels, int(np.clip(round(per_root * np.sqrt(n / d)), 4, _MOST_SLICES)))
        for per_root in (_LINEAR_SLICES, _EVEN_SLICES)
    ]
    measures = (linear_part, even_part)
    found = [measure(rows, part) for measure, part in zip(measures, slices, strict=True)]
    weights = transforms(ranks_of(labels))
    tops, sums = spectral_statistics(rows, weights), linear_statistics(rows, weights)
    count = int(np.clip(_WORK / (n * d**2 * (len(weights) + 2)), min(count, _LEAST_PERMUTATIONS), count))
    chance, chance_tops, chance_sums = (np.empty((count, size)) for size in (2, tops.size, sums.size))
    flipped = np.empty((count, 1 + sums.size))
    for draw in range(count):
        order = rng.permutation(n)
        for k, (measure, part) in enumerate(zip(measures, slices, strict=True)):
            chance[draw, k] = measure(rows, part._replace(part=part.part[order])).square
        chance_tops[draw] = spectral_statistics(rows, weights[:, order])
        chance_sums[draw] = linear_statistics(rows, weights[:, order])
        mirrored = rows * rng.choice([-1.0, 1.0], (n, 1))
        flipped[draw] = linear_part(mirrored, slices[0]).square, *linear_statistics(mirrored, weights)
    squares = np.array([estimate.square for estimate in found])
    noise = chance.var(axis=0, ddof=1)
    # the jackknife counts the part that chance alone gives twice
    spread = np.sqrt(np.maximum(np.array([estimate.variance for estimate in found]) - noise, noise))
    intervals = _intervals(squares, spread, share)
    linear = np.append(squares[0], sums)
    p_values = (
        # an even part makes linear sums wider than permutations do, but not wider than mirrored rows
        max(_p_value(linear, np.column_stack([chance[:, 0], chance_sums])), _p_value(linear, flipped)),
        _p_value(np.append(squares[1], tops), np.column_stack([chance[:, 1], chance_tops])),
    )
    carriers = _carriers(p_values, level)
    ratios = _ratios(target**2)
    needed = [
        (float(d * ratio / max(high, _LEAST_SQUARE)), float(d * ratio / low) if low > 0 else np.inf)
        if name in carriers
        else (np.inf, np.inf)
        for name, ratio, (low, high) in zip(PARTS, ratios, intervals, strict=True)
    ]
    likely = [
        d * ratio / min(square, 1.0) if low > 0 else fewest
        for square, ratio, (low, _), (fewest, _) in zip(squares, ratios, intervals, needed, strict=True)
        if fewest < np.inf
    ]
    recommended = float(min(likely, default=np.inf))
    verdict, reason = _verdict(carriers, intervals, n, d, recommended, target)
    return IndexReport(
        n=n,
        d=d,
        slices=(slices[0].counts.size, slices[1].counts.size),
        squared_correlations=(float(squares[0]), float(squares[1])),
        intervals=intervals,
        confidence=share,
        p_values=p_values,
        permutations=count,
        significance_level=level,
        target_overlap=target,
        rows_needed=(needed[0], needed[1]),
        recommended_rows=recommended,
        verdict=verdict,
        reason=reason,
    )


def _generator(random_state: Any) -> np.random.Generator:
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    return np.random.default_rng(check_whole("random_state", random_state, 0))


def _checked(X: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    design = check_array("X", encode_table(X)[0], low=-_LARGEST_ENTRY, high=_LARGEST_ENTRY, ndim=2)
    labels = check_array("y", y, low=-_LARGEST_ENTRY, high=_LARGEST_ENTRY, ndim=1)
    if len(labels) != len(design):
        raise InputError(f"y must have {len(design)} entries like the rows of X, got {len(labels)}")
    if np.ptp(labels) == 0:
        raise InputError(f"y must vary, got {labels[0]:g} in every row")
    return design, labels


def _p_value(values: np.ndarray, chance: np.ndarray) -> float:
    """Of the largest standardised statistic; draws and data are standardised alike, so that the test stays exact."""
    both = np.vstack([values, chance])
    scores = ((both - both.mean(axis=0)) / np.maximum(both.std(axis=0), 1e-300)).max(axis=1)
    # rounding must not part equal statistics, which binary labels give
    return float((1 + np.sum(scores[1:] >= scores[0] - 1e-9)) / len(both))


def _carriers(p_values: tuple[float, float], level: float) -> tuple[str, ...]:
    least, largest = sorted(p_values)
    if least > level / 2:
        return ()
    return tuple(name for name, p in zip(PARTS, p_values, strict=True) if p <= level / 2 or largest <= level)


def _intervals(
    squares: np.ndarray, spread: np.ndarray, confidence: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    from scipy.special import ndtri

    half = ndtri((1 + confidence) / 2) * spread
    low, high = np.clip(squares - half, 0.0, 1.0), np.clip(squares + half, 0.0, 1.0)
    return (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))


def _ratios(target: float) -> tuple[float, float]:
    """n/d times lambda_k^2 for a squared overlap."""
    from unlazy.theory.index_models.spectral.estimators import samples_for_overlap

    return target / (1 - target), float(samples_for_overlap("He2", target))


def _verdict(
    carriers: tuple[str, ...],
    intervals: tuple[tuple[float, float], tuple[float, float]],
    n: int,
    d: int,
    needed: float,
    overlap: float,
) -> tuple[str, str]:
    if carriers:
        parts = f"the {' and the '.join(carriers)} part of y show{'s' if len(carriers) == 1 else ''} a direction"
        enough = "which are there" if n >= needed else f"more than these {n}"
        return VERDICTS[0], f"{parts}; about {needed:.3g} rows give overlap {overlap:g}, {enough}"
    highest = max(high for _, high in intervals)
    if highest <= _EXCLUDED:
        return VERDICTS[1], (
            f"lambda_1^2 and lambda_2^2 are below {highest:.2g}: if y depends on one index at all, its generative "
            f"exponent is 3 or more, which takes hard search and of the order of d^1.5 = {d**1.5:.2g} rows or more"
        )
    return VERDICTS[2], (
        f"neither part exceeds chance, but {n} rows leave room for lambda^2 up to {highest:.2g}: more rows, fewer "
        "columns or less noise would tell"
    )

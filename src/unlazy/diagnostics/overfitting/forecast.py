"""The test error of a small two-layer network that is trained to zero loss, forecast without training it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array
from unlazy.data.encoding import encode_table
from unlazy.diagnostics.curves import Curve, Interval, checked_n
from unlazy.diagnostics.overfitting.two_sample import (
    ClassMoments,
    inner_products,
    margins,
    moments_of,
    pooled_variance,
    separation_of,
    sums_of,
    without_one_row,
)
from unlazy.diagnostics.pages import band, figure, finish, mark
from unlazy.plotting import style
from unlazy.words import first_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LARGEST_ENTRY = 1e50
_FEWEST_ROWS = 20
_MOST_ROWS = 10_000
_FEWEST_OF_CLASS = 8
_LEAST_SHARE = 0.3
# at 5 rows for each effective dimension trained networks err by a fifth more than class means do
_MOST_PER_DIMENSION = 5.0


@dataclass(frozen=True)
class OverfitForecast:
    """What `forecast_overfit` found; rows are written as x = +-mu + noise with covariance S of either class."""

    test_error: float
    """The forecast, at most 1/2."""
    low: float
    high: float
    """The interval that contains the test error with probability `confidence`."""
    confidence: float
    n: int
    d: int
    squared_signal_norm: float
    """|mu|^2, a quarter of the squared distance of the class means; its unbiased estimate may be negative."""
    noise_along: float
    """mu.S mu, the variance of the noise along the signal times |mu|^2, averaged over the classes."""
    noise_square_trace: float
    """tr S^2, averaged over the classes."""
    effective_rank: float
    """(tr S)^2 / tr S^2, the number of directions that the noise fills."""
    separation: float
    """M / sqrt(V), whose normal tail is the error if both classes have the same covariance."""
    standard_error: float
    """Of `separation`."""
    loo_error: float
    """Share of the rows that the mean of the others misclassifies: a check that needs no normal noise."""
    scores: np.ndarray
    """Their margins y_i <w, x_i>, in units of sqrt(V): normal with mean `separation` and variance 1 in theory."""
    labels: tuple[Any, Any]
    """The values of y of the two classes."""
    curve: Curve
    """The forecast for other numbers of rows, with its interval."""

    @property
    def signal_level(self) -> float:
        """Lambda = n |mu|^4 / tr S^2: overfitting is benign where this is large."""
        return self.n * max(self.squared_signal_norm, 0.0) ** 2 / self.noise_square_trace

    @property
    def in_range(self) -> bool:
        """Do the rows not exceed the effective rank, so that their noise is nearly orthogonal, as the theory has it?"""
        return self.n <= self.effective_rank

    def __str__(self) -> str:
        seen = "" if self.separation > 2 * self.standard_error else "; the classes' means cannot be told apart yet"
        if not self.in_range:
            seen += f"; more rows than effective dimensions ({self.effective_rank:.0f}): up to a fifth too low"
        interval = f"{self.confidence:.0%} interval {self.low:.3g} to {self.high:.3g}"
        return (
            f"forecast test error {self.test_error:.3g} ({interval}) of a small-start two-layer ReLU network fitted to "
            f"these {self.n} rows; signal level {self.signal_level:.3g}, leave-one-out check {self.loo_error:.3g}{seen}"
        )

    def figure(self) -> Figure:
        """The forecast against the number of rows, and the scores against the normal law it rests on."""
        return figure(self, _draw_curve, _draw_scores)


def forecast_overfit(
    X: ArrayLike, y: ArrayLike, *, confidence: float = 0.9, n: ArrayLike | None = None
) -> OverfitForecast:
    """Forecast the test error of a two-layer ReLU network trained to zero loss on N rows X (N, d) with two labels y.

    Started small, such a network classifies nearly like the difference of its class means, whose error for normal
    classes with means +-mu about their midpoint and covariances S_1, S_2 is, averaged over c,

        Phi( -M / sqrt(V_c) ),    M = |mu|^2,    V_c = mu.S_c mu + tr(S_c S_1) / (4 N_1) + tr(S_c S_2) / (4 N_2).

    All moments are U-statistics over distinct rows of each class, so that neither the noise of a row nor the estimated
    centre enters its own product: they are unbiased for any distribution, and shifting X changes nothing. The interval
    comes from the jackknife, whose known excess 2 tr S^2 / N^2 for the variance of M is removed. `n` are numbers of
    rows to forecast for besides N (N/4, ..., 16N by default, as far as the forecast goes). A DataFrame
    with text, dates or gaps is encoded by `TableEncoder`.

    For classes of equal weight in the test data and centred inputs; not for networks that start large, deep ones, or
    classes that differ in more than their means. Refused: fewer than 20 rows, 8 of a class or 30% of a class, more or
    fewer than two labels, more than 5 rows for each effective dimension (tr S)^2 / tr S^2. The interval covers the
    estimation of the moments, not the approximation by class means, which is good where the rows are fewer than the
    effective dimensions (`in_range`) and increasingly optimistic beyond. Source: the regime of Frei, Chatterji &
    Bartlett (2022) and Kou et al. (2023); statistics after Chen & Qin (2010).
    """
    confidence = float(check_array("confidence", confidence, above=0, below=1, ndim=0))
    rows = check_array("X", encode_table(X)[0], low=-_LARGEST_ENTRY, high=_LARGEST_ENTRY, ndim=2)
    labels, first = _two_classes(y, len(rows))
    count = len(rows)
    centred = rows - rows.mean(axis=0)
    scale = float(np.sqrt(np.mean(centred**2) * rows.shape[1]))
    if not scale > 0:
        raise InputError("X must vary, got equal rows")
    products = inner_products(centred[first] / scale, centred[~first] / scale)
    sums = sums_of(products)
    moments = moments_of(sums)
    if not moments.noise_square_trace > 1e-12:
        raise InputError(
            "X must vary within the classes, by more than .001 of the distance of their means and in directions that "
            f"rows share, got the mean squared overlap {max(float(moments.noise_square_trace), 0):.1e} of the variance"
        )
    total = np.mean([np.var(centred[part] / scale, axis=0, ddof=1).sum() for part in (first, ~first)])
    effective_rank = float(total**2 / moments.noise_square_trace)
    most = _MOST_PER_DIMENSION * effective_rank
    if count > most:
        raise InputError(
            f"X must have at most {_MOST_PER_DIMENSION:g} rows for each of {effective_rank:.3g} effective dimensions"
            f" (tr S)^2 / tr S^2 of its noise, got {count}: networks that fit them do not classify like class means"
        )
    rows_at_hand = _sizes(n, count, most)

    separation, variance = float(separation_of(moments)), float(pooled_variance(moments))
    deviations = np.concatenate([separation_of(moments_of(part)) for part in without_one_row(products, sums)])
    jackknife = (count - 1) * float(np.var(deviations))
    excess = 2 * float(moments.noise_square_trace) / count**2 / variance
    standard_error = float(np.sqrt(max(jackknife - excess, excess)))
    scores = margins(products) / np.sqrt(variance)

    from scipy.special import ndtri

    reach = float(ndtri((1 + confidence) / 2)) * standard_error
    errors, *ends = (_errors(moments, rows_at_hand / count, shift) for shift in (0.0, reach, -reach))
    known = np.ones(rows_at_hand.shape, dtype=bool)
    curve = Curve(rows_at_hand, errors, Interval(*ends), known, rows_at_hand <= effective_rank)
    error, low, high = (float(_errors(moments, np.ones(1), shift)[0]) for shift in (0.0, reach, -reach))
    return OverfitForecast(
        test_error=error,
        low=low,
        high=high,
        confidence=confidence,
        n=count,
        d=rows.shape[1],
        squared_signal_norm=float(moments.signal) * scale**2,
        noise_along=float(moments.along.mean()) * scale**4,
        noise_square_trace=float(moments.noise_square_trace) * scale**4,
        effective_rank=effective_rank,
        separation=separation,
        standard_error=standard_error,
        loo_error=float(np.mean(scores < 0) + np.mean(scores == 0) / 2),
        scores=scores,
        labels=labels,
        curve=curve,
    )


def _errors(moments: ClassMoments, growth: np.ndarray, shift: float) -> np.ndarray:
    """Errors with `growth` times as many rows and a separation that is off by `shift`."""
    from scipy.special import ndtr

    signal = max(float(moments.signal + shift * np.sqrt(pooled_variance(moments))), 0.0)
    variances = np.maximum(moments.along[:, None] + moments.fluctuation[:, None] / growth, 1e-12)
    return ndtr(-signal / np.sqrt(variances)).mean(axis=0)


def _two_classes(y: ArrayLike, n: int) -> tuple[tuple[Any, Any], np.ndarray]:
    """The two labels and where the second of them stands, or the reason why there is no forecast."""
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise InputError(f"y must have shape ({n},) like the {n} rows of X, got shape {labels.shape}")
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise InputError(f"y must be finite, got {labels[~np.isfinite(labels)][0]}")
    if labels.dtype.kind == "O" and any(label is None or label != label for label in labels):
        raise InputError("y must have no missing labels, got None or NaN")
    try:
        values, counts = np.unique(labels, return_counts=True)
    except TypeError:
        raise InputError("y must have labels of one kind, got several") from None
    if values.size != 2:
        raise InputError(f"y must have exactly 2 different labels, got {values.size}: {first_of(values.tolist(), 5)}")
    if n < _FEWEST_ROWS:
        raise InputError(f"X must have at least {_FEWEST_ROWS} rows: with fewer the forecast is off by .1, got {n}")
    if n > _MOST_ROWS:
        raise InputError(f"X must have at most {_MOST_ROWS} rows, got {n}: take some and forecast for n=[{n}]")
    rare = int(np.argmin(counts))
    if counts[rare] < max(_FEWEST_OF_CLASS, _LEAST_SHARE * n):
        raise InputError(
            f"y must have at least {_FEWEST_OF_CLASS} and {_LEAST_SHARE:.0%} of its labels in each class, "
            f"got {counts[rare]} of {n} labels {values[rare]!r}"
        )
    return (values[0].item(), values[1].item()), labels == values[1]


def _sizes(n: ArrayLike | None, count: int, most: float) -> np.ndarray:
    if n is None:
        growth = np.rint(count * 2.0 ** np.arange(-2, 5)).astype(np.int64)
        return growth[(growth <= most) | (growth <= count)]
    found = checked_n(n, 2)
    if found.max() > most:
        raise InputError(
            f"n must be at most {most:.0f}, {_MOST_PER_DIMENSION:g} for each effective dimension of the noise, "
            f"got {found.max():g}"
        )
    return found


def _draw_curve(axes: Axes, forecast: OverfitForecast) -> None:
    band(axes, forecast.curve, label=f"{forecast.confidence:.0%} interval")
    style.theory(axes, forecast.curve.n, forecast.curve.test_error, color=style.colour(0), label="forecast")
    spread = [[forecast.test_error - forecast.low], [forecast.high - forecast.test_error]]
    axes.errorbar([forecast.n], [forecast.test_error], yerr=spread, color=style.colour(0), marker="o", linestyle="none")
    axes.plot(
        [forecast.n], [forecast.loo_error], "s", color=style.colour(1), markerfacecolor="none", label="leave one out"
    )
    axes.set_ylim(0, 0.55)
    style.log_scale(axes, "x")
    title = f"forecast {forecast.test_error:.3g}, {forecast.low:.3g} to {forecast.high:.3g}"
    finish(axes, style.label("rows", "n"), "test error", title)


def _draw_scores(axes: Axes, forecast: OverfitForecast) -> None:
    bins = int(np.clip(np.sqrt(forecast.n), 6, 40))
    axes.hist(forecast.scores, bins=bins, density=True, color=style.colour(0), alpha=0.35, label="rows")
    low, high = min(forecast.scores.min(), forecast.separation - 3), max(forecast.scores.max(), forecast.separation + 3)
    grid = np.linspace(low, high, 200)
    normal = np.exp(-((grid - forecast.separation) ** 2) / 2) / np.sqrt(2 * np.pi)
    style.theory(axes, grid, normal, color=style.colour(1), label="normal, as assumed")
    mark(axes, x=0.0)
    axes.set_ylim(0, 1.45 * axes.get_ylim()[1])
    finish(axes, "margin by the other rows' means", "density", f"signal level {forecast.signal_level:.3g}")

"""What a fitted index says: its generative exponent, and a figure of the link."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.functions.orthogonal import Hermite
from unlazy.plotting.style import colour, panels, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LARGEST_EXPONENT = 6
_SLICES = 20
_ROWS_PER_SLICE = 10
# a tenth of what any transform of y could explain of h_k, and far beyond chance
_LEAST_SHARE = 0.02
_STANDARD_ERRORS = 4.0
_POINTS = 400
_MOST_SHOWN = 2000


def generative_exponent(index: np.ndarray, labels: np.ndarray) -> int | None:
    """The first k <= 6 for which lambda_k^2 = E[E[h_k(t) | y]^2] is clearly not 0, t the index as normal scores.

    Means over slices of y estimate E[h_k(t) | y]; their squares exceed lambda_k^2 by (slices - 1)/n for noise, which is
    taken off, with a standard error of sqrt(2 (slices - 1))/n. A link with lambda_k^2 below 0.02 counts as blind to k.
    """
    from scipy.special import ndtri

    n = labels.size
    scores = ndtri((np.argsort(np.argsort(index, kind="stable")) + 0.5) / n)
    count = int(np.clip(n // _ROWS_PER_SLICE, 2, _SLICES))
    edges = np.unique(np.quantile(labels, np.linspace(0, 1, count + 1)[1:-1]))
    part = np.searchsorted(edges, labels)
    sizes = np.bincount(part)
    slices = int(np.sum(sizes > 0))
    for k in range(1, _LARGEST_EXPONENT + 1):
        values = Hermite().values(scores, k)[-1]
        values = (values - values.mean()) / values.std()
        share = float(np.sum(np.bincount(part, values) ** 2 / np.maximum(sizes, 1)) - (slices - 1)) / n
        if share > max(_LEAST_SHARE, _STANDARD_ERRORS * np.sqrt(2 * (slices - 1)) / n):
            return k
    return None


def plot_link(index: np.ndarray, labels: np.ndarray, link: Callable[[Any], Any], axes: Axes | None = None) -> Axes:
    """y against the index as points, at most 2000 of them, and the link as a line."""
    if axes is None:
        _, axes = panels()
    every = -(-index.size // _MOST_SHOWN)
    places = np.linspace(index.min(), index.max(), _POINTS)
    with style():
        axes.plot(index[::every], labels[::every], ".", color="0.6", markersize=3, zorder=1, label="training rows")
        axes.plot(places, link(places), "-", color=colour(0), zorder=2, label="link")
        axes.set_xlabel("index, X @ coef_")
        axes.set_ylabel("y")
        axes.legend()
    return axes

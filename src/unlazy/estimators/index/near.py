"""What the rows around a place support there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# rows around a place that bound the values there
_NEAR = 10
# of the range of all labels, on either side
_BEYOND = 0.25


class Near(NamedTuple):
    """The values that a function of a few indices may have: those of the labels at the nearest rows, and as far again,
    but no more than a quarter of the range of all labels beyond it.

    Between few far rows, and where large terms cancel at the rows and nowhere else, a fitted function goes anywhere.
    """

    indices: np.ndarray
    """(n, k), of which the distances are in units of their deviations."""
    labels: np.ndarray

    def kept(self, values: np.ndarray, indices: Any) -> np.ndarray:
        """The values at such indices, brought into the range that the rows support there."""
        return np.clip(values, *self.range(indices))

    def range(self, indices: Any) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest value at each of the indices."""
        from scipy.spatial import KDTree

        deviation = self.indices.std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        count = min(_NEAR, len(self.labels))
        places = np.clip(indices, self.indices.min(axis=0), self.indices.max(axis=0))
        near = KDTree(self.indices / deviation).query(places / deviation, k=range(1, count + 1))[1]
        least, most = self.labels[near].min(axis=1), self.labels[near].max(axis=1)
        beyond = _BEYOND * np.ptp(self.labels)
        low, high = self.labels.min() - beyond, self.labels.max() + beyond
        return np.maximum(2 * least - most, low), np.minimum(2 * most - least, high)

"""A random forest beside the kernels: where targets jump at values of columns, trees see it first."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MOST_ROWS = 20_000
"""Rows that a tree may draw from."""
_WORK = 2_000_000
"""Rows times trees, beyond which there are fewer trees."""
_FEWEST_TREES, _MOST_COLUMNS = 50, 64


class Forest(NamedTuple):
    """Mean of trees, each grown on rows drawn with replacement."""

    trees: Any

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """(n, outputs)."""
        return self.trees.predict(rows).reshape(len(rows), -1)


def grown(rows: np.ndarray, targets: np.ndarray, trees: int, random: np.random.RandomState) -> Forest:
    """A forest of so many trees, of fewer where rows are many, on rows (n, d) and targets (n, outputs)."""
    from sklearn.ensemble import RandomForestRegressor

    count = min(trees, max(_FEWEST_TREES, _WORK // len(rows)))
    forest = RandomForestRegressor(count, max_features=min(1.0, _MOST_COLUMNS / rows.shape[1]), random_state=random)
    return Forest(forest.fit(rows, targets if targets.shape[1] > 1 else targets[:, 0]))


def crossed_forest(
    rows: np.ndarray,
    targets: np.ndarray,
    halves: tuple[np.ndarray, np.ndarray],
    trees: int,
    random: np.random.RandomState,
) -> np.ndarray:
    """What a forest that one half grew says of the other: (n, outputs).

    As many rows teach it as teach the kernels whose left-out predictions stand beside it: predictions of trees that did
    not see a row would be of more rows, and the forest would weigh too much.
    """
    crossed = np.empty(targets.shape)
    for here, there in (halves, halves[::-1]):
        crossed[there] = grown(rows[here], targets[here], trees, random).predict(rows[there])
    return crossed

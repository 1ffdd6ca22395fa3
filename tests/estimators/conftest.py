import numpy as np
import pytest


@pytest.fixture
def draw_inputs():
    """Rows of a kind that is not independent standard normal."""

    def draw(kind, shape, rng):
        places = np.arange(shape[1])
        root = np.linalg.cholesky(0.7 ** np.abs(np.subtract.outer(places, places)))
        return {
            "correlated": lambda: rng.standard_normal(shape) @ root.T,
            "heavy-tailed": lambda: rng.standard_t(5, shape),
            "uniform": lambda: rng.uniform(size=shape),
            "signs": lambda: rng.choice([-1.0, 1.0], shape),
        }[kind]()

    return draw


@pytest.fixture
def in_odd_units():
    """The same rows in units from 1e-30 to 1e30, with a constant column and one that depends on two others."""

    def widen(rows):
        units = np.logspace(-30, 30, rows.shape[1])
        return np.column_stack([units * (rows + 2), np.full(len(rows), 3.0), rows[:, 0] - 2 * rows[:, 5]])

    return widen

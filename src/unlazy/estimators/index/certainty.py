"""When a fit is so good that no search in noise could have found it, and held-out rows need not be asked."""

from __future__ import annotations

import numpy as np

from unlazy.estimators.index.candidates import Compression
from unlazy.estimators.index.newton import IndexFit

# of what a fit of noise leaves: less is certain
_CERTAIN = 0.25
# a search over directions of noise leaves this power of 1 - parameters/n of the variance, or more
_NULL_POWER = 4
# rows less parameters; with fewer nothing is certain
_FEWEST_FREE = 30
# labels of so many values or fewer are classes or small counts
_FEW_VALUES = 10
_NORMAL_KURTOSIS = 3.0
_TINY = 1e-300


def null_error(n: float, parameters: float) -> float:
    """About the least share of the variance of pure noise that a search over all directions leaves unexplained.

    (1 - parameters/n)^4 with the coordinates of the direction and the freedom of the link as parameters: below what was
    measured on normal rows for n/d from 3 to 20, where the mean share was 0.23, 0.37, 0.49, 0.70, 0.81 at n/d = 3, 4,
    6, 10, 20. A linear fit would leave the first power.
    """
    return max(1 - parameters / n, 0.0) ** _NULL_POWER


def effective_rows(labels: np.ndarray) -> float:
    """n min(1, 3 / kurtosis): how many rows share the variance of the labels, all of them for normal ones.

    k ones among many zeros have a kurtosis of about n/k: they are 3 k rows to fit, however many zeros there are.
    """
    squares = (labels - labels.mean()) ** 2
    return float(min(labels.size, _NORMAL_KURTOSIS * squares.sum() ** 2 / max(float(squares @ squares), _TINY)))


def has_few_values(labels: np.ndarray) -> bool:
    """Whether the labels are classes or small counts, whose fits have to be judged on held-out rows.

    Many planes separate two classes without error; that a fit does says little about new rows.
    """
    return np.unique(labels).size <= _FEW_VALUES


def is_certain(fit: IndexFit, labels: np.ndarray, coordinates: int) -> bool:
    """Whether a fit of labels of variance 1 leaves less than a quarter of what fits of noise leave.

    `coordinates` are those of all directions. If few rows hold the variance of the labels, those count, not n: they
    alone are fitted with much less effort.
    """
    return fit.error < _certain_error(labels, coordinates + fit.freedom)


def is_certain_compressed(fit: IndexFit, labels: np.ndarray, coordinates: int) -> bool:
    """`is_certain` of y and of arcsinh-compressed y: a few outliers that the fit hits do not pass for a signal."""
    compression = Compression.of(labels)
    tamed = compression(labels)
    least = _certain_error(tamed, coordinates + fit.freedom)
    if not fit.error < least * float(np.var(labels)):
        return False
    return bool(np.mean((tamed - compression(fit.values)) ** 2) < least * tamed.var())


def _certain_error(labels: np.ndarray, parameters: float) -> float:
    """The share of the variance of the labels below which a fit is certain, 0 with too few rows."""
    enough = labels.size - parameters >= _FEWEST_FREE
    return _CERTAIN * null_error(effective_rows(labels), parameters) if enough else 0.0

"""What `LearningCurve` asks of a theory, be it of a kernel matrix, of a single-index model or of moments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array
from unlazy.diagnostics.learning_curve.pages import Page
from unlazy.diagnostics.learning_curve.pool import LARGEST
from unlazy.diagnostics.learning_curve.results import Alignment, BestPenalty, PenaltyErrors


class CurveLists(NamedTuple):
    """Fields of `Curve` for lists of n, penalty and width."""

    penalty: np.ndarray
    """The ones used: of least error where NaN was given."""
    test_error: np.ndarray
    deviation: np.ndarray
    """The standard deviation of log error: over pools, and what forecasts for more rows are off by."""
    training_error: np.ndarray
    in_range: np.ndarray
    reliable: np.ndarray
    method: np.ndarray
    point_errors: np.ndarray | None = None
    at_pool: tuple[np.ndarray, np.ndarray] | None = None
    """Error and deviation with as many rows as the pool has, NaN for fewer rows; None where there is no pool."""
    above: np.ndarray | None = None
    """How much wider the interval is above than below; None where it is not."""


class Theory(ABC):
    """Errors for lists of n, penalty and width; `penalty` is not divided by n."""

    optimises: ClassVar[bool] = True
    """Whether it finds the penalty of least error at each n, for penalty="opt"."""
    takes_no_penalty: ClassVar[bool] = True
    """Whether it has an answer at penalty 0."""
    fewest: int = 1
    """Rows from which there is an answer."""
    has_intervals: ClassVar[bool] = True
    without_matrix: ClassVar[str] = ""
    """Why there is no kernel matrix to ask about."""
    page: ClassVar[Page]
    """How the curve is printed and drawn."""
    evidence: Any = None
    """What the rows say of link, noise and signal, for kernel="one-step"."""

    @classmethod
    def checked_penalty(cls, penalty: Any) -> np.ndarray:
        """NaN for "opt"."""
        if isinstance(penalty, str) and penalty == "opt":
            if cls.optimises:
                return np.array(np.nan)
            raise InputError(
                'penalty="opt" is for kernel="one-step" or moments; else set_params(penalty=best_penalty().penalty)'
            )
        low, above = (0.0, None) if cls.takes_no_penalty else (None, 0.0)
        return check_array("penalty", penalty, low=low, above=above, high=LARGEST)

    @abstractmethod
    def predict(self, n: np.ndarray, penalty: np.ndarray, width: np.ndarray, method: str) -> CurveLists:
        """For equally long lists; `method` is that of a kernel matrix."""

    @abstractmethod
    def best_penalty(self, n: float) -> BestPenalty:
        """With n rows."""

    @abstractmethod
    def noise_estimate(self) -> tuple[float, float]:
        """The variance of y that is not learned, and the penalty at which it was measured, NaN if at none."""

    def penalty_path(self) -> PenaltyErrors:
        raise InputError(f"penalty_path() is about {self.without_matrix}: ask predict()")

    def alignment(self, n: ArrayLike, penalty: Any) -> Alignment:
        raise InputError(f"alignment() is about {self.without_matrix}: ask predict()")

    def link(self, index: Any, kernel: Any) -> np.ndarray:
        raise InputError(f"link() is for kernel='one-step', got {kernel!r}")


def one_size(n: ArrayLike, penalty: Any, fewest: int = 1) -> tuple[float, float]:
    """One number of rows and one penalty, checked."""
    size = float(check_array("n", n, low=fewest, high=1e15, ndim=0))
    return size, float(check_array("penalty", penalty, low=0, high=LARGEST, ndim=0))

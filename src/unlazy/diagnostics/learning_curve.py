"""How the error of kernel regression on a user's rows depends on their number, on the ridge and on random features."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from unlazy.diagnostics._curve_engine import CurveEngine
from unlazy.diagnostics._curve_pool import LARGEST, checked_rows, kernel_matrix, subsample
from unlazy.diagnostics._curve_results import (
    Alignment,
    BestRidge,
    CurvePrediction,
    FeaturesNeeded,
    Interval,
    NoiseEstimate,
    RidgeErrors,
    SamplesNeeded,
)
from unlazy.diagnostics._curve_search import crossing
from unlazy.errors import InputError, check_array, check_choice, common_shape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METHODS = ("auto", "fast", "hybrid", "pointwise")
# samples_needed looks no farther than so many times the pool
_FARTHEST = 16


class LearningCurve(BaseEstimator):
    """Predict the error of `KernelRidge(alpha=ridge)` with other numbers of rows, without training.

    The error is that of new rows after training on n random ones, label noise included; n may be larger than the
    number of rows at hand. y is centred by its mean over all of them.

    `fast` needs one eigendecomposition of the kernel matrix for all n, ridges and numbers of random features, and is
    generalised cross-validation at n = N rows. `hybrid` multiplies it by the ratio of leave-one-out error and
    generalised cross-validation at the same effective ridge. `pointwise` finds an effective ridge for each row, is
    exactly leave-one-out at n = N, and costs several inverses of the kernel matrix for each n and ridge. "auto" takes
    `pointwise` where the leverages are unequal (a coefficient of variation of G_ii above 0.2 min(1, n/N)) or `hybrid`
    has no answer, else `hybrid`. For `pointwise` a ridge below 1e-9 of the mean of K_ii counts as that.

    Assumes exchangeable rows (no groups, no time series), and that random subsets of rows compress the kernel matrix
    freely, which is exact for large N. Intervals are first-order jackknife ones over pools. Sources: Simon et al.
    (2023) and Canatar et al. (2021) for the population; the formulas for finite pools are this project's.

    Parameters
    ----------
    kernel : name of a scikit-learn pairwise kernel, "precomputed" or a callable of two rows
    ridge : float, `alpha` of `KernelRidge`
    method : "auto", "fast", "hybrid" or "pointwise"
    gamma, degree, coef0, kernel_params : as in `KernelRidge`
    max_pool : larger pools are subsampled to so many rows
    confidence : probability of the intervals
    random_state : chooses the subsample

    Attributes
    ----------
    rows_ : number of rows given to `fit`;  pool_ : indices of those used
    target_mean_, target_variance_ : of y, the variance summed over outputs
    kernel_matrix_ : of the pool
    """

    def __init__(
        self,
        kernel: str | Callable[..., float] = "rbf",
        *,
        ridge: float = 1.0,
        method: str = "auto",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        max_pool: int = 2000,
        confidence: float = 0.95,
        random_state: Any = 0,
    ):
        self.kernel = kernel
        self.ridge = ridge
        self.method = method
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.max_pool = max_pool
        self.confidence = confidence
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> LearningCurve:
        """Decompose the kernel matrix of X (n, d), or X itself if precomputed, with targets y (n,) or (n, outputs)."""
        self._check_parameters()
        most = int(check_array("max_pool", self.max_pool, low=2, high=1e9, ndim=0))
        rows, targets = checked_rows(X, y)
        pool = subsample(len(rows), most, self.random_state)
        columns = targets.reshape(len(rows), -1)
        if not np.ptp(columns[pool], axis=0).any():
            raise InputError(f"y must vary, got the constant {targets.flat[0]:g}")
        options = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        self.kernel_matrix_ = kernel_matrix(rows, pool, self.kernel, options, self.kernel_params)
        self.rows_, self.pool_, self.target_mean_ = len(rows), pool, targets.mean(axis=0)
        columns = columns - columns.mean(axis=0)
        self.target_variance_ = float(np.sum(np.var(columns, axis=0)))
        self._engine = CurveEngine(self.kernel_matrix_, columns[pool])
        return self

    def predict(
        self, n: ArrayLike | None = None, ridge: ArrayLike | None = None, features: ArrayLike | None = None
    ) -> CurvePrediction:
        """Errors after training on n rows (all rows at hand if not given) with so much ridge and so many features.

        The three broadcast: n[:, None] and a list of ridges give a table. `features` counts random features
        phi_j(x) = sqrt(2/p) cos(w_j.x + b_j) or others whose mean of products is the kernel; None is the kernel itself.
        """
        from scipy.special import ndtri

        self._check_fitted()
        self._check_parameters()
        sizes = check_array("n", self.rows_ if n is None else n, low=1, high=1e15)
        ridges = check_array("ridge", self.ridge if ridge is None else ridge, low=0, high=LARGEST)
        counts = check_array("features", np.inf if features is None else features, low=1, finite=False)
        shape = common_shape(n=sizes, ridge=ridges, features=counts)
        broadcast = np.broadcast_arrays(sizes, ridges, counts)
        n_, ridge_, features_ = (a.ravel().astype(np.float64) for a in broadcast)
        pool = self.pool_.size
        if ((n_ > pool) & (ridge_ == 0)).any():
            raise InputError(f"ridge must be > 0 for n > {pool}, the number of rows in the pool, got 0")
        found = self._engine.predict(n_, ridge_, features_, self.method)
        quantile = float(ndtri((1 + self.confidence) / 2))
        with np.errstate(over="ignore", invalid="ignore"):
            ends = [found.error * np.exp(sign * quantile * found.deviation) for sign in (-1, 1)]

        def shaped(values: np.ndarray) -> np.ndarray:
            return values.reshape(shape)[()]

        return CurvePrediction(
            n=shaped(n_),
            ridge=shaped(ridge_),
            features=shaped(features_),
            error=shaped(found.error),
            interval=Interval(*(shaped(end) for end in ends)),
            r2=shaped(1 - found.error / self.target_variance_),
            training_error=shaped(found.training_error),
            in_range=shaped(found.in_range),
            reliable=shaped(found.reliable),
            method=shaped(found.method),
            point_errors=None if found.point_errors is None else found.point_errors.reshape(*shape, pool),
        )

    def samples_needed(self, target_error: float, *, ridge: float | None = None) -> SamplesNeeded:
        """The number of rows at which the error falls to `target_error`, the crossing nearest to the pool.

        The interval holds the numbers at which the ends of the error's interval fall to it.
        """
        target = float(check_array("target_error", target_error, above=0, ndim=0))
        self._check_fitted()
        pool, seen = self.pool_.size, [np.inf]

        def needed(field: Callable[[CurvePrediction], Any]) -> float:
            def value(n: float) -> float:
                found = self.predict(n, ridge)
                seen.append(float(found.error))
                return float(field(found))

            return crossing(value, target, pool, _FARTHEST * pool)

        n = needed(lambda found: found.error)
        interval = Interval(needed(lambda found: found.interval.low), needed(lambda found: found.interval.high))
        reliable = n < np.inf and bool(self.predict(n, ridge).reliable)
        return SamplesNeeded(n, interval, reliable, float(np.nanmin(seen)))

    def features_needed(
        self, tol: float = 0.05, *, n: float | None = None, ridge: float | None = None
    ) -> FeaturesNeeded:
        """The number of random features whose error is within a factor 1 + tol of that of the kernel."""
        factor = 1 + float(check_array("tol", tol, above=0, ndim=0))
        kernel_error = float(self.predict(n, ridge).error)
        size = int(self.rows_ if n is None else n)

        def error(features: float) -> float:
            return float(self.predict(n, ridge, features).error)

        needed = crossing(error, factor * kernel_error, 8 * size, 2.0**20 * size)
        return FeaturesNeeded(needed, error(needed) if needed < np.inf else np.nan, kernel_error)

    def best_ridge(self) -> BestRidge:
        """The ridge of least leave-one-out error on the pool, which is also the one to use with more rows.

        Minimising the extrapolated error instead leads to the end of its range. The ridge is not divided by n.
        """
        path = self.ridge_path()
        best = int(np.argmin(path.loo_error))
        where = "smallest" if best == 0 else "largest" if best == path.ridge.size - 1 else "inside"
        return BestRidge(float(path.ridge[best]), float(path.loo_error[best]), where)

    def ridge_path(self) -> RidgeErrors:
        """Leave-one-out error, generalised cross-validation and the noise estimate SSE / (N - df) of the pool."""
        self._check_fitted()
        return self._engine.ridge_path()

    def noise(self) -> NoiseEstimate:
        """Label noise and what the kernel cannot learn from so many rows: SSE / (N - df) at the ridge of least GCV.

        Source: Wahba (1983).
        """
        path = self.ridge_path()
        best = int(np.argmin(path.gcv))
        variance = float(path.noise[best])
        return NoiseEstimate(variance, variance / self.target_variance_, float(path.ridge[best]))

    def alignment(self, n: float | None = None, *, ridge: float | None = None) -> Alignment:
        """How much of the target lies along the kernel's large eigenvalues, and what n rows learn of it."""
        self._check_fitted()
        size = float(check_array("n", self.rows_ if n is None else n, low=1, high=1e15, ndim=0))
        level = float(check_array("ridge", self.ridge if ridge is None else ridge, low=0, high=LARGEST, ndim=0))
        found = self._engine.alignment(size, level)
        if found is None:
            raise InputError(f"n must be smaller or ridge larger: no prediction for n = {size:g} at ridge = {level:g}")
        return found

    def summary(self) -> str:
        """What the rows say, in about fifteen lines."""
        from unlazy.diagnostics._curve_pages import text

        self._check_fitted()
        return text(self)

    def __str__(self) -> str:
        return self.summary() if hasattr(self, "pool_") else repr(self)

    def plot(self) -> Figure:
        """The curve with its intervals, errors against ridge, and how the target lies in the kernel's eigenbasis."""
        from unlazy.diagnostics._curve_pages import figure

        self._check_fitted()
        return figure(self)

    def _check_parameters(self) -> None:
        check_choice("method", self.method, _METHODS)
        check_array("ridge", self.ridge, low=0, high=LARGEST, ndim=0)
        if not 0 < float(check_array("confidence", self.confidence, ndim=0)) < 1:
            raise InputError(f"confidence must be > 0 and < 1, got {self.confidence:g}")

    def _check_fitted(self) -> None:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "pool_")

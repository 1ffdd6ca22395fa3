"""How the error of regression with kernels and learned features depends on the number of rows and on the penalty."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from unlazy.checks import InputError, check_array, check_choice, common_shape
from unlazy.diagnostics.curves import Curve, Interval, forecast_interval, log_normal_interval
from unlazy.diagnostics.learning_curve.crossing import crossing
from unlazy.diagnostics.learning_curve.index_model import IndexEvidence, centred_model
from unlazy.diagnostics.learning_curve.kernel import KernelTheory
from unlazy.diagnostics.learning_curve.moments import MomentsTheory, population_moments
from unlazy.diagnostics.learning_curve.one_step import OneStepTheory, one_step_options
from unlazy.diagnostics.learning_curve.pool import LARGEST, checked_rows, kernel_matrix, subsample
from unlazy.diagnostics.learning_curve.results import (
    Alignment,
    BestPenalty,
    NoiseEstimate,
    PenaltyErrors,
    SamplesNeeded,
    WidthNeeded,
)
from unlazy.diagnostics.learning_curve.theory import Theory
from unlazy.functions.elementwise import as_link

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METHODS = ("auto", "fast", "hybrid", "pointwise")
# samples_needed looks no farther than so many times the pool
_FARTHEST = 16
# rows per dimension from which searches start where a link stands for rows
_ROWS_PER_DIMENSION = 4


class LearningCurve(BaseEstimator):
    """Predict the error of kernel ridge regression with other numbers of rows, without training.

    The error is that of new rows after training on n random ones, label noise included; n may be larger than the
    number of rows at hand. The fit minimises |y - f - b|^2 + penalty |f|_K^2 over functions f and an intercept b that
    no penalty shrinks: for kernel="linear" it is `Ridge(alpha=penalty)`, for others `KernelRidge(alpha=penalty)` after
    `KernelCenterer` on centred y. With fit_intercept=False there is no b and nothing is centred: `KernelRidge` itself,
    and `Ridge(fit_intercept=False)`. Every error counts what estimating b from the n rows costs; leave-one-out errors
    are those of fits that estimate it from the other rows.

    `fast` needs one eigendecomposition of the kernel matrix for all n, penalties and numbers of random features, and is
    generalised cross-validation at n = N rows. `hybrid` multiplies it by the ratio of leave-one-out error and
    generalised cross-validation at the same effective penalty. `pointwise` finds an effective penalty for each row, is
    exactly leave-one-out at n = N, and costs several inverses of the kernel matrix for each n and penalty. "auto" takes
    `pointwise` where the leverages are unequal (a coefficient of variation of G_ii above 0.2 min(1, n/N)) or `hybrid`
    has no answer, else `hybrid`. For `pointwise` a penalty below 1e-9 of the mean of K_ii counts as that.

    kernel="one-step" is the kernel F F^T / N of random features F = sigma(X W + c) after one large gradient step on the
    first layer: W = W0 + v a^T with W0_ij ~ N(0, 1/d), where v is the direction of a ridge regression of y on X. X and
    y are seen as whitened normal inputs and y = g(x.beta) + noise; link g and noise come from the rows, or from
    `fit_link`, and the error from the theory of `theory.one_step.spiked`. Rows without linear correlation (even
    targets) are refused. The theory has other rows for v than for the readout; with the same rows, as usual,
    simulations with 5 rows per dimension had errors 5 to 18% higher, with 20 rows 0 to 4%. `OneStepRegressor` is this
    with refinements=0; by refining v it may do much better. `method` and `max_rows` have no meaning here, and
    penalty="opt" takes the penalty of least predicted error at each n. A prediction is `reliable` for n >= 20 rows, 20
    features and 2 dimensions, with a penalty of at least .01, or a smaller one for n <= d^2 that does not raise the
    error by more than half (the interpolation peak); from rows, also if there are 5 per dimension, uncorrelated enough,
    with one direction along which they are not in two clusters, the variance of y is known to 20%, and log error to a
    standard deviation of .3. Intervals are wider by the sampling error of var(y), for heavy tails, and by what
    residuals that are uneven along the index (jumps) leave open of the noise.

    `fit_moments` takes the covariances of a population in place of rows, for kernel="linear": the error of ridge
    regression on x from E x x^T, E x y and E y^2 alone.

    Assumes exchangeable rows (no groups, no time series), and that random subsets of rows compress the kernel matrix
    freely, which is exact for large N. Sources: Simon et al. (2023) and Canatar et al. (2021) for the population; the
    formulas for finite pools are this project's.

    Intervals are for the error of training on n random rows, in its mean over such rows. For n <= N their standard
    deviation is that of a first-order jackknife over pools; for more rows half of (df/N) log(n/N), with df the degrees
    of freedom at N, is added in quadrature, and the high end is at most that at N. The high side is wider, by half the
    tail E e^4 / (E e^2)^2 of the left-out errors, 1 to 2.4 times. A forecast is `reliable` only if high/low is at most
    4 and if the pool vouches for the error: rows of a kind that none of N shows may be 3/N of all (the rule of three),
    and such rows, missed by as much as the farthest y is from the mean, must not raise the error more than fourfold, so
    it must be at least max (y - mean)^2 / N. Small errors of targets that the inputs nearly determine need many rows.

    Measured by `benchmarks.intervals` with linear and rbf kernels, 8 pools of 35 to 300 rows for each size and 10
    splits for the truth, 95% intervals held the error of training at 1, 2, 5 and 10 times the rows in 95, 95, 95 and
    95% of the cases on nine tables that had no say in the intervals, four of them drawn, with a median of high/low of
    3.4, 3.8, 8 and 11; where `reliable` in 97% or more, with 2.3 to 2.6, which are 53, 47, 20 and 16% of the cases. The
    rule of three was chosen after a look at three of them. On seventeen columns of real tables, predicted from the
    others and not looked at before any rule was final, they held in 92, 93, 92 and 93% of the cases (linear 92, rbf 92
    over all sizes); where `reliable` in 93, 94, 92 and 100% (linear 97, rbf 91), without the rule of three in 91, 91,
    93 and 100%. So 95% is promised and about 92% kept on such tables. The worst are columns with huge rows of which
    pools of dozens show none or one: 83 to 91% of their intervals hold, and with the rbf kernel one to two thirds of
    the few that are called `reliable`.

    Parameters
    ----------
    kernel : name of a scikit-learn pairwise kernel, "precomputed", a callable of two rows or "one-step"
    penalty : float, `alpha` of `KernelRidge`; or "opt" for kernel="one-step" and `fit_moments`
    fit_intercept : whether the fit has an intercept; without a meaning for kernel="one-step", which has one, and for
        `fit_moments`
    method : "auto", "fast", "hybrid" or "pointwise"
    gamma, degree, coef0, kernel_params : as in `KernelRidge`; for kernel="one-step" kernel_params may hold `activation`
        ("tanh"), `spike_deviation` (of a, 1.5, or a list of which the best counts), `bias_deviation` (of c, 1),
        `precondition` (False: v is the gradient X^T y), `step_samples` (rows for v, all if not given), or the
        `step_size` of the plain gradient step of `unlazy.theory.one_step.gradient_step` instead of these deviations
    max_rows : larger pools are subsampled to so many rows
    confidence : probability of the intervals
    random_state : chooses the subsample

    Attributes
    ----------
    rows_ : number of rows given to `fit`, 4 per dimension for a link or moments;  pool_ : indices of those used
    target_mean_, target_variance_ : of y, the variance summed over outputs
    kernel_matrix_ : of the pool
    evidence_ : for kernel="one-step", what the rows say of link, noise and signal
    """

    _theory: Theory
    evidence_: IndexEvidence | None

    def __init__(
        self,
        kernel: str | Callable[..., float] = "rbf",
        *,
        penalty: float | str = 1.0,
        fit_intercept: bool = True,
        method: str = "auto",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        max_rows: int = 2000,
        confidence: float = 0.95,
        random_state: Any = 0,
    ):
        self.kernel = kernel
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.method = method
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.max_rows = max_rows
        self.confidence = confidence
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> LearningCurve:
        """Decompose the kernel matrix of X (n, d), or X itself if precomputed, with targets y (n,) or (n, outputs).

        A DataFrame with text, dates or gaps is encoded by `TableEncoder`.
        """
        self._check_parameters(OneStepTheory if self._is_one_step() else KernelTheory)
        most = int(check_array("max_rows", self.max_rows, low=2, high=1e9, ndim=0))
        rows, targets = checked_rows(X, y)
        mean = targets.mean(axis=0)
        if self._is_one_step():
            one_step = self._one_step_of(rows, targets)
            return self._fitted(one_step, len(rows), np.arange(len(rows)), mean, float(np.var(targets)))
        pool = subsample(len(rows), most, self.random_state)
        columns = targets.reshape(len(rows), -1)
        if not np.ptp(columns[pool], axis=0).any():
            raise InputError(f"y must vary, got the constant {targets.flat[0]:g}")
        options = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        self.kernel_matrix_ = matrix = kernel_matrix(rows, pool, self.kernel, options, self.kernel_params)
        if self.fit_intercept and isinstance(self.kernel, str) and self.kernel == "linear":
            # the same fit: centring the columns first keeps the digits that their means would take
            matrix = kernel_matrix(rows - rows[pool].mean(axis=0), pool, self.kernel, options, self.kernel_params)
        variance = float(np.sum(np.var(columns, axis=0)))
        theory = KernelTheory(matrix, columns[pool], intercept=bool(self.fit_intercept))
        return self._fitted(theory, len(rows), pool, mean, variance)

    def fit_link(self, link: Any, d: float, noise_variance: float = 0.0) -> LearningCurve:
        """Take labels link(x.beta) + noise of inputs x ~ N(0, I_d) in place of rows; for kernel="one-step"."""
        if not self._is_one_step():
            raise InputError(f"kernel must be 'one-step' for a link, got {self.kernel!r}")
        self._check_parameters(OneStepTheory)
        d = float(check_array("d", d, low=1, high=1e9, ndim=0))
        noise = float(check_array("noise_variance", noise_variance, low=0, high=LARGEST, ndim=0))
        model = centred_model(as_link(link), d, noise)
        theory = OneStepTheory(model, one_step_options(self.kernel_params))
        rows = int(_ROWS_PER_DIMENSION * d)
        return self._fitted(theory, rows, np.arange(0), np.zeros(()), model.moments.variance + noise)

    def fit_moments(self, covariance: ArrayLike, cross_moment: ArrayLike, target_variance: float) -> LearningCurve:
        """Take Omega = E x x^T, u = E x y (d,) or (d, outputs) and E y^2 of a population in place of rows.

        For kernel="linear". E y^2 is summed over outputs. For a model with intercept take moments of centred x and y;
        what its estimation costs, about error/n, is not counted. The error is that of `theory.ridge_equivalent` with
        the penalty divided by n and the part of y that is not linear in x, E y^2 - u.Omega^-1.u, as noise: exact for
        Gaussian rows as n and d grow, an approximation for real ones (odd or even digits: within 3% for a penalty of 1
        or more). There are no intervals (NaN). Moments of a pool describe drawing rows of it with replacement; for new
        rows they promise too much with fewer than 20 rows per column in the pool (up to 25% with 4.5): then use `fit`.
        """
        if not (isinstance(self.kernel, str) and self.kernel == "linear"):
            raise InputError(f"kernel must be 'linear' for moments, got {self.kernel!r}")
        moments = population_moments(covariance, cross_moment, target_variance)
        self._check_parameters(MomentsTheory)
        rows = _ROWS_PER_DIMENSION * len(np.atleast_1d(cross_moment))
        mean = np.zeros(() if moments.outputs == 1 else moments.outputs)
        return self._fitted(MomentsTheory(moments), rows, np.arange(0), mean, moments.target_variance)

    def _one_step_of(self, rows: np.ndarray, targets: np.ndarray) -> OneStepTheory:
        if targets.ndim == 2 and targets.shape[1] > 1:
            raise InputError(f"y must be one target for kernel='one-step', got shape {targets.shape}")
        column = targets.reshape(-1)
        if not np.ptp(column):
            raise InputError(f"y must vary, got the constant {column[0]:g}")
        if np.std(column) < 1 / LARGEST:
            raise InputError(f"y must have a standard deviation >= {1 / LARGEST:g}, got {np.std(column):g}")
        return OneStepTheory.of_rows(rows, column, one_step_options(self.kernel_params), self.random_state)

    def _fitted(self, theory: Theory, rows: int, pool: np.ndarray, mean: np.ndarray, variance: float) -> LearningCurve:
        self._theory, self.evidence_ = theory, theory.evidence
        self.rows_, self.pool_, self.target_mean_, self.target_variance_ = rows, pool, mean, variance
        return self

    def link(self, index: ArrayLike) -> np.ndarray:
        """The link, without its mean, at places of the standardised index; for kernel="one-step"."""
        return self._fitted_theory().link(index, self.kernel)

    def predict(
        self, n: ArrayLike | None = None, penalty: ArrayLike | None = None, width: ArrayLike | None = None
    ) -> Curve:
        """Errors after training on n rows (all rows at hand if not given) with that penalty and width.

        n is at least 1, with an intercept 2. The three broadcast: n[:, None] and a list of penalties give a table.
        `width` counts random features phi_j(x) = sqrt(2/p) cos(w_j.x + b_j) or others whose mean of products is the
        kernel; None is the kernel itself.
        """
        theory = self._fitted_theory()
        self._check_parameters(type(theory))
        sizes = check_array("n", self.rows_ if n is None else n, low=theory.fewest, high=1e15)
        penalties = theory.checked_penalty(self.penalty if penalty is None else penalty)
        counts = check_array("width", np.inf if width is None else width, low=1, finite=False)
        shape = common_shape(n=sizes, penalty=penalties, width=counts)
        n_, penalty_, width_ = (a.ravel().astype(np.float64) for a in np.broadcast_arrays(sizes, penalties, counts))
        found = theory.predict(n_, penalty_, width_, self.method)
        if found.at_pool is None or found.above is None:
            interval = log_normal_interval(found.test_error, found.deviation, self.confidence)
        else:
            interval = forecast_interval(
                found.test_error, found.deviation, found.above, *found.at_pool, self.confidence
            )

        def shaped(values: np.ndarray) -> np.ndarray:
            return values.reshape(shape)[()]

        return Curve(
            n=shaped(n_),
            test_error=shaped(found.test_error),
            interval=Interval(*map(shaped, interval)),
            in_range=shaped(found.in_range),
            reliable=shaped(found.reliable),
            penalty=shaped(found.penalty),
            width=shaped(width_),
            r_squared=shaped(1 - found.test_error / self.target_variance_),
            training_error=shaped(found.training_error),
            method=shaped(found.method),
            point_errors=None if found.point_errors is None else found.point_errors.reshape(*shape, self.pool_.size),
        )

    def samples_needed(self, target_error: float, *, penalty: float | None = None) -> SamplesNeeded:
        """The number of rows at which the error falls to `target_error`, the crossing nearest to the pool.

        The interval holds the numbers at which the ends of the error's interval fall to it.
        """
        target = float(check_array("target_error", target_error, above=0, ndim=0))
        theory = self._fitted_theory()
        pool, seen = self.pool_.size or self.rows_, [np.inf]

        def needed(field: Callable[[Curve], Any]) -> float:
            def value(n: float) -> float:
                found = self.predict(n, penalty)
                seen.append(float(found.test_error))
                return float(field(found))

            return crossing(value, target, pool, _FARTHEST * pool, theory.fewest)

        n = needed(lambda found: found.test_error)
        interval = Interval(np.nan, np.nan)
        if theory.has_intervals:
            interval = Interval(needed(lambda found: found.interval.low), needed(lambda found: found.interval.high))
        reliable = n < np.inf and bool(self.predict(n, penalty).reliable)
        return SamplesNeeded(n, interval, reliable, float(np.nanmin(seen)))

    def width_needed(
        self, tolerance: float = 0.05, *, n: float | None = None, penalty: float | None = None
    ) -> WidthNeeded:
        """The number of random features whose error is within a factor 1 + tolerance of that of the kernel."""
        factor = 1 + float(check_array("tolerance", tolerance, above=0, ndim=0))
        kernel_error = float(self.predict(n, penalty).test_error)
        size = int(self.rows_ if n is None else n)

        def error(width: float) -> float:
            return float(self.predict(n, penalty, width).test_error)

        needed = crossing(error, factor * kernel_error, 8 * size, 2.0**20 * size)
        return WidthNeeded(needed, error(needed) if needed < np.inf else np.nan, kernel_error)

    def best_penalty(self) -> BestPenalty:
        """The penalty of least leave-one-out error on the pool, which is also the one to use with more rows.

        Minimising the extrapolated error instead leads to the end of its range. The penalty is not divided by n. For
        kernel="one-step" and for moments it is the penalty of least predicted error with `rows_` rows.
        """
        return self._fitted_theory().best_penalty(self.rows_)

    def penalty_path(self) -> PenaltyErrors:
        """Leave-one-out error, generalised cross-validation and the noise estimate SSE / (N - df) of the pool."""
        return self._fitted_theory().penalty_path()

    def noise_estimate(self) -> NoiseEstimate:
        """Label noise and what the kernel cannot learn from so many rows: SSE / (N - df) at the penalty of least GCV.

        For kernel="one-step" the part of y that no smooth function of one direction explains, which is too large where
        y jumps: `evidence_.least_noise_variance` is smaller then. Source: Wahba (1983).
        """
        variance, penalty = self._fitted_theory().noise_estimate()
        return NoiseEstimate(variance, variance / self.target_variance_, penalty)

    def alignment(self, n: float | None = None, *, penalty: float | None = None) -> Alignment:
        """How much of the target lies along the kernel's large eigenvalues, and what n rows learn of it."""
        theory = self._fitted_theory()
        return theory.alignment(self.rows_ if n is None else n, self.penalty if penalty is None else penalty)

    def summary(self) -> str:
        """What the rows say, in about fifteen lines."""
        return self._fitted_theory().page.text(self)

    def __str__(self) -> str:
        return self.summary() if hasattr(self, "pool_") else repr(self)

    def plot(self) -> Figure:
        """The curve with its intervals, errors against penalty, and how the target lies in the kernel's eigenbasis.

        For kernel="one-step" the curve and the link, for moments the curve and errors against penalty.
        """
        return self._fitted_theory().page.figure(self)

    def _check_parameters(self, theory: type[Theory]) -> None:
        check_choice("method", self.method, _METHODS)
        check_choice("fit_intercept", self.fit_intercept, (True, False))
        if theory.checked_penalty(self.penalty).ndim:
            raise InputError(f"penalty must be one number here, got {self.penalty!r}")
        check_array("confidence", self.confidence, ndim=0, above=0, below=1)

    def _is_one_step(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "one-step"

    def _fitted_theory(self) -> Theory:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "pool_")
        return self._theory

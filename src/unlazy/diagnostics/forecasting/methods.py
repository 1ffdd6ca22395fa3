"""Ridge, kernels, random features and metric machines on one table: how each is set, forecast, and trained."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError, check_choice
from unlazy.diagnostics.curves import FEWEST_ROWS, QUANTILE, Curve, Interval
from unlazy.diagnostics.forecasting.factor import FactorCurve
from unlazy.diagnostics.forecasting.metric_machine import MetricGain, metric_curve, pool_of, refusal
from unlazy.diagnostics.learning_curve.curve import LearningCurve
from unlazy.diagnostics.learning_curve.pool import subsample

RIDGE, KERNEL, FEATURES, ONE_STEP = "ridge", "kernel ridge", "random features", "one-step"
METRIC = "metric machine"
ALIASES = {"ridge": "linear", "kernel-ridge": "rbf"}
METRIC_KERNEL = "metric-machine"
DEFAULT = ("linear", "rbf", "random-features", METRIC_KERNEL)
LARGEST_POOL = 1200
# of penalties that leave-one-out cannot tell apart the largest is taken: forecasts from it reach farther
TOLERANCE = 0.01
# multiples of 1/columns; with few rows leave-one-out prefers interpolation by luck, and the first one is kept
LENGTH_SCALES = (1.0, 0.25, 4.0, 0.0625, 16.0)
_ENOUGH_TO_CHOOSE = 50
_ROWS_TO_CHOOSE = 500
_FEATURE_LOSS = 0.05
_MOST_FEATURES = 3200
_MOST_DRAWN = 1000
_FEWEST_FEATURES = 25
# from here on all rows are used: a kernel matrix of 1200 rows and 1000 features lets forecasts rise at 5x
_ROWS_PER_FEATURE = 1.5
_MOST_ENTRIES = 20_000_000
# of `LearningCurve` and `KernelRidge`
KERNEL_OPTIONS = {"degree": 3, "coef0": 1}
# forecasts were tested up to ten times the rows that they are made from
FARTHEST = 10.0
# rows between which the end of a range and the slope there are found
_NEAR, _SLOPE_OVER = 1.05, 4.0
# ends of an interval that is of use, as in `curves`
_MOST_RATIO = 4.0
# some curves steepen before they flatten: of 16 drawn ones the one that left its interval did
_STEEPER = 0.15
# times the pool that a large table is trained on, and rows that say with which error
_MEASURED, _HELD_OUT_ROWS = 4, 3000


class Measured(NamedTuple):
    """What training on a part of a large table gave on other rows of it."""

    n: int
    error: float
    deviation: float
    """Of its logarithm."""
    slope: float
    """-d log error / d log n, over the factor of 2 before n."""
    slope_deviation: float

    @property
    def steepest(self) -> float:
        """The slope that the interval allows for."""
        return min(self.slope + _STEEPER + QUANTILE * self.slope_deviation, 1.0)


@dataclass(frozen=True)
class Method:
    """One learner with its settings, and the curve that forecasts it."""

    name: str
    kernel: str
    penalty: float
    """`alpha` of `KernelRidge` and `Ridge`; NaN for one-step, which takes the best at each n."""
    gamma: float | None
    width: float
    """Infinity for the kernel itself."""
    pool: int
    """How many rows the forecast is made from; for a metric machine each half of them."""
    rows: int
    """Of the table."""
    noise_variance: float
    """Noise, or what this method cannot learn from so many rows, of the target's variance."""
    curve: Any
    """`LearningCurve`, `FactorCurve` or `MetricCurve`."""
    measured: Measured | None = None
    """Of tables with many more rows than `pool`."""
    metric_gain: MetricGain | None = None
    """What a better metric may bring, where one was learned."""

    @property
    def rows_used(self) -> int:
        return self.curve.rows if self.name == METRIC else self.pool

    @property
    def settings(self) -> str:
        words = [f"{self.kernel} kernel"] if self.name not in (ONE_STEP, METRIC) else []
        if self.name == METRIC:
            words.append(self.curve.words)
        if self.gamma is not None:
            words.append(f"gamma {self.gamma:.3g}")
        if np.isfinite(self.width):
            words.append(f"one draw of {self.width:.0f} features")
        words.append("penalty chosen at each size" if np.isnan(self.penalty) else f"penalty {self.penalty:.3g}")
        return ", ".join(words)

    def at(self, n: np.ndarray) -> Curve:
        """Errors in units of the target's variance; NaN out of range, and why some are not to be trusted."""
        error, low, high = np.full((3, n.size), np.nan)
        in_range, reliable = np.zeros((2, n.size), dtype=bool)
        near = n <= self._end * (1 + 1e-9)
        if near.any():
            found = self._read(n[near])
            for field, values in zip((error, low, high), (found.test_error, *found.interval), strict=True):
                field[near] = np.where(found.in_range, values, np.nan)
            in_range[near], reliable[near] = found.in_range & np.isfinite(found.test_error), found.reliable
        beyond = ~near & (n <= FARTHEST * self.rows * (1 + 1e-9))
        continued = self._continued(n[beyond]) if beyond.any() else None
        if continued is not None:
            error[beyond], low[beyond], high[beyond], reliable[beyond] = continued
            in_range[beyond] = True
        if self.metric_gain is not None:
            low *= self.metric_gain.at(n)
            with np.errstate(invalid="ignore"):
                reliable &= high <= _MOST_RATIO * low
        found = Curve(n, error, Interval(low, high), in_range, reliable, r_squared=1 - error)
        return found._replace(reasons=tuple(self._reason(found, i, bool(beyond[i])) for i in range(n.size)))

    @property
    def gain_of_twice(self) -> float | None:
        """The largest share of the error that twice the rows of a large table would take away; None for others."""
        return None if self.measured is None else 1 - 2.0**-self.measured.steepest

    def _read(self, n: np.ndarray) -> Curve:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.curve.predict(n, None if np.isnan(self.penalty) else self.penalty)

    @cached_property
    def _end(self) -> float:
        """The most rows that the rows used tell of: ten times as many, or fewer where the penalty is small for them."""
        if self.name == ONE_STEP:
            return np.inf
        if self.penalty == 0 or self.measured is not None:
            # without a penalty nothing is known beyond the pool
            return float(self.pool)

        def known(n: float) -> bool:
            found = self._read(np.array([n]))
            return bool(found.in_range[0] and np.isfinite(found.test_error[0]))

        low, high = float(self.pool), FARTHEST * self.rows_used
        if known(high):
            return high
        while high / low > _NEAR:
            middle = float(np.sqrt(low * high))
            low, high = (middle, high) if known(middle) else (low, middle)
        return low

    def _continued(self, n: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        """Error, ends of the interval and reliability beyond the end; None where nothing is known.

        Between no further gain, and a gain with the last slope kept all the way: on logarithmic axes learning curves
        flatten. The last slope is measured, or that at the rows used.
        """
        if self.penalty == 0 or np.isinf(self._end):
            return None
        if self.measured is not None:
            start, error, deviation, slope, _ = self.measured
            steepest = (n / start) ** -self.measured.steepest
            low, high = (error * np.exp(sign * QUANTILE * deviation) for sign in (-1, 1))
            middle = error * (n / start) ** (-slope / 2)
            ends = low * np.minimum(steepest, 1.0), high * np.maximum((n / start) ** -slope, 1.0)
            return middle, *ends, ends[1] <= _MOST_RATIO * ends[0]
        now, last = (self._read(np.array([size])) for size in (float(self.pool), self._end))
        before = self._read(np.array([max(self.pool / _SLOPE_OVER, 2.0)]))
        known = np.array([before.test_error[0], now.test_error[0], last.test_error[0]])
        if not (np.isfinite(known).all() and (known > 0).all()):
            return None
        slope = float(np.clip(np.log(known[0] / known[1]) / np.log(_SLOPE_OVER), 0.0, 1.0))
        gain = (n / self.pool) ** -slope
        high = np.full(n.shape, last.high[0])
        low = np.minimum(now.low[0] * gain, last.low[0])
        middle = np.sqrt(np.minimum(known[1] * gain, known[2]) * known[2])
        return middle, low, high, (high <= _MOST_RATIO * low) & bool(last.reliable[0])

    def with_measured(self, inputs: np.ndarray, targets: np.ndarray) -> Method:
        """The same, with what training on two and four times the pool gives, if the table is large enough for that."""
        largest = _MEASURED * self.pool
        if len(inputs) < 2 * largest or self.penalty == 0:
            return self
        order = np.random.default_rng(0).permutation(len(inputs))
        new = order[largest : largest + _HELD_OUT_ROWS]
        train = self._fixed_metric_error if self.name == METRIC else self.trained_error
        half, whole = (
            train(inputs[order[:n]], targets[order[:n]], inputs[new], targets[new]) for n in (largest // 2, largest)
        )
        error, before, rows = float(whole.mean()), float(half.mean()), len(new)
        if not (np.isfinite([error, before]).all() and error > 0):
            return self
        # another draw of the rows that are trained on moves the error about as much as another draw of the new ones
        deviation = float(np.sqrt(2 / rows) * whole.std() / error)
        slope = float(np.clip(np.log(before / error) / np.log(2), 0.0, 1.0))
        spread = float(np.sqrt(2 / rows) * np.std(half / before - whole / error) / np.log(2))
        return replace(self, measured=Measured(largest, error, deviation, slope, spread))

    def _reason(self, found: Curve, i: int, beyond: bool) -> str:
        if beyond and found.in_range[i]:
            if self.measured is not None:
                return f"from training on {self.measured.n} rows: between no further gain and a gain as before"
            return f"beyond {self._end:.3g} rows: between no further gain and a gain as before"
        if found.in_range[i] and found.reliable[i]:
            return ""
        if not found.in_range[i]:
            if self.penalty == 0 and found.n[i] > self.pool:
                return "without a penalty nothing is known beyond the rows at hand"
            if found.n[i] > self._end:
                return f"more than {FARTHEST:g} times the {self.rows} rows of the table"
            return "too far beyond these rows for this penalty"
        if self.pool < FEWEST_ROWS:
            return "fewer than 20 rows"
        if found.n[i] > self.pool and self._is_sure_now:
            return "far beyond these rows for this penalty"
        return "few rows carry the error, or could by all that these rows show, or uneven rows"

    @cached_property
    def _is_sure_now(self) -> bool:
        """Whether the error with the rows at hand is reliable."""
        penalty = None if np.isnan(self.penalty) else self.penalty
        return bool(self.curve.predict(np.array([float(self.pool)]), penalty).reliable[0])

    def of_part(self, inputs: np.ndarray, targets: np.ndarray) -> Method | None:
        """The same learner, with the same settings and the same draw of features, forecast from other rows.

        A metric machine learns all anew; None if it needs more rows.
        """
        if self.name == METRIC:
            return None if refusal(inputs, targets) else _metric(inputs, targets)
        name = "random-features" if self.name == FEATURES else self.kernel
        width = int(self.width) if np.isfinite(self.width) else None
        (method,) = fit_methods([name], inputs, targets, penalty=self.penalty, gamma=self.gamma, width=width)
        return method

    def trained_error(
        self, inputs: np.ndarray, targets: np.ndarray, new: np.ndarray, truth: np.ndarray, seed: int = 0
    ) -> np.ndarray:
        """Squared errors on new rows, summed over outputs, after training with scikit-learn; seed 0 draws as here.

        A metric machine is `MetricMachineRegressor`, with a metric and penalties of its own.
        """
        from sklearn.kernel_approximation import RBFSampler
        from sklearn.linear_model import Ridge
        from sklearn.metrics.pairwise import pairwise_kernels
        from sklearn.pipeline import make_pipeline

        if self.name == ONE_STEP:
            raise InputError("one-step forecasts cannot be checked by training, choose other methods")
        model: Any
        if self.name == METRIC:
            from unlazy.estimators import MetricMachineRegressor

            model, targets = MetricMachineRegressor(random_state=seed), targets[:, 0]
        elif self.name == FEATURES:
            sampler = RBFSampler(gamma=self.gamma, n_components=int(self.width), random_state=seed)
            model = make_pipeline(sampler, Ridge(alpha=self.penalty))
        elif self.kernel == "linear":
            model = Ridge(alpha=self.penalty)
        else:
            model = self._kernel_model()
            options: dict[str, Any] = {"metric": self.kernel, "filter_params": True, **KERNEL_OPTIONS}
            inputs, new = (pairwise_kernels(rows, inputs, gamma=self.gamma, **options) for rows in (inputs, new))
        return _new_errors(model, inputs, targets, new, truth)

    def _fixed_metric_error(
        self, inputs: np.ndarray, targets: np.ndarray, new: np.ndarray, truth: np.ndarray
    ) -> np.ndarray:
        """The same of kernel ridge regression in the metric of one half."""
        own, other = self.curve.matrices(inputs, new)
        return _new_errors(self._kernel_model(), own, targets, other, truth)

    def _kernel_model(self) -> Any:
        """Of kernel matrices, with an intercept."""
        from sklearn.kernel_ridge import KernelRidge
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import KernelCenterer

        return make_pipeline(KernelCenterer(), KernelRidge(alpha=self.penalty, kernel="precomputed"))


def _new_errors(model: Any, inputs: np.ndarray, targets: np.ndarray, new: np.ndarray, truth: np.ndarray) -> np.ndarray:
    mean = targets.mean(axis=0)
    with warnings.catch_warnings():
        # a penalty near 0 is ill-conditioned by nature
        warnings.simplefilter("ignore")
        predicted = model.fit(inputs, targets - mean).predict(new).reshape(truth.shape)
    return np.sum((truth - mean - predicted) ** 2, axis=1)


def method_names(kernel: str | Sequence[str] | None) -> tuple[str, ...]:
    """Kernels of scikit-learn or a method's own name, from words separated by commas or a list."""
    if kernel is None:
        return DEFAULT
    from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

    words = [kernel] if isinstance(kernel, str) else list(kernel)
    words = [part.strip() for word in words for part in str(word).split(",")]
    allowed = (*ALIASES, "random-features", METRIC_KERNEL, ONE_STEP, *sorted(PAIRWISE_KERNEL_FUNCTIONS))
    names = [ALIASES.get(check_choice("kernel", word, allowed), word) for word in words]
    return tuple(dict.fromkeys(names))


def possible(names: Sequence[str], inputs: np.ndarray, targets: np.ndarray) -> tuple[list[str], list[str]]:
    """The methods that these rows allow, and for the others a line that says why not."""
    why = refusal(inputs, targets) if METRIC_KERNEL in names else ""
    if not why:
        return list(names), []
    return [name for name in names if name != METRIC_KERNEL], [f"no forecast of the {METRIC}: {why}"]


def fit_methods(
    names: Sequence[str],
    inputs: np.ndarray,
    targets: np.ndarray,
    *,
    penalty: float | None = None,
    gamma: float | None = None,
    width: int | None = None,
    largest_pool: int = LARGEST_POOL,
    progress: Callable[[str], None] | None = None,
) -> list[Method]:
    """Set each method for these rows; targets (rows, outputs) are scaled to a total variance of 1."""
    say = progress or (lambda text: None)
    methods: list[Method] = []
    curves: dict[str, LearningCurve] = {}
    if gamma is None and ("rbf" in names or "random-features" in names):
        gamma, curve = _length_scale(inputs, targets)
        if curve is not None and len(inputs) == curve.pool_.size <= largest_pool:
            curves["rbf"] = curve.set_params(penalty=1.0 if penalty is None else penalty, max_rows=largest_pool)

    def curve_of(kernel: str) -> LearningCurve:
        if kernel not in curves:
            scale = gamma if kernel == "rbf" else None
            level = 1.0 if penalty is None else penalty
            curves[kernel] = LearningCurve(kernel, gamma=scale, penalty=level, max_rows=largest_pool)
            curves[kernel].fit(inputs, targets)
        return curves[kernel]

    for name in names:
        say(f"forecasting {_title(name)}")
        if name == ONE_STEP:
            methods.append(_one_step(inputs, targets, penalty))
        elif name == METRIC_KERNEL:
            methods.append(_metric(inputs, targets))
        elif name == "linear" and len(inputs) > max(largest_pool, 4 * inputs.shape[1]):
            methods.append(_factor(RIDGE, "linear", inputs, targets, penalty, None, np.inf))
        elif name == "random-features":
            scale = float(gamma or 1 / inputs.shape[1])
            count = width or _feature_count(inputs, targets, curve_of("rbf"), scale)
            methods.append(_features(inputs, targets, scale, count, penalty, largest_pool))
        else:
            title = {"linear": RIDGE, "rbf": KERNEL}.get(name, f"{KERNEL} ({name})")
            method = _kernel(title, name, curve_of(name), penalty, rows=len(inputs))
            methods.append(method.with_measured(inputs, targets) if name != "linear" else method)
    return methods


def _title(name: str) -> str:
    return {"linear": RIDGE, "rbf": KERNEL, "random-features": FEATURES, METRIC_KERNEL: METRIC}.get(name, name)


def _length_scale(inputs: np.ndarray, targets: np.ndarray) -> tuple[float, LearningCurve | None]:
    """The gamma of least leave-one-out error among five, from at most 500 rows, and the curve that says so."""
    usual = 1 / inputs.shape[1]
    if len(inputs) < _ENOUGH_TO_CHOOSE:
        return usual, None
    rows = subsample(len(inputs), _ROWS_TO_CHOOSE, 0)
    scales = [multiple * usual for multiple in LENGTH_SCALES]
    curves = ((gamma, LearningCurve("rbf", gamma=gamma).fit(inputs[rows], targets[rows])) for gamma in scales)
    return min(curves, key=lambda found: found[1].best_penalty().test_error)


def _kernel(name: str, kernel: str, curve: LearningCurve, penalty: float | None, **settings: Any) -> Method:
    path = curve.penalty_path()
    chosen = largest_near_least(path.penalty, path.loo_error) if penalty is None else penalty
    settings = {"gamma": curve.gamma, "width": np.inf, **settings}
    return Method(
        name,
        kernel,
        chosen,
        pool=curve.pool_.size,
        noise_variance=curve.noise_estimate().share,
        curve=curve,
        **settings,
    )


def _feature_count(inputs: np.ndarray, targets: np.ndarray, curve: LearningCurve, gamma: float) -> int:
    """Twice as many until leave-one-out is near the kernel's."""
    pool = curve.pool_
    most = _MOST_FEATURES if len(inputs) <= pool.size else _MOST_DRAWN
    rows = pool[subsample(pool.size, _ROWS_TO_CHOOSE, 1)]
    small = curve if rows.size == pool.size else LearningCurve("rbf", gamma=gamma).fit(inputs[rows], targets[rows])
    level = (1 + _FEATURE_LOSS) * small.best_penalty().test_error
    count = _FEWEST_FEATURES
    while count < most and _drawn(inputs[rows], targets[rows], gamma, count).best_penalty().test_error > level:
        count = min(2 * count, most)
    return count


def _features(
    inputs: np.ndarray, targets: np.ndarray, gamma: float, count: int, penalty: float | None, largest_pool: int
) -> Method:
    """Features are drawn: the theory of undrawn ones misses by a third in few dimensions with a small penalty."""
    if len(inputs) > max(largest_pool, _ROWS_PER_FEATURE * count):
        return _factor(FEATURES, "rbf", inputs, targets, penalty, gamma, float(count))
    pool = subsample(len(inputs), largest_pool, 0)
    return _kernel(
        FEATURES,
        "rbf",
        _drawn(inputs[pool], targets[pool], gamma, count),
        penalty,
        gamma=gamma,
        width=float(count),
        rows=len(inputs),
    )


def _drawn(inputs: np.ndarray, targets: np.ndarray, gamma: float, count: int) -> LearningCurve:
    """The curve of one draw of Fourier features."""
    from sklearn.kernel_approximation import RBFSampler

    factor = RBFSampler(gamma=gamma, n_components=count, random_state=0).fit_transform(inputs)
    return LearningCurve("precomputed", max_rows=len(inputs)).fit(factor @ factor.T, targets)


def _factor(
    name: str,
    kernel: str,
    inputs: np.ndarray,
    targets: np.ndarray,
    penalty: float | None,
    gamma: float | None,
    width: float,
) -> Method:
    """For many rows and few columns: all rows, or as many as fit into memory."""
    columns = inputs.shape[1] if np.isinf(width) else int(width)
    rows = subsample(len(inputs), max(_MOST_ENTRIES // columns, 4 * columns), 0)
    chosen_inputs, chosen_targets = inputs[rows], targets[rows]
    if np.isfinite(width):
        from sklearn.kernel_approximation import RBFSampler

        sampler = RBFSampler(gamma=gamma, n_components=columns, random_state=0)
        chosen_inputs = sampler.fit_transform(chosen_inputs)
    curve = FactorCurve(chosen_inputs, chosen_targets)
    # with fewer columns than rows the range has no end, and nothing is gained by a larger penalty
    level = largest_near_least(*curve.penalty_path(), tolerance=0.0) if penalty is None else penalty
    return Method(name, kernel, level, gamma, width, len(rows), len(inputs), curve.noise_variance(level), curve)


def _one_step(inputs: np.ndarray, targets: np.ndarray, penalty: float | None) -> Method:
    if targets.shape[1] > 1:
        raise InputError(f"kernel 'one-step' takes one target, got {targets.shape[1]}")
    curve = LearningCurve(ONE_STEP, penalty="opt" if penalty is None else penalty).fit(inputs, targets[:, 0])
    level = np.nan if penalty is None else penalty
    pool = len(inputs)
    return Method(ONE_STEP, ONE_STEP, level, None, np.inf, pool, pool, curve.noise_estimate().share, curve)


def _metric(inputs: np.ndarray, targets: np.ndarray) -> Method:
    """With a penalty of its own, as the machine has; measured on rows that had no say in the metric."""
    curve = metric_curve(inputs, targets)
    level = largest_near_least(*curve.penalty_path())
    method = Method(
        METRIC,
        METRIC_KERNEL,
        level,
        None,
        np.inf,
        curve.pool,
        len(inputs),
        curve.noise_variance,
        curve,
        metric_gain=curve.gain,
    )
    others = np.setdiff1d(np.arange(len(inputs)), pool_of(inputs))
    return method.with_measured(inputs[others], targets[others])


def largest_near_least(penalties: np.ndarray, errors: np.ndarray, tolerance: float = TOLERANCE) -> float:
    """The largest penalty, going up from that of least error, whose error is within 1% of it."""
    best = int(np.nanargmin(errors))
    level = (1 + tolerance) * errors[best]
    while best + 1 < len(penalties) and errors[best + 1] <= level:
        best += 1
    return float(penalties[best])

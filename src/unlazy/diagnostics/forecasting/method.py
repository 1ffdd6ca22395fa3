"""One learner on one table: the curve that forecasts it, where that ends and what is said beyond, and training it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unlazy.checks import InputError
from unlazy.diagnostics.curves import FEWEST_ROWS, QUANTILE, Curve, Interval
from unlazy.diagnostics.forecasting.metric_machine import MetricGain

RIDGE, KERNEL, FEATURES, ONE_STEP = "ridge", "kernel ridge", "random features", "one-step"
METRIC = "metric machine"
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
        return bool(self._read(np.array([float(self.pool)])).reliable[0])

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

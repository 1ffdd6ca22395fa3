"""Ridge, kernels, random features and metric machines on one table: how each is set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unlazy.checks import InputError, check_choice
from unlazy.diagnostics.forecasting.factor import FactorCurve
from unlazy.diagnostics.forecasting.method import FEATURES, KERNEL, METRIC, ONE_STEP, RIDGE, Method
from unlazy.diagnostics.forecasting.metric_machine import metric_curve, pool_of, refusal
from unlazy.diagnostics.learning_curve.curve import LearningCurve
from unlazy.diagnostics.learning_curve.pool import subsample

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


def of_part(method: Method, inputs: np.ndarray, targets: np.ndarray) -> Method | None:
    """The same learner, with the same settings and the same draw of features, forecast from other rows.

    A metric machine learns all anew; None if it needs more rows.
    """
    if method.name == METRIC:
        return None if refusal(inputs, targets) else _metric(inputs, targets)
    name = "random-features" if method.name == FEATURES else method.kernel
    width = int(method.width) if np.isfinite(method.width) else None
    return fit_methods([name], inputs, targets, penalty=method.penalty, gamma=method.gamma, width=width)[0]


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

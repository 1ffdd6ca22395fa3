"""In-context learning of linear regression by linear attention: exact errors, in the limit and at finite size.

Tokens x ~ N(0, I/d), labels y = x.w + noise of variance rho (`noise_variance`). A prompt of l labelled tokens
(x_i, y_i) and a query x has the feature h = [(d/l) sum_i y_i x_i, (1/l) sum_i y_i^2] and the prediction x^T Gamma h,
Gamma d x (d+1). Pretraining on n prompts, each with one of k tasks w_j ~ N(0, I), minimises

    sum_prompts (y - x^T Gamma h)^2 + (n/d) lambda |Gamma|_F^2,      lambda = `ridge_times_dimension`.

`context_per_dimension` alpha = l/d, `tasks_per_dimension` kappa = k/d, `prompts_per_squared_dimension` tau = n/d^2.
All errors include rho.
Source: Lu, Letey, Zavatone-Veth, Maiti & Pehlevan (2024); here as the deterministic equivalent of a ridge regression.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice, common_shape
from unlazy.numerics.roots import golden_minimum
from unlazy.theory.in_context.large_dimension import PretrainingRatios, companion, effective_ridge, errors, ridge_share

_LEAST, _LARGEST = 1e-100, 1e100
KINDS = ("new tasks", "pretraining tasks")
# the optimal effective ridge is searched on a grid of its distance from the ridgeless one, then between neighbours
_GRID_DECADES = (-9.0, 5.0)
_GRID_SIZE = 161
_GOLDEN_STEPS = 34
_ROUNDING = 1e-13


class LinearAttentionErrors(NamedTuple):
    """Mean squared errors with label noise; every field has the broadcast shape of the arguments."""

    effective_ridge_times_dimension: np.ndarray
    """xi: the mean weights are R_tr (R_tr + q + xi)^-1, R_tr the second moment of the tasks, q = (1 + rho)/alpha."""
    new_task_error: np.ndarray
    """e_ICL, on tasks w ~ N(0, I) that pretraining has not seen."""
    pretraining_task_error: np.ndarray
    """e_IDG, on fresh prompts of the k pretraining tasks."""
    training_error: np.ndarray
    """The mean squared residual of the pretraining prompts."""


class OptimalRidge(NamedTuple):
    """The ridge with the least error, and the errors there."""

    ridge_times_dimension: np.ndarray
    errors: LinearAttentionErrors


def linear_attention_errors(
    prompts_per_squared_dimension: ArrayLike,
    context_per_dimension: ArrayLike,
    tasks_per_dimension: ArrayLike,
    ridge_times_dimension: ArrayLike,
    noise_variance: ArrayLike,
    *,
    test_context_per_dimension: ArrayLike | None = None,
) -> LinearAttentionErrors:
    """The errors of pretrained linear attention as d, l, k and n grow, n = tau d^2, without drawing prompts.

    With R_tr Marchenko-Pastur of ratio 1/kappa, q = (1 + rho)/alpha, M(s) = (1/d) tr (R_tr + s)^-1 and s = q + xi,

        lambda = xi (1 - (1 - xi M(s)) / tau),
        e_IDG = (rho + E[x s^2 + q x^2] / (x+s)^2) / (1 - df2/tau),          df2 = E ((x+q) / (x+s))^2,
        e_ICL = rho + E[s^2 + q x^2] / (x+s)^2 + ((1+q)/tau) E[(x+q) / (x+s)^2] e_IDG,

    x an eigenvalue of R_tr. With `test_context_per_dimension` the contexts at test have another length than in
    pretraining: q is then that of the test wherever it is not part of s, df2 or E[(x+q)/(x+s)^2].

    tau, kappa and `test_context_per_dimension` may be infinite. At ridge 0 the values are limits from above; at
    tau = 1, where the model interpolates, they are inf. Exact in the limit; corrections are O(1/d), with a large
    constant for kappa < 1 (`finite_size_errors` has most of them). Source: Lu et al. (2024), results 1 to 3.

    >>> found = linear_attention_errors(
    ...     [0.5, 0.95, 2], context_per_dimension=2, tasks_per_dimension=2, ridge_times_dimension=0, noise_variance=0.25
    ... )
    >>> print(found.new_task_error)
    [ 1.614 13.981  1.406]
    """
    setting, choices = _setting(
        prompts_per_squared_dimension,
        context_per_dimension,
        tasks_per_dimension,
        noise_variance,
        test_context_per_dimension,
        ridge_times_dimension=ridge_times_dimension,
    )
    ridge = choices["ridge_times_dimension"]
    xi = effective_ridge(setting, ridge)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(xi > 0, ridge / xi, np.maximum(setting.spare_prompts, 0.0))
    return _named(setting, xi, share)


def optimal_ridge(
    prompts_per_squared_dimension: ArrayLike,
    context_per_dimension: ArrayLike,
    tasks_per_dimension: ArrayLike,
    noise_variance: ArrayLike,
    *,
    test_context_per_dimension: ArrayLike | None = None,
    test_tasks: str = "new tasks",
) -> OptimalRidge:
    """The ridge >= 0 at which the error on new tasks (or on the pretraining tasks) is least, and the errors there.

    The errors are explicit in the effective ridge xi, so xi is searched: on a logarithmic grid above the xi of ridge 0,
    then by golden sections around the best point. 0 is an answer, in particular for infinitely many prompts and tasks.

    >>> found = optimal_ridge([0.5, 0.95, 2], context_per_dimension=2, tasks_per_dimension=2, noise_variance=0.25)
    >>> print(found.ridge_times_dimension, found.errors.new_task_error)
    [3.524 1.932 0.968] [1.126 1.052 0.949]
    """
    check_choice("test_tasks", test_tasks, KINDS)
    setting, _ = _setting(
        prompts_per_squared_dimension,
        context_per_dimension,
        tasks_per_dimension,
        noise_variance,
        test_context_per_dimension,
    )
    shape = setting.noise.shape
    flat = PretrainingRatios(*(field.reshape(-1) for field in setting))
    least = effective_ridge(flat, np.zeros(flat.noise.shape))

    def error_at(exponent: np.ndarray) -> np.ndarray:
        xi = least + _distance(flat, exponent)
        wide = PretrainingRatios(*(np.broadcast_to(field, xi.shape) for field in flat))
        found = errors(wide, xi, ridge_share(wide, xi))
        return found.new_tasks if test_tasks == KINDS[0] else found.pretraining_tasks

    grid = np.linspace(_GRID_DECADES[0], _GRID_DECADES[1] + _more_decades(flat), _GRID_SIZE)
    grid = np.concatenate([np.full((1, least.size), -np.inf), grid])
    on_grid = error_at(grid)
    start = np.argmin(on_grid, axis=0)
    places = np.arange(least.size)
    low, high = (grid[np.clip(start + step, 1, len(grid) - 1), places] for step in (-1, 1))
    best = golden_minimum(error_at, low, high, _GOLDEN_STEPS)
    # a gain of a ridge that is no more than rounding is none
    zero = on_grid[0] <= (1 + _ROUNDING) * np.minimum(error_at(best), on_grid.min(axis=0))
    xi = np.where(zero, least, least + _distance(flat, best))
    share = np.where(zero, np.where(least > 0, 0.0, np.maximum(flat.spare_prompts, 0.0)), ridge_share(flat, xi))
    ridge = np.where(zero, 0.0, share * xi)
    named = _named(flat, xi, share)
    return OptimalRidge(ridge.reshape(shape)[()], LinearAttentionErrors(*(np.reshape(f, shape)[()] for f in named)))


def bayes_error(context_per_dimension: ArrayLike, noise_variance: ArrayLike) -> np.ndarray:
    """The least error of any in-context predictor of new tasks w ~ N(0, I): ridge regression on the context.

        e_ridge = rho + E s/(x+s),    s = rho/alpha,  x Marchenko-Pastur of ratio 1/alpha

    (w = (X^T X + rho I)^-1 X^T y). Without noise it is max(1 - alpha, 0). Exact as d grows; alpha may be infinite.

    >>> print(bayes_error(context_per_dimension=[0.5, 2, 8], noise_variance=0.25))
    [0.8904 0.4254 0.2843]
    """
    context_per_dimension = _ratio("context_per_dimension", context_per_dimension)
    noise_variance = check_array("noise_variance", noise_variance, low=0, high=_LARGEST)
    common_shape(context_per_dimension=context_per_dimension, noise_variance=noise_variance)
    inverse, spare = _inverse(context_per_dimension)
    s = noise_variance * inverse
    root = np.hypot(spare - s, 2 * np.sqrt(s)) - (spare - s)
    # s/(s+w) with w = 2s/root, which is also right where s and w vanish together
    missed = np.where(spare >= s, s / np.where(s > 0, s + companion(s, spare), 1.0), root / (root + 2))
    return (noise_variance + missed)[()]


def _distance(setting: PretrainingRatios, exponent: np.ndarray) -> np.ndarray:
    """How far xi is above that of ridge 0, in units of the largest part of an eigenvalue of R."""
    return (1 + setting.spread + setting.inverse_tasks) * 10.0**exponent


def _more_decades(setting: PretrainingRatios) -> np.ndarray:
    """How far the optimum can lie above the eigenvalues of R: few prompts and short test contexts ask for ridge."""
    return np.log10(1 + (1 + setting.noise) * (1 + setting.test_spread) * setting.inverse_prompts)


def _named(setting: PretrainingRatios, xi: np.ndarray, share: np.ndarray) -> LinearAttentionErrors:
    found = errors(setting, xi, share)
    return LinearAttentionErrors(*(field[()] for field in (xi, *found)))


def _setting(
    prompts_per_squared_dimension: ArrayLike,
    context_per_dimension: ArrayLike,
    tasks_per_dimension: ArrayLike,
    noise_variance: ArrayLike,
    test_context_per_dimension: ArrayLike | None,
    **others: ArrayLike,
) -> tuple[PretrainingRatios, dict[str, np.ndarray]]:
    """The checked arguments in the form of the formulas, all of one shape."""
    given = {
        "prompts_per_squared_dimension": _ratio("prompts_per_squared_dimension", prompts_per_squared_dimension),
        "context_per_dimension": check_array("context_per_dimension", context_per_dimension, low=_LEAST, high=_LARGEST),
        "tasks_per_dimension": _ratio("tasks_per_dimension", tasks_per_dimension),
        "noise_variance": check_array("noise_variance", noise_variance, low=0, high=_LARGEST),
        **{name: check_array(name, value, low=0, high=_LARGEST) for name, value in others.items()},
    }
    given["test_context_per_dimension"] = (
        given["context_per_dimension"]
        if test_context_per_dimension is None
        else _ratio("test_context_per_dimension", test_context_per_dimension)
    )
    shape = common_shape(**given)
    given = {name: np.broadcast_to(value, shape) for name, value in given.items()}
    noise = given["noise_variance"]
    inverse_prompts, spare_prompts = _inverse(given["prompts_per_squared_dimension"])
    inverse_tasks, spare_tasks = _inverse(given["tasks_per_dimension"])
    setting = PretrainingRatios(
        inverse_prompts,
        spare_prompts,
        (1 + noise) / given["context_per_dimension"],
        inverse_tasks,
        spare_tasks,
        noise,
        (1 + noise) / given["test_context_per_dimension"],
    )
    return setting, {name: given[name] for name in others}


def _ratio(name: str, value: ArrayLike) -> np.ndarray:
    array = check_array(name, value, low=_LEAST, finite=False)
    if (np.isfinite(array) & (array > _LARGEST)).any():
        raise InputError(f"{name} must be <= {_LARGEST:g} or inf, got {array[np.isfinite(array)].max():g}")
    return array


def _inverse(ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1/ratio and 1 - 1/ratio, the latter without cancellation."""
    finite = np.where(np.isfinite(ratio), ratio, 1.0)
    infinite = np.isinf(ratio)
    return np.where(infinite, 0.0, 1 / finite), np.where(infinite, 1.0, (finite - 1) / finite)

"""The path of a learned diagonal metric: majorise-minimise steps from ridge (step 0) towards a sparse metric.

Ridge with the penalty b.M^-1.b, M = diag(m), sees the data through K = X M X^T. With the penalty c = n ridge,
G = (K + c I)^-1 and T = Y Y^T / tasks the two criteria are

    evidence:             log det(K + c I) + tr(G T)
    degrees of freedom:   w + (c/n) tr[G (T - w I)]  =  mean ridge minimum + (w/n) tr(K G)

with w the `degrees_of_freedom_weight`. Both depend on the n x n matrix K only, so a step costs 2 n^2 d multiplications.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice

CRITERIA = ("evidence", "degrees_of_freedom")
_BLOCK_COLUMNS = 8192
_NEGLIGIBLE = 1e-24
_LARGEST_FACTOR = 1e4
_DOF_CAP = 1e6
# beyond it rounding of the kernel, 1e-16 of its size, is no longer small against the penalty
_LARGEST_DOF_CAP = 1e10
_STRONG = 1e2
_COMPACT = 0.8


class MetricStep(NamedTuple):
    """One point of the path."""

    step: int
    metric: np.ndarray
    """m, shape (d,); 0 where a feature is dropped."""
    objective: float
    """The criterion at this metric."""
    kernel: np.ndarray
    """K = X diag(m) X^T, shape (n, n)."""


class _MetricProblem(NamedTuple):
    """The problem in units in which c = 1 and the largest entry of X is 1."""

    design: np.ndarray
    root: np.ndarray
    """R with R R^T = T, shape (n, at most n)."""
    groups: np.ndarray | None
    norms: np.ndarray
    """|x_j|^2."""
    criterion: str
    degrees_of_freedom_weight: float
    power: float
    cap: float
    prune: float


def metric_path(
    design: ArrayLike,
    targets: ArrayLike,
    penalty: float,
    *,
    criterion: str = "evidence",
    degrees_of_freedom_weight: float | None = None,
    start: ArrayLike = 1.0,
    power: float = 0.5,
    groups: ArrayLike | None = None,
    cap: float | None = None,
    prune: float = 0.0,
    dtype: Any = np.float64,
) -> Generator[MetricStep, float | None, None]:
    """The endless path of diagonal metrics that lowers the evidence or the degrees-of-freedom criterion.

        m_j <- m_j (q_j / p_j)^power,   q_j = |Y^T G x_j|^2 / tasks,
        p_j = x_j.G x_j (evidence)  or  degrees_of_freedom_weight x_j.G^2 x_j (degrees of freedom)

    Step 0 is `start`, ridge regression if it is a number. Power 1/2 minimises a majoriser (tr(G T) <= sum of
    q_j m_old^2/m, the rest linear) below the cap, so the criterion does not rise, up to rounding of about 1e-15 times
    the largest m_j |x_j|^2 / penalty. Three things may raise it: the first step from a start above the cap, which ends
    at the cap; features that `prune` drops; a penalty that is sent. Power 1 is about twice as fast without that
    guarantee, and each factor is then kept in [1e-4, 1e4]. Columns with the same label in `groups` share a factor,
    that of the sums of m q and m p, and are capped and dropped together. Zero is absorbing.

    `targets` (n,) or (n, tasks) should be centred like `design`; more than n tasks cost no more than n.
    `degrees_of_freedom_weight` is 2 penalty unless given. `cap` bounds m_j |x_j|^2 / penalty from step 1 on; the
    degrees-of-freedom criterion has its infimum at infinity and is capped at 1e6 unless told otherwise, and at 1e10 in
    any case. `prune` drops at every step the features with the smallest m_j |x_j|^2 / n, as many as together stay below
    prune times penalty; features below 1e-24 penalty are always dropped, since denormal numbers are slow. `dtype` is
    that of the products with X; everything n x n is in double precision. `path.send(c)` in place of `next(path)` takes
    the step, and all later ones, with the penalty c and a `degrees_of_freedom_weight` in proportion.

    Sources: Wipf & Rao (2007) for the evidence of several responses; Hunter & Lange (2004) for the method.
    """
    if not (isinstance(design, np.ndarray) and design.ndim == 2 and design.dtype == dtype and design.size):
        design = check_array("design", design, ndim=2)
    scale = float(max(design.max(), -design.min())) or 1.0
    if not np.isfinite(scale):
        raise InputError("design must be finite, got nan or infinite numbers")
    n, d = design.shape
    targets = check_array("targets", targets)
    if targets.ndim not in (1, 2) or len(targets) != n:
        raise InputError(f"targets must have shape ({n},) or ({n}, tasks), got shape {targets.shape}")
    check_choice("criterion", criterion, CRITERIA)
    penalty = float(check_array("penalty", penalty, above=0, ndim=0))
    weight = (
        2 * penalty
        if degrees_of_freedom_weight is None
        else float(check_array("degrees_of_freedom_weight", degrees_of_freedom_weight, above=0, ndim=0))
    )
    power = float(check_array("power", power, above=0, high=1, ndim=0))
    prune = float(check_array("prune", prune, low=0, ndim=0))
    if cap is None:
        cap = np.inf if criterion == "evidence" else _DOF_CAP
    else:
        cap = float(check_array("cap", cap, above=0, ndim=0, finite=False))
        cap = cap if criterion == "evidence" else min(cap, _LARGEST_DOF_CAP)
    start = check_array("start", start, low=0)
    if start.ndim and start.shape != (d,):
        raise InputError(f"start must be a number or have shape ({d},), got shape {start.shape}")
    labels = None
    if groups is not None:
        labels = np.asarray(groups)
        if labels.shape != (d,):
            raise InputError(f"groups must have shape ({d},), one label per feature, got shape {labels.shape}")
        labels = np.unique(labels, return_inverse=True)[1]

    scaled = (design / scale).astype(dtype, copy=False)
    norms = np.einsum("ij,ij->j", scaled, scaled, dtype=np.float64)
    root = _target_root(targets.reshape(n, -1) / np.sqrt(penalty))
    problem = _MetricProblem(scaled, root, labels, norms, criterion, weight / penalty, power, float(cap), prune)
    unit = penalty / scale / scale
    metric = np.broadcast_to(start, (d,)) / penalty * scale * scale
    return _path(problem, metric, penalty, unit)


def _path(
    problem: _MetricProblem, metric: np.ndarray, penalty: float, unit: float
) -> Generator[MetricStep, float | None, None]:
    n, d = problem.design.shape
    active = np.arange(d)
    step = 0
    while True:
        strong = strong_columns(metric * problem.norms, 1.0)
        kernel = metric_product(problem.design, problem.design, metric, strong)
        inverse_root, log_determinant = _inverse_root(kernel)
        fit = float(np.sum((inverse_root @ problem.root) ** 2))
        if problem.criterion == "evidence":
            objective = n * np.log(penalty) + log_determinant + fit
        else:
            trace = float(np.sum(inverse_root**2))
            objective = penalty * (problem.degrees_of_freedom_weight * (1 - trace / n) + fit / n)
        whole = np.zeros(d)
        whole[active] = metric * unit
        changed = yield MetricStep(step, whole, objective, penalty * kernel)
        if changed is not None:
            ratio = float(check_array("penalty", changed, above=0, ndim=0)) / penalty
            penalty, unit, metric = penalty * ratio, unit * ratio, metric / ratio
            problem = problem._replace(root=problem.root / np.sqrt(ratio))
            inverse_root, _ = _inverse_root(kernel / ratio)
        metric = _update(problem, metric, inverse_root)
        kept = metric > 0
        if kept.sum() < _COMPACT * kept.size:
            metric, active, problem = metric[kept], active[kept], _select(problem, kept)
        step += 1


def _update(problem: _MetricProblem, metric: np.ndarray, inverse_root: np.ndarray) -> np.ndarray:
    """The next metric, with zeros for what is dropped."""
    if not metric.size:
        return metric
    gain, price = _gain_and_price(problem, inverse_root)
    if problem.groups is not None:
        gain = np.bincount(problem.groups, gain * metric)[problem.groups]
        price = np.bincount(problem.groups, price * metric)[problem.groups]
    factor = np.divide(gain, price, out=np.zeros_like(gain), where=price > 0) ** problem.power
    if problem.power > 0.5:
        factor = np.where(price > 0, np.clip(factor, 1 / _LARGEST_FACTOR, _LARGEST_FACTOR), 0.0)
    weights = metric * factor * problem.norms
    if problem.groups is None:
        largest = shares = weights
    else:
        largest = np.zeros(problem.groups.max() + 1)
        np.maximum.at(largest, problem.groups, weights)
        shares = np.bincount(problem.groups, weights)
    kept = np.minimum(1.0, np.divide(problem.cap, largest, out=np.ones_like(largest), where=largest > problem.cap))
    kept[largest < _NEGLIGIBLE] = 0.0
    if problem.prune > 0:
        order = np.argsort(shares)
        dropped = np.cumsum(kept[order] * shares[order]) / len(inverse_root) <= problem.prune
        kept[order[dropped]] = 0.0
    return metric * factor * (kept if problem.groups is None else kept[problem.groups])


def _gain_and_price(problem: _MetricProblem, inverse_root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """q_j and p_j of every feature, in blocks of columns."""
    dtype = problem.design.dtype
    columns = problem.design.shape[1]
    gain, price = np.empty(columns), np.empty(columns)
    if problem.criterion == "evidence":
        left, weight = inverse_root, 1.0
        right = (inverse_root @ problem.root).T.astype(dtype)
    else:
        left, weight = inverse_root.T @ inverse_root, problem.degrees_of_freedom_weight
        right = problem.root.T.astype(dtype)
    left = left.astype(dtype)
    for first in range(0, columns, _BLOCK_COLUMNS):
        block = slice(first, first + _BLOCK_COLUMNS)
        whitened = left @ problem.design[:, block]
        projected = right @ whitened
        price[block] = weight * np.einsum("ij,ij->j", whitened, whitened)
        gain[block] = np.einsum("ij,ij->j", projected, projected)
    return gain, price


def metric_product(first: np.ndarray, second: np.ndarray, metric: np.ndarray, strong: np.ndarray) -> np.ndarray:
    """first diag(metric) second^T in double precision, from products in the precision of the rows.

    Single precision would round away what is as large as the penalty in columns far above it, so the columns with
    the indices `strong` are multiplied in double.
    """
    product = np.zeros((len(first), len(second)))
    amplitude = np.sqrt(metric)
    if first.dtype != np.float64 and strong.size:
        left = first[:, strong] * amplitude[strong]
        product += left @ (left if second is first else second[:, strong] * amplitude[strong]).T
        amplitude[strong] = 0.0
    amplitude = amplitude.astype(first.dtype)
    for start in range(0, len(metric), _BLOCK_COLUMNS):
        block = slice(start, start + _BLOCK_COLUMNS)
        left = first[:, block] * amplitude[block]
        product += left @ (left if second is first else second[:, block] * amplitude[block]).T
    return product


def strong_columns(weights: np.ndarray, penalty: float) -> np.ndarray:
    """Indices of the columns whose weights m_j |x_j|^2 lie far above the penalty."""
    return np.flatnonzero(weights > _STRONG * penalty)


def _inverse_root(kernel: np.ndarray) -> tuple[np.ndarray, float]:
    """R with R^T R = (K + I)^-1, and log det(K + I)."""
    from scipy.linalg import solve_triangular

    n = len(kernel)
    try:
        lower = np.linalg.cholesky(kernel + np.eye(n))
    except np.linalg.LinAlgError:
        # rounding of a kernel far above the penalty
        eigenvalues, vectors = np.linalg.eigh(kernel)
        eigenvalues = np.maximum(eigenvalues, 0.0) + 1.0
        return (vectors / np.sqrt(eigenvalues)).T, float(np.log(eigenvalues).sum())
    return solve_triangular(lower, np.eye(n), lower=True), 2 * float(np.log(np.diagonal(lower)).sum())


def _target_root(targets: np.ndarray) -> np.ndarray:
    """R with R R^T = Y Y^T / tasks and at most n columns."""
    n, tasks = targets.shape
    if tasks <= n:
        return targets / np.sqrt(tasks)
    eigenvalues, vectors = np.linalg.eigh(targets @ targets.T / tasks)
    return vectors * np.sqrt(np.maximum(eigenvalues, 0.0))


def _select(problem: _MetricProblem, kept: np.ndarray) -> _MetricProblem:
    groups = None if problem.groups is None else problem.groups[kept]
    return problem._replace(design=problem.design[:, kept], groups=groups, norms=problem.norms[kept])

"""Pretraining linear attention on prompts: drawing prompts by their exact law, and three ways to the same weights.

The objective is that of `theory.linear_attention_errors`: sum (y - x^T Gamma h)^2 + (n/d) c |Gamma|_F^2, with c the
`ridge_times_dimension`: a ridge regression on the D = d (d+1) products of the query x with the feature h, which no
solver but `primal_weights` forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_choice, check_whole
from unlazy.numerics.roots import ConvergenceError

_LARGEST = 1e100
_BLOCK = 2048
# above these sizes a matrix of that many rows takes longer than the iterations that replace it
MOST_DUAL, MOST_PRIMAL = 6000, 2100
# with so many prompts per weight the iterations converge in tens of steps
_EASY_PROMPTS = 1.4
_METHODS = ("auto", "dual", "primal", "iterative")


class Prompts(NamedTuple):
    """Queries x (n, d), features h (n, d+1) of the contexts, and labels y (n,) of the queries."""

    queries: np.ndarray
    features: np.ndarray
    labels: np.ndarray


class PromptStream:
    """n prompts that are drawn anew, in batches, each time they are read: the same ones, and never all in memory."""

    def __init__(
        self,
        seed: int,
        tasks: ArrayLike,
        n: int,
        context: int,
        noise_variance: float,
        batch_size: int = _BLOCK,
    ) -> None:
        self.tasks, self.context, self.noise_variance = _checked_law(tasks, context, noise_variance)
        self.seed, self.n, self.batch_size = seed, check_whole("n", n, 1), check_whole("batch_size", batch_size, 1)

    def __iter__(self) -> Iterator[Prompts]:
        starts = range(0, self.n, self.batch_size)
        for start, child in zip(starts, np.random.SeedSequence(self.seed).spawn(len(starts)), strict=True):
            rows = min(self.batch_size, self.n - start)
            yield _draw(np.random.default_rng(child), self.tasks, rows, self.context, self.noise_variance)


def prompt_features(tokens: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """h = [(d/l) sum_i y_i x_i, (1/l) sum_i y_i^2] of contexts with tokens (..., l, d) and labels (..., l)."""
    tokens, labels = check_array("tokens", tokens), check_array("labels", labels)
    if tokens.ndim < 2 or labels.shape != tokens.shape[:-1]:
        raise InputError(
            f"tokens must have shape (..., l, d) and labels (..., l), got the shapes {tokens.shape} and {labels.shape}"
        )
    length, d = tokens.shape[-2:]
    first = d / length * np.squeeze(labels[..., None, :] @ tokens, axis=-2)
    return np.concatenate([first, np.mean(labels**2, axis=-1, keepdims=True)], axis=-1)


def draw_prompts(rng: np.random.Generator, tasks: ArrayLike, n: int, context: int, noise_variance: float) -> Prompts:
    """n prompts with tokens N(0, I/d), each with one of the rows of `tasks`, without drawing their contexts.

    Given the task, labels are N(0, t), t = |w|^2/d + rho, and a token given its label is Gaussian with mean y w/(d t)
    and covariance I/d - w w^T/(d^2 t). So with S = sum_i y_i^2 ~ t chi^2_l and g ~ N(0, I),

        (d/l) sum_i y_i x_i = (S/(l t)) w + (sqrt(d S)/l) (g - (1 - sqrt(rho/t)) w (w.g)/|w|^2)    in law,

    jointly with S: d + 1 random numbers per context instead of l (d + 1). Exact for every l, d and task.
    """
    return _draw(rng, *_law(tasks, n, context, noise_variance))


def pretrained_weights(
    prompts: Prompts | Iterable[Prompts],
    ridge_times_dimension: ArrayLike,
    *,
    method: str = "auto",
    tolerance: float = 1e-9,
) -> np.ndarray:
    """The weights Gamma that minimise the pretraining objective, of shape (d, d+1) after that of the ridges.

    `dual` solves in the n x n Gram matrix (X X^T) * (H H^T) of entrywise products, `primal` in the D x D normal matrix,
    each with one decomposition for all ridges; `iterative` runs preconditioned conjugate gradients and also takes
    batches that are read again in every iteration, such as a `PromptStream`. `auto` takes the fastest. Ridge 0 is the
    limit from above, the interpolator of least norm if n < D. `tolerance` is that of `iterative_weights`.
    """
    check_choice("method", method, _METHODS)
    ridges = check_array("ridge_times_dimension", ridge_times_dimension, low=0, high=_LARGEST)
    if not isinstance(prompts, Prompts):
        if method not in ("auto", "iterative"):
            raise InputError(f"method must be auto or iterative for batches of prompts, got {method!r}")
        return _for_all(prompts, ridges, tolerance)
    prompts = _checked(prompts)
    n, columns = len(prompts.labels), prompts.queries.shape[1] * prompts.features.shape[1]
    if method == "auto":
        if n <= columns:
            method = "dual" if n <= MOST_DUAL else "iterative"
        else:
            easy = n >= _EASY_PROMPTS * columns and ridges.size <= 4
            method = "iterative" if easy or columns > MOST_PRIMAL else "primal"
    if method == "iterative":
        return _for_all(prompts, ridges, tolerance)
    flat = (dual_weights if method == "dual" else primal_weights)(prompts, ridges.reshape(-1))
    return flat.reshape(*ridges.shape, *flat.shape[1:])


def dual_weights(prompts: Prompts, ridge_times_dimension: np.ndarray) -> np.ndarray:
    """Gamma = sum_m a_m x_m h_m^T with ((X X^T) * (H H^T) + (n/d) c) a = y: n^2 d + n^3 operations."""
    queries, features, labels = prompts
    n, d = queries.shape
    gram = queries @ queries.T
    gram *= features @ features.T
    penalties = n / d * ridge_times_dimension
    coefficients = _solutions(gram, labels, penalties)
    return np.stack([(queries * a[:, None]).T @ features for a in coefficients])


def primal_weights(prompts: Prompts, ridge_times_dimension: np.ndarray) -> np.ndarray:
    """The normal equations of all D products: n D^2 + D^3 operations."""
    queries, features, labels = prompts
    (n, d), width = queries.shape, features.shape[1]
    normal, target = np.zeros((d * width, d * width)), np.zeros(d * width)
    for start in range(0, n, _BLOCK):
        rows = slice(start, start + _BLOCK)
        products = (queries[rows, :, None] * features[rows, None, :]).reshape(-1, d * width)
        normal += products.T @ products
        target += labels[rows] @ products
    found = _solutions(normal, target, n / d * ridge_times_dimension)
    return found.reshape(len(ridge_times_dimension), d, width)


def iterative_weights(
    prompts: Prompts | Iterable[Prompts],
    ridge_times_dimension: float,
    *,
    tolerance: float = 1e-9,
    max_iterations: int = 20_000,
) -> np.ndarray:
    """Gamma by conjugate gradients on the normal equations, 4 n D operations per iteration and no D columns.

    With P_x = (X^T X/n)^(-1/2) and P_h = (H^T H/n + c)^(-1/2) the weights are Gamma = P_x C P_h: for independent
    queries and features the normal matrix of C is near the identity, and tau = n/D = 2 takes some 60 iterations at any
    d. With n <= D, where the interpolator of least norm is wanted, there is no preconditioner. The residual of the
    normal equations falls to `tolerance` of its start, or ConvergenceError is raised.
    """
    queries_gram, features_gram, target, n = _first_pass(prompts)
    d, width = target.shape
    penalty = n / d * ridge_times_dimension
    if n <= d * width:
        left, right = np.eye(d), np.eye(width)
    else:
        left = _inverse_root(queries_gram / n, 0.0)
        right = _inverse_root(features_gram / n, ridge_times_dimension)

    def normal(c: np.ndarray) -> np.ndarray:
        weights = left @ c @ right
        found = penalty * weights
        for batch in _blocks(prompts):
            fitted = np.einsum("ij,ij->i", batch.queries @ weights, batch.features)
            found += (batch.queries * fitted[:, None]).T @ batch.features
        return left @ found @ right

    solution = np.zeros((d, width))
    residual = left @ target @ right
    direction = residual.copy()
    square = start = float(np.sum(residual**2))
    for _ in range(max_iterations):
        if square <= tolerance**2 * start:
            return left @ solution @ right
        image = normal(direction)
        step = square / float(np.sum(direction * image))
        solution += step * direction
        residual -= step * image
        square, before = float(np.sum(residual**2)), square
        direction = residual + square / before * direction
    raise ConvergenceError(
        f"conjugate gradients reached {np.sqrt(square / start):.1e} of their start in {max_iterations} iterations, not "
        f"{tolerance:g}: n = {n} prompts are near the {d * width} weights and the ridge is small"
    )


def _solutions(matrix: np.ndarray, target: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """(A + penalty I)^-1 target for every penalty (rows), target in the range of A; at 0 by the pseudo-inverse."""
    from scipy.linalg import cho_factor, cho_solve, eigh

    if penalties.size == 1 and penalties[0] > len(matrix) * np.finfo(np.float64).eps * np.trace(matrix):
        matrix[np.diag_indices_from(matrix)] += penalties[0]
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return cho_solve(factor, target, check_finite=False)[None]
    values, vectors = eigh(matrix, overwrite_a=True, check_finite=False)
    rounding = len(values) * np.finfo(np.float64).eps * values[-1]
    # the target has no part along eigenvalues that vanish; a small penalty would blow up its rounding there
    kept = values > rounding
    shrunk = (target @ vectors)[kept] / (values[kept] + penalties[:, None])
    return shrunk @ vectors[:, kept].T


def _for_all(prompts: Prompts | Iterable[Prompts], ridges: np.ndarray, tolerance: float) -> np.ndarray:
    found = [iterative_weights(prompts, float(ridge), tolerance=tolerance) for ridge in ridges.reshape(-1)]
    return np.reshape(found, (*ridges.shape, *found[0].shape))


def _first_pass(prompts: Prompts | Iterable[Prompts]) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """X^T X, H^T H, X^T diag(y) H and n."""
    sums: list[np.ndarray] = []
    n = 0
    for batch in _blocks(prompts):
        queries, features, labels = batch
        parts = [queries.T @ queries, features.T @ features, (queries * labels[:, None]).T @ features]
        sums = [old + new for old, new in zip(sums, parts, strict=True)] if sums else parts
        n += len(labels)
    if not n:
        raise InputError("prompts must have at least one batch, got none")
    return sums[0], sums[1], sums[2], n


def _blocks(prompts: Prompts | Iterable[Prompts]) -> Iterator[Prompts]:
    """Batches that stay in the cache."""
    if not isinstance(prompts, Prompts):
        for batch in prompts:
            yield _checked(batch)
        return
    for start in range(0, len(prompts.labels), _BLOCK):
        yield Prompts(*(field[start : start + _BLOCK] for field in prompts))


def _inverse_root(matrix: np.ndarray, shift: float) -> np.ndarray:
    """(A + shift)^(-1/2); directions that no prompt has are left as they are."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, len(values) * np.finfo(np.float64).eps * values[-1]) + shift
    return (vectors / np.sqrt(values)) @ vectors.T


def _draw(rng: np.random.Generator, tasks: np.ndarray, n: int, context: int, noise_variance: float) -> Prompts:
    d = tasks.shape[1]
    chosen = tasks[rng.integers(len(tasks), size=n)]
    squares = np.sum(chosen**2, axis=1)
    variance = squares / d + noise_variance
    # chi^2_l, so that S = t chi
    chi = rng.chisquare(context, n)
    noise = rng.standard_normal((n, d))
    shrink = 1 - np.sqrt(np.divide(noise_variance, variance, out=np.ones(n), where=variance > 0))
    along = np.divide(np.einsum("ij,ij->i", chosen, noise), squares, out=np.zeros(n), where=squares > 0)
    features = np.empty((n, d + 1))
    features[:, :d] = (np.sqrt(d * variance * chi) / context)[:, None] * noise
    own = chi / context - np.sqrt(d * variance * chi) / context * shrink * along
    features[:, :d] += own[:, None] * chosen
    features[:, d] = variance * chi / context
    queries = rng.standard_normal((n, d)) / np.sqrt(d)
    labels = np.einsum("ij,ij->i", queries, chosen) + np.sqrt(noise_variance) * rng.standard_normal(n)
    return Prompts(queries, features, labels)


def _law(tasks: ArrayLike, n: int, context: int, noise_variance: float) -> tuple[np.ndarray, int, int, float]:
    tasks, context, noise_variance = _checked_law(tasks, context, noise_variance)
    return tasks, check_whole("n", n, 1), context, noise_variance


def _checked_law(tasks: ArrayLike, context: int, noise_variance: float) -> tuple[np.ndarray, int, float]:
    tasks = check_array("tasks", tasks, ndim=2, low=-_LARGEST, high=_LARGEST)
    noise = float(check_array("noise_variance", noise_variance, low=0, high=_LARGEST, ndim=0))
    return tasks, check_whole("context", context, 1), noise


def _checked(prompts: Prompts) -> Prompts:
    queries, features = (
        check_array(name, value, ndim=2)
        for name, value in (("queries", prompts.queries), ("features", prompts.features))
    )
    labels = check_array("labels", prompts.labels, ndim=1)
    if not len(queries) == len(features) == len(labels):
        raise InputError(
            f"queries, features and labels must have one row per prompt, got {len(queries)}, {len(features)} and "
            f"{len(labels)}"
        )
    return Prompts(queries, features, labels)

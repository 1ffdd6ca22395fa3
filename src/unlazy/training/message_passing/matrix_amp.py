"""Approximate message passing for softmax regression: matrix iterates and a K x K Onsager term.

In r = K - 1 contrasts (W = W_r B^T), for rows x_i of group c(i) with covariance Omega_c and second moment S_c:

    omega_i = x_i W - V_c g_i,   (g_i, dg_i) of the proximal operator at (y_i, omega_i, V_c)
    Vh_c = -sum_{i in c} dg_i
    A_j = (penalty I + sum_c S_cj Vh_c)^-1,   W_j = A_j (X^T g + sum_c S_c W Vh_c)_j,   V_c = sum_j Omega_cj A_j

A fixed point is the minimiser of sum_i loss + (penalty/2)|W|^2 for any positive V and Vh: these only decide whether and
how fast the iteration gets there. Everything happens in one basis in which the S_c are diagonal. Problems batch with
`jax.vmap`. Source: Cakmak, Lu & Opper 2024.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError, check_known
from unlazy.numerics.contrasts import helmert_contrasts

_PROX_STEPS = 100
_LARGEST_RESPONSE = 100.0
_FEW = 4


class AmpProblem(NamedTuple):
    """The rows in the basis of the second moments, and what is known of their law."""

    rows: Array
    """(n, d)."""
    labels: Array
    """(n,), 0 to K - 1."""
    groups: Array
    """(n,), 0 to G - 1: which law a row has."""
    used: Array
    """(n,), 1 or 0: whether a row counts."""
    contrasts: Array
    """B (K, r)."""
    second: Array
    """S_c (G, d), diagonals in the basis of the rows."""
    spread: Array
    """Omega_c (G, d), diagonals in the basis of the rows."""
    penalty: Array
    """Of the sum over rows, > 0."""


class State(NamedTuple):
    """What one step hands to the next."""

    weights: Array
    """W_r (d, r), in the basis of the rows."""
    pulls: Array
    """g (n, r)."""
    responses: Array
    """V_c (G, r, r)."""
    fields: Array
    """omega (n, r)."""
    start: Array
    """Where the proximal operator's Newton iteration begins (r, n)."""


class Info(NamedTuple):
    """What one step did."""

    change: Array
    """The mean over rows of |omega' - omega|^2."""


def problem(
    rows: Array,
    labels: Array,
    classes: int,
    penalty: ArrayLike,
    *,
    second: Array,
    spread: Array | None = None,
    groups: Array | None = None,
    used: Array | None = None,
) -> AmpProblem:
    """A problem of rows (n, d) whose second moments are diagonal: `second` and `spread` are (d,) or (G, d).

    `spread` is the covariance within a cluster; without it the rows have mean 0 and it is `second`. Values that JAX
    traces are not checked.
    """
    basis = helmert_contrasts(classes)
    rows, labels = (jnp.asarray(given) for given in (check_known("rows", rows, ndim=2), _numbered(labels, classes)))
    if labels.shape != rows.shape[:1]:
        raise InputError(f"labels must have one entry per row, {len(rows)}, got shape {labels.shape}")
    rows = rows.astype(jnp.result_type(rows.dtype, jnp.float32))
    second = jnp.atleast_2d(jnp.asarray(check_known("second", second, low=0), rows.dtype))
    if second.ndim != 2 or second.shape[1] != rows.shape[1]:
        raise InputError(f"second must have {rows.shape[1]} columns like rows, got shape {second.shape}")
    if spread is not None:
        spread = jnp.atleast_2d(jnp.asarray(check_known("spread", spread, low=0), rows.dtype))
        if spread.shape not in (second.shape, (1, second.shape[1])):
            raise InputError(f"spread must have the shape of second, {second.shape}, got {spread.shape}")
    spread = second if spread is None else jnp.broadcast_to(spread, second.shape)
    groups = jnp.zeros(labels.shape, int) if groups is None else jnp.asarray(_numbered(groups, len(second), "groups"))
    used = jnp.ones(len(rows)) if used is None else jnp.asarray(check_known("used", used, low=0, high=1))
    for name, array in (("groups", groups), ("used", used)):
        if array.shape != labels.shape:
            raise InputError(f"{name} must have one entry per row, {len(rows)}, got shape {array.shape}")
    strength = jnp.asarray(check_known("penalty", penalty, above=0, ndim=0), rows.dtype)
    dtype = rows.dtype
    return AmpProblem(rows, labels, groups, used.astype(dtype), jnp.asarray(basis, dtype), second, spread, strength)


def _numbered(values: ArrayLike, count: int, name: str = "labels") -> ArrayLike:
    """Whole numbers 0 to count - 1: an index out of range would be taken for the last one without a word."""
    check_known(name, values, low=0, high=count - 1, ndim=1, whole=True)
    return jnp.asarray(values).astype(int)


def rotated_problem(
    rows: np.ndarray, labels: np.ndarray, classes: int, penalty: float, *, second: np.ndarray, spread: np.ndarray
) -> tuple[AmpProblem, np.ndarray]:
    """The problem for full (d, d) moments, and the basis U: weights of the given coordinates are U W_r B^T."""
    values, basis = np.linalg.eigh(second)
    # of the covariance only the diagonal in this basis acts: V = sum_j (U^T Omega U)_jj A_j
    inner = np.sum(basis * (spread @ basis), axis=0)
    found = problem(
        jnp.asarray(rows @ basis),
        jnp.asarray(labels),
        classes,
        penalty,
        second=jnp.asarray(np.maximum(values, 0.0)),
        spread=jnp.asarray(np.maximum(inner, 0.0)),
    )
    return found, basis


def init(given: AmpProblem) -> State:
    """W = 0, g = 0, V_c = min(tr Omega_c / penalty, 100) I."""
    n, r = len(given.rows), given.contrasts.shape[1]
    size = jnp.minimum(given.spread.sum(axis=1) / given.penalty, _LARGEST_RESPONSE)
    zero = jnp.zeros((n, r), given.rows.dtype)
    responses = size[:, None, None] * jnp.eye(r, dtype=zero.dtype)
    return State(jnp.zeros((given.rows.shape[1], r), zero.dtype), zero, responses, zero, zero.T)


def step(state: State, given: AmpProblem, damping: ArrayLike = 0.0) -> tuple[State, Info]:
    """One step; `damping` is the share of the old W and V that stays."""
    scores = _scores(given.rows, state.weights)
    fields = scores - jnp.einsum("na,nab->nb", state.pulls, state.responses[given.groups])
    roots = cholesky(state.responses)
    pulls, slopes, start = softmax_prox(given, fields.T, roots, state.start)
    pulls, slopes = pulls * given.used, slopes * given.used
    member = jax.nn.one_hot(given.groups, len(given.second), dtype=pulls.dtype)
    curvature = -jnp.einsum("abn,ng->gab", slopes, member)
    r = given.contrasts.shape[1]
    inner = jnp.einsum("gab,gj->abj", curvature, given.second) + given.penalty * jnp.eye(r)[:, :, None]
    inverse = solve_positive(inner, jnp.broadcast_to(jnp.eye(r)[:, :, None], inner.shape))
    memory = jnp.einsum("gj,jb,gba->ja", given.second, state.weights, curvature)
    weights = jnp.einsum("abj,jb->ja", inverse, _gathered(given.rows, pulls) + memory)
    responses = jnp.einsum("gj,abj->gab", given.spread, inverse)
    responses = (responses + responses.swapaxes(1, 2)) / 2
    kept = jnp.asarray(damping, weights.dtype)
    mixed = State(
        kept * state.weights + (1 - kept) * weights,
        pulls.T,
        kept * state.responses + (1 - kept) * responses,
        fields,
        start,
    )
    moved = jnp.sum(given.used[:, None] * (fields - state.fields) ** 2) / jnp.sum(given.used)
    return mixed, Info(moved)


def run(given: AmpProblem, iterations: int, damping: ArrayLike = 0.0, start: State | None = None) -> tuple[State, Info]:
    """So many iterations from `init` or from `start`; the infos of all of them."""
    begin = init(given) if start is None else start
    return jax.lax.scan(lambda state, _: step(state, given, damping), begin, None, length=iterations)


def residual(given: AmpProblem, state: State) -> Array:
    """The length of the gradient of sum_i loss + (penalty/2)|W|^2; W is at most residual/penalty from the minimum.

    The second as the function is strongly convex with the constant `penalty`.
    """
    shares = jax.nn.softmax(given.rows @ state.weights @ given.contrasts.T, axis=1)
    pulls = (given.contrasts[given.labels] - shares @ given.contrasts) * given.used[:, None]
    return jnp.linalg.norm(given.penalty * state.weights - given.rows.T @ pulls)


def coefficients(given: AmpProblem, state: State) -> Array:
    """W = W_r B^T (d, K), in the basis of the rows: `coef_.T` of scikit-learn for K >= 3."""
    return state.weights @ given.contrasts.T


def decay_factor(changes: ArrayLike, first: int = 5, last: int = 25, floor: float = 1e-18) -> np.ndarray:
    """The factor per step of a sequence that decays geometrically: a log-linear fit over steps first to last.

    Entries below `floor`, where rounding ends the decay, do not count; it is NaN where fewer than three are left or one
    is not finite.
    """
    part = np.asarray(changes, dtype=float)[..., first : last + 1]
    weight = (part > floor).astype(float)
    logs = np.log(np.where(part > floor, part, 1.0))
    time = first + np.arange(part.shape[-1])
    with np.errstate(invalid="ignore", divide="ignore"):
        centered = time - (weight * time).sum(-1, keepdims=True) / weight.sum(-1, keepdims=True)
        rate = np.exp((weight * centered * logs).sum(-1) / (weight * centered**2).sum(-1))
    return np.where((weight.sum(-1) > 2) & np.isfinite(part).all(-1), rate, np.nan)


def softmax_prox(given: AmpProblem, fields: Array, roots: Array, start: Array) -> tuple[Array, Array, Array]:
    """g (r, n), dg (r, r, n) and the start of the next call, with V_c = L_c L_c^T and p = omega + L v.

    Newton's steps in v are shortened to log(1 + s)/s of their length, s the range of the scores' change: the third
    derivative of softmax is at most s times the second, so that this converges from everywhere and at last
    quadratically (Sun & Tran-Dinh 2019, generalised self-concordance).
    """
    basis = given.contrasts
    r = basis.shape[1]
    pairs = (basis[:, :, None] * basis[:, None, :]).reshape(-1, r * r).T
    root = roots[given.groups].transpose(1, 2, 0)
    flipped = root.swapaxes(0, 1)
    target = basis[given.labels].T
    eye = jnp.eye(r, dtype=fields.dtype)[:, :, None]
    tolerance = 1e-10 * (1 + jnp.abs(roots).max())

    def newton(carry: _Newton) -> _Newton:
        shares = jax.nn.softmax(basis @ (fields + _times(root, carry.at[:, None])[:, 0]), axis=0)
        mean = basis.T @ shares
        hessian = (pairs @ shares).reshape(root.shape) - mean[:, None] * mean[None]
        half = _times(flipped, hessian)
        gradient = carry.at - _times(flipped, (target - mean)[:, None])[:, 0]
        # one elimination for the step and for dg = half^T (I + L^T H L)^-1 half - H: compiled code is short
        solved = solve_positive(eye + _times(half, root), jnp.concatenate([gradient[:, None], half], axis=1))
        scores = basis @ _times(root, solved[:, :1])[:, 0]
        reach = scores.max(axis=0) - scores.min(axis=0)
        length = jnp.where(reach > 1e-6, jnp.log1p(reach) / jnp.maximum(reach, 1e-6), 1.0)
        slope = _times(half.swapaxes(0, 1), solved[:, 1:]) - hessian
        return _Newton(carry.at - length * solved[:, 0], target - mean, slope, jnp.abs(gradient).max(), carry.steps + 1)

    def open_(carry: _Newton) -> Array:
        return (carry.error > tolerance) & (carry.steps < _PROX_STEPS)

    begin = _Newton(
        start, target, jnp.zeros(root.shape, fields.dtype), jnp.asarray(jnp.inf, fields.dtype), jnp.asarray(0)
    )
    end = jax.lax.while_loop(open_, newton, begin)
    return end.pull, end.slope, end.at


class _Newton(NamedTuple):
    """v, and g and dg at the v before; the largest entry of the gradient there."""

    at: Array
    pull: Array
    slope: Array
    error: Array
    steps: Array


def solve_positive(matrices: Array, right: Array) -> Array:
    """matrices^-1 right per point for positive definite (r, r, N) and (r, m, N): elimination, which needs no pivots."""
    r = len(matrices)

    def eliminate(j: Array, work: Array) -> Array:
        row = work[j] / work[j, j]
        others = work - work[:, j][:, None] * row
        return others.at[j].set(row)

    # a loop, not r copies: those compile for seconds
    return jax.lax.fori_loop(0, r, eliminate, jnp.concatenate([matrices, right], axis=1))[:, r:]


def cholesky(matrices: Array) -> Array:
    """L with L L^T = matrices (..., r, r), without LAPACK: its compiled calls may not run in two threads at once."""

    def column(j: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, root = carry
        found = left[..., :, j] / jnp.sqrt(left[..., j, j])[..., None]
        return left - found[..., :, None] * found[..., None, :], root.at[..., :, j].set(found)

    return jax.lax.fori_loop(0, matrices.shape[-1], column, (matrices, jnp.zeros_like(matrices)))[1]


def _scores(rows: Array, weights: Array) -> Array:
    """rows @ weights, column by column if there are few: compiled loops do narrow products slowly."""
    if weights.shape[1] > _FEW:
        return rows @ weights
    return jnp.stack([rows @ column for column in weights.T], axis=1)


def _gathered(rows: Array, pulls: Array) -> Array:
    """rows^T pulls^T for pulls (r, n), one contrast after the other if there are few."""
    if len(pulls) > _FEW:
        return (pulls @ rows).T
    return jnp.stack([pull @ rows for pull in pulls], axis=1)


def _times(one: Array, other: Array) -> Array:
    """Matrix products per point of (r, s, N) and (s, m, N): sums of fused products beat many tiny matrix products."""
    return jnp.sum(one[:, :, None] * other[None], axis=1)

"""Update rules: what becomes of the gradient of a view.

A rule is an optax transformation of `Weights`, so optax's linear ones (`trace`, `ema`, `scale`, `add_decayed_weights`,
schedules, `chain`) apply as they are, exactly. What treats coordinates one by one, Adam or the sign, is not equivariant
under rotations and does not exist in token coordinates: `train` reports such a run as diverged. optax's clipping and
normalising by a norm take that of the coordinates, not of the weights, which nothing reports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError, check_known
from unlazy.training.signal_noise.token_gram.problem import PatchProblem
from unlazy.training.signal_noise.token_gram.views import View, full_batch
from unlazy.training.signal_noise.token_gram.weights import Weights, squared_norm, weight_gram

Radius = ArrayLike | Callable[[Array], Array]


class UpdateRule(NamedTuple):
    """A transformation of gradients, what a step sees, and the radius of sharpness-aware minimisation if there is one.

    With a radius the gradient is taken at W + radius g/|g|_F, g the gradient at W (SAM). A schedule `radius(step)` is
    allowed: radius 0 from some step on is SAM, then plain descent.
    """

    transform: optax.GradientTransformation
    view: View = full_batch
    radius: Radius | None = None


def gradient_descent(
    step_size: ArrayLike,
    *,
    momentum: ArrayLike | None = None,
    average: ArrayLike | None = None,
    weight_decay: ArrayLike | None = None,
    view: View = full_batch,
    radius: Radius | None = None,
) -> UpdateRule:
    """W <- W - step_size M, with M = g the gradient of the view.

    `momentum` b makes it M <- b M + g (heavy ball), `average` b M <- b M + (1 - b) g from M = 0; at most one of them.
    `weight_decay` adds weight_decay * W to g (coupled: before the momentum; W0 shrinks too).
    """
    _check_numbers(step_size, radius)
    for name, number in {"momentum": momentum, "average": average}.items():
        if number is not None:
            check_known(name, number, ndim=0, low=0, high=1)
    if weight_decay is not None:
        check_known("weight_decay", weight_decay, ndim=0, low=0)
    if momentum is not None and average is not None:
        raise InputError("give momentum or average, not both: they are two conventions for the same rule")
    parts = [] if weight_decay is None else [optax.add_decayed_weights(weight_decay)]
    if momentum is not None:
        parts.append(optax.trace(momentum))
    if average is not None:
        parts.append(optax.ema(average, debias=False))
    return UpdateRule(optax.chain(*parts, optax.scale_by_learning_rate(step_size)), view, radius)


def normalised(step_size: ArrayLike, *, view: View = full_batch, radius: Radius | None = None) -> UpdateRule:
    """W <- W - step_size g/|g|_F."""
    _check_numbers(step_size, radius)
    return UpdateRule(optax.chain(normalise(), optax.scale_by_learning_rate(step_size)), view, radius)


def muon(
    step_size: ArrayLike,
    *,
    momentum: ArrayLike | None = None,
    view: View = full_batch,
    radius: Radius | None = None,
) -> UpdateRule:
    """W <- W - step_size (M M^T)^(-1/2) M, the polar factor of the gradient or of its momentum M <- b M + g.

    Small singular values of M are dropped: see `polar_factor`.
    """
    _check_numbers(step_size, radius)
    if momentum is not None:
        check_known("momentum", momentum, ndim=0, low=0, high=1)
    parts = [] if momentum is None else [optax.trace(momentum)]
    return UpdateRule(optax.chain(*parts, polar_factor(), optax.scale_by_learning_rate(step_size)), view, radius)


def gradient_flow(fraction: ArrayLike = 0.1, *, view: View = full_batch) -> UpdateRule:
    """Gradient descent whose step moves no token's pre-activation by more than `fraction` of the largest one.

    The step size is fraction max|H| / max|D G|: gradient flow at its own pace, not descent at a constant rate. From
    a small initialisation and with q >= 2 it takes hundreds of steps where the latter takes many thousands.
    """
    check_known("fraction", fraction, ndim=0, above=0)
    return UpdateRule(optax.chain(relative_step(fraction), optax.scale(-1.0)), view)


def either(choice: ArrayLike, first: UpdateRule, second: UpdateRule) -> UpdateRule:
    """The first rule if a traced `choice` is true, else the second: one program serves both.

    They must have the same view and radius.
    """
    rules = [optax.with_extra_args_support(rule.transform) for rule in (first, second)]

    def update(updates: Any, states: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        made = [rule.update(updates, state, params, **extra) for rule, state in zip(rules, states, strict=True)]
        (one, other), after = zip(*made, strict=True)
        return jax.tree.map(lambda a, b: jnp.where(choice, a, b), one, other), after

    both = optax.GradientTransformationExtraArgs(lambda params: tuple(rule.init(params) for rule in rules), update)
    return first._replace(transform=both)


def switch(radius: ArrayLike, at: ArrayLike) -> Callable[[Array], Array]:
    """A schedule for `UpdateRule.radius`: `radius` for the first `at` steps, then 0."""
    check_known("radius", radius, ndim=0, low=0)
    check_known("at", at, ndim=0, low=0)
    return lambda step: jnp.where(step < at, jnp.asarray(radius, float), 0.0)


def normalise() -> optax.GradientTransformationExtraArgs:
    """Divide by the Frobenius norm in weight space; a zero gradient stays zero."""

    def apply(updates: Weights, weights: Weights, problem: PatchProblem) -> Weights:
        return times(inverse(jnp.sqrt(squared_norm(problem, updates))), updates)

    return _stateless(apply)


def polar_factor() -> optax.GradientTransformationExtraArgs:
    """Replace V by (V V^T)^(-1/2) V, from the R x R matrix V V^T alone: the SVD of `unlazy.optim` needs the d columns.

    Eigenvalues up to max(R, K) eps of the largest, eps the machine's epsilon, are rounding errors and count as 0. So
    singular values of V below sqrt(max(R, K) eps) of the largest are dropped, about 1e-7 in double and .004 in single
    precision, and those just above come out as 1 to some per cent only. `unlazy.optim.scale_by_polar_factor`, which has
    the vectors, keeps what is larger than eps, and agrees where nothing lies between. V must be a combination of
    tokens: weight decay before it would bring in W0, row by row in other proportions; such a run is reported as
    diverged at its first step.
    """

    def apply(updates: Weights, weights: Weights, problem: PatchProblem) -> Weights:
        values, vectors = jnp.linalg.eigh(weight_gram(problem, updates))
        negligible = max(updates.coefficients.shape) * jnp.finfo(values.dtype).eps
        roots = jnp.where(values > negligible * values[-1], inverse(jnp.sqrt(jnp.maximum(values, 0.0))), 0.0)
        left = (vectors * roots) @ vectors.T
        return Weights(
            coefficients=left @ updates.coefficients,
            initial=jnp.where(updates.initial == 0, updates.initial, jnp.nan),
            preactivations=left @ updates.preactivations,
        )

    return _stateless(apply)


def relative_step(fraction: ArrayLike) -> optax.GradientTransformationExtraArgs:
    """Scale so that the largest change of a pre-activation is `fraction` of the largest pre-activation."""

    def apply(updates: Weights, weights: Weights, problem: PatchProblem) -> Weights:
        largest = jnp.max(jnp.abs(weights.preactivations))
        return times(jnp.asarray(fraction) * largest * inverse(jnp.max(jnp.abs(updates.preactivations))), updates)

    return _stateless(apply)


def _check_numbers(step_size: Any, radius: Radius | None) -> None:
    if not callable(step_size):
        check_known("step_size", step_size, ndim=0, low=0)
    if radius is not None and not callable(radius):
        check_known("radius", radius, ndim=0, low=0)


def times(factor: Array, vector: Weights) -> Weights:
    """A multiple of a vector."""
    return jax.tree.map(lambda leaf: factor * leaf, vector)


def inverse(number: Array) -> Array:
    """1/x, and 0 for x = 0."""
    return jnp.where(number > 0, 1 / jnp.where(number > 0, number, 1.0), 0.0)


def _stateless(apply: Callable[[Weights, Weights, PatchProblem], Weights]) -> optax.GradientTransformationExtraArgs:
    def update(updates: Any, state: Any, params: Any = None, *, problem: PatchProblem, **other: Any) -> tuple[Any, Any]:
        return apply(updates, params, problem), state

    return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)

"""Message passing that knows the law of the weights and of the labels (Rangan 2011): generalised AMP on given rows."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr

from unlazy.theory.message_passing.optimal import LabelLaw, NormalWeights, SignWeights, WeightLaw
from unlazy.theory.message_passing.teachers import LinearTeacher, LogitTeacher, SignTeacher
from unlazy.training.loop import evolve

_KNOWN = 1e-3
"""The mean variance of the weights below which they are known."""


class Problem(NamedTuple):
    """Rows (n, d) with entries of variance 1/d, labels (n,), and which of them are used."""

    rows: jax.Array
    labels: jax.Array
    used: jax.Array


class State(NamedTuple):
    """Posterior means (d,), the mean of their variances, and what the labels say about the fields (n,)."""

    estimate: jax.Array
    unknown: jax.Array
    message: jax.Array


def init(problem: Problem) -> State:
    """Nothing is known."""
    rows = problem.rows
    return State(jnp.zeros(rows.shape[1], rows.dtype), jnp.ones((), rows.dtype), jnp.zeros(rows.shape[0], rows.dtype))


def step(state: State, problem: Problem, weight_law: WeightLaw, label_law: LabelLaw) -> State:
    """One exchange of messages between the weights and the labels."""
    rows, labels, used = problem
    spread = state.unknown
    fields = rows @ state.estimate - spread * state.message
    message, slope = (used * part for part in _said(label_law, labels, fields, spread))
    precision = slope.sum() / rows.shape[1]
    mean, variance = _posterior(weight_law, precision, precision * state.estimate + rows.T @ message)
    return State(mean, variance.mean(), message)


def run(problem: Problem, weight_law: WeightLaw, label_law: LabelLaw, steps: int) -> State:
    """So many exchanges, from nothing, or fewer if the weights are known before: without noise what is said of known
    weights grows without bound, and they would be lost again."""
    return evolve(
        lambda _, state: step(state, problem, weight_law, label_law),
        init(problem),
        steps,
        stop=lambda state: state.unknown < _KNOWN,
    )[0]


def _said(label_law: LabelLaw, labels: jax.Array, fields: jax.Array, spread: jax.Array) -> tuple[jax.Array, jax.Array]:
    """g = d log P(label) / d field for a field that is known up to a normal error, and -dg/dfield."""
    if isinstance(label_law, LogitTeacher):
        raise NotImplementedError("message passing for logit labels")
    if isinstance(label_law, LinearTeacher):
        total = spread + label_law.noise_variance
        return (labels - fields) / total, jnp.ones_like(fields) / total
    flip = label_law.flip_probability if isinstance(label_law, SignTeacher) else 0.0
    total = spread if isinstance(label_law, SignTeacher) else spread + label_law.noise_variance
    scaled = labels * fields / jnp.sqrt(total)
    chance = jnp.logaddexp(jnp.log(flip), jnp.log1p(-2 * flip) + log_ndtr(scaled)) if flip else log_ndtr(scaled)
    density = (1 - 2 * flip) * jnp.exp(-(scaled**2) / 2 - jnp.log(2 * jnp.pi) / 2 - chance)
    message = labels * density / jnp.sqrt(total)
    return message, message**2 + message * fields / total


def _posterior(weight_law: WeightLaw, precision: jax.Array, field: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and variance of a weight with the density law(w) exp(field w - precision w^2 / 2)."""
    if isinstance(weight_law, NormalWeights):
        return field / (1 + precision), jnp.ones_like(field) / (1 + precision)
    if isinstance(weight_law, SignWeights):
        return jnp.tanh(field), 1 / jnp.cosh(field) ** 2
    share = weight_law.nonzero_share
    variance = 1 / (share + precision)
    mean = field * variance
    present = jax.nn.sigmoid(jnp.log(share / (1 - share)) + jnp.log(share * variance) / 2 + field * mean / 2)
    return present * mean, present * (variance + (1 - present) * mean**2)

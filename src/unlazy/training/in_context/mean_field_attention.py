"""Wide two-layer features below a linear attention layer, trained in the mean-field scaling.

The features are h(x) = (1/N) sum_i a_i sigma(w_i . x) in R^k; a prompt (x_i, y_i = v . f(x_i)) is answered at x by
(1/n) sum_i y_i h(x_i)^T A h(x). Averaged over tasks v ~ N(0, I) and long prompts the risk is E|f - C A h|^2 with
C = E[f h^T]. The dynamics are composed of pure functions of a `State`:

    descend     theta_i <- theta_i - step_size N dL/dtheta_i, and A <- A - attention_step_size dL/dA
    rebirth     each neuron is redrawn from its initial law with some probability (birth and death)
    kick        theta <- theta + size H v / rms(H v), H the Hessian and v Gaussian: a Gaussian process perturbation

"static" descends `best_loss`, where A is at its optimum; "attention" descends `attention_loss` in all parameters;
"modified" is static with rebirth and kicks. Source: Kim & Suzuki 2024.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import jax.scipy.special
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError
from unlazy.random import normal

Elementwise = Callable[[Array], Array]


class State(NamedTuple):
    """All parameters."""

    weights: Array
    """w_i as rows (N, d)."""
    outputs: Array
    """a_i as rows (N, k)."""
    attention: Array
    """A (k, k)."""


class NeuronLaw(NamedTuple):
    """The law of a neuron: w ~ N(0, deviation^2 I / d), a = scale (B^T w + noise g), g ~ N(0, I).

    As a depends on w, the features of infinitely many neurons are not 0; with independent a of mean 0 they would be.
    """

    readout: Array
    """B (d, k)."""
    deviation: ArrayLike
    noise: ArrayLike
    scale: ArrayLike


class TokenBatch(NamedTuple):
    """Tokens x as rows (n, d) and the teacher's features f(x) (n, k')."""

    tokens: Array
    targets: Array


class FeatureMoments(NamedTuple):
    """What the loss depends on: E|f|^2, E[f h^T] (k', k) and E[h h^T] (k, k)."""

    power: Array
    cross: Array
    covariance: Array


Loss = Callable[[State], Array]


def neurons(draws: Array, law: NeuronLaw) -> tuple[Array, Array]:
    """First and second layers (N, d) and (N, k) of neurons of the law, from N (d + k) standard normal numbers."""
    d, k = law.readout.shape
    first, second = jnp.split(draws, [draws.size * d // (d + k)])
    weights = jnp.asarray(law.deviation) / d**0.5 * first.reshape(-1, d)
    return weights, law.scale * (weights @ law.readout + law.noise * second.reshape(-1, k))


def init(
    key: Array,
    d: int,
    features: int,
    width: int,
    *,
    tokens: Array,
    activation: Elementwise,
    deviation: float = 2.0,
    noise: float = 0.5,
    attention: float = 0.3,
) -> tuple[State, NeuronLaw]:
    """A state of independent neurons and their law, scaled so that tr E[h h^T] = k on the tokens; A = attention I."""
    for name, size in (("d", d), ("features", features)):
        if size < 1:
            raise InputError(f"{name} must be >= 1, got {size}")
    if width < features:
        raise InputError(f"width must be at least features = {features}, or E[h h^T] is singular; got {width}")
    readout, draws = jnp.split(normal(key, (d * features + width * (d + features),), tokens.dtype), [d * features])
    law = NeuronLaw(readout.reshape(d, features), deviation, noise, 1.0)
    weights, outputs = neurons(draws, law)
    state = State(weights, outputs, attention * jnp.eye(features, dtype=tokens.dtype))
    scale = (jnp.sum(feature_map(state, tokens, activation) ** 2) / (len(tokens) * features)) ** -0.5
    return state._replace(outputs=scale * outputs), law._replace(scale=scale)


def feature_map(state: State, tokens: Array, activation: Elementwise) -> Array:
    """h(x) = (1/N) sum_i a_i sigma(w_i . x) at each token: (n, k)."""
    return activation(tokens @ state.weights.T) @ state.outputs / len(state.weights)


def sampled_moments(state: State, batch: TokenBatch, activation: Elementwise) -> FeatureMoments:
    """The moments of a sample of tokens."""
    features, n = feature_map(state, batch.tokens, activation), len(batch.tokens)
    return FeatureMoments(jnp.sum(batch.targets**2) / n, batch.targets.T @ features / n, features.T @ features / n)


def gaussian_moments(state: State, teacher: State) -> FeatureMoments:
    """The exact moments for x ~ N(0, I) and sigma = erf, of a state and a teacher f of the same kind.

    E[erf(u.x) erf(w.x)] = (2/pi) arcsin(2 u.w / sqrt((1 + 2|u|^2)(1 + 2|w|^2)))      (Williams 1997)
    """
    cross = teacher.outputs.T @ _erf_kernel(teacher.weights, state.weights) @ state.outputs
    covariance = state.outputs.T @ _erf_kernel(state.weights, state.weights) @ state.outputs
    power = jnp.sum(teacher.outputs * (_erf_kernel(teacher.weights, teacher.weights) @ teacher.outputs))
    n, n_teacher = len(state.weights), len(teacher.weights)
    return FeatureMoments(power / n_teacher**2, cross / (n * n_teacher), covariance / n**2)


def _erf_kernel(one: Array, other: Array) -> Array:
    norms = [1 + 2 * jnp.sum(weights**2, axis=1) for weights in (one, other)]
    return 2 / jnp.pi * jnp.arcsin(2 * one @ other.T / jnp.sqrt(norms[0][:, None] * norms[1]))


@jax.custom_jvp
def best_loss(moments: FeatureMoments) -> Array:
    """L = E|f|^2 - tr(C S^-1 C^T), the least over A of E|f - C A h|^2."""
    return moments.power - jnp.sum(moments.cross * _best_fit(moments))


@best_loss.defjvp
def _best_loss_derivative(at: tuple[FeatureMoments], change: tuple[FeatureMoments]) -> tuple[Array, Array]:
    """dL = dE|f|^2 - 2 <G, dC> + <G^T G, dS>, as G is optimal: no derivative of the solver, which compiles slowly."""
    (moments,), (tangent,) = at, change
    fit = _best_fit(moments)
    slope = tangent.power - 2 * jnp.sum(fit * tangent.cross) + jnp.sum((fit.T @ fit) * tangent.covariance)
    return moments.power - jnp.sum(moments.cross * fit), slope


def _best_fit(moments: FeatureMoments) -> Array:
    """G = C S^-1."""
    return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(moments.covariance), moments.cross.T).T


def attention_loss(state: State, context: FeatureMoments, query: FeatureMoments) -> Array:
    """E|f - C A h|^2 with C = E[f h^T] of the context and the other moments of the query's tokens."""
    fit = context.cross @ state.attention
    return query.power - 2 * jnp.sum(fit * query.cross) + jnp.sum((fit @ query.covariance) * fit)


def folded_attention_loss(state: State, batch: TokenBatch, folds: int, activation: Elementwise) -> Array:
    """`attention_loss` where each of the folds of a batch asks, and all the others are its context.

    Its mean is that of independent context and queries, of n (1 - 1/folds) tokens and any number; all n tokens ask.
    """
    n = len(batch.tokens)
    features = feature_map(state, batch.tokens, activation).reshape(folds, n // folds, -1)
    targets = batch.targets.reshape(folds, n // folds, -1)
    crosses = jnp.einsum("fnt,fnk->ftk", targets, features)
    contexts = (crosses.sum(axis=0) - crosses) / (n - n // folds)
    fits = contexts @ state.attention
    power = jnp.sum(batch.targets**2) / n
    gain = 2 * jnp.sum(fits * crosses) / n
    return power - gain + jnp.sum((features @ fits.transpose(0, 2, 1)) ** 2) / n


def prompt_errors(features: Array, labels: Array, attention: Array, context: ArrayLike) -> Array:
    """The mean squared error of attention with matrix A on prompts of n rows, for each task (column of the labels).

    The prediction is (1/n) sum_i g(x_i) h(x_i)^T A h(x). With b = E[g h], F = E[g^2 h h^T] and S = E[h h^T] over the
    given tokens, whose law that of the prompts is taken to be,

        E g^2 - 2 b.A b + tr[A S A^T ((1 - 1/n) b b^T + F/n)].

    Exact for independent rows and query: no prompt is drawn.
    """
    count = len(features)
    overlap = features.T @ labels / count
    shape = attention @ (features.T @ features / count) @ attention.T
    fourth = labels.T**2 @ jnp.sum((features @ shape) * features, axis=1) / count
    long = jnp.sum(overlap * (shape @ overlap), axis=0)
    gain = 2 * jnp.sum(overlap * (attention @ overlap), axis=0)
    return jnp.sum(labels**2, axis=0) / count - gain + (1 - 1 / context) * long + fourth / context


def descend(state: State, loss: Loss, step_size: ArrayLike, attention_step_size: ArrayLike = 0.0) -> State:
    """One Euler step of the gradient flow theta_i' = -N dL/dtheta_i of the neurons, and of A' = -dL/dA."""
    gradient = jax.grad(loss)(state)
    speed = step_size * len(state.weights)
    return State(
        state.weights - speed * gradient.weights,
        state.outputs - speed * gradient.outputs,
        state.attention - attention_step_size * gradient.attention,
    )


def rebirth(draws: Array, state: State, law: NeuronLaw, probability: ArrayLike) -> State:
    """Each neuron is redrawn from the law with the given probability, so that no region of them dies out.

    From N (1 + d + k) standard normal numbers, the first N of which choose the neurons.
    """
    choice, draws = jnp.split(draws, [len(state.weights)])
    reborn = (jax.scipy.special.ndtr(choice) < probability)[:, None]
    weights, outputs = neurons(draws, law)
    return state._replace(
        weights=jnp.where(reborn, weights, state.weights), outputs=jnp.where(reborn, outputs, state.outputs)
    )


def kick(draws: Array, state: State, loss: Loss, size: ArrayLike) -> State:
    """theta + size H v / rms(H v): Gaussian with covariance proportional to H^2, so that flat directions stay put.

    v is the first N (d + k) of the given standard normal numbers. Nothing moves where H v = 0.
    """
    n, (d, k) = len(state.weights), (state.weights.shape[1], state.outputs.shape[1])
    draws = draws[: n * (d + k)]
    direction = State(draws[: n * d].reshape(n, d), draws[n * d :].reshape(n, k), jnp.zeros_like(state.attention))
    pushed = jax.jvp(jax.grad(loss), (state,), (direction,))[1]
    square = (jnp.sum(pushed.weights**2) + jnp.sum(pushed.outputs**2)) / (n * (d + k))
    factor = jnp.where(square > 0, size / jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
    return state._replace(
        weights=state.weights + factor * pushed.weights, outputs=state.outputs + factor * pushed.outputs
    )


def saddle(features: int, missing: ArrayLike, width: int, d: int) -> tuple[State, State]:
    """The exact saddle of `theory.attention_saddle` and its teacher f_j = sigma(x_j).

    Slot j < k - m has the weight e_j and is learned; slot j >= k - m watches the irrelevant coordinate k + j. Each slot
    is width/k neurons; `missing` m may be traced. The teacher is a state of k neurons.
    """
    if features < 1 or width % features or width < features:
        raise InputError(f"width must be a positive multiple of features = {features}, got {width}")
    if d < 2 * features:
        raise InputError(f"d must be at least 2 features = {2 * features}, got {d}")
    slots = jnp.arange(features)
    watched = jnp.where(slots < features - jnp.asarray(missing), slots, slots + features)
    copies = width // features
    weights, outputs = jnp.eye(d)[watched], jnp.eye(features)
    start = State(jnp.repeat(weights, copies, axis=0), jnp.repeat(outputs, copies, axis=0), jnp.eye(features))
    return start, State(jnp.eye(d)[:features], features * jnp.eye(features), jnp.eye(features))

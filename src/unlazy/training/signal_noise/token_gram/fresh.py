"""Errors on fresh samples, exactly in law, by Monte Carlo in the R dimensions of the pre-activations."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError
from unlazy.random import normal
from unlazy.training.signal_noise.token_gram.checks import check_known, check_signs
from unlazy.training.signal_noise.token_gram.network import Network
from unlazy.training.signal_noise.token_gram.problem import Problem
from unlazy.training.signal_noise.token_gram.weights import Weights, weight_gram


class FreshError(NamedTuple):
    """Error rate (f = 0 counts half) and mean loss on fresh samples."""

    error: Array
    loss: Array


def fresh_error(key: Array, problem: Problem, weights: Weights, network: Network, *, draws: int = 2000) -> FreshError:
    """Error and loss on fresh two-patch samples [y mu, xi], both classes alike: two numbers."""
    kinds = fresh_errors(
        key,
        problem,
        weights,
        network,
        shared=jnp.array([[[1.0], [0.0]], [[-1.0], [0.0]]]),
        own=jnp.array([[[0.0], [1.0]], [[0.0], [1.0]]]),
        labels=jnp.array([1.0, -1.0]),
        draws=draws,
    )
    return FreshError(kinds.error.mean(), kinds.loss.mean())


def fresh_errors(
    key: Array,
    problem: Problem,
    weights: Weights,
    network: Network,
    *,
    shared: ArrayLike,
    own: ArrayLike,
    labels: ArrayLike,
    draws: int = 2000,
) -> FreshError:
    """Error and loss (T,) of T kinds of fresh samples: patches shared (T, P, S) z_s + own (T, P, Q) xi_q, labels (T,).

    Given the weights, fresh noise has the pre-activations u = W xi ~ N(0, noise^2 W W^T), less the part along the
    features if it is orthogonal to them. All kinds, and all calls with one key, see the same normal numbers.
    """
    check_known("draws", draws, whole=True, ndim=0, low=1)
    check_signs("labels", labels)
    shared, own, labels = jnp.asarray(shared), jnp.asarray(own), jnp.asarray(labels)
    if shared.ndim != 3 or own.ndim != 3 or shared.shape[:2] != own.shape[:2] or labels.shape != shared.shape[:1]:
        raise InputError(
            f"shared, own and labels must have shapes (T, P, S), (T, P, Q) and (T,), "
            f"got {shared.shape}, {own.shape} and {labels.shape}"
        )
    root = _root(_noise_covariance(problem, weights))
    standard = normal(key, (draws * own.shape[-1], root.shape[0]), root.dtype)
    images = (standard @ root).reshape(draws, own.shape[-1], -1)
    signal = jnp.einsum("tps,rs->tpr", shared, weights.preactivations[:, : shared.shape[-1]])

    def one(signal: Array, own: Array, label: Array) -> tuple[Array, Array]:
        inputs = signal + jnp.einsum("pq,bqr->bpr", own, images)
        outputs = network.activation(inputs).sum(1) @ problem.second_layer
        wrong = jnp.where(outputs == 0, 0.5, jnp.where(outputs * label < 0, 1.0, 0.0))
        # A network that is not finite has no right answers.
        wrong = jnp.where(jnp.isnan(outputs), jnp.nan, wrong)
        return wrong.mean(), network.loss.value(outputs, label).mean()

    return FreshError(*jax.vmap(one)(signal, own, labels))


def _noise_covariance(problem: Problem, weights: Weights) -> Array:
    """The covariance of W xi: noise^2 W P W^T, P the projection orthogonal to the features or the identity."""
    count = problem.design.features
    seen = weights.preactivations[:, :count]
    inverse = jnp.linalg.pinv(problem.gram[:count, :count], hermitian=True)
    along = problem.orthogonal * (seen @ inverse @ seen.T)
    return problem.noise**2 * (weight_gram(problem, weights) - along)


def _root(covariance: Array) -> Array:
    """The symmetric square root, a continuous function of the covariance; rounding below 0 is cut off."""
    values, vectors = jnp.linalg.eigh(covariance)
    return (vectors * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T

"""Errors on fresh samples, exactly in law, by Monte Carlo in the R dimensions of the pre-activations."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError, check_known, check_signs
from unlazy.random import normal
from unlazy.training.signal_noise.token_gram.network import Network
from unlazy.training.signal_noise.token_gram.problem import PatchProblem
from unlazy.training.signal_noise.token_gram.weights import Weights, weight_gram


class FreshError(NamedTuple):
    """Error rate (f = 0 counts half) and mean loss on fresh samples."""

    error: Array
    loss: Array


def fresh_error(
    key: Array, problem: PatchProblem, weights: Weights, network: Network, *, draws: int = 2000
) -> FreshError:
    """Error and loss on fresh two-patch samples [y mu, xi], both classes alike: two numbers."""
    return FreshError(*(values[0] for values in fresh_kinds(key, problem, weights, network, draws=draws)))


def fresh_errors(
    key: Array,
    problem: PatchProblem,
    weights: Weights,
    network: Network,
    *,
    shared: ArrayLike,
    own: ArrayLike,
    labels: ArrayLike,
    draws: int = 2000,
) -> FreshError:
    """Error and loss (T,) of T kinds of fresh samples: patches shared (T, P, S) z_s + own (T, P, Q) xi_q, labels (T,).

    Given the weights, fresh noise has the pre-activations u = W xi ~ N(0, s^2 W W^T), less the part along the
    features if it is orthogonal to them. All kinds, and all calls with one key, see the same normal numbers.
    """
    check_known("draws", draws, whole=True, ndim=0, low=1)
    check_signs("labels", labels, ndim=1)
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


def fresh_kinds(
    key: Array,
    problem: PatchProblem,
    weights: Weights,
    network: Network,
    kinds: ArrayLike | int | None = None,
    *,
    draws: int = 2000,
) -> FreshError:
    """Errors and losses (T,) on fresh samples with patches y kinds (T, P, S) z_s and the design's noise, y = 1 and -1.

    By default a kind for each feature, which is in the first patch; a number T: the design's first samples.
    """
    design = problem.design
    patches, features, noises = design.patches, design.features, design.noises
    own = jnp.stack([jnp.zeros(noises) if patch.own is None else patch.own[0] for patch in patches])
    if isinstance(kinds, int):
        none = jnp.zeros((kinds, features))
        both = jnp.stack([none if patch.shared is None else patch.shared[:kinds] for patch in patches], axis=1)
        labels = design.classes[:kinds]
    else:
        single = jnp.zeros((features, len(patches), features)).at[:, 0].set(jnp.eye(features))
        shared = single if kinds is None else jnp.asarray(kinds)
        both = jnp.concatenate([shared, -shared])
        labels = jnp.repeat(jnp.array([1.0, -1.0]), len(shared))
    own = jnp.broadcast_to(own, (len(both), *own.shape))
    found = fresh_errors(key, problem, weights, network, shared=both, own=own, labels=labels, draws=draws)
    if isinstance(kinds, int):
        return found
    return FreshError(*(values.reshape(2, -1).mean(0) for values in found))


def _noise_covariance(problem: PatchProblem, weights: Weights) -> Array:
    """The covariance of W xi: s^2 W P W^T, P the projection orthogonal to the features or the identity."""
    count = problem.design.features
    seen = weights.preactivations[:, :count]
    inverse = jnp.linalg.pinv(problem.gram[:count, :count], hermitian=True)
    along = problem.orthogonal * (seen @ inverse @ seen.T)
    return problem.noise_deviation**2 * (weight_gram(problem, weights) - along)


def _root(covariance: Array) -> Array:
    """The symmetric square root, a continuous function of the covariance; rounding below 0 is cut off."""
    values, vectors = jnp.linalg.eigh(covariance)
    return (vectors * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T

"""What a trained network learned: signal and noise coefficients, margins, active pairs."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from unlazy.training.signal_noise.token_gram.engine import State
from unlazy.training.signal_noise.token_gram.network import Network
from unlazy.training.signal_noise.token_gram.problem import PatchProblem
from unlazy.training.signal_noise.token_gram.weights import Weights


def signal_coefficients(problem: PatchProblem, weights: Weights) -> Array:
    """gamma_rs = sign(a_r) C[r, s] |z_s|^2 of the features, (R, S): w_r contains sign(a_r) gamma_rs z_s/|z_s|^2."""
    features = problem.design.features
    squares = jnp.diagonal(problem.gram)[:features]
    return jnp.sign(problem.second_layer)[:, None] * weights.coefficients[:, :features] * squares


def noise_coefficients(problem: PatchProblem, weights: Weights) -> Array:
    """rho_riq = C[r, iq] |xi_iq|^2 of the own tokens, (R, n, Q): w_r contains rho_riq xi_iq/|xi_iq|^2.

    They are 0 for samples that do not count.
    """
    samples, noises = len(problem.design.labels), problem.design.noises
    features = problem.design.features
    products = weights.coefficients[:, features:] * jnp.diagonal(problem.gram)[features:]
    return products.reshape(-1, samples, noises)


def feature_output(problem: PatchProblem, network: Network, weights: Weights, feature: int = 0) -> Array:
    """The part of the output on y z that is due to a feature z alone, the mean over y = 1 and -1 of y f."""

    def along(sign: float) -> Array:
        return problem.second_layer @ network.activation(sign * weights.preactivations[:, feature])

    return (along(1.0) - along(-1.0)) / 2


def margins(problem: PatchProblem, state: State) -> Array:
    """y_i f_i with the observed labels, (n,), of the samples that do not count too: weigh with `design.weights`."""
    return problem.design.labels * state.outputs


def fitted(problem: PatchProblem, state: State) -> Array:
    """1.0 where the observed label is fitted, y_i f_i > 0, else 0.0: (n,)."""
    return (margins(problem, state) > 0).astype(state.outputs.dtype)


def own_pairs(problem: PatchProblem) -> Array:
    """Whether a neuron is of the class that a sample is labelled with, and both are there: (R, n)."""
    design = problem.design
    return (jnp.sign(problem.second_layer)[:, None] == design.labels) & (design.weights > 0)


def active_fraction(problem: PatchProblem, weights: Weights) -> Array:
    """The fraction of `own_pairs` in which <w_r, xi_i> > 0, for one own token per sample."""
    own = own_pairs(problem)
    return jnp.sum(own & (weights.preactivations[:, problem.design.features :] > 0)) / jnp.sum(own)


def mean_coefficients(problem: PatchProblem, state: State, _: Any = None) -> tuple[Array, Array]:
    """The mean signal coefficient of the neurons, and the mean noise coefficient of `own_pairs` active at the start.

    A `record` of `patch_run`.
    """
    at_start = own_pairs(problem) & (problem.preactivations[:, 1:] > 0)
    noise = jnp.sum(jnp.where(at_start, noise_coefficients(problem, state.weights)[:, :, 0], 0.0))
    return mean_signal(problem, state.weights), noise / jnp.sum(at_start)


def mean_signal(problem: PatchProblem, weights: Weights) -> Array:
    """The mean signal coefficient of the neurons that are there, for one feature."""
    return jnp.sum(signal_coefficients(problem, weights)) / jnp.sum(problem.second_layer != 0)


def clean_and_flipped(problem: PatchProblem, state: State) -> dict[str, Array]:
    """What became of samples whose label is right and of those whose label is flipped, for one own token per sample.

    The fractions that are fitted, and the noise coefficients' means over samples and the neurons of their label.
    """
    right = (problem.design.labels == problem.design.classes).astype(float)
    own, fits = own_pairs(problem), fitted(problem, state)
    memorised = jnp.where(own, noise_coefficients(problem, state.weights)[:, :, 0], 0.0)
    noise = jnp.sum(memorised, axis=0) / jnp.sum(problem.second_layer > 0)

    def mean(values: Array, chosen: Array) -> Array:
        return jnp.sum(values * chosen) / jnp.sum(chosen)

    return {
        "clean_fit": mean(fits, right),
        "flipped_fit": mean(fits, 1 - right),
        "clean_noise": mean(noise, right),
        "flipped_noise": mean(noise, 1 - right),
    }

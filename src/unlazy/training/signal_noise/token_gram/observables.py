"""What a trained network learned: signal and noise coefficients, margins."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from unlazy.training.signal_noise.token_gram.engine import State
from unlazy.training.signal_noise.token_gram.problem import Problem
from unlazy.training.signal_noise.token_gram.weights import Weights


def signal_coefficients(problem: Problem, weights: Weights) -> Array:
    """gamma_rs = sign(a_r) C[r, s] |z_s|^2 of the features, (R, S): w_r contains sign(a_r) gamma_rs z_s/|z_s|^2."""
    features = problem.design.features
    squares = jnp.diagonal(problem.gram)[:features]
    return jnp.sign(problem.second_layer)[:, None] * weights.coefficients[:, :features] * squares


def noise_coefficients(problem: Problem, weights: Weights) -> Array:
    """rho_riq = C[r, iq] |xi_iq|^2 of the own tokens, (R, n, Q): w_r contains rho_riq xi_iq/|xi_iq|^2.

    They are 0 for samples that do not count.
    """
    samples, noises = len(problem.design.labels), problem.design.noises
    features = problem.design.features
    products = weights.coefficients[:, features:] * jnp.diagonal(problem.gram)[features:]
    return products.reshape(-1, samples, noises)


def margins(problem: Problem, state: State) -> Array:
    """y_i f_i with the observed labels, (n,), of the samples that do not count too: weigh with `design.weights`."""
    return problem.design.labels * state.outputs


def fitted(problem: Problem, state: State) -> Array:
    """1.0 where the observed label is fitted, y_i f_i > 0, else 0.0: (n,)."""
    return (margins(problem, state) > 0).astype(state.outputs.dtype)

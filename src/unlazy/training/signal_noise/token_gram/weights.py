"""Vectors of weight space in token coordinates, and their inner products."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from unlazy.training.signal_noise.token_gram.problem import PatchProblem


class Weights(NamedTuple):
    """The weights W = initial W0 + C Z, or any other vector of their space, with its images W Z^T of the tokens.

    All three are linear in W: sums and multiples of vectors are those of their leaves.
    """

    coefficients: Array
    """C, (R, K)"""
    initial: Array
    """The factor of W0, a number."""
    preactivations: Array
    """H = W Z^T, (R, K)"""


def initial_weights(problem: PatchProblem) -> Weights:
    """W0 itself."""
    start = problem.preactivations
    return Weights(jnp.zeros_like(start), jnp.ones((), start.dtype), start)


def weight_gram(problem: PatchProblem, weights: Weights) -> Array:
    """Inner products of the neurons, W W^T = c^2 W0 W0^T + c C H0^T + H C^T with c = `initial`, (R, R)."""
    c, combined = weights.initial, weights.coefficients
    gram = c**2 * problem.initial_gram + c * combined @ problem.preactivations.T + weights.preactivations @ combined.T
    return (gram + gram.T) / 2


def squared_norm(problem: PatchProblem, weights: Weights) -> Array:
    """The squared Frobenius norm |W|^2, the trace of `weight_gram`."""
    c, combined = weights.initial, weights.coefficients
    square = c**2 * jnp.trace(problem.initial_gram) + jnp.sum(
        combined * (c * problem.preactivations + weights.preactivations)
    )
    return jnp.maximum(square, 0.0)

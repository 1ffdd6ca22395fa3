"""A training problem in token coordinates: inner products of tokens and neurons, never their d components."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_known, check_signs


class Patch(NamedTuple):
    """One patch of every sample: patch i is sum_s shared[i, s] z_s + sum_q own[i, q] xi_iq; None is no such part.

    The z_s are S tokens shared by all samples (features), the xi_iq are Q tokens of sample i alone (noise).
    """

    shared: Array | None = None
    """(n, S)"""
    own: Array | None = None
    """(n, Q)"""


class PatchDesign(NamedTuple):
    """How patches are made of tokens, and what the n samples are labelled.

    A sample of weight 0 is not there: that is how the number of samples varies inside one compiled program.
    """

    patches: tuple[Patch, ...]
    labels: Array
    """What the loss sees, (n,)."""
    classes: Array
    """The labels before any were flipped, (n,)."""
    weights: Array
    """Sample weights of the loss, (n,), with sum 1."""

    @property
    def features(self) -> int:
        """S, the number of shared tokens."""
        return next((patch.shared.shape[1] for patch in self.patches if patch.shared is not None), 0)

    @property
    def noises(self) -> int:
        """Q, the number of tokens that a sample has to itself."""
        return next((patch.own.shape[1] for patch in self.patches if patch.own is not None), 0)


class PatchProblem(NamedTuple):
    """All that training needs to know of tokens z_k and initial weights W0: K = S + nQ tokens, R neurons.

    The tokens are the S shared ones, then the own ones, sample by sample: xi_iq has the place S + iQ + q.
    """

    design: PatchDesign
    gram: Array
    """Inner products of the tokens, Z Z^T, (K, K)."""
    preactivations: Array
    """Initial pre-activations of the tokens, W0 Z^T, (R, K)."""
    initial_gram: Array
    """Inner products of the initial neurons, W0 W0^T, (R, R)."""
    second_layer: Array
    """Output weights a, (R,), which are not trained."""
    noise_deviation: Array
    """Standard deviation of the own tokens' components, for the law of fresh samples."""
    orthogonal: Array
    """1 if own tokens are orthogonal to the shared ones, 0 if not."""


def signal_noise_design(
    n: ArrayLike, *, largest_n: int | None = None, flip_probability: ArrayLike = 0.0
) -> PatchDesign:
    """Two patches [y mu, xi] per sample with alternating classes y = +1, -1, ...; mu is the one shared token.

    With `largest_n` there are so many samples, of which the first n count: one program serves all n. The observed
    labels of round(flip_probability n / 2) samples of each class are wrong, for a share below .5.
    """
    size, name = (n, "n") if largest_n is None else (largest_n, "largest_n")
    check_array(name, size, ndim=0, low=1)
    check_known(name, size, whole=True)
    samples = int(np.asarray(size))
    check_known("n", n, whole=True, ndim=0, low=1, high=samples)
    check_known("flip_probability", flip_probability, ndim=0, low=0, below=0.5)
    index = jnp.arange(samples)
    classes = 1.0 - 2.0 * (index % 2)
    wrong = (index // 2 < jnp.round(jnp.asarray(flip_probability) * n / 2)) & (index < n)
    return PatchDesign(
        patches=(Patch(shared=classes[:, None]), Patch(own=jnp.ones((samples, 1)))),
        labels=jnp.where(wrong, -classes, classes),
        classes=classes,
        weights=jnp.where(index < n, 1.0 / n, 0.0),
    )


def feature_design(*carried: ArrayLike) -> PatchDesign:
    """Patches of y times the features that a sample carries, (n, S) for each, then one of noise; y = +1, -1, ..."""
    samples = len(jnp.asarray(carried[0]))
    classes = 1.0 - 2.0 * (jnp.arange(samples) % 2)
    signals = tuple(Patch(shared=classes[:, None] * jnp.asarray(features)) for features in carried)
    return PatchDesign(
        patches=(*signals, Patch(own=jnp.ones((samples, 1)))),
        labels=classes,
        classes=classes,
        weights=jnp.full(samples, 1 / samples),
    )


def from_vectors(
    design: PatchDesign,
    shared_tokens: ArrayLike,
    own_tokens: ArrayLike,
    initial_weights: ArrayLike,
    second_layer: ArrayLike,
    *,
    noise_deviation: ArrayLike = 1.0,
    orthogonal: bool = True,
) -> PatchProblem:
    """The problem of explicit vectors: shared tokens (S, d), own tokens (n, Q, d), initial weights W0 (R, d).

    `noise_deviation` and `orthogonal` describe the law of fresh samples and matter for test errors alone.
    """
    features, own = jnp.asarray(shared_tokens, float), jnp.asarray(own_tokens, float)
    weights, second = jnp.asarray(initial_weights, float), jnp.asarray(second_layer, float)
    check_vectors(design, features, own, weights, second)
    check_known("noise_deviation", noise_deviation, ndim=0, low=0)
    tokens = jnp.concatenate([features, own.reshape(-1, own.shape[-1])])
    return in_products(design, tokens, weights, second, noise_deviation, orthogonal)


def in_products(
    design: PatchDesign,
    tokens: Array,
    weights: Array,
    second_layer: Array,
    noise_deviation: ArrayLike,
    orthogonal: ArrayLike,
) -> PatchProblem:
    """The problem of tokens (K, c) and weights (R, d), d >= c; the tokens have no components beyond the first c."""
    return PatchProblem(
        design=design,
        gram=tokens @ tokens.T,
        preactivations=weights[:, : tokens.shape[1]] @ tokens.T,
        initial_gram=weights @ weights.T,
        second_layer=second_layer,
        noise_deviation=jnp.asarray(noise_deviation, float),
        orthogonal=jnp.asarray(orthogonal, float),
    )


def check_vectors(
    design: PatchDesign,
    features: Array,
    own: Array,
    weights: Array,
    second_layer: Array,
) -> None:
    """Raise an `InputError` if explicit vectors are not finite or do not fit the design or each other."""
    check_design(design)
    first = weights.shape
    dimension = first[-1] if first else 0
    expected = {
        "shared_tokens": (features, (design.features, dimension)),
        "own_tokens": (own, (len(design.labels), design.noises, dimension)),
        "initial_weights": (weights, (first[0] if first else 0, dimension)),
        "second_layer": (second_layer, first[:1]),
    }
    for name, (array, right) in expected.items():
        if array.shape != right:
            raise InputError(f"{name} must have shape {right} for this design and first layer, got {array.shape}")
        if 0 not in right:
            check_known(name, array)


def check_design(design: PatchDesign) -> None:
    """Raise an `InputError` if the arrays of a design do not fit each other or are not what they must be.

    They must have as many samples, features and noises as each other, signs as labels, and weights with sum 1.
    """
    samples = len(design.labels)
    expected: dict[str, tuple[Array, tuple[int, ...]]] = {
        "labels": (design.labels, (samples,)),
        "classes": (design.classes, (samples,)),
        "weights": (design.weights, (samples,)),
    }
    for place, patch in enumerate(design.patches):
        if patch.shared is None and patch.own is None:
            raise InputError(f"patches[{place}] has neither a shared nor an own part")
        if patch.shared is not None:
            expected[f"patches[{place}].shared"] = (patch.shared, (samples, design.features))
        if patch.own is not None:
            expected[f"patches[{place}].own"] = (patch.own, (samples, design.noises))
    if not design.patches:
        raise InputError("a design must have at least one patch, got none")
    for name, (array, right) in expected.items():
        if jnp.shape(array) != right:
            raise InputError(f"{name} must have shape {right}, got {jnp.shape(array)}")
        if 0 not in right:
            check_known(name, array)
    check_signs("labels", design.labels, ndim=1)
    check_signs("classes", design.classes, ndim=1)
    check_known("weights", design.weights, low=0)
    if not isinstance(design.weights, jax.core.Tracer):
        # in NumPy: within jit a sum of known numbers is traced
        total = float(np.sum(np.asarray(design.weights)))
        if abs(total - 1) > 1e-5:
            raise InputError(f"weights must have the sum 1, got {total:g}")

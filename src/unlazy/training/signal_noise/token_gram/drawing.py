"""Problems drawn with the law of Gaussian vectors in d dimensions, without forming the vectors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.checks import InputError, check_array, check_known
from unlazy.random import CHI_ATTEMPTS, chi, normal, uniform
from unlazy.training.signal_noise.token_gram.problem import (
    PatchDesign,
    PatchProblem,
    check_design,
    in_products,
    signal_noise_design,
)


def draw(
    key: Array,
    design: PatchDesign,
    features: ArrayLike,
    second_layer: ArrayLike,
    *,
    d: ArrayLike,
    initial_deviation: ArrayLike,
    noise_deviation: ArrayLike = 1.0,
    orthogonal: ArrayLike = True,
) -> PatchProblem:
    """Fixed features, own tokens xi ~ N(0, s^2 I_d) and initial neurons w ~ N(0, s0^2 I_d), exactly in law.

    s is the `noise_deviation` and s0 the `initial_deviation`. `features` are the lengths (S,) of orthogonal
    features, or their Gram matrix (S, S). With `orthogonal` the own tokens are projected orthogonally to the
    features (of positive length). In a basis adapted to the features the other d - S components of N = nQ + R
    Gaussian vectors are a Bartlett factor: strictly lower N(0, 1), diagonal sqrt(chi2_{d-S-k}), k = 0..N-1. All
    numbers may be traced, d too; it must be at least N + S.
    """
    check_known("second_layer", second_layer, ndim=1)
    second_layer = jnp.asarray(second_layer, float)
    check_design(design)
    _check_features(features)
    own, neurons = len(design.labels) * design.noises, len(second_layer)
    basis, spanned = _feature_basis(jnp.asarray(features, float))
    count = own + neurons
    if len(basis) != design.features:
        raise InputError(f"features must be the {design.features} of the design, got {len(basis)}")
    check_known("d", d, ndim=0, low=count + len(basis))
    check_known("initial_deviation", initial_deviation, ndim=0, low=0)
    check_known("noise_deviation", noise_deviation, ndim=0, low=0)
    check_known("orthogonal", orthogonal, ndim=0, low=0, high=1)

    # One draw of each kind: every further one costs half a second of compilation.
    normal_key, uniform_key = jax.random.split(key)
    columns = len(basis) + count
    normals = normal(normal_key, (count * (columns + CHI_ATTEMPTS),))
    uniforms = uniform(uniform_key, (count * (CHI_ATTEMPTS + 1),), float(jnp.finfo(float).tiny))
    standard = normals[: count * columns].reshape(count, columns)
    freedom = jnp.asarray(d, float) - len(basis) - jnp.arange(count)
    lengths = chi(normals[count * columns :].reshape(CHI_ATTEMPTS, count), uniforms.reshape(-1, count), freedom)
    along, across = standard[:, : len(basis)], jnp.tril(standard[:, len(basis) :], -1) + jnp.diag(lengths)

    removed = jnp.asarray(orthogonal, float) * spanned
    noises = jnp.asarray(noise_deviation, float) * jnp.concatenate(
        [along[:own] * (1 - removed), across[:own, :own]], axis=1
    )
    tokens = jnp.concatenate([jnp.pad(basis, ((0, 0), (0, own))), noises])
    weights = jnp.asarray(initial_deviation, float) * jnp.concatenate([along[own:], across[own:]], axis=1)
    return in_products(design, tokens, weights, second_layer, noise_deviation, orthogonal)


def draw_signal_noise(
    key: Array,
    *,
    n: ArrayLike,
    d: ArrayLike,
    width: ArrayLike,
    signal_norm: ArrayLike,
    initial_deviation: ArrayLike,
    noise_deviation: ArrayLike = 1.0,
    orthogonal: ArrayLike = True,
    flip_probability: ArrayLike = 0.0,
    largest_n: int | None = None,
    largest_width: int | None = None,
) -> PatchProblem:
    """The two-patch problem [y mu, xi] with m = `width` neurons of output weight 1/m and m of -1/m.

    A share `flip_probability` of the labels is wrong. For what memory is kept for see `signal_noise_design` and
    `paired_second_layer`. Source: Cao et al. 2022.
    """
    check_known("signal_norm", signal_norm, ndim=0, low=0)
    return draw(
        key,
        signal_noise_design(n, largest_n=largest_n, flip_probability=flip_probability),
        jnp.reshape(jnp.asarray(signal_norm, float), (1,)),
        paired_second_layer(width, largest_width),
        d=d,
        initial_deviation=initial_deviation,
        noise_deviation=noise_deviation,
        orthogonal=orthogonal,
    )


def paired_second_layer(width: Any, largest_width: int | None = None) -> Array:
    """Output weights 1/m of m = `width` neurons and -1/m of m others, (2m,).

    With `largest_width` there are that many of each, those beyond m with weight 0: one program serves all widths.
    """
    check_known("width", width, whole=True, ndim=0, low=1)
    each = int(width) if largest_width is None else largest_width
    index = jnp.arange(2 * each)
    return jnp.where(index % each < width, jnp.where(index < each, 1.0, -1.0) / width, 0.0)


def _check_features(features: ArrayLike) -> None:
    """Raise an `InputError` if known features are neither lengths nor a Gram matrix."""
    if isinstance(features, jax.core.Tracer):
        return
    found = check_array("features", features)
    if found.ndim == 1:
        check_array("features", found, low=0)
        return
    if found.ndim != 2 or found.shape[0] != found.shape[1]:
        raise InputError(f"features must be lengths (S,) or a Gram matrix (S, S), got shape {found.shape}")
    largest = np.abs(found).max()
    if np.abs(found - found.T).max() > 1e-6 * largest:
        raise InputError("features must be a symmetric Gram matrix, got one that is not symmetric")
    least = np.linalg.eigvalsh(found)[0]
    if least < -1e-6 * largest:
        raise InputError(f"features must be a positive semi-definite Gram matrix, got the eigenvalue {least:g}")


def _feature_basis(features: Array) -> tuple[Array, Array]:
    """Components of the features in an orthonormal basis, (S, S), and 1 for each basis vector in their span, else 0."""
    if features.ndim == 1:
        return jnp.diag(features), (features > 0).astype(features.dtype)
    squares, vectors = jnp.linalg.eigh(features)
    spanned = squares > 1e-12 * squares[-1]
    return vectors * jnp.sqrt(jnp.where(spanned, squares, 0.0)), spanned.astype(features.dtype)

"""The teacher of `mean-field-attention`, what is measured on its held-out tokens, and random feature maps."""

from __future__ import annotations

from typing import Any

import numpy as np

TEACHER_NEURONS = 50
MOST_TRUE = 8
HELD_OUT = 4000
DRAWS = 48
"""Random feature maps per seed on which the landscape is measured."""
DRAWN_NEURONS = 10
ROWS = 1000
"""Length of the prompts of the transfer tasks."""


def draw_problem(key: Any, d: int, true_features: Any) -> tuple[Any, Any]:
    """Held-out tokens and the teacher: random sigmoid neurons, whitened so that E[f f^T] = I on these tokens."""
    import jax
    import jax.numpy as jnp

    from unlazy.data.normal import normal
    from unlazy.training.mean_field_attention import Batch

    sizes = np.cumsum([HELD_OUT * d, TEACHER_NEURONS * d])
    tokens, weights, outputs = jnp.split(normal(key, (sizes[-1] + TEACHER_NEURONS * MOST_TRUE,)), sizes)
    tokens, weights = tokens.reshape(HELD_OUT, d), 2 / d**0.5 * weights.reshape(TEACHER_NEURONS, d)
    present = (jnp.arange(MOST_TRUE) < true_features).astype(tokens.dtype)
    outputs = outputs.reshape(TEACHER_NEURONS, MOST_TRUE) * present
    hidden = jax.nn.sigmoid(tokens @ weights.T) @ outputs
    eigenvalues, vectors = jnp.linalg.eigh(hidden.T @ hidden / HELD_OUT + jnp.diag(1 - present))
    outputs = outputs @ (vectors / jnp.sqrt(eigenvalues)) @ vectors.T

    def teacher(tokens: Any) -> Any:
        return jax.nn.sigmoid(tokens @ weights.T) @ outputs

    return Batch(tokens, teacher(tokens)), teacher


def linear_floor(held_out: Any) -> Any:
    """The loss of the best affine features."""
    import jax.numpy as jnp

    from unlazy.training.mean_field_attention import Moments, best_loss

    affine = jnp.concatenate([held_out.tokens, jnp.ones((HELD_OUT, 1), held_out.tokens.dtype)], axis=1)
    power = jnp.sum(held_out.targets**2) / HELD_OUT
    return best_loss(Moments(power, held_out.targets.T @ affine / HELD_OUT, affine.T @ affine / HELD_OUT))


def draw_features(key: Any, held_out: Any, law: Any, k: int) -> Any:
    """Random feature maps of few neurons, mixed with the teacher in random proportions: losses of all sizes."""
    import jax
    import jax.numpy as jnp

    from unlazy.data.normal import normal
    from unlazy.training import mean_field_attention as mfa

    numbers = DRAWN_NEURONS * sum(law.readout.shape)
    shares, draws = jnp.split(normal(key, (DRAWS * (1 + numbers),)), [DRAWS])

    def mixed(share: Any, draws: Any) -> Any:
        weights, outputs = mfa.neurons(draws, law)
        features = mfa.feature_map(mfa.State(weights, outputs, jnp.eye(k)), held_out.tokens, jax.nn.sigmoid)
        return (1 - share) * features + share * jnp.resize(held_out.targets.T, (k, HELD_OUT)).T

    # at a share of nearly 1 the loss is below the rounding of single precision
    return jax.vmap(mixed)(0.95 * jax.scipy.special.ndtr(shares), draws.reshape(DRAWS, numbers))


def landscape(features: Any, targets: Any) -> dict[str, Any]:
    """Loss, derivative towards the best rotated teacher, its formula and its bound, of features on the tokens.

    The derivative is that of the loss along (1 - s) h + s R f; the bound has c^2 = max |f| max |h| over the tokens, and
    r = 1. The functions of `unlazy.theory.attention_landscape` compute the same from moments, without derivatives.
    """
    import jax
    import jax.numpy as jnp
    import jax.scipy.linalg

    count = len(features)
    # slope and bound scale alike with h
    features = features / jnp.sqrt(jnp.max(jnp.sum(features**2, axis=1)))

    def fitted(features: Any) -> tuple[Any, Any]:
        root = jax.scipy.linalg.cho_factor(features.T @ features / count)
        fit = jax.scipy.linalg.cho_solve(root, features.T @ targets / count).T
        # refined once: few random neurons make nearly dependent features, and precision is single
        fit = fit + jax.scipy.linalg.cho_solve(root, features.T @ (targets - features @ fit.T) / count).T
        return fit, targets - features @ fit.T

    def loss(features: Any) -> Any:
        # a mean of squares, where E|f|^2 - tr A would cancel
        return jnp.sum(fitted(features)[1] ** 2) / count

    fit, missed = fitted(features)
    left, singular, right = jnp.linalg.svd(targets.T @ missed @ fit / count, full_matrices=False)
    value, slope = jax.jvp(loss, (features,), (targets @ (left @ right) - features,))
    part = value - jnp.floor(value)
    largest = jnp.sqrt(jnp.max(jnp.sum(targets**2, axis=1)))
    return {
        "loss": value,
        "slope": slope,
        "formula": -2 * jnp.sum(singular),
        "bound": -2 / largest * part * (1 - part),
    }


def transfer_errors(held_out: Any, states: list, attention: Any) -> Any:
    """Errors over second moments of prompts of three kinds of tasks, for each feature map."""
    import jax
    import jax.numpy as jnp

    from unlazy.training.mean_field_attention import feature_map, prompt_errors

    targets = held_out.targets
    largest = jnp.max(jnp.where(jnp.any(targets != 0, axis=0), targets, -jnp.inf), axis=1)
    labels = jnp.concatenate([targets, largest[:, None], jnp.sum(targets**2, axis=1)[:, None]], axis=1)
    power = jnp.mean(labels**2, axis=0)

    def errors(features: Any, matrix: Any) -> Any:
        found = prompt_errors(features, labels, matrix, ROWS)
        return jnp.stack([found[:-2].sum() / power[:-2].sum(), *(found[-2:] / power[-2:])])

    def best(features: Any) -> Any:
        return jnp.linalg.inv(features.T @ features / HELD_OUT)

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    features = jax.vmap(lambda state: feature_map(state, held_out.tokens, jax.nn.sigmoid))(stacked)
    matrices = jax.vmap(best)(features).at[-1].set(attention)
    # absent features are 0 and the whitened rest has E[f f^T] = I
    teacher = errors(targets, jnp.eye(MOST_TRUE))
    return jnp.concatenate([jax.vmap(errors)(features, matrices), teacher[None]])

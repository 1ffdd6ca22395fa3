"""The teacher of `mean-field-attention`, what is measured on its held-out tokens, and random feature maps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MODELS = ("static", "modified", "attention")
MAPS = ("start", *MODELS, "teacher")
TASKS = ("linear", "maximum", "square")
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

    from unlazy.random import normal
    from unlazy.training.in_context.mean_field_attention import Batch

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

    from unlazy.training.in_context.mean_field_attention import Moments, best_loss

    affine = jnp.concatenate([held_out.tokens, jnp.ones((HELD_OUT, 1), held_out.tokens.dtype)], axis=1)
    power = jnp.sum(held_out.targets**2) / HELD_OUT
    return best_loss(Moments(power, held_out.targets.T @ affine / HELD_OUT, affine.T @ affine / HELD_OUT))


def draw_features(key: Any, held_out: Any, law: Any, k: int) -> Any:
    """Random feature maps of few neurons, mixed with the teacher in random proportions: losses of all sizes."""
    import jax
    import jax.numpy as jnp

    from unlazy.random import normal
    from unlazy.training.in_context import mean_field_attention as mfa

    numbers = DRAWN_NEURONS * sum(law.readout.shape)
    shares, draws = jnp.split(normal(key, (DRAWS * (1 + numbers),)), [DRAWS])

    def mixed(share: Any, draws: Any) -> Any:
        weights, outputs = mfa.neurons(draws, law)
        features = mfa.feature_map(mfa.State(weights, outputs, jnp.eye(k)), held_out.tokens, jax.nn.sigmoid)
        return (1 - share) * features + share * jnp.resize(held_out.targets.T, (k, HELD_OUT)).T

    # at a share of nearly 1 the loss is below the rounding of single precision
    return jax.vmap(mixed)(0.95 * jax.scipy.special.ndtr(shares), draws.reshape(DRAWS, numbers))


def factored_moments(features: Any, held_out: Any) -> dict[str, Any]:
    """What the landscape at features h depends on, as E[f q^T] and T with h = T^T q, E[q q^T] = I, and max |h|.

    Few random neurons make nearly dependent features: from T the covariance T^T T is as good as single precision lets
    it be, while a sum of squares loses half of the digits.
    """
    import jax.numpy as jnp

    orthonormal, root = jnp.linalg.qr(features)
    return {
        "basis_cross": held_out.targets.T @ orthonormal / HELD_OUT**0.5,
        "basis_root": root / HELD_OUT**0.5,
        "longest": jnp.sqrt(jnp.max(jnp.sum(features**2, axis=1))),
    }


class Landscapes(NamedTuple):
    """At every feature map of every run; the draws are the last dimension."""

    loss: Any
    derivative: Any
    formula: Any
    bound: Any


def landscapes(data: Any) -> Landscapes:
    """Loss, derivative towards the best rotated teacher, its formula and its bound, from the moments of runs.

    The derivative is that of the loss along (1 - s) h + s R f, by a complex step; R, formula and bound are those of
    `unlazy.theory.in_context.landscape`, with r = 1 and c^2 = max |f| max |h| over the held-out tokens.
    """
    from unlazy.lab import parameter
    from unlazy.theory.in_context.landscape import attention_landscape, slope_bound

    runs = data.longest_target.dims
    true = (parameter(data, "true_features") + 0 * data.longest_target).transpose(*runs).values.astype(int)
    roots = data.basis_root.transpose(*runs, "draw", "basis", "feature").values.astype(float)
    bases = data.basis_cross.transpose(*runs, "draw", "teacher_feature", "basis").values.astype(float)
    longest = np.sqrt((data.longest * data.longest_target).transpose(*runs, "draw").values.astype(float))
    found = np.empty((4, *longest.shape))
    for at in np.ndindex(longest.shape):
        cross, covariance = bases[at][: true[at[:-1]]] @ roots[at], roots[at].T @ roots[at]
        theory = attention_landscape(cross, covariance, 1.0)
        bound = slope_bound(theory.loss, 1.0, longest[at])
        found[(slice(None), *at)] = theory.loss, _derivative(cross, covariance, theory.rotation), theory.slope, bound
    return Landscapes(*found)


def _derivative(cross: np.ndarray, covariance: np.ndarray, rotation: np.ndarray) -> float:
    """dL/ds at s = 0 along (1 - s) h + s R f with E[f f^T] = I: the imaginary part of L at a tiny imaginary s."""
    s = 1e-30j
    turned = rotation @ cross
    moved_cross = (1 - s) * cross + s * rotation.T
    moved = (1 - s) ** 2 * covariance + s * (1 - s) * (turned + turned.T) + s**2 * rotation @ rotation.T
    fitted = np.sum(moved_cross * np.linalg.solve(moved, moved_cross.T).T)
    return float(-fitted.imag / s.imag)


def transfer_errors(held_out: Any, states: list, attention: Any) -> Any:
    """Errors over second moments of prompts of three kinds of tasks, for each feature map."""
    import jax
    import jax.numpy as jnp

    from unlazy.training.in_context.mean_field_attention import feature_map, prompt_errors

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


def arm(states: Any, index: int) -> Any:
    """One of several states that are stacked."""
    import jax

    return jax.tree.map(lambda leaf: leaf[index], states)


def with_arm(states: Any, index: int, state: Any) -> Any:
    """The stack with one state replaced."""
    import jax

    return jax.tree.map(lambda leaf, new: leaf.at[index].set(new), states, state)

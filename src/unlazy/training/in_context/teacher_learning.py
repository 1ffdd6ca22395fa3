"""Learning a nonlinear teacher in context: three dynamics of wide features, side by side on the same fresh tokens.

"static" descends L(mu) = min_A L(mu, A), "modified" adds birth-death, which is annealed to 0, and kicks, and
"attention" descends L(mu, A) in the features and the attention matrix. All have sigmoid neurons and one start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unlazy.random import normal
from unlazy.training.in_context.mean_field_attention import (
    FeatureMoments,
    Loss,
    NeuronLaw,
    State,
    TokenBatch,
    attention_loss,
    best_loss,
    descend,
    feature_map,
    folded_attention_loss,
    init,
    kick,
    neurons,
    prompt_errors,
    rebirth,
    sampled_moments,
)

Teacher = Callable[[Array], Array]
sigma = jax.nn.sigmoid


def draw_teacher(
    key: Array, d: int, true_features: ArrayLike, *, largest_true_features: int, tokens: int, width: int = 50
) -> tuple[TokenBatch, Teacher]:
    """Held-out tokens and the teacher: random sigmoid neurons, whitened so that E[f f^T] = I on these tokens.

    It has `true_features` features, which may be traced, among `largest_true_features` columns; the others are 0.
    """
    sizes = np.cumsum([tokens * d, width * d])
    inputs, weights, outputs = jnp.split(normal(key, (sizes[-1] + width * largest_true_features,)), sizes)
    inputs, weights = inputs.reshape(tokens, d), 2 / d**0.5 * weights.reshape(width, d)
    present = (jnp.arange(largest_true_features) < true_features).astype(inputs.dtype)
    outputs = outputs.reshape(width, largest_true_features) * present
    hidden = sigma(inputs @ weights.T) @ outputs
    eigenvalues, vectors = jnp.linalg.eigh(hidden.T @ hidden / tokens + jnp.diag(1 - present))
    outputs = outputs @ (vectors / jnp.sqrt(eigenvalues)) @ vectors.T

    def teacher(inputs: Array) -> Array:
        return sigma(inputs @ weights.T) @ outputs

    return TokenBatch(inputs, teacher(inputs)), teacher


class LearnedTeacher(NamedTuple):
    """The three dynamics; records are those of the start and of the end of every block."""

    held_out: TokenBatch
    start: State
    static: State
    modified: State
    attention: State
    losses: Array
    """With the best A on the held-out tokens, (records, 3), in the order static, modified, attention."""
    risks: Array
    """Of the attention model with its own A, (records,)."""
    features: Array
    """Random ones and the static dynamics' at every record, at the held-out tokens, (draws + records, n, k)."""


def learn_teacher(
    key: Array,
    true_features: ArrayLike,
    d: int,
    features: int,
    width: int,
    batch_size: int,
    steps: int,
    step_sizes: tuple[ArrayLike, ArrayLike, ArrayLike],
    rebirth_probability: ArrayLike,
    kick_size: ArrayLike,
    *,
    largest_true_features: int,
    block: int,
    folds: int,
    draws: int,
    tokens: int = 4000,
) -> LearnedTeacher:
    """Draw a teacher and train all three for `steps` steps on fresh batches.

    `step_sizes` are those of the static features, of the features below attention and of the attention matrix.
    "modified" is kicked before every block of steps. For "attention" each of the `folds` of a batch asks, with the
    others as its context. `draws` random features are drawn beside.
    """
    teacher_key, start_key, key, draw_key = jax.random.split(key, 4)
    held_out, teacher = draw_teacher(
        teacher_key, d, true_features, largest_true_features=largest_true_features, tokens=tokens
    )
    start, law = init(start_key, d, features, width, tokens=held_out.tokens, activation=sigma, deviation=1.0)
    sizes = batch_size * d, width * (1 + d + features)

    def draw(key: Array) -> tuple[TokenBatch, Array]:
        """Tokens, and numbers for what is random in a step; one draw, as every separate one compiles slowly."""
        tokens, numbers = jnp.split(normal(key, (sum(sizes),)), [sizes[0]])
        tokens = tokens.reshape(batch_size, d)
        return TokenBatch(tokens, teacher(tokens)), numbers

    def static_loss(batch: TokenBatch) -> Loss:
        return lambda state: best_loss(sampled_moments(state, batch, sigma))

    def joint_loss(batch: TokenBatch) -> Loss:
        return lambda state: folded_attention_loss(state, batch, folds, sigma)

    def step(index: Array, states: tuple[State, State]) -> tuple[State, State]:
        both, joint = states
        batch, numbers = draw(jax.random.fold_in(key, index))
        # a loop and not a vmap, whose products of matrices are slower
        both = jax.lax.map(lambda state: descend(state, static_loss(batch), step_sizes[0]), both)
        left = 1 - (index + 1) / steps
        both = _with_second(both, rebirth(numbers, _at(both, 1), law, rebirth_probability * left))
        return both, descend(joint, joint_loss(batch), *step_sizes[1:])

    def record(states: tuple[State, State]) -> tuple[Array, Array, State]:
        every = jax.tree.map(lambda two, one: jnp.concatenate([two, one[None]]), *states)
        moments = jax.lax.map(lambda state: sampled_moments(state, held_out, sigma), every)
        own = _at(moments, 2)
        return jax.vmap(best_loss)(moments), attention_loss(states[1], own, own), _at(states[0], 0)

    def advance(states: tuple[State, State], index: Array) -> tuple[tuple[State, State], Any]:
        """A kick and a block of steps, then a record, before the next kick; the first only records the start."""
        both, joint = states
        batch, numbers = draw(jax.random.fold_in(key, steps + index))
        size = jnp.where(index > 0, kick_size, 0.0)
        states = _with_second(both, kick(numbers, _at(both, 1), static_loss(batch), size)), joint
        states = jax.lax.fori_loop(jnp.maximum(index - 1, 0) * block, index * block, step, states)
        return states, record(states)

    states = (jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), start), start)
    (both, joint), records = jax.lax.scan(advance, states, jnp.arange(steps // block + 1))
    losses, risks, visited = records
    on_the_way = jax.lax.map(lambda state: feature_map(state, held_out.tokens, sigma), visited)
    every = jnp.concatenate([random_features(draw_key, held_out, law, draws), on_the_way])
    return LearnedTeacher(held_out, start, _at(both, 0), _at(both, 1), joint, losses, risks, every)


def _at(states: Any, index: int) -> Any:
    """One of several states that are stacked."""
    return jax.tree.map(lambda leaf: leaf[index], states)


def _with_second(states: State, state: State) -> State:
    return jax.tree.map(lambda leaf, new: leaf.at[1].set(new), states, state)


def linear_floor(held_out: TokenBatch) -> Array:
    """The loss of the best affine features."""
    n = len(held_out.tokens)
    affine = jnp.concatenate([held_out.tokens, jnp.ones((n, 1), held_out.tokens.dtype)], axis=1)
    power = jnp.sum(held_out.targets**2) / n
    return best_loss(FeatureMoments(power, held_out.targets.T @ affine / n, affine.T @ affine / n))


def random_features(key: Array, held_out: TokenBatch, law: NeuronLaw, draws: int, width: int = 10) -> Array:
    """Feature maps of few neurons, mixed with the teacher in random proportions: losses of all sizes, (draws, n, k)."""
    k, numbers = law.readout.shape[1], width * sum(law.readout.shape)
    shares, drawn = jnp.split(normal(key, (draws * (1 + numbers),)), [draws])

    def mixed(share: Array, drawn: Array) -> Array:
        features = feature_map(State(*neurons(drawn, law), jnp.eye(k)), held_out.tokens, sigma)
        return (1 - share) * features + share * jnp.resize(held_out.targets.T, (k, len(held_out.tokens))).T

    # at a share of nearly 1 the loss is below the rounding of single precision
    return jax.vmap(mixed)(0.95 * jax.scipy.special.ndtr(shares), drawn.reshape(draws, numbers))


def factored_moments(features: Array, targets: Array) -> dict[str, Array]:
    """What the landscape at features h depends on, as E[f q^T] and T with h = T^T q, E[q q^T] = I, and max |h|.

    Features are (maps, n, k). Few random neurons make nearly dependent ones: from T the covariance T^T T is as good as
    single precision lets it be, while a sum of squares loses half of the digits.
    """

    def of_one(features: Array) -> dict[str, Array]:
        orthonormal, root = jnp.linalg.qr(features)
        return {
            "basis_cross_moment": targets.T @ orthonormal / len(targets) ** 0.5,
            "basis_root": root / len(targets) ** 0.5,
            "longest": largest_length(features),
        }

    return jax.lax.map(of_one, features)


def largest_length(rows: Array) -> Array:
    """max |h| over the rows h."""
    return jnp.sqrt(jnp.max(jnp.sum(rows**2, axis=1)))


def transfer_errors(learned: LearnedTeacher, context: int) -> Array:
    """Errors over second moments on prompts of `context` rows: of the start, all dynamics and the teacher's features.

    The tasks are linear, v.f, max_j f_j and |f|^2. "attention" has its own matrix A, the others the best.
    """
    held_out, states = learned.held_out, [learned.start, learned.static, learned.modified, learned.attention]
    targets = held_out.targets
    largest = jnp.max(jnp.where(jnp.any(targets != 0, axis=0), targets, -jnp.inf), axis=1)
    labels = jnp.concatenate([targets, largest[:, None], jnp.sum(targets**2, axis=1)[:, None]], axis=1)
    power = jnp.mean(labels**2, axis=0)

    def errors(features: Array, matrix: Array) -> Array:
        found = prompt_errors(features, labels, matrix, context)
        return jnp.stack([found[:-2].sum() / power[:-2].sum(), *(found[-2:] / power[-2:])])

    def best(features: Array) -> Array:
        return jnp.linalg.inv(features.T @ features / len(targets))

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    features = jax.vmap(lambda state: feature_map(state, held_out.tokens, sigma))(stacked)
    matrices = jax.vmap(best)(features).at[-1].set(states[-1].attention)
    # absent features are 0 and the whitened rest has E[f f^T] = I
    teacher = errors(targets, jnp.eye(targets.shape[1]))
    return jnp.concatenate([jax.vmap(errors)(features, matrices), teacher[None]])

"""An attention layer that learns concepts with two meanings, and what its matrices know of them."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from unlazy.data.concept_prompts import ConceptPrompts, PromptSizes, draw_prompts, prompts_from
from unlazy.random import normal
from unlazy.training.loop import Training, train


class ConceptAttention(eqx.Module):
    """f = r . relu(W_O sum_l s_l Y_l), s = softmax_l((W_K x_l) . (W_Q x_q)), with r = +-1/m fixed."""

    query: Array
    key: Array
    output: Array
    readout: Array

    def attended(self, mixture: Array) -> Array:
        """r . relu(W_O v) for vectors v, (n, d)."""
        return jax.nn.relu(mixture @ self.output.T) @ self.readout

    def __call__(self, prompts: ConceptPrompts) -> Array:
        # The scores are x_l . (W_K^T W_Q x_q): two products with the query's vector instead of one with every x_l.
        direction = (prompts.query @ self.query.T) @ self.key
        weights = jax.nn.softmax(jnp.einsum("nld,nd->nl", prompts.inputs, direction))
        return self.attended(jnp.einsum("nl,nld->nd", weights, prompts.labels))

    @classmethod
    def start(cls, drawn: Array, initial_attention_scale: ArrayLike, initial_deviation: ArrayLike) -> ConceptAttention:
        """W_Q = W_K = scale I, and W_O = `initial_deviation` times the drawn standard normal numbers (m, d)."""
        output = jnp.asarray(initial_deviation) * drawn
        width, d = drawn.shape
        identity = jnp.asarray(initial_attention_scale) * jnp.eye(d, dtype=output.dtype)
        signs = jnp.where(jnp.arange(width) % 2 == 0, 1.0, -1.0).astype(output.dtype)
        return cls(query=identity, key=identity, output=output, readout=signs / width)


def learn_concepts(
    key: Array,
    sizes: PromptSizes,
    width: int,
    *,
    noise_norm: ArrayLike,
    initial_attention_scale: ArrayLike,
    initial_deviation: ArrayLike,
    step_size: ArrayLike,
    weight_decay: ArrayLike,
    batch_size: int,
    record_at: Sequence[int],
    tests: int,
) -> Training:
    """Gradient descent of the logistic loss on `batch_size` fresh prompts a step, with weight decay of query and key.

    `record_at` are steps, the last of them the end; records are those of `measure`, and the errors on `tests` fresh
    prompts and on as many mixtures of concepts.
    """
    start_key, train_key = jax.random.split(key)
    size = sizes.numbers(tests)
    drawn = jnp.split(normal(start_key, (2 * size + width * sizes.d,)), [size, 2 * size])
    asked = {
        "test_error": prompts_from(drawn[0], tests, sizes, noise_norm),
        "mixture_error": prompts_from(drawn[1], tests, sizes, noise_norm, mixed=True),
    }

    def loss(model: ConceptAttention, step_key: Array) -> Array:
        prompts = draw_prompts(step_key, batch_size, sizes, noise_norm)
        penalty = weight_decay / 2 * ((model.query**2).sum() + (model.key**2).sum())
        return jax.nn.softplus(-prompts.meaning * model(prompts)).mean() + penalty

    def record(model: ConceptAttention) -> dict[str, Array]:
        return {name: error(model, prompts) for name, prompts in asked.items()} | measure(model, sizes.concepts)

    return train(
        ConceptAttention.start(drawn[2].reshape(width, sizes.d), initial_attention_scale, initial_deviation),
        loss,
        optax.sgd(step_size),
        record_at[-1],
        trained=lambda model: (model.query, model.key, model.output),
        key=train_key,
        record=record,
        record_at=record_at,
    )


def error(model: ConceptAttention, prompts: ConceptPrompts) -> Array:
    """The share of wrong signs; no sign is half wrong."""
    margins = prompts.meaning * model(prompts)
    return jnp.where(margins == 0, 0.5, margins < 0).mean()


def measure(model: ConceptAttention, concepts: int) -> dict[str, Array]:
    """What query, key and output matrices know of concepts and semantics."""
    a, b = jnp.arange(concepts), concepts + jnp.arange(concepts)
    both = jnp.eye(len(model.query), dtype=model.query.dtype)
    return {
        "query_concept": model.query[a, a].mean(),
        "query_semantics": model.query[b, b].mean(),
        "key_concept": model.key[a, a].mean(),
        "key_semantics": model.key[b, b].mean(),
        "output_concept": jnp.abs(model.output[:, a]).mean(),
        "output_semantics": jnp.abs(model.output[:, b]).mean(),
        "concept_score": jnp.sum(model.key[:, b] * model.query[:, b], axis=0),
        "concept_readout": model.attended(both[a] + both[b]),
    }


def first_crossing(values: Array, stops: Sequence[int], level: float) -> Array:
    """The step at which values (records,) first pass a level, by interpolation between stops; inf if they do not."""
    steps = jnp.asarray(stops, values.dtype)
    after = jnp.argmax(values > level)
    before = jnp.maximum(after - 1, 0)
    share = (level - values[before]) / jnp.where(after > before, values[after] - values[before], 1.0)
    passed = (values > level).any()
    return jnp.where(passed, steps[before] + share * (steps[after] - steps[before]), jnp.inf)

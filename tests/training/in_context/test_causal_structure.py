"""Sequences with a causal graph, and the two attention layers that learn it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.training.in_context.causal_structure import (
    AttentionLayers,
    causal_answers,
    counted_answers,
    draw_causal_prompts,
    learn_causal_structure,
    parent_attention,
)

TREE = jnp.array([-1, 0, 0, 1, 2])


@pytest.fixture(scope="module")
def drawn():
    return draw_causal_prompts(jax.random.key(0), 40_000, TREE, 3, 2)


def test_tokens_follow_their_parents_and_the_last_is_uniform(drawn):
    """With Dirichlet(1) rows E sum_s pi(s'|s)^2 is 2/(S+1): how often two children of a symbol are the same."""
    tokens = np.asarray(drawn.tokens)
    assert (tokens.sum(axis=2) == 1).all()
    same = np.sum(tokens[:, 1] * tokens[:, 2], axis=1)
    assert abs(same.mean() - 1 / 2) < 5 * 0.5 / np.sqrt(len(same))
    last = tokens[:, -1].mean(axis=0)
    np.testing.assert_allclose(last, 1 / 3, atol=5 * np.sqrt(2 / 9 / len(tokens)))
    np.testing.assert_allclose(np.asarray(drawn.law).sum(axis=1), 1, atol=1e-5)


def test_layers_that_attend_to_parents_and_equal_symbols_count(drawn):
    """With A1 and A2 large the answer is the frequencies after the last token's symbol, where there are any."""
    first = jnp.zeros((6, 6)).at[jnp.arange(1, 5), TREE[1:]].set(50.0)
    first = first.at[0, 0].set(50.0)
    layers = AttentionLayers(first, 200.0 * jnp.eye(3))
    tokens = drawn.tokens[:2000]
    followed = np.asarray(tokens[:, TREE[1:]] * tokens[:, None, -1]).sum(axis=(1, 2))
    # the first token has no parent and the last attends to all: both vote too unless they are excluded
    alone = np.asarray(jnp.sum(tokens[:, 0] * tokens[:, -1], axis=1)) == 0
    kept = (followed > 0) & alone
    assert kept.sum() > 200
    found = np.asarray(causal_answers(layers, tokens))[kept]
    wanted = np.asarray(counted_answers(tokens, TREE, 1e-6))[kept]
    np.testing.assert_allclose(found, wanted, atol=1e-3)


def test_attention_to_the_parent_is_a_mean_over_tokens_that_have_one():
    # uniform rows: 1/2, 1/3, 1/4, 1/5 for tokens 1 to 4
    assert float(parent_attention(jnp.zeros((6, 6)), TREE)) == pytest.approx((1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 4)


@pytest.mark.slow
def test_only_the_first_layer_moves_in_the_first_stage():
    options = {"steps": 40, "batch_size": 64, "record_at": [0, 20, 40], "tests": 256, "normals": 1, "floor": 0.02}
    found = learn_causal_structure(
        jax.random.key(1), TREE, 3, staged=1, step_sizes=(50.0, 5.0), initial_attention_scale=1.0, **options
    )
    scores, attention = np.asarray(found["same_symbol_score"]), np.asarray(found["parent_attention"])
    assert scores[0] == scores[1] == 1.0
    assert scores[2] > 1.2
    assert attention[1] > attention[0] + 0.3
    assert attention[2] == attention[1]
    assert found["known_law_loss"] < found["bayes_loss"] < found["counted_loss"]

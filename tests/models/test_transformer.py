"""The transformer against its definition written as loops."""

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy.special import softmax

from unlazy.checks import InputError
from unlazy.models.transformer import Transformer

answers_of = eqx.filter_jit(lambda model, tokens: model(tokens))


@pytest.fixture(scope="module")
def model():
    start = Transformer.random(jax.random.key(0), 3, 7, width=12, layers=2, heads=3)
    keys = jax.random.split(jax.random.key(1), 2)
    rows = start.readout.shape, start.bias.shape
    return eqx.tree_at(
        lambda m: (m.readout, m.bias), start, tuple(jax.random.normal(k, s) for k, s in zip(keys, rows, strict=True))
    )


@pytest.fixture(scope="module")
def tokens():
    return np.random.default_rng(2).standard_normal((4, 7, 3)).astype(np.float32)


def norm(h):
    return (h - h.mean()) / np.sqrt(h.var() + 1e-5)


def by_loops(model, sequence):
    weights = {name: np.asarray(getattr(model, name), float) for name in model.__dataclass_fields__ if name != "heads"}
    width = len(weights["readout"])
    size = width // model.heads
    h = [x @ weights["read_in"] + p for x, p in zip(sequence.astype(float), weights["positions"], strict=False)]
    for layer in range(len(weights["up"])):
        mixed = [norm(one) @ weights["attention_in"][layer] for one in h]
        for t in reversed(range(len(h))):
            answer = np.zeros(width)
            for head in range(model.heads):
                part = slice(head * size, (head + 1) * size)
                query = mixed[t][:width][part]
                share = softmax([query @ mixed[s][width : 2 * width][part] / np.sqrt(size) for s in range(t + 1)])
                answer[part] = sum(a * mixed[s][2 * width :][part] for s, a in enumerate(share))
            h[t] = h[t] + answer @ weights["attention_out"][layer]
        for t in range(len(h)):
            z = norm(h[t]) @ weights["up"][layer] + weights["bias"][layer]
            gelu = z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
            h[t] = h[t] + gelu @ weights["down"][layer]
    return np.array([norm(one) @ weights["readout"] for one in h])


def test_it_is_its_definition(model, tokens):
    answers = np.asarray(answers_of(model, tokens))
    for sequence, found in zip(tokens, answers, strict=True):
        np.testing.assert_allclose(found, by_loops(model, sequence), atol=2e-5)


@pytest.mark.parametrize("place", [0, 3, 6])
def test_an_answer_depends_on_its_own_token_and_earlier_ones_only(model, tokens, place):
    changed = tokens.copy()
    changed[:, place] += 1.0
    before, after = (np.asarray(answers_of(model, t)) for t in (tokens, changed))
    np.testing.assert_array_equal(before[:, :place], after[:, :place])
    assert (np.abs(before - after)[:, place:] > 1e-4).all()


def test_a_shorter_sequence_has_the_answers_of_the_longer_one(model, tokens):
    np.testing.assert_allclose(answers_of(model, tokens[:, :4]), answers_of(model, tokens)[:, :4], atol=1e-6)


def test_at_the_start_all_answers_are_zero_and_weights_have_their_variance(tokens):
    start = Transformer.random(jax.random.key(3), 3, 7, width=64, layers=4, heads=4, token_scale=3.0)
    assert not np.any(answers_of(start, tokens))
    wanted = {
        "read_in": 9 / 3,
        "positions": 0.02**2,
        "attention_in": 1 / 64,
        "attention_out": 1 / (8 * 64),
        "up": 1 / 64,
        "down": 1 / (8 * 256),
    }
    for name, variance in wanted.items():
        weights = np.asarray(getattr(start, name))
        # the standard error of a variance of n normal numbers is sqrt(2/n)
        assert abs(weights.var() / variance - 1) < 5 * np.sqrt(2 / weights.size)


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(InputError, match="width must be a multiple of heads = 3, got 8"):
        Transformer.random(jax.random.key(0), 2, 2, width=8, layers=1, heads=3)

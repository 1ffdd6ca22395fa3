import jax
import jax.numpy as jnp
import numpy as np

from unlazy.data.concept_prompts import ConceptPrompts, PromptSizes, draw_prompts
from unlazy.training.in_context.concept_attention import ConceptAttention, error, measure

draw = jax.jit(draw_prompts, static_argnames=("n", "sizes", "mixed"))
SIZES = PromptSizes(concepts=3, context=5, d=10)


def random_model(d=10, width=6):
    keys = jax.random.split(jax.random.key(1), 4)
    shapes = ((d, d), (d, d), (width, d), (width,))
    return ConceptAttention(*(jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)))


def test_the_layer_is_its_formula():
    model, prompts = random_model(), draw(jax.random.key(5), 4, SIZES, noise_norm=1.0)
    answers = np.asarray(jax.jit(lambda layer, asked: layer(asked))(model, prompts))
    model, prompts = jax.tree.map(np.asarray, (model, prompts))
    for i, found in enumerate(answers):
        scores = np.array([(model.key @ x) @ (model.query @ prompts.query[i]) for x in prompts.inputs[i]])
        weights = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        hidden = np.maximum(model.output @ (weights @ prompts.labels[i]), 0)
        np.testing.assert_allclose(found, hidden @ model.readout, rtol=1e-4)


def test_without_noise_the_gradient_along_the_concept_vanishes_and_that_along_the_semantics_does_not():
    prompts = draw(jax.random.key(5), 200, SIZES, noise_norm=0.0)
    model = ConceptAttention.start(jax.random.normal(jax.random.key(7), (6, 10)), 0.1, 0.5)
    gradient = jax.jit(jax.grad(lambda m: jax.nn.softplus(-prompts.meaning * m(prompts)).mean()))(model)
    for matrix in (gradient.query, gradient.key):
        found = np.abs(np.diagonal(matrix))
        assert found[:3].max() < 1e-5 * found[3:6].max()
        assert found[3:6].min() > 1e-5


def hand_made(signs):
    """A layer that attends by meaning and reads it off, or does the opposite of both for concepts of sign -1."""
    query, key = np.diag([0.0, 0.0, 0.0, *(40.0 * signs)]), np.diag([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    reading = np.array([0.0, 0.0, 0.0, *signs])
    arrays = query, key, np.stack([reading, -reading]), np.array([1.0, -1.0])
    return ConceptAttention(*(jnp.asarray(array, jnp.float32) for array in arrays))


def test_a_concept_with_both_signs_flipped_is_right_alone_and_wrong_in_mixtures():
    """With weights w a mixture is scored by sum_k s_k w_k^2 and read by sum_k s_k w_k, which may differ in sign."""
    sizes = PromptSizes(concepts=3, context=8, d=6)
    alone = draw(jax.random.key(1), 4000, sizes, noise_norm=0.05)
    mixed = draw(jax.random.key(2), 4000, sizes, noise_norm=0.05, mixed=True)
    meant, flipped = hand_made(np.ones(3)), hand_made(np.array([1.0, 1.0, -1.0]))
    found = jax.jit(lambda model: measure(model, 3))(flipped)
    np.testing.assert_array_equal(np.sign(found["concept_score"]), [1, 1, -1])
    np.testing.assert_array_equal(np.sign(found["concept_readout"]), [1, 1, -1])

    wrong = jax.jit(error)
    shown = np.sign(alone.inputs[:, :, 3:].sum(axis=2))
    # when all demonstrations have the other meaning, nothing shows the right one
    np.testing.assert_allclose(wrong(meant, alone), np.mean(np.all(shown != alone.meaning[:, None], axis=1)), atol=1e-6)
    assert wrong(flipped, alone) < 0.01
    assert wrong(meant, mixed) < 0.01
    weights = np.random.default_rng(0).exponential(size=(100_000, 3))
    signs = np.array([1, 1, -1])
    disagree = np.mean(np.sign(weights**2 @ signs) != np.sign(weights @ signs))
    assert disagree > 0.05
    np.testing.assert_allclose(wrong(flipped, mixed), disagree, atol=0.03)


def test_no_answer_is_half_wrong():
    prompts = ConceptPrompts(jnp.ones((2, 1, 2)), jnp.ones((2, 1, 2)), jnp.ones((2, 2)), jnp.array([1.0, -1.0]))
    silent = ConceptAttention(jnp.eye(2), jnp.eye(2), jnp.zeros((2, 2)), jnp.ones(2))
    assert error(silent, prompts) == 0.5

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.studies.in_context.concepts_and_semantics import ConceptsAndSemantics
from unlazy.studies.in_context.shared.concepts import ConceptAttention, Prompts, draw_prompts, error, measure

draw = jax.jit(draw_prompts, static_argnames=("count", "concepts", "length", "d", "mixed"))
SIZES = {"concepts": 3, "length": 5, "d": 10}


def random_model(d=10, width=6):
    keys = jax.random.split(jax.random.key(1), 4)
    shapes = ((d, d), (d, d), (width, d), (width,))
    return ConceptAttention(*(jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)))


def test_prompts_are_one_concept_with_two_meanings():
    prompts = draw(jax.random.key(0), 3000, **SIZES, noise=0.0)
    concepts, semantics = prompts.inputs[:, :, :3], prompts.inputs[:, :, 3:6]
    assert set(np.unique(concepts)) == {0.0, 1.0}
    np.testing.assert_array_equal(concepts.sum(axis=2), 1)
    np.testing.assert_array_equal(concepts, np.broadcast_to(prompts.query[:, None, :3], concepts.shape))
    np.testing.assert_array_equal(np.abs(semantics), concepts)
    np.testing.assert_array_equal(prompts.query[:, 3:6].sum(axis=1), prompts.meaning)
    np.testing.assert_array_equal(prompts.inputs, prompts.labels)
    np.testing.assert_allclose(concepts[:, 0].mean(axis=0), 1 / 3, atol=0.04)
    np.testing.assert_allclose(prompts.meaning.mean(), 0, atol=0.08)
    np.testing.assert_allclose(semantics.sum(axis=2).mean(axis=0), 0, atol=0.08)


def test_noise_has_the_stated_length_and_mixtures_unit_length():
    clean, noisy = (draw(jax.random.key(3), 2000, **SIZES, noise=s, mixed=True) for s in (0.0, 0.5))
    np.testing.assert_allclose(np.linalg.norm(clean.query[:, :3], axis=1), 1, rtol=1e-5)
    squares = np.sum((noisy.labels - clean.labels) ** 2, axis=2)
    np.testing.assert_allclose(squares.mean(), 0.25, rtol=0.05)
    # Dirichlet(1) weights are independent exponentials over a factor: a third of them is the largest
    weights = np.asarray(clean.query[:, :3])
    ratios = weights[:, 0] / (weights[:, 0] + weights[:, 1])
    np.testing.assert_allclose(np.quantile(ratios, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.05)


def test_the_layer_is_its_formula():
    model, prompts = random_model(), draw(jax.random.key(5), 4, **SIZES, noise=1.0)
    answers = np.asarray(jax.jit(lambda layer, asked: layer(asked))(model, prompts))
    model, prompts = jax.tree.map(np.asarray, (model, prompts))
    for i, found in enumerate(answers):
        scores = np.array([(model.key @ x) @ (model.query @ prompts.query[i]) for x in prompts.inputs[i]])
        weights = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        hidden = np.maximum(model.output @ (weights @ prompts.labels[i]), 0)
        np.testing.assert_allclose(found, hidden @ model.readout, rtol=1e-4)


def test_without_noise_the_gradient_along_the_concept_vanishes_and_that_along_the_semantics_does_not():
    prompts = draw(jax.random.key(5), 200, **SIZES, noise=0.0)
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
    sizes = {"concepts": 3, "length": 8, "d": 6, "noise": 0.05}
    alone = draw(jax.random.key(1), 4000, **sizes)
    mixed = draw(jax.random.key(2), 4000, **sizes, mixed=True)
    meant, flipped = hand_made(np.ones(3)), hand_made(np.array([1.0, 1.0, -1.0]))
    found = jax.jit(lambda model: measure(model, 3))(flipped)
    np.testing.assert_array_equal(np.sign(found["score"]), [1, 1, -1])
    np.testing.assert_array_equal(np.sign(found["readout"]), [1, 1, -1])

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
    prompts = Prompts(jnp.ones((2, 1, 2)), jnp.ones((2, 1, 2)), jnp.ones((2, 2)), jnp.array([1.0, -1.0]))
    silent = ConceptAttention(jnp.eye(2), jnp.eye(2), jnp.zeros((2, 2)), jnp.ones(2))
    assert error(silent, prompts) == 0.5


def test_room_for_concepts_and_even_width_are_required():
    defaults = {name: p.default for name, p in ConceptsAndSemantics.parameters().items()}
    with pytest.raises(InputError, match="d must be at least 2 concepts = 18"):
        ConceptsAndSemantics(**{**defaults, "concepts": 9}).validate()
    with pytest.raises(InputError, match="width must be even"):
        ConceptsAndSemantics(**{**defaults, "width": 7}).validate()


def test_the_outputs_have_one_shape_for_all_numbers_of_concepts():
    shapes = [
        jax.eval_shape(ConceptsAndSemantics(d=16, concepts=k).simulate, jax.eval_shape(lambda: jax.random.key(0)))
        for k in (1, 8)
    ]
    found = [{name: array.shape for name, array in one.items()} for one in shapes]
    assert found[0] == found[1]
    assert found[0]["score"] == (8,)

import jax
import numpy as np

from unlazy.data.concept_prompts import PromptSizes, draw_prompts

draw = jax.jit(draw_prompts, static_argnames=("n", "sizes", "mixed"))
SIZES = PromptSizes(concepts=3, context=5, d=10)


def test_prompts_are_one_concept_with_two_meanings():
    prompts = draw(jax.random.key(0), 3000, SIZES, noise_norm=0.0)
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
    clean, noisy = (draw(jax.random.key(3), 2000, SIZES, noise_norm=s, mixed=True) for s in (0.0, 0.5))
    np.testing.assert_allclose(np.linalg.norm(clean.query[:, :3], axis=1), 1, rtol=1e-5)
    squares = np.sum((noisy.labels - clean.labels) ** 2, axis=2)
    np.testing.assert_allclose(squares.mean(), 0.25, rtol=0.05)
    # Dirichlet(1) weights are independent exponentials over a factor: a third of them is the largest
    weights = np.asarray(clean.query[:, :3])
    ratios = weights[:, 0] / (weights[:, 0] + weights[:, 1])
    np.testing.assert_allclose(np.quantile(ratios, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.05)

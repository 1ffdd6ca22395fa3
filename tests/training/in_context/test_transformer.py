"""Prompts that are drawn on the fly, and training that can be interrupted."""

import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.training.in_context.transformer import (
    FreshPrompts,
    PairPrompts,
    PromptLaw,
    Schedule,
    TransformerSizes,
    fresh_prompts,
    prompt_tokens,
    train_in_segments,
    transformer_answers,
)

LINE = PromptLaw(1, 4, 0.01)
TINY = TransformerSizes(16, 2, 2)
SCHEDULE = Schedule(240, 80, 32, 0.02)


def residuals(features, values):
    return max(
        np.abs(f @ np.linalg.lstsq(f, v, rcond=None)[0] - v).max() for f, v in zip(features, values, strict=True)
    )


def test_linear_tasks_are_linear_of_variance_one_and_noise_is_that_of_the_labels():
    prompts = fresh_prompts(0, PromptLaw(3, 8, 0.25), np.eye(3), 20_000)
    assert residuals(prompts.inputs[:50].astype(float), prompts.values[:50]) < 1e-5
    weights = np.stack([np.linalg.lstsq(x, f, rcond=None)[0] for x, f in zip(*prompts[:2], strict=True)])
    # the entries of w are N(0, 1/3): 60 000 of them
    np.testing.assert_allclose(np.cov(weights.T) * 3, np.eye(3), atol=5 * np.sqrt(2 / 20_000))
    noise = prompts.labels - prompts.values
    assert abs(noise.std() / 0.5 - 1) < 5 * np.sqrt(0.5 / noise.size)
    assert abs(np.mean(noise * prompts.values)) < 5 * 0.5 / np.sqrt(noise.size)


def test_single_index_tasks_are_polynomials_of_one_direction_in_the_subspace():
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 2)))[0]
    prompts = fresh_prompts(0, PromptLaw(6, 40, 0.0, rank=2, lowest_degree=1, highest_degree=3), basis, 4000)
    np.testing.assert_array_equal(prompts.labels, prompts.values)
    a, b = np.moveaxis(prompts.inputs.astype(float) @ basis, 2, 0)
    monomials = np.stack([a**i * b**j for i in range(4) for j in range(4 - i)], axis=2)
    assert residuals(monomials[:50], prompts.values[:50]) < 1e-3
    assert residuals(monomials[:50, :, [0, 1, 2, 4, 5, 7]], prompts.values[:50]) > 0.1
    # E f = 0 and E f^2 = 1 for each task; per-prompt means have a spread that the tasks' tails set
    for power, wanted in ((1, 0.0), (2, 1.0)):
        means = np.mean(prompts.values.astype(float) ** power, axis=1)
        assert abs(means.mean() - wanted) < 5 * means.std() / np.sqrt(len(means))


def test_the_degrees_of_a_task_are_those_asked_for():
    prompts = fresh_prompts(3, PromptLaw(1, 20_000, 0.0, rank=1, lowest_degree=2, highest_degree=3), np.eye(1), 8)
    x, f = prompts.inputs[:, :, 0].astype(float), prompts.values.astype(float)
    hermite = np.stack([np.ones_like(x), x, (x**2 - 1) / np.sqrt(2), (x**3 - 3 * x) / np.sqrt(6)])
    coefficients = np.einsum("jnk,nk->nj", hermite, f) / x.shape[1]
    np.testing.assert_allclose(coefficients[:, :2], 0, atol=0.1)
    np.testing.assert_allclose(np.sum(coefficients[:, 2:] ** 2, axis=1), 1, atol=0.25)
    solved = [np.linalg.lstsq(hermite[2:, i].T, f[i], rcond=None)[0] for i in range(8)]
    np.testing.assert_allclose(np.linalg.norm(solved, axis=1), 1, atol=1e-4)


def test_tokens_are_inputs_and_labels_in_turn():
    prompts = PairPrompts(jnp.arange(12.0).reshape(1, 3, 4), jnp.zeros((1, 3)), jnp.array([[7.0, 8.0, 9.0]]))
    wanted = [[0, 1, 2, 3, 0], [0, 0, 0, 0, 7], [4, 5, 6, 7, 0], [0, 0, 0, 0, 8], [8, 9, 10, 11, 0]]
    np.testing.assert_array_equal(prompt_tokens(prompts)[0], wanted)


@pytest.fixture(scope="module")
def whole():
    return list(train_in_segments(5, LINE, TINY, SCHEDULE, np.eye(1)))


def errors(model, prompts):
    return np.mean((transformer_answers(model, prompts) - prompts.values) ** 2, axis=0)


@pytest.mark.slow
def test_training_learns_lines_in_context(whole):
    prompts = fresh_prompts(9, LINE, np.eye(1), 2000)
    assert [segment.number for segment in whole] == [1, 2, 3]
    start, end = (errors(segment.model, prompts) for segment in (whole[0], whole[-1]))
    # without a pair nothing is known about the slope; after three, the noise is 1% of the variance
    assert 0.8 < end[0] < 1.2
    assert end[3] < 0.25
    assert end.mean() < start.mean()
    # it reads the labels: with their signs turned the answers are wrong
    turned = errors(whole[-1].model, FreshPrompts(prompts.inputs, prompts.values, -prompts.labels))
    assert turned[3] > 1.5


def test_an_interrupted_training_ends_where_a_whole_one_does_bit_by_bit(whole):
    first = next(train_in_segments(5, LINE, TINY, SCHEDULE, np.eye(1)))
    rest = list(train_in_segments(5, LINE, TINY, SCHEDULE, np.eye(1), resume=first.arrays))
    assert [segment.number for segment in rest] == [2, 3]
    for name, array in whole[-1].arrays.items():
        np.testing.assert_array_equal(rest[-1].arrays[name], array)
        assert rest[-1].arrays[name].dtype == array.dtype


def test_another_seed_has_other_weights_and_other_prompts(whole):
    other = next(train_in_segments(6, LINE, TINY, SCHEDULE, np.eye(1)))
    assert np.abs(other.arrays["leaf_0"] - whole[0].arrays["leaf_0"]).max() > 0.1


def test_what_does_not_fit_is_refused(whole):
    with pytest.raises(InputError, match="steps must be a multiple of segment = 7, got 240"):
        next(train_in_segments(5, LINE, TINY, SCHEDULE._replace(segment=7), np.eye(1)))
    with pytest.raises(InputError, match="optimiser must be one of"):
        next(train_in_segments(5, LINE, TINY, SCHEDULE._replace(optimiser="sgd"), np.eye(1)))
    wrong = {**whole[0].arrays, "leaf_0": np.zeros((3, 3), np.float32)}
    with pytest.raises(InputError, match="resume must be the arrays"):
        next(train_in_segments(5, LINE, TINY, SCHEDULE, np.eye(1), resume=wrong))


def test_rows_and_columns_of_zeros_leave_the_tasks_of_a_smaller_law():
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 2)))[0]
    law = PromptLaw(6, 20, 0.0, rank=4, lowest_degree=1, highest_degree=1)
    prompts = fresh_prompts(0, law, np.pad(basis, ((0, 3), (0, 2))), 4000)
    np.testing.assert_array_equal(prompts.inputs[:, :, 3:], 0)
    inside = prompts.inputs[:, :, :3].astype(float) @ basis
    assert residuals(inside[:50], prompts.values[:50]) < 1e-4
    means = np.mean(prompts.values.astype(float) ** 2, axis=1)
    assert abs(means.mean() - 1) < 5 * means.std() / np.sqrt(len(means))

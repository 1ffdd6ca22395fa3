"""Finite sets of prompts and tasks: what is drawn, what is trained on, and the predictors to compare with."""

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory import exact_error, gaussian_task_moments, task_moments
from unlazy.training.in_context.task_pool import (
    Arms,
    PoolPrompts,
    arm_answers,
    discrete_answers,
    draw_pool_prompts,
    draw_tasks,
    linear_attention_curve,
    pair_tokens,
    pretrain_and_compare,
    train_arms,
)
from unlazy.training.in_context.transformer import Schedule, TransformerSizes

TINY = TransformerSizes(4, 1, 2)
SCHEDULE = Schedule(20, 20, 4, 0.02)


def prompts(count=40, d=2, context=3, seed=0):
    rng = np.random.default_rng(seed)
    return draw_pool_prompts(rng, draw_tasks(rng, count, d), context, 0.1)


def test_tokens_are_queries_and_pairs_in_turn():
    inputs, labels = np.arange(4.0).reshape(1, 2, 2), np.array([[7.0, 8.0]])
    np.testing.assert_array_equal(pair_tokens(inputs, labels)[0], [[0, 1, 0], [0, 1, 7], [2, 3, 0]])


def test_labels_have_variance_one_and_noise_of_its_own():
    drawn = prompts(20_000, d=3)
    assert abs(np.mean(drawn.values**2) - 1) < 0.05
    noise = drawn.labels - drawn.values
    assert abs(noise.var() / 0.1 - 1) < 5 * np.sqrt(2 / noise.size)


def test_discrete_bayes_is_the_posterior_mean_over_its_tasks():
    drawn, known = prompts(5), draw_tasks(np.random.default_rng(1), 7, 2)
    found = discrete_answers(drawn, known, 0.1)
    for row in range(5):
        for seen in range(3):
            x, y = drawn.inputs[row, :seen], drawn.labels[row, :seen]
            weights = np.array([np.exp(-np.sum((y - x @ task) ** 2) / 0.2) for task in known])
            guess = weights @ known / weights.sum()
            assert found[row, seen] == pytest.approx(drawn.inputs[row, seen] @ guess, abs=1e-12)


def test_with_many_prompts_linear_attention_has_the_error_of_its_best_weights():
    known = draw_tasks(np.random.default_rng(2), 6, 2)
    new, old = linear_attention_curve(known, 4, 10**9, 0.1)
    assert new[0] == 1.1
    assert old[0] == pytest.approx(np.mean(np.sum(known**2, axis=1)) + 0.1)
    for seen in (1, 3):
        own = task_moments(np.sqrt(2) * known, seen, 0.1)
        best = own.cross_moment @ np.linalg.inv(own.feature_moment)
        assert old[seen] == pytest.approx(exact_error(own, best), rel=1e-4)
        assert new[seen] == pytest.approx(exact_error(gaussian_task_moments(np.eye(2), seen, 0.1), best), rel=1e-4)


@pytest.fixture(scope="module")
def trained():
    stored = prompts(80)
    labels = np.stack([stored.labels, stored.labels])
    labels[1, 8:] += 1.0
    arms = [Arms((8, 8), (4, 4)), Arms((80, 80), (4, 4))]
    return stored, [train_arms(3, one, stored, labels, TINY, SCHEDULE) for one in arms]


def test_an_arm_sees_its_own_prompts_alone(trained):
    stored, (few, all_of_them) = trained
    one, other = arm_answers(few, [stored, stored])
    np.testing.assert_allclose(one, other, atol=1e-5)
    one, other = arm_answers(all_of_them, [stored, stored])
    assert np.abs(one - other).max() > 0.01


def test_answers_do_not_see_their_own_or_later_labels(trained):
    stored, (few, _) = trained
    shifted = stored.labels.copy()
    shifted[:, 1:] += 1.0
    other = PoolPrompts(stored.inputs, stored.values, shifted)
    before, after = arm_answers(few, [stored, other])
    np.testing.assert_allclose(before[:, :2], after[:, :2], atol=1e-5)
    assert np.abs(before[:, 2] - after[:, 2]).max() > 1e-4


def test_more_prompts_than_are_stored_are_refused():
    stored = prompts(80)
    with pytest.raises(InputError, match="prompts must be from 1 to the 80 stored, got 8 to 81"):
        train_arms(0, Arms((8, 81), (1, 1)), stored, np.stack([stored.labels] * 2), TINY, SCHEDULE)


def test_one_task_is_recalled_and_costs_new_ones_what_it_is_apart():
    """The best answer is x.w for the one task w: new tasks cost E |w' - w|^2 = 1 + |w|^2 and the noise."""
    schedule = Schedule(200, 200, 16, 0.02)
    found = pretrain_and_compare(
        np.random.default_rng(4),
        (3200,),
        (1,),
        TransformerSizes(8, 1, 2),
        schedule,
        d=1,
        context=3,
        noise_variance=0.1,
        tests=4000,
    )
    assert found["pretraining_task_error"].max() < 0.15
    np.testing.assert_allclose(found["discrete_pretraining_task_error"], 0.1, atol=1e-12)
    np.testing.assert_allclose(found["new_task_error"], found["discrete_new_task_error"], rtol=0.1)
    assert found["discrete_new_task_distance"] < 0.1 * found["bayes_new_task_distance"]

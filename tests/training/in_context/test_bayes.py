import numpy as np
import pytest

from unlazy.theory.in_context.linear_attention import bayes_error
from unlazy.training.in_context.bayes import bayes_errors


def test_discrete_bayes_is_the_posterior_mean_over_the_known_tasks():
    rng = np.random.default_rng(2)
    known, tasks, context, noise = rng.standard_normal((6, 3)), rng.standard_normal((4, 3)), 2, 0.7
    found = bayes_errors(np.random.default_rng(9), tasks, known, context, noise)
    rng, discrete = np.random.default_rng(9), []
    for task in tasks:
        tokens = rng.standard_normal((context, 3)) / np.sqrt(3)
        labels = tokens @ task + np.sqrt(noise) * rng.standard_normal(context)
        likelihood = [np.exp(-np.sum((labels - tokens @ w) ** 2) / (2 * noise)) for w in known]
        guess = np.average(known, axis=0, weights=likelihood)
        discrete.append(noise + np.sum((task - guess) ** 2) / 3)
    assert found.discrete == pytest.approx(np.mean(discrete), rel=1e-12)


def test_bayes_errors_reach_their_limit_and_the_noise():
    rng, d = np.random.default_rng(0), 60
    known = rng.standard_normal((90, d))
    new = bayes_errors(rng, rng.standard_normal((200, d)), known, 2 * d, 0.25)
    assert new.continuous == pytest.approx(bayes_error(2.0, 0.25), rel=0.03)
    assert new.discrete > 1.25
    old = bayes_errors(rng, known, known, 2 * d, 0.25)
    assert old.discrete == pytest.approx(0.25, rel=1e-6)

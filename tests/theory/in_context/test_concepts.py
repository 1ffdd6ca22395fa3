from itertools import product

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.in_context.concepts import attended_meaning, concept_dynamics, concept_growth


def start(deviation, width=40, columns=3):
    rng = np.random.default_rng(0)
    return [deviation * rng.standard_normal((width, columns)) for _ in range(2)]


@pytest.mark.parametrize("score", [-0.7, 0.3, 2.0])
def test_the_attended_meaning_is_the_mean_over_all_prompts(score):
    found = []
    for y, *others in product((1, -1), repeat=6):
        weights = np.exp(score * y * np.array(others))
        found.append(y * np.sum(weights * others) / weights.sum())
    np.testing.assert_allclose(attended_meaning(5, score), np.mean(found), rtol=1e-12)


def loss(query, key, gamma, rho, context, concepts):
    """The expected logistic loss of one concept, prompt by prompt."""
    signs = np.where(np.arange(len(gamma)) % 2 == 0, 1.0, -1.0) / len(gamma)
    found = []
    for y, *others in product((1, -1), repeat=context + 1):
        others = np.array(others)
        inputs = np.stack([np.ones(context), others], axis=1)
        scores = inputs @ key.T @ query @ np.array([1.0, y])
        weights = np.exp(scores) / np.exp(scores).sum()
        answer = signs @ np.maximum(gamma + rho * (weights @ others), 0)
        found.append(np.log1p(np.exp(-y * answer)))
    return np.mean(found) / concepts


def test_a_step_is_that_of_the_gradient_of_the_loss_over_all_prompts():
    rng = np.random.default_rng(3)
    gamma, rho = rng.standard_normal((2, 6, 1))
    size, scale, steps = 0.3, 0.8, 3
    state = [scale * np.eye(2), scale * np.eye(2), gamma[:, 0], rho[:, 0]]
    for _ in range(steps):
        gradients = []
        for place, array in enumerate(state):
            gradient = np.zeros_like(array)
            for index in np.ndindex(array.shape):
                moved = []
                for sign in (1, -1):
                    shifted = [each.copy() for each in state]
                    shifted[place][index] += sign * 1e-6
                    moved.append(loss(*shifted, 3, 2))
                gradient[index] = (moved[0] - moved[1]) / 2e-6
            gradients.append(gradient)
        state = [array - size * gradient for array, gradient in zip(state, gradients, strict=True)]
    found = concept_dynamics(gamma, rho, 2, 3, scale, size, 0.0, [steps])
    expected = [state[0][0, 0], state[0][1, 1], state[1][0, 0], state[1][1, 1]]
    np.testing.assert_allclose(np.array(found[:4])[:, 0, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(found.output_concept[0, 0], np.abs(state[2]).mean(), rtol=1e-6)
    np.testing.assert_allclose(found.concept_score[0, 0], state[1][:, 1] @ state[0][:, 1], rtol=1e-6)


def test_the_key_of_a_concept_is_invariant_and_decays_with_weight_decay():
    for decay in (0.0, 0.002):
        found = concept_dynamics(*start(0.01), 2, 8, 0.1, 5.0, decay, [0, 50, 200])
        np.testing.assert_allclose(found.key_concept[:, 0], 0.1 * (1 - 5 * decay) ** np.array([0, 50, 200]), rtol=1e-9)


def test_the_linearised_growth_is_that_of_a_tiny_output_matrix_at_first():
    """Neurons that watch the concept much more than its meaning do not switch."""
    gamma = np.repeat([[1.0], [1.0], [-1.0], [-1.0]], 10, axis=0)
    time = float(concept_growth(2, 40, 8, 0.3).learning_time)
    found = concept_dynamics(gamma, np.zeros((40, 1)), 2, 8, 0.3, time / 1000, 0.0, [0, 250, 500])
    np.testing.assert_allclose(found.query_semantics[:, 0], 0.3 / np.cos(np.pi / 4 * np.array([0, 0.5, 1])), rtol=0.02)
    # half of the neurons are on, and their readout is the mean over all
    np.testing.assert_allclose(found.output_semantics[-1, 0], 0.3 / 80**0.5, rtol=0.05)
    np.testing.assert_allclose(found.output_concept[-1, 0], 1.0, rtol=0.01)


def test_concepts_are_learned_one_by_one_in_times_that_grow_with_their_number():
    one = concept_dynamics(*start(0.01), 2, 8, 0.1, 3.0, 0.0, [150])
    other = concept_dynamics(*start(0.01), 6, 8, 0.1, 9.0, 0.0, [150])
    np.testing.assert_allclose(one.query_semantics, other.query_semantics, rtol=1e-9)
    times = concept_growth([2, 6], 40, 8, 0.1).learning_time
    np.testing.assert_allclose(times[1] / times[0], 3)


def test_matrices_of_different_shapes_are_refused():
    with pytest.raises(InputError, match="first_output_semantics must have shape"):
        concept_dynamics(np.ones((4, 2)), np.ones((4, 3)), 2, 8, 0.1, 1.0, 0.0, [5])
    with pytest.raises(InputError, match="record_at must grow"):
        concept_dynamics(np.ones((4, 2)), np.ones((4, 2)), 2, 8, 0.1, 1.0, 0.0, [5, 5])

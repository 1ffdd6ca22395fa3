import numpy as np
import pytest

from unlazy.training.in_context.prompt_attention import TaskFamily
from unlazy.training.in_context.prompt_risks import attention_risks, cubic_ridge_errors, prompt_only_risks


@pytest.fixture
def rng():
    return np.random.default_rng(2)


@pytest.mark.parametrize(("n", "size"), [(40, 2), (12, 3), (25, 6)])
def test_cubic_ridge_is_kernel_ridge_whichever_matrix_is_smaller(n, size, rng):
    inputs, queries = rng.standard_normal((3, n, size)), rng.standard_normal((3, 7, size))
    labels, truth, ridges = rng.standard_normal((3, n)), rng.standard_normal((3, 7)), np.array([1e-3, 0.5])
    found = cubic_ridge_errors(inputs, labels, queries, truth, ridges)
    for t in range(3):
        for i, ridge in enumerate(ridges):
            kernel = (1 + inputs[t] @ inputs[t].T / size) ** 3 + n * ridge * np.eye(n)
            answers = (1 + queries[t] @ inputs[t].T / size) ** 3 @ np.linalg.solve(kernel, labels[t])
            np.testing.assert_allclose(found[t, i], np.mean((answers - truth[t]) ** 2), rtol=1e-8)


def test_prompt_alone_learns_in_the_subspace_and_not_in_all_dimensions(rng):
    family = TaskFamily(np.eye(30)[:, :2], 2, 3, 0.01)
    inside, outside = (prompt_only_risks(rng, basis, family, [(100, 20)])[0] for basis in (family.subspace, np.eye(30)))
    assert inside < 0.1
    assert 0.8 < outside < 1.2


def test_attention_learns_with_weights_in_the_subspace_and_not_with_weights_outside(rng):
    family = TaskFamily(np.eye(20)[:, :2], 2, 3, 0.01)
    angles, biases = rng.uniform(0, 2 * np.pi, 40), rng.uniform(-3, 3, 40)
    inside, outside = np.zeros((40, 20)), np.zeros((40, 20))
    inside[:, :2] = outside[:, 2:4] = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    short, long = attention_risks(rng, inside, biases, family, 200, [16, 512], tests=100)
    assert long < 0.3 < short < 1
    np.testing.assert_allclose(attention_risks(rng, outside, biases, family, 200, [512], tests=100), 1, atol=0.1)

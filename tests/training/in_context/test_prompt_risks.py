import numpy as np
import pytest

from unlazy.training.in_context.prompt_attention import TaskFamily
from unlazy.training.in_context.prompt_risks import attention_risks, kernel_risks


@pytest.fixture
def rng():
    return np.random.default_rng(2)


def test_the_prompt_alone_teaches_few_dimensions_and_not_many(rng):
    few, many = (kernel_risks(rng, TaskFamily(np.eye(d)[:, :2], 2, 3, 0.01), 20, [100])[0] for d in (2, 30))
    assert few < 0.1
    assert 0.8 < many < 1.2


def test_kernel_ridge_is_exact_where_the_tasks_are_in_the_kernels_space(rng):
    """A polynomial of degree 2 in 2 dimensions has 6 coefficients: 30 rows leave what the ridge leaves."""
    assert kernel_risks(rng, TaskFamily(np.eye(2), 1, 2, 0.0), 10, [30])[0] < 1e-3


def test_attention_learns_with_weights_in_the_subspace_and_not_with_weights_outside(rng):
    family = TaskFamily(np.eye(20)[:, :2], 2, 2, 0.01)
    angles, biases = rng.uniform(0, 2 * np.pi, 16), rng.uniform(-3, 3, 16)
    inside, outside = np.zeros((16, 20)), np.zeros((16, 20))
    inside[:, :2] = outside[:, 2:4] = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    short, long = attention_risks(rng, inside, biases, family, 1000, [8, 256], tests=100)
    assert long < 0.3 < short < 1
    assert attention_risks(rng, outside, biases, family, 1000, [256], tests=100) > 0.9

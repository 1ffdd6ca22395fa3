import numpy as np
import pytest

from unlazy.training.in_context.pretraining import measured_errors, pretrain, sizes


def test_sizes_interpolate_at_ratio_one_in_every_dimension():
    assert sizes(24, 1.0, 2.0, 0.5) == (24, 48, 12, 24 * 25)
    assert sizes(3, 1e-9, 1e-9, 1e-9) == (3, 1, 1, 1)


@pytest.mark.parametrize("kind", ["new_task", "pretraining_task"])
def test_errors_of_a_run_are_those_of_drawn_contexts(kind):
    """The weights are tested on prompts with all their tokens."""
    system = sizes(5, prompts_per_squared_dimension=3.0, context_per_dimension=2.0, tasks_per_dimension=0.6)
    pretrained = pretrain(np.random.default_rng(4), system, 0.25, 0.05)
    exact = measured_errors(pretrained, system, 0.25, 0.05)[f"{kind}_error"]
    rng, count = np.random.default_rng(1), 150_000
    tasks = rng.standard_normal((count, 5)) if kind == "new_task" else pretrained.tasks[rng.integers(3, size=count)]
    tokens = rng.standard_normal((count, system.context + 1, 5)) / np.sqrt(5)
    labels = np.einsum("nid,nd->ni", tokens, tasks) + 0.5 * rng.standard_normal((count, system.context + 1))
    y, x = labels[:, :-1], tokens[:, :-1]
    first = 5 / system.context * np.einsum("ni,nid->nd", y, x)
    features = np.column_stack([first, np.mean(y**2, axis=1)])
    squares = (labels[:, -1] - np.einsum("nd,de,ne->n", tokens[:, -1], pretrained.weights, features)) ** 2
    allowed = 4 * squares.std() / np.sqrt(count)
    assert abs(squares.mean() - exact) <= allowed
    assert abs(squares.mean() - 1.2 * exact) > allowed

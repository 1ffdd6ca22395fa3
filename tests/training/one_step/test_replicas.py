import numpy as np
import pytest

from unlazy.data.rows import draw_rows
from unlazy.training.one_step.replicas import dense_replicas, quadratic_replicas


def test_lazy_replicas_keep_what_the_samples_do_not_span():
    samples = [7, 14, 21]
    found = [
        quadratic_replicas(np.random.default_rng(seed), 7, samples, 6, 800, linear=True)["replica_variance"]
        for seed in range(24)
    ]
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    expected = 1 - np.array(samples) / 28
    assert (np.abs(mean - expected) < 4 * error).all()
    assert (np.abs(mean - 0.8 * expected) > 4 * error).all()


def test_rich_replicas_find_the_teacher_from_fewer_samples_than_lazy_ones():
    rich, lazy = (
        quadratic_replicas(np.random.default_rng(0), 16, [8, 56], 3, 1500, linear=linear) for linear in (False, True)
    )
    assert rich["teacher_overlap"][1] > 0.99
    assert rich["replica_overlap"][1] > 0.99
    assert rich["teacher_overlap"][0] < 0.5
    assert lazy["teacher_overlap"][1] < 0.9
    assert (rich["training_error"] < 1e-3).all()


@pytest.mark.slow
def test_replicas_of_a_wide_network_vary_as_the_linear_dynamics_says():
    found, theory = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows = draw_rows(rng, "mnist", 32, 64, shrink=4)
        result = dense_replicas(rng, rows, 1024, [32], 8, step_size=0.1, steps=100, activation="relu")
        found.append(result["replica_variance"][0])
        theory.append(result["predicted_variance"][0])
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - np.mean(theory)) < 4 * error
    assert abs(np.mean(found) - 0.8 * np.mean(theory)) > 4 * error

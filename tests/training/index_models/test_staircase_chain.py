import jax
import numpy as np

from unlazy.theory.index_models.leaps import staircase_samples
from unlazy.training.index_models.giant_steps import giant_steps
from unlazy.training.index_models.staircase_chain import second_direction_n


def test_the_chain_takes_the_time_of_its_diffusion():
    d, size = 400, 0.03
    run = jax.jit(jax.vmap(lambda key: second_direction_n(key, 1, 128, d, size, 0.5, 10**6, 0.5)))
    n = np.asarray(run(jax.random.split(jax.random.key(0), 8)))
    expected = staircase_samples(1, d, 0.5, size)
    error = n.std() / np.sqrt(7) + 64
    assert abs(n.mean() - expected) < 4 * error
    assert abs(n.mean() - 1.2 * expected) > 4 * error


def test_chains_that_do_not_arrive_are_infinite():
    assert np.isinf(second_direction_n(jax.random.key(0), 3, 8, 100, 1e-6, 0.9, 64, 1.0))


def test_a_step_on_labels_without_a_first_degree_leaves_overlaps_random_and_one_on_a_line_does_not():
    d, n = 200, 4000
    found = giant_steps(np.random.default_rng(0), lambda z: z[:, 0], 2, d, n, 64, 0.5, 0.5)
    assert found.one[0] > 0.3
    assert found.one[1] < 0.05
    unseen = giant_steps(np.random.default_rng(0), lambda z: z[:, 0] * z[:, 1], 2, d, n, 64, 0.5, 0.5)
    assert unseen.one.max() < 0.05

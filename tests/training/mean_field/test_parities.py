import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.training.mean_field.parities import RIDGES, anneal, draw_parity, kernel_accuracies

NUMBERS = {"steps": 40, "step_size": 0.2, "amplitude": 10.0, "prior_scale": 1.5}


@pytest.mark.parametrize("degree", [2, 3])
def test_labels_are_products_of_the_first_signs(degree):
    inputs, labels = map(np.asarray, draw_parity(jax.random.key(0), 500, 6, degree))
    np.testing.assert_allclose(np.abs(inputs[:, :6]), 1 / np.sqrt(6), rtol=1e-6)
    np.testing.assert_array_equal(inputs[:, 6], 1)
    np.testing.assert_array_equal(labels, np.sign(inputs[:, :degree]).prod(axis=1))
    assert abs(np.sign(inputs[:, :6]).mean()) < 4 / np.sqrt(3000)


def test_rows_without_weight_are_as_if_they_were_not_there():
    inputs, labels = draw_parity(jax.random.key(1), 30, 5, 2)
    start = jnp.asarray(np.random.default_rng(0).normal(size=(12, 7)), inputs.dtype)
    temperatures = jnp.asarray([0.04, 0.02], inputs.dtype)
    weights = jnp.where(jnp.arange(30) < 20, 1 / 20, 0.0)

    def walk(rows):
        return anneal(jax.random.key(2), start, rows, temperatures, **NUMBERS)

    few = walk((inputs[:20], labels[:20], jnp.full(20, 1 / 20)))
    np.testing.assert_allclose(walk((inputs, labels, weights)), few, rtol=1e-3, atol=1e-4)


def test_without_data_the_particles_end_with_the_variance_of_the_last_temperature():
    """Euler steps of an Ornstein-Uhlenbeck process have the variance 2 lambda eta/(1 - (1 - lambda eta/tau^2)^2)."""
    inputs, labels = draw_parity(jax.random.key(1), 4, 6, 2)
    start = jnp.zeros((1000, 8))
    numbers = NUMBERS | {"prior_scale": 0.5, "steps": 60}
    temperatures = jnp.asarray([2.0, 0.25])
    found = np.asarray(anneal(jax.random.key(3), start, (inputs, labels, jnp.zeros(4)), temperatures, **numbers))
    shrink = 1 - 0.25 * 0.2 / 0.5**2
    expected = 2 * 0.25 * 0.2 / (1 - shrink**2)
    error = expected * np.sqrt(2 / found.size)
    assert abs((found**2).mean() - expected) < 4 * error
    assert 4 * error < 0.2 * expected


def test_the_kernel_is_ridge_regression_at_its_best_ridge():
    train, test = (draw_parity(jax.random.key(seed), count, 7, 3) for seed, count in ((4, 60), (5, 400)))
    own, other = (np.asarray(part[0][:, :7] @ train[0][:, :7].T, float) ** 3 for part in (train, test))
    labels, targets = np.asarray(train[1], float), np.asarray(test[1], float)
    for n, found in zip((20, 35, 60), kernel_accuracies(train, test, (20, 35, 60), 3), strict=True):
        fits = [np.linalg.solve(own[:n, :n] + ridge * np.eye(n), labels[:n]) for ridge in RIDGES]
        best = max(((other[:, :n] @ fit) * targets > 0).mean() for fit in fits)
        assert float(found) == pytest.approx(best, abs=0.006)

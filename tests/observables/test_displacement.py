import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.observables.displacement import displacement


def test_measures_agree_with_a_loop_over_neurons():
    initial, final = np.random.default_rng(0).normal(size=(2, 3, 7))
    moved = [np.linalg.norm(final[:, i] - initial[:, i]) for i in range(7)]
    measured = displacement(jnp.asarray(initial), jnp.asarray(final))
    assert float(measured.frobenius) == pytest.approx(np.linalg.norm(final - initial), rel=1e-5)
    assert float(measured.relative) == pytest.approx(
        np.linalg.norm(final - initial) / np.linalg.norm(initial), rel=1e-5
    )
    assert float(measured.mean) == pytest.approx(np.mean(moved), rel=1e-5)
    assert float(measured.largest) == pytest.approx(np.max(moved), rel=1e-5)


def test_one_moved_neuron_of_many_shows_in_the_largest_and_is_diluted_in_the_mean():
    initial = np.eye(4)
    final = initial.copy()
    final[:, 2] += [3.0, 0.0, 0.0, 4.0]
    measured = displacement(jnp.asarray(initial), jnp.asarray(final))
    assert [float(value) for value in measured] == pytest.approx([5.0, 2.5, 1.25, 5.0])

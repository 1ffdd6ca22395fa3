import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.errors import InputError
from unlazy.studies.mean_field.mfld_minibatch import (
    METHODS,
    MfldMinibatch,
    energies,
    gradients,
    network_data,
    optimum,
)
from unlazy.training.langevin import energy, variation_gradient


def test_the_optimum_is_a_fixed_point_of_its_own_residuals():
    """mu* ~ exp(-(confinement |x|^2 + mean_i (f(z_i) - y_i) h_i(x))/temperature), here summed on another grid."""
    confinement, temperature = 0.005, 0.01
    z, y = network_data(256)
    best = optimum(256, confinement, temperature)
    line = np.linspace(-6.5, 6.5, 111)
    points = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    hidden = 4 * np.tanh(np.outer(points[:, 0], z) + points[:, 1:])
    square = (points**2).sum(axis=1)
    exponent = -(confinement * square + hidden @ (best.predictions - y) / 256) / temperature
    law = np.exp(exponent - exponent.max())
    law /= law.sum()
    assert law @ hidden == pytest.approx(best.predictions, abs=1e-4)
    energy = 0.5 * np.mean((law @ hidden - y) ** 2) + confinement * law @ square
    assert best.energy == pytest.approx(energy, abs=1e-5)


def test_the_cost_of_a_step_counts_the_rows_it_touches():
    """2B + n/m with variance reduction and m = n/B, where the anchor's gradient on n rows serves m steps."""
    study = MfldMinibatch()
    for name, method in METHODS.items():
        if method.batch is None:
            assert study._cost(name) == 256
        elif method.variance_reduction:
            assert study._cost(name) == 2 * method.batch + 256 / (256 // method.batch)
        else:
            assert study._cost(name) == method.batch


def test_gradients_and_energies_of_clouds_are_those_of_the_engine():
    """Automatic differentiation of F of the network, one cloud at a time."""
    rng = np.random.default_rng(3)
    clouds, rows = rng.normal(size=(3, 2, 7)), rng.normal(size=(2, 3, 5))

    def functional(particles, rows):
        inputs, labels = rows
        network = 4 * jnp.tanh(jnp.outer(inputs, particles[:, 0]) + particles[:, 1]).mean(axis=1)
        return 0.5 * jnp.mean((network - labels) ** 2)

    found, values = jax.jit(lambda x, rows: (gradients(x, rows), energies(x, rows, 0.3)))(clouds, tuple(rows))
    engine = jax.jit(lambda x, rows: (variation_gradient(functional, x, rows), energy(functional, x, 0.3, rows)))
    for cloud, z, y, gradient, value in zip(clouds, *rows, found, values, strict=True):
        exact, total = engine(cloud.T, (z, y))
        assert np.asarray(gradient) == pytest.approx(np.asarray(exact).T, rel=1e-5, abs=1e-6)
        assert float(value) == pytest.approx(float(total), rel=1e-5)


def test_runs_of_one_seed_share_noise_and_start_and_variance_reduction_begins_as_the_full_gradient():
    """At the anchor, step 0, the reduced gradient is the one on all rows; the others differ by their batches' noise."""
    study, key = MfldMinibatch(particles=10, n=32), jax.random.key(2)
    start = np.random.default_rng(0).normal(size=(10, 2))
    batches, full = study._energies(key, start, np.array([1, 3])), study._full_energies(key, start, np.array([1, 3]))
    assert float(batches["svrg-4"][0]) == pytest.approx(float(full[0]), rel=1e-6)
    assert float(batches["svrg-4"][1]) == pytest.approx(float(full[1]), rel=1e-2)
    assert abs(float(batches["sgd-4"][0]) / float(full[0]) - 1) > 1e-5


def test_too_few_rows_are_refused():
    with pytest.raises(InputError, match="n must be >= 32"):
        MfldMinibatch(n=16).validate()

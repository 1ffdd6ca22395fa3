from types import SimpleNamespace

import jax
import numpy as np
import pytest
import xarray as xr

from unlazy.checks import InputError
from unlazy.studies.mean_field.mfld_particles import (
    BETWEEN,
    EDGES,
    MfldParticles,
    _width,
    block_predictions,
    network_shares,
    window_shares,
)
from unlazy.studies.mean_field.shared.tanh_network import INPUTS, optimum, step_bias
from unlazy.theory.mean_field.dual import particle_constants, place_samples, width_covariance
from unlazy.training.mean_field.langevin import variation_gradient


@pytest.mark.parametrize("count", [8, 32])
def test_networks_in_one_program_feel_the_force_of_separate_ones(count):
    inputs, targets = np.linspace(-2, 2, 20), np.sin(np.linspace(-4, 4, 20))
    particles = np.random.default_rng(0).normal(size=(128, 2))

    def together(x):
        return ((block_predictions(x, inputs, network_shares(count)) - targets) ** 2).mean() / 2

    def alone(x):
        return ((4 * jax.numpy.tanh(x[:, :1] * inputs + x[:, 1:]).mean(axis=0) - targets) ** 2).mean() / 2

    networks = jax.numpy.asarray(particles).reshape(-1, count, 2)
    separate = jax.jit(jax.vmap(lambda x: variation_gradient(alone, x)))(networks).reshape(128, 2)
    found = jax.jit(lambda x: variation_gradient(together, x))(jax.numpy.asarray(particles))
    np.testing.assert_allclose(found, separate, rtol=1e-4, atol=1e-5)


def test_other_numbers_of_particles_are_refused():
    with pytest.raises(InputError, match="particles must be 8, 16, 32, 64 or 128, got 12"):
        MfldParticles(particles=12).validate()


@pytest.mark.parametrize("step_size", [0.03, 0.15])
def test_step_sizes_that_miss_the_observations_are_refused(step_size):
    with pytest.raises(InputError, match=f"step_size must divide 0.2, like 0.02 or 0.005, got {step_size}"):
        MfldParticles(step_size=step_size).validate()


@pytest.mark.parametrize("step_size", [0.02, 0.005])
def test_times_are_the_mean_times_of_the_observations(step_size):
    study = MfldParticles(step_size=step_size)
    study.validate()
    observed = step_size * round(BETWEEN / step_size) * np.arange(EDGES[-1] + 1)
    np.testing.assert_allclose(study.coordinates()["time"], window_shares() @ observed, rtol=1e-12)


def test_the_step_size_explains_measured_biases():
    """3000 networks of 8 particles at three step sizes by other code: ratios to continuous time, with errors of 1.7%.

    The ratio of the energy also has a term 1/N of about 1%, of which the theory knows nothing.
    """
    found, bias = optimum("square", 0.05, 0.1), step_bias(0.05, 0.1)
    energy, trace = particle_constants(found).energy_excess, np.trace(width_covariance(found))
    measured = {0.02: (1.136, 1.037), 0.01: (1.077, 1.020), 0.005: (1.036, 1.016)}
    for step_size, (of_energy, of_width) in measured.items():
        added = step_size * (8 * bias.energy_per_particle + bias.energy)
        assert 1 + added / energy == pytest.approx(of_energy, abs=0.04)
        assert 1 + step_size * np.trace(bias.width) / trace == pytest.approx(of_width, abs=0.012)


def test_the_predicted_curve_starts_with_independent_particles_and_ends_stationary():
    predicted = MfldParticles().predict()
    curve = predicted["width_curve"]
    assert (np.diff(curve) < 0).all()
    assert curve[0] == pytest.approx(184.144, rel=1e-4)
    assert curve[-1] == pytest.approx(6.538427, rel=2e-3)


def test_the_control_variate_leaves_the_mean_and_halves_the_noise():
    """Deviations that remember the start: the corrected width is right and closer than the plain one."""
    truth, errors = 0.5 * 100 + 10, []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        start = 100 * rng.chisquare(8, 64) / 8
        later = 0.5 * start + 10 * rng.chisquare(8, 64) / 8
        data = xr.Dataset(
            {
                "square": (("seed", "particles", "time"), np.stack([start, later], axis=1)[:, None]),
                "offset": (("seed", "particles", "time", "input"), np.zeros((64, 1, 2, 1))),
            },
            coords={"particles": [8], "time": [0.0, 1.0]},
        )
        found = _width(SimpleNamespace(simulated=data, predicted=xr.Dataset({"independent_trace": 100.0}))).squeeze()
        assert float(found.sel(time=0.0)) == pytest.approx(start.mean())
        errors.append((float(found.sel(time=1.0)) - truth, later.mean() - truth))
    corrected, plain = np.std(errors, axis=0)
    assert corrected < plain / 2
    assert abs(np.mean(errors, axis=0)[0]) < 4 * corrected / np.sqrt(16)


def test_traced_samples_are_those_of_numpy():
    found = optimum("square", 0.05, 0.1)
    rng = np.random.default_rng(0)
    which, where = rng.random(4000), rng.random((4000, 2))
    particles = place_samples(found, which, where)
    traced = jax.jit(lambda a, b: place_samples(found, a, b, jax.numpy))(which.astype("f4"), where.astype("f4"))
    # rounding moves a number to the next cell now and then
    assert (np.abs(np.asarray(traced) - particles).max(axis=1) < 1e-5).mean() > 0.98
    values = 4 * np.tanh(np.outer(particles[:, 0], INPUTS) + particles[:, 1:])
    error = values.std(axis=0) / np.sqrt(4000)
    assert (np.abs(values.mean(axis=0) - found.predictions) < 4 * error).all()

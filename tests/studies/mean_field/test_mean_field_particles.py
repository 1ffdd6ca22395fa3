from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from unlazy.numerics.monte_carlo import window_shares
from unlazy.studies.mean_field.mean_field_particles import BETWEEN, EDGES, MeanFieldParticles, _width


@pytest.mark.parametrize("step_size", [0.02, 0.005])
def test_times_are_the_mean_times_of_the_observations(step_size):
    study = MeanFieldParticles(step_size=step_size)
    study.validate()
    observed = step_size * round(BETWEEN / step_size) * np.arange(EDGES[-1] + 1)
    np.testing.assert_allclose(study.coordinates()["time"], window_shares(EDGES) @ observed, rtol=1e-12)


def test_the_predicted_curve_starts_with_independent_particles_and_ends_stationary():
    predicted = MeanFieldParticles().predict()
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

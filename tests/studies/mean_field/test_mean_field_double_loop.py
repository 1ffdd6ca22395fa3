from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from unlazy.studies.mean_field.mean_field_double_loop import STEPS, MeanFieldDoubleLoop
from unlazy.studies.mean_field.shared import optimum


def averaging_slope(part):
    return next(claim for claim in MeanFieldDoubleLoop.claims if claim.id == "averaging").number(part)


def part(temperature, powers):
    """Gaps t^-power, at one temperature (an attribute of the run) or along an axis of temperatures."""
    steps = np.array(STEPS["averaging"], dtype=float)
    gaps = xr.DataArray(
        [[steps**-power] for power in powers], dims=("confinement", "seed", "step"), coords={"step": steps}
    )
    if np.ndim(temperature) == 0:
        data = xr.Dataset({"optimality_gap": gaps.isel(confinement=0)}, attrs={"temperature": temperature})
    else:
        data = xr.Dataset({"optimality_gap": gaps}).assign_coords(temperature=("confinement", list(temperature)))
    return SimpleNamespace(simulated=data)


@pytest.mark.parametrize("temperature", [0.1, 0.2])
def test_the_slope_is_judged_at_whatever_temperature_is_set(temperature):
    np.testing.assert_allclose(averaging_slope(part(temperature, [1.5])), -1.5)


def test_the_slope_leaves_out_the_cold_cases_alone():
    found = averaging_slope(part([0.1, 0.2, 0.05], [2.0, 1.5, 0.1]))
    np.testing.assert_allclose(found.squeeze(), [-2.0, -1.5])


def test_the_methods_reach_the_optimum_they_are_compared_with():
    rng = np.random.default_rng(0)
    averaging = MeanFieldDoubleLoop(grid_points=41).simulate(rng)
    assert averaging["optimality_gap"][0] > 1
    assert 0 < averaging["optimality_gap"][-1] < 1e-5
    radius = MeanFieldDoubleLoop(grid_points=41).predict()["spectral_radius"]
    assert radius / 1.5 < averaging["fall"] < 1.5 * radius
    ascent = MeanFieldDoubleLoop(method="ascent", grid_points=41).simulate(rng)
    assert (np.diff(ascent["optimality_gap"]) < 0).all()
    assert (ascent["optimality_gap"] > 0).all()


def test_the_guarantee_starts_at_the_gap_of_the_start():
    """g = 0 is the prior, whose dual value is -lambda log Z in closed form."""
    study = MeanFieldDoubleLoop(method="ascent", grid_points=61)
    factor = 1 - 1 / (20 + 16 / 0.1)
    log_partition = np.log(np.pi * 0.1 / 0.05)
    start = optimum(0.05, 0.1, grid_points=61).free_energy + 0.1 * log_partition
    np.testing.assert_allclose(
        study.predict()["guaranteed_gap"], start * factor ** np.array(STEPS["ascent"]), rtol=1e-9
    )

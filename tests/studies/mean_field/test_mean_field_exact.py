import numpy as np
import pytest
import xarray as xr

from unlazy.lab import Missing, Part
from unlazy.studies.mean_field.mean_field_exact import BATCH, DEFAULTS, MeanFieldExact

CLAIMS = {claim.id: claim.number for claim in MeanFieldExact.claims}


@pytest.mark.parametrize("batches", ["independent", "reshuffled"])
def test_clouds_of_particles_have_the_predicted_moments(batches):
    study = MeanFieldExact(**BATCH | {"batches": batches, "step_size": 0.1, "clouds": 2000})
    found, exact = study.simulate(np.random.default_rng(0)), study.predict()
    assert found["late_wander"] == pytest.approx(exact["late_wander"], rel=0.05)
    assert found["late_variance"] == pytest.approx(exact["late_variance"], rel=0.02)
    assert found["late_energy"] == pytest.approx(exact["late_energy"], rel=0.02)


def test_reshuffled_batches_are_predicted_from_the_start_on():
    """In a short run the start's w = v0/N, well above the stationary one, is most of the average."""
    study = MeanFieldExact(**BATCH | {"batches": "reshuffled", "step_size": 0.002, "clouds": 4000})
    found, exact = study.simulate(np.random.default_rng(0)), study.predict()
    assert found["late_wander"] == pytest.approx(exact["late_wander"], rel=0.05)
    assert found["mean_variance"] == pytest.approx(exact["mean_variance"], rel=0.1)
    assert exact["mean_variance"][0] == pytest.approx(0.04 / 6)


def _decay(start_mean):
    """A run without noise: the closed form itself in place of the simulation."""
    points = [MeanFieldExact(start_mean=start_mean, interaction=b) for b in (0.0, 1.5)]
    names = "particle_mean", "particle_variance", "mean_variance"
    values = {name: np.stack([point.predict()[name] for point in points]) for name in names}
    grid = {"interaction": [0.0, 1.5], "checkpoint": points[0].coordinates()["checkpoint"]}
    exact = xr.Dataset({name: (("interaction", "checkpoint"), value) for name, value in values.items()}, grid)
    for name in ("best_mean", "last_variance"):
        exact[name] = "interaction", [point.predict()[name] for point in points]
    fixed = {name: number for name, number in points[0].as_dict().items() if name != "interaction"}
    return Part(exact.expand_dims(seed=2).assign_attrs(fixed), exact)


@pytest.mark.parametrize("start_mean", [0.0, 0.5, 2.0, -3.0])
def test_rates_and_moments_can_be_read_off_below_the_optimum_too(start_mean):
    """m - m* is (1 - eta(a+b))^k of its start: the rate is -2 log(1 - eta(a+b))/eta."""
    part = _decay(start_mean)
    for b, found in zip((0.0, 1.5), CLAIMS["mean-rate"](part).values, strict=True):
        assert found == pytest.approx(-np.log1p(-0.02 * (0.5 + b)) / (0.02 * (0.5 + b)), rel=1e-9)
    assert all((deviation == 0).all() for deviation in CLAIMS["moments"](part))


def test_closed_form_claims_are_tested_with_their_own_numbers_only():
    rules = [claim for claim in MeanFieldExact.claims if claim.kind == "theory"]
    assert len(rules) == 4
    other = xr.Dataset(attrs={**DEFAULTS, "data_field": 0.7})
    for claim in rules:
        with pytest.raises(Missing, match=r"needs data_field = 0\.3, the run has 0\.7"):
            claim.number(*[Part(other, None)] * len(claim.parts))

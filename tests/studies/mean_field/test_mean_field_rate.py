import numpy as np
import pytest

from unlazy.numerics.roots import ConvergenceError
from unlazy.studies.mean_field.mean_field_rate import UNITS, MeanFieldRate
from unlazy.theory.mean_field.rate import grid_decay_rates

NARROW = {"temperature": 2.0, "bump": 0.1, "height": 10.0}


def test_the_theory_does_not_see_the_grid_of_the_simulation():
    assert MeanFieldRate(grid_points=301).predict() == MeanFieldRate(grid_points=2001).predict()
    study = MeanFieldRate(**NARROW)
    assert study.predict()["decay_rate"] == pytest.approx(grid_decay_rates(study.problem(20_001))[0], rel=1e-3)


def test_a_bump_between_the_points_of_the_grid_is_refused():
    with pytest.raises(ConvergenceError, match="points = 301 do not resolve the potential"):
        MeanFieldRate(**NARROW).simulate(np.random.default_rng(0))


@pytest.mark.parametrize("points", [301, 351])
def test_the_flow_decays_with_the_predicted_rate(points):
    study = MeanFieldRate(temperature=0.5, grid_points=points)
    found = study.simulate(np.random.default_rng(points))
    assert found["decay_rate"] == pytest.approx(study.predict()["decay_rate"], rel=0.02)
    assert found["relative_gap"].shape == UNITS.shape
    assert (np.diff(np.log(found["relative_gap"])) < 0).all()


def test_guarantees_are_below_the_rates_for_every_bump():
    for bump in (0.1, 0.3, 2.0):
        rates = MeanFieldRate(temperature=1.0, bump=bump, height=3.0).predict()
        assert (
            rates["decay_rate"]
            >= rates["frozen_decay_rate"]
            >= rates["guaranteed_decay_rate"]
            >= rates["loose_decay_rate"]
        )

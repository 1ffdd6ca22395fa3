import numpy as np

from unlazy.studies.mean_field.mean_field_inner_loops import SMALL, STEPS, MeanFieldInnerLoops, _least
from unlazy.studies.mean_field.shared import AMPLITUDE, INPUTS, optimum


def test_the_guarantee_starts_at_the_gap_of_the_prior_in_every_dimension():
    """g = 0 is the prior, whose dual value is -lambda_2 log Z in closed form, here with all d + 1 parameters."""
    weight, heat = SMALL.values()
    factor = 1 - 1 / (len(INPUTS) + AMPLITUDE**2 / heat)
    for d in (1, 7):
        start = _least(d) + (d + 1) / 2 * heat * np.log(np.pi * heat / weight)
        found = MeanFieldInnerLoops(method="ascent", d=d).predict()["guaranteed_gap"]
        np.testing.assert_allclose(found, start * factor ** np.array(STEPS["ascent"]), rtol=1e-9)


def test_the_grid_is_fine_enough():
    fine, coarse = (optimum(**SMALL, grid_points=points).free_energy for points in (121, 61))
    assert abs(fine - coarse) < 1e-6

import numpy as np
import pytest

from unlazy.studies.mean_field.mean_field_rate_particles import UNITS, MeanFieldRateParticles


@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_the_difference_of_two_flows_falls_by_e_in_a_late_unit(temperature):
    """The unit of time is 2/r, with r of the linearised flow: another computation than the flow's."""
    found = MeanFieldRateParticles(temperature=temperature).predict()["difference"]
    assert UNITS[-3] + 1 == UNITS[-1]
    assert np.log(found[-3] / found[-1]) == pytest.approx(1, rel=0.03)

import pytest

from unlazy.studies.mean_field.mean_field_certificate import MeanFieldCertificate
from unlazy.studies.mean_field.mean_field_network import MeanFieldNetwork, small_end


def test_predictions_agree_with_an_independent_computation():
    assert MeanFieldCertificate(particles=2000).predict()["snapshot_gap"] == pytest.approx(0.104, abs=5e-4)
    assert small_end(float("inf")) == pytest.approx(0.2207872890126, abs=1e-9)
    assert small_end(1) - small_end(float("inf")) == pytest.approx(0.09293446, rel=1e-3)


@pytest.mark.parametrize("steps", [100, 900, 1_000_000])
def test_the_energy_is_kept_at_increasing_steps_until_the_end(steps):
    times = MeanFieldNetwork(steps=steps).coordinates()["time"]
    assert times == sorted(set(times))
    assert times[-1] == steps

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.studies.mean_field.mfld_certificate import MfldCertificate, optimum
from unlazy.studies.mean_field.mfld_network import SMALL, MfldNetwork, small_optimum
from unlazy.theory.mean_field.dual import objective_of
from unlazy.theory.mean_field.grid import dual_value, gibbs


def test_quadrature_of_the_study_is_the_dual_of_the_theory():
    found = optimum(0.05, 0.1)
    anchor = found.predictions + 0.1 * np.random.default_rng(0).standard_normal(20)
    law = gibbs(found.grid, anchor)
    value = dual_value(found.grid, anchor, law)
    with jax.enable_x64(True):
        gap, dual = MfldCertificate()._quadrature()(jnp.asarray(anchor))
    assert float(dual) == pytest.approx(value, abs=1e-8)
    assert float(gap) == pytest.approx(objective_of(found, law.masses) - value, abs=1e-8)


def test_predictions_are_the_values_of_the_note():
    assert MfldCertificate(particles=2000).predict()["snapshot_gap"] == pytest.approx(0.104, abs=5e-4)
    found, constants = small_optimum(**SMALL)
    assert found.energy == pytest.approx(0.2207872890126, abs=1e-9)
    assert constants.energy_excess == pytest.approx(0.09293446, rel=1e-3)


def test_averages_longer_than_the_run_are_refused():
    with pytest.raises(InputError, match="averaged must be at most longest = 100, got 1500"):
        MfldCertificate(longest=100).validate()
    with pytest.raises(InputError, match="steps must be at least 50, got 20"):
        MfldNetwork(steps=20).validate()

"""The studies of random sequential message passing."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from unlazy.checks import InputError
from unlazy.lab import Part
from unlazy.lab.judge import judge
from unlazy.studies.message_passing.almeida_thouless_line import AlmeidaThoulessLine
from unlazy.studies.message_passing.sequential_message_passing import SequentialMessagePassing


def test_students_of_the_line_have_factors_on_both_sides_of_one():
    factors = AlmeidaThoulessLine(ensemble="row-orthogonal", relative_inverse_temperature=(0.7, 1.0, 1.26)).predict()[
        "stability"
    ]
    assert factors[0] < 0.8
    assert factors[1] == pytest.approx(1.0, abs=1e-9)
    assert factors[2] > 1.12


def test_the_residual_claim_above_the_line_fails_below_it():
    """Applied to the mean-field equations themselves, the criterion tells a = 1.17 from a = 0.98 and a = 0.88."""
    claim = next(claim for claim in SequentialMessagePassing.claims if claim.id == "no-convergence")
    for relative_inverse_temperature, holds in ((6.0, True), (4.6, False), (4.0, False)):
        study = SequentialMessagePassing(relative_inverse_temperature=relative_inverse_temperature)
        times = {"update_probability": list(study.update_probability), "iteration": np.arange(study.iterations)}
        residual = xr.DataArray(study.predict()["residual"], dims=["update_probability", "iteration"], coords=times)
        residual = residual.expand_dims(seed=[0], relative_inverse_temperature=[6.0])
        decay = claim.number(Part(xr.Dataset({"residual": residual}), None))
        assert bool(decay >= claim.criterion.low) is holds


def test_a_run_without_the_needed_temperatures_says_which_they_are():
    axes = {"ensemble": ["wishart", "row-orthogonal"], "relative_inverse_temperature": [1.0], "seed": range(4)}
    data = xr.Dataset(
        {"final_residual": (list(axes), np.ones((2, 1, 4)))}, axes, {"iterations": 240, "update_probability": 0.5}
    )
    part = Part(data, data)
    reasons = {claim.id: judge(claim, {"main": part, "around": part}).reason for claim in AlmeidaThoulessLine.claims}
    assert reasons == {
        "decay": "needs at least 2 values of relative_inverse_temperature, the run has 1",
        "unstable": "needs relative_inverse_temperature >= 1.26, the run has 1",
        "fixed-point": "needs relative_inverse_temperature <= 0.7, the run has 1",
        "every-run": "needs relative_inverse_temperature <= 0.84, the run has 1",
    }


def test_all_update_probabilities_of_an_instance_start_alike():
    study = SequentialMessagePassing(n=256, iterations=12)
    residual = study.simulate(np.random.default_rng(0))["residual"]
    assert residual.shape == (3, 12)
    assert np.ptp(residual[:, 0]) == 0
    assert (residual[0, 5:] < residual[2, 5:]).all()


def test_a_ratio_without_a_line_is_refused():
    with pytest.raises(InputError, match="have no line"):
        AlmeidaThoulessLine(aspect_ratio=0.5).predict()

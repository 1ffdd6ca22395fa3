"""The studies of random sequential message passing."""

from __future__ import annotations

import numpy as np
import pytest

from unlazy.errors import InputError
from unlazy.studies.message_passing.at_line import ATLine, stability_map
from unlazy.studies.message_passing.sequential_message_passing import SequentialMessagePassing
from unlazy.theory.sequential_inference import at_line, row_orthogonal_ensemble


def test_students_of_the_line_have_factors_on_both_sides_of_one():
    factors = ATLine(ensemble="row-orthogonal", cooling=(0.7, 1.0, 1.26)).predict()["at_factor"]
    assert factors[0] < 0.8
    assert factors[1] == pytest.approx(1.0, abs=1e-9)
    assert factors[2] > 1.12


def test_the_map_crosses_one_where_the_line_is(monkeypatch):
    line = at_line(row_orthogonal_ensemble(4.0), 0.1)
    monkeypatch.setattr("unlazy.studies.message_passing.at_line.MAP_ALPHAS", np.array([4.0]))
    monkeypatch.setattr("unlazy.studies.message_passing.at_line.MAP_BETAS", line * np.array([0.99, 1.01]))
    below, above = stability_map("row-orthogonal", 0.1)[0]
    assert below < 1 < above


def test_all_rates_of_an_instance_start_alike():
    study = SequentialMessagePassing(n=256, steps=12)
    residual = study.simulate(np.random.default_rng(0))["residual"]
    assert residual.shape == (3, 12)
    assert np.ptp(residual[:, 0]) == 0
    assert (residual[0, 5:] < residual[2, 5:]).all()


@pytest.mark.parametrize("study", [ATLine, SequentialMessagePassing])
def test_row_orthogonal_covariances_need_more_rows_than_rank(study):
    with pytest.raises(InputError, match="alpha must be > 1"):
        study(ensemble="row-orthogonal", alpha=0.9).validate()


def test_a_ratio_without_a_line_is_refused():
    with pytest.raises(InputError, match="have no AT line"):
        ATLine(alpha=0.5).predict()

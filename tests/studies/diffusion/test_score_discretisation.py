import numpy as np
import pytest

from unlazy.studies.diffusion.score_discretisation import BUDGETS, ScoreDiscretisation, stopping_errors


def test_one_mode_has_the_distance_of_its_moments():
    """W1 of two Gaussians of one mean is sqrt(2/pi) times the difference of their deviations."""
    study = ScoreDiscretisation(scheme="flow", reverse_steps=20, data_mean=0.0, d=1, particles=20_000)
    found = study.simulate(np.random.default_rng(0))
    off = abs(np.sqrt(found["variance_reached"]) - np.sqrt(study.mode_variance))
    assert found["line_distance"] == pytest.approx(np.sqrt(2 / np.pi) * off, rel=0.01)


def test_the_best_time_to_stop_lies_inside_what_is_tried():
    best = stopping_errors().idxmin("first_time")
    assert best.sizes == {"reverse_steps": len(BUDGETS)}
    assert 1e-7 < float(best.min()) < float(best.max()) < 0.1

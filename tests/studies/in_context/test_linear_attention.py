"""The studies of linear attention: claims against worlds where they are wrong."""

import numpy as np
import pytest
import xarray as xr

from unlazy.checks import InputError
from unlazy.lab import Part
from unlazy.studies.in_context import context_length, task_diversity
from unlazy.studies.in_context.context_length import ContextLength
from unlazy.studies.in_context.linear_attention import LinearAttention
from unlazy.studies.in_context.memorisation import Memorisation
from unlazy.studies.in_context.task_diversity import TaskDiversity


def claim(study, name):
    return next(claim for claim in study.claims if claim.id == name)


def part(simulated, predicted=None):
    return Part(simulated, predicted)


def test_the_optimal_ridge_is_used_where_it_is_asked_for():
    tuned, plain = (LinearAttention(d=10, tuned=tuned, ridge_times_dimension=1e-6) for tuned in (True, False))
    assert tuned.predict()["used_ridge_times_dimension"] == pytest.approx(0.968, rel=4e-3)
    assert plain.predict()["used_ridge_times_dimension"] == 1e-6
    assert tuned.predict()["new_task_error"] < plain.predict()["new_task_error"]
    found = [study.simulate(np.random.default_rng(3))["new_task_error"] for study in (tuned, plain)]
    assert found[0] != found[1]


def test_few_tasks_turn_only_where_long_contexts_hurt():
    lengths, seeds = [1.0, 20.0, 1000.0], 5
    rising, falling = ([1.0, 0.6, 2.0], [1.0, 0.6, 0.3])
    for means, turns in ((rising, True), (falling, False)):
        values = np.broadcast_to(np.array(means)[:, None, None], (3, 2, seeds))
        coords = {"context_per_dimension": lengths, "tasks_per_dimension": [0.5, 2.0]}
        data = xr.Dataset(
            {"new_task_error": (("context_per_dimension", "tasks_per_dimension", "seed"), values)},
            coords,
            {"ridge_times_dimension": 0.0},
        )
        found = claim(ContextLength, "few-tasks-turn").number(part(data))
        assert bool((found >= 1.2).all()) is turns


def test_a_peak_is_seen_only_where_there_is_one():
    ratios = [0.5, 1.0, 2.0]
    for means, peak in (([1.7, 200.0, 1.5], True), ([1.7, 1.6, 1.5], False)):
        values = np.broadcast_to(np.array(means)[:, None, None], (3, 2, 4))
        coords = {"prompts_per_squared_dimension": ratios, "tuned": [False, True]}
        data = xr.Dataset(
            {"new_task_error": (("prompts_per_squared_dimension", "tuned", "seed"), values)}, coords=coords
        )
        assert bool((claim(LinearAttention, "double-descent").number(part(data)) >= 5).all()) is peak
        assert bool((claim(LinearAttention, "optimal-ridge").number(part(data)) <= 1).all()) is not peak


@pytest.mark.parametrize("noise", [0.25, 2.0])
def test_the_corner_is_missed_with_short_contexts_or_few_prompts(noise):
    run = part(xr.Dataset(attrs={"noise_variance": noise}))
    assert (abs(claim(TaskDiversity, "corner").number(run)) < 0.01 * (1 + noise)).all()
    limit = np.maximum(1 - np.array(task_diversity.AWAY), 0)
    assert (abs(task_diversity.excess(task_diversity.AWAY, 10.0, 0.25)[:, 0] - limit) > 0.01).any()
    assert (abs(task_diversity.excess(task_diversity.AWAY, 1000.0, 0.25, 10.0)[:, 0] - limit) > 0.01).any()


def test_the_least_error_inside_is_where_the_note_has_it():
    """min 0.62762 at alpha = 21.05 and 12.951 at 1e4 with d/2 tasks; min 0.097326 at 328.4 with d."""
    for ratio, least, place in ((0.5, 0.62762, 21.05), (1.0, 0.097326, 328.4)):
        curve = context_length.in_theory("new_task", 5.0, ratio)
        assert curve.min() == pytest.approx(least, rel=2e-5)
        assert context_length.LENGTHS[np.argmin(curve)] == pytest.approx(place, rel=0.01)
    assert context_length.in_theory("new_task", 5.0, 0.5)[-1] == pytest.approx(12.951, rel=1e-4)


@pytest.mark.parametrize("study", [LinearAttention, TaskDiversity, ContextLength, Memorisation])
def test_systems_that_do_not_fit_are_refused_and_noise_must_not_vanish_for_discrete_bayes(study):
    with pytest.raises(InputError, match="n d must be at most 5e"):
        study(d=400, prompts_per_squared_dimension=100.0).validate()
    study(d=10).validate()
    assert study(d=64).memory() > 8 * 2 * 64**3
    with pytest.raises(InputError, match="noise_variance must be a number >= 1e-10"):
        Memorisation.parameter("noise_variance").coerce(0.0)

"""The studies of linear attention: instances against drawn contexts, claims against worlds where they are wrong."""

import numpy as np
import pytest
import xarray as xr

from unlazy.checks import InputError
from unlazy.lab import Part
from unlazy.studies.in_context import context_length, task_diversity
from unlazy.studies.in_context.context_length import ContextLength
from unlazy.studies.in_context.linear_attention import LinearAttention
from unlazy.studies.in_context.memorisation import Memorisation
from unlazy.studies.in_context.shared.bayes import bayes_errors
from unlazy.studies.in_context.shared.pretraining import memory, sizes
from unlazy.studies.in_context.task_diversity import TaskDiversity
from unlazy.theory.in_context.linear_attention import bayes_error


def claim(study, name):
    return next(claim for claim in study.claims if claim.id == name)


def part(simulated, predicted=None):
    return Part(simulated, predicted)


def test_sizes_interpolate_at_ratio_one_in_every_dimension():
    assert sizes(24, 1.0, 2.0, 0.5) == (24, 48, 12, 24 * 25)
    assert sizes(3, 1e-9, 1e-9, 1e-9) == (3, 1, 1, 1)


@pytest.mark.parametrize("kind", ["new", "old"])
def test_errors_of_an_instance_are_those_of_drawn_contexts(kind):
    """The weights and tasks are drawn again from the same generator and tested on prompts with all their tokens."""
    from unlazy.studies.in_context.shared.pretraining import pretrain

    study = LinearAttention(d=5, prompt_ratio=3.0, task_ratio=0.6, ridge=0.05)
    exact = study.simulate(np.random.default_rng(4))[f"{kind}_error"]
    system = study._system()
    pretrained = pretrain(np.random.default_rng(4), system, study.noise_variance, study.ridge)
    rng, count = np.random.default_rng(1), 150_000
    tasks = rng.standard_normal((count, 5)) if kind == "new" else pretrained.tasks[rng.integers(3, size=count)]
    tokens = rng.standard_normal((count, system.context + 1, 5)) / np.sqrt(5)
    labels = np.einsum("nid,nd->ni", tokens, tasks) + 0.5 * rng.standard_normal((count, system.context + 1))
    y, x = labels[:, :-1], tokens[:, :-1]
    first = 5 / system.context * np.einsum("ni,nid->nd", y, x)
    features = np.column_stack([first, np.mean(y**2, axis=1)])
    squares = (labels[:, -1] - np.einsum("nd,de,ne->n", tokens[:, -1], pretrained.weights, features)) ** 2
    allowed = 4 * squares.std() / np.sqrt(count)
    assert abs(squares.mean() - exact) <= allowed
    assert abs(squares.mean() - 1.2 * exact) > allowed


def test_discrete_bayes_is_the_posterior_mean_over_the_known_tasks():
    rng = np.random.default_rng(2)
    known, tasks, context, noise = rng.standard_normal((6, 3)), rng.standard_normal((4, 3)), 2, 0.7
    found = bayes_errors(np.random.default_rng(9), tasks, known, context, noise)
    rng, discrete = np.random.default_rng(9), []
    for task in tasks:
        tokens = rng.standard_normal((context, 3)) / np.sqrt(3)
        labels = tokens @ task + np.sqrt(noise) * rng.standard_normal(context)
        likelihood = [np.exp(-np.sum((labels - tokens @ w) ** 2) / (2 * noise)) for w in known]
        guess = np.average(known, axis=0, weights=likelihood)
        discrete.append(noise + np.sum((task - guess) ** 2) / 3)
    assert found.discrete == pytest.approx(np.mean(discrete), rel=1e-12)


def test_bayes_errors_reach_their_limit_and_the_noise():
    rng, d = np.random.default_rng(0), 60
    known = rng.standard_normal((90, d))
    new = bayes_errors(rng, rng.standard_normal((200, d)), known, 2 * d, 0.25)
    assert new.continuous == pytest.approx(bayes_error(2.0, 0.25), rel=0.03)
    assert new.discrete > 1.25
    old = bayes_errors(rng, known, known, 2 * d, 0.25)
    assert old.discrete == pytest.approx(0.25, rel=1e-6)


def test_the_optimal_ridge_is_used_where_it_is_asked_for():
    tuned, plain = (LinearAttention(d=10, tuned=tuned, ridge=1e-6) for tuned in (True, False))
    assert tuned.predict()["used_ridge"] == pytest.approx(0.968, rel=4e-3)
    assert plain.predict()["used_ridge"] == 1e-6
    assert tuned.predict()["new_error"] < plain.predict()["new_error"]
    found = [study.simulate(np.random.default_rng(3))["new_error"] for study in (tuned, plain)]
    assert found[0] != found[1]


def test_few_tasks_turn_only_where_long_contexts_hurt():
    lengths, seeds = [1.0, 20.0, 1000.0], 5
    rising, falling = ([1.0, 0.6, 2.0], [1.0, 0.6, 0.3])
    for means, turns in ((rising, True), (falling, False)):
        values = np.broadcast_to(np.array(means)[:, None, None], (3, 2, seeds))
        coords = {"context_ratio": lengths, "task_ratio": [0.5, 2.0]}
        data = xr.Dataset({"new_error": (("context_ratio", "task_ratio", "seed"), values)}, coords, {"ridge": 0.0})
        found = claim(ContextLength, "few-tasks-turn").number(part(data))
        assert bool((found >= 1.2).all()) is turns


def test_a_peak_is_seen_only_where_there_is_one():
    ratios = [0.5, 1.0, 2.0]
    for means, peak in (([1.7, 200.0, 1.5], True), ([1.7, 1.6, 1.5], False)):
        values = np.broadcast_to(np.array(means)[:, None, None], (3, 2, 4))
        coords = {"prompt_ratio": ratios, "tuned": [False, True]}
        data = xr.Dataset({"new_error": (("prompt_ratio", "tuned", "seed"), values)}, coords=coords)
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
        curve = context_length._in_theory(5.0, ratio).new_task_error
        assert curve.min() == pytest.approx(least, rel=2e-5)
        assert context_length.LENGTHS[np.argmin(curve)] == pytest.approx(place, rel=0.01)
    assert context_length._in_theory(5.0, 0.5).new_task_error[-1] == pytest.approx(12.951, rel=1e-4)


@pytest.mark.parametrize("study", [LinearAttention, TaskDiversity, ContextLength, Memorisation])
def test_systems_that_do_not_fit_are_refused_and_noise_must_not_vanish_for_discrete_bayes(study):
    with pytest.raises(InputError, match="n d must be at most 5e"):
        study(d=400, prompt_ratio=100.0).validate()
    study(d=10).validate()
    assert memory(sizes(64, 2.0, 2.0, 2.0)) > 8 * 2 * 64**3
    with pytest.raises(InputError, match="noise_variance must be a number >= 1e-10"):
        Memorisation.parameter("noise_variance").coerce(0.0)

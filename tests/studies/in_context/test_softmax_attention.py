"""The studies of trained softmax transformers: claims against worlds where they are wrong."""

import numpy as np
import pytest
import xarray as xr

from unlazy.lab import Part
from unlazy.studies.in_context.softmax_attention import POOLS, SoftmaxAttention
from unlazy.studies.in_context.softmax_descent import SoftmaxDescent


def number(study, name, data):
    return next(claim for claim in study.claims if claim.id == name).number(Part(data, None))


@pytest.mark.parametrize(
    ("means", "fits", "peak"),
    [
        ([1.4, 1.6, 1.8, 0.5], [0, 0, 0.04, 0.6], True),
        ([1.8, 1.4, 1.0, 0.5], [0, 0, 0.04, 0.6], False),
        ([1.4, 1.4, 1.0, 1.8, 0.5], [0, 0, 0, 0.04, 0.6], True),
        # a peak that is not where training just interpolates
        ([1.4, 1.4, 1.0, 1.8, 0.5], [0, 0, 0.04, 0.1, 0.6], False),
    ],
)
def test_a_peak_in_the_prompts_is_seen_only_where_training_just_interpolates(means, fits, peak):
    prompts = [2, 8, 32, 128, 16384] if len(means) == 5 else [2, 8, 32, 16384]
    values = np.broadcast_to(np.reshape(means, (-1, 1, 1, 1)), (len(means), 1, 2, 3))
    trained = np.broadcast_to(np.reshape(fits, (-1, 1, 1)), (len(means), 1, 3))
    data = xr.Dataset(
        {
            "new_task_error": (("prompts", "tasks", "seen", "seed"), values),
            "training_error": (("prompts", "tasks", "seed"), trained),
        },
        {"prompts": prompts},
        {"steps": 4096},
    )
    assert all(bool((found > 0).all()) for found in number(SoftmaxDescent, "double-descent", data)) is peak


@pytest.mark.parametrize("power", [-1.0, 0.5])
def test_the_gap_is_what_new_tasks_cost_more_than_old_ones_beyond_bayes(power):
    """Errors of Bayes differ between the kinds of tasks; the gap does not see it, and its exponent is that put in."""
    tasks = np.array(POOLS, float)
    shape, dims = (1, len(POOLS), 2, 3), ("prompts", "tasks", "seen", "seed")
    gap = np.broadcast_to(np.reshape(tasks**power, (1, -1, 1, 1)), shape)
    errors = {"bayes_new_task": 0.3, "bayes_pretraining_task": 0.2, "new_task": 0.5 + gap, "pretraining_task": 0.4}
    data = xr.Dataset(
        {f"{name}_error": (dims, np.broadcast_to(values, shape)) for name, values in errors.items()},
        {"tasks": list(POOLS), "prompts": [16384]},
    )
    assert float(number(SoftmaxAttention, "gap-closes", data)) == pytest.approx(power)


def test_both_studies_judge_claims_of_their_own():
    assert not {claim.id for claim in SoftmaxDescent.claims} & {claim.id for claim in SoftmaxAttention.claims}


def test_one_instance_has_every_output_in_its_shape():
    study = SoftmaxAttention(width=4, steps=20, batch_size=4, prompts=(8, 80), tasks=(2, 3, 5), tests=16)
    found = study.simulate(np.random.default_rng(0))
    assert set(found) == set(study.outputs)
    for name, output in study.outputs.items():
        assert found[name].shape == tuple({"prompts": 2, "tasks": 3, "seen": 5}[dim] for dim in output.dims)
        assert np.isfinite(found[name]).all()

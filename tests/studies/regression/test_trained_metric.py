"""Studies of trained first layers, at sizes at which they take seconds."""

import numpy as np
import pytest

from unlazy.lab import registry
from unlazy.lab.grid import preset_grids
from unlazy.lab.running.laboratory import Laboratory
from unlazy.studies.regression.task_decay import TaskDecay
from unlazy.studies.regression.trained_metric import TrainedMetric

SMALL = {"n": 8, "d": 16, "largest_tasks": 40, "tasks": 40, "batch_size": 20, "steps": 20}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    study = registry.find("trained-metric")
    grids = {"many": preset_grids(study, "quick", set=SMALL, seeds=4)["many"]}
    with Laboratory(tmp_path_factory.mktemp("store") / "results.sqlite") as laboratory:
        return laboratory.run(study, grids)


@pytest.mark.slow
def test_training_lowers_the_criterion_and_follows_the_closed_path(run):
    data = run.simulated
    start, end = (data.criterion.isel(step=step) for step in (0, -1))
    closed = data.closed_criterion
    assert (end < start).all()
    assert (abs(end - closed).mean("seed") < 0.2 * (start - closed).mean("seed")).all()


@pytest.mark.slow
def test_claims_on_other_parts_are_untested_and_say_so(run):
    verdicts = {verdict.claim.id: verdict for verdict in run.verdicts}
    assert verdicts["least-criterion"].verdict == "untested"
    assert "own" in verdicts["least-criterion"].reason


def test_the_minimum_of_the_criterion_is_the_same_in_both_studies():
    for a in (0.5, 1.0, 2.0):
        one = TrainedMetric(n=100, d=1000, prior_exponent=a).predict()
        other = TaskDecay(prior_exponent=a).predict()
        for name in ("least_criterion_risk", "ridge_risk", "bayes_risk"):
            np.testing.assert_allclose(one[name], other[name], rtol=1e-6)

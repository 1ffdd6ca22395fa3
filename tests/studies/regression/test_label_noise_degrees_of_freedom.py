"""The study label-noise-degrees-of-freedom, at sizes at which it takes seconds."""

import numpy as np
import pytest

from unlazy.lab import registry
from unlazy.lab.grid import preset_grids
from unlazy.lab.running.laboratory import Laboratory

SMALL = {"n": 16, "width": 30, "tasks": 2, "d": 4, "activation": "tanh", "draws": 400, "steps": 40}
SEEDS = {"identity": 6, "training": 12}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One small run of the mean-field network, shared by the tests."""
    study = registry.find("label-noise-degrees-of-freedom")
    # Four points in one part and two in the other: with as many instances they are one program.
    grids = {part: preset_grids(study, "quick", set=SMALL, seeds=seeds)[part] for part, seeds in SEEDS.items()}
    with Laboratory(tmp_path_factory.mktemp("store") / "results.sqlite") as laboratory:
        return laboratory.run(study, grids)


def test_identities_hold_to_rounding_at_any_size(run):
    verdicts = {v.claim.id: v for v in run.verdicts}
    for name in ("expectation", "gradient-through", "gradient-frozen", "frozen-is-not-degrees-of-freedom"):
        assert verdicts[name].verdict == "holds"


def test_the_slide_is_off_by_one_over_three_ridges(run):
    data = run.simulated["identity"]
    ratio = (data.uniform_noise_gap / data.slide_penalty).mean("seed")
    error = (data.uniform_noise_gap / data.slide_penalty).std("seed", ddof=1) / np.sqrt(data.sizes["seed"])
    assert (abs(ratio - 1 / (3 * data.ridge)) <= 4.1 * error).all()
    assert (abs(ratio - 1.2 / (3 * data.ridge)) > 4.1 * error).all()
    slide = next(v for v in run.verdicts if v.claim.id == "slide-constant")
    assert slide.verdict == "fails"
    assert slide.claim.known_negative


def test_gaps_grow_in_proportion_to_the_variance_of_the_noise(run):
    """The arms of a comparison are paired: at one ridge and without noise in training they share the network."""
    data = run.simulated["identity"]
    same = data.isel(ridge=np.flatnonzero(data.ridge.values == 0.05))
    per_variance = same.noise_gap / same.label_noise_variance
    np.testing.assert_allclose(per_variance, per_variance.isel(ridge=[0] * same.sizes["ridge"]), rtol=1e-10)


def test_all_arms_start_from_one_network_and_part_in_training(run):
    freedom = run.simulated["training"].degrees_of_freedom
    start, end = freedom.isel(step=0), freedom.isel(step=-1)
    np.testing.assert_allclose(start, start.sel(arm=["none"] * 5), rtol=1e-12)
    assert (end.sel(arm="DoF penalty") < end.sel(arm="none")).all()
    assert freedom.step.values.tolist() == np.unique(np.linspace(0, 40, 13).astype(int)).tolist()


def test_label_noise_follows_its_own_penalty_and_not_the_other(run):
    """Over the seeds the mean distance to its own exact penalty is the smaller one, for both gradients."""
    end = run.simulated["training"].degrees_of_freedom.isel(step=-1)
    for noise, own, other in (
        ("label noise", "DoF penalty", "frozen penalty"),
        ("frozen label noise", "frozen penalty", "DoF penalty"),
    ):
        near, far = (abs((end.sel(arm=noise) - end.sel(arm=arm)).mean("seed")) for arm in (own, other))
        assert (near < far).all()


def test_the_figure_has_a_panel_for_the_gap_each_network_and_the_risk(run):
    assert [len(axes.containers) for axes in run.figure().axes] == [2, 2, 2, 2]

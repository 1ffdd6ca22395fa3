"""The study contrastive-modalities: early growth, what is learned with one modality and with two."""

import numpy as np
import pytest

import unlazy

pytestmark = pytest.mark.usefixtures("optimised")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "results.sqlite"
    return unlazy.run("contrastive-modalities", over={"width": [24]}, set={"largest_width": 24}, seeds=6, store=store)


def test_the_signal_grows_early_at_the_predicted_factor(run):
    small = run.parts["small"]
    growth, expected = small.simulated.signal_growth_factor.mean("seed"), small.predicted.signal_growth_factor
    error = small.simulated.signal_growth_factor.std("seed") / np.sqrt(6)
    assert (abs(growth - expected) < 4 * error + 1e-3).all()
    # The rates themselves, 20% off, would be seen.
    assert (abs(growth - (1 + 1.2 * (expected - 1))) > 4 * error + 1e-3).all()


def test_two_modalities_learn_what_one_memorises(run):
    data = run.parts["main"].simulated.sel(signal_strength=0.6).isel(width=0)
    single, strong = data.isel(modalities=0), data.isel(modalities=-1)
    assert (single.modalities, strong.signal_gain) == (1, 8)
    assert (single.balance < 0.1).all()
    assert (strong.balance > 1).all()
    assert single.probe_error.mean() > 0.15
    assert (strong.probe_error < 0.02).all()


def test_the_declared_criterion_fails_at_rate_1_2(run):
    verdict = next(v for v in run.verdicts if v.claim.id == "signal-rate")
    assert verdict.verdict == "fails"
    assert verdict.claim.known_negative


def test_the_figure_has_a_row_for_each_size_of_the_start(run):
    assert len(run.figure().axes) == 4

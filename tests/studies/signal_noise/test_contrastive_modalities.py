"""The study contrastive-modalities: early growth, what is learned with one modality and with two."""

import numpy as np
import pytest

import unlazy

pytestmark = pytest.mark.usefixtures("optimised")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "results.sqlite"
    over = {"signal_gain": [2.0, 4.0, 8.0, 16.0], "signal_strength": [0.6], "initial_deviation": [1e-4, 1e-24]}
    return unlazy.run("contrastive-modalities", over=over, seeds=6, store=store)


def test_the_signal_grows_early_at_the_predicted_factor(run):
    small = run.parts["main"].simulated.sel(initial_deviation=1e-24, signal_gain=[2.0, 4.0, 8.0])
    expected = run.parts["main"].predicted.signal_growth_factor
    growth, error = small.signal_growth_factor.mean("seed"), small.signal_growth_factor.std("seed") / np.sqrt(6)
    assert (abs(growth - expected) < 4 * error + 1e-3).all()
    # The rates themselves, 20% off, would be seen.
    assert (abs(growth - (1 + 1.2 * (expected - 1))) > 4 * error + 1e-3).all()


def test_two_modalities_learn_what_one_memorises(run):
    single = run.parts["single"].simulated
    two = run.parts["main"].simulated.sel(initial_deviation=1e-4, signal_gain=16.0)
    assert (single.balance < 0.1).all()
    assert (two.balance > 1).all()
    assert single.probe_error.mean() > 0.15
    assert (two.probe_error < 0.02).all()


def test_a_smaller_start_needs_less_gain(run):
    """Above 2/x = 3.33 and below the threshold from 1e-4 the signal is ahead from the small start alone."""
    balance = run.parts["main"].simulated.balance.sel(signal_gain=4.0, signal_strength=0.6).squeeze()
    assert (balance.sel(initial_deviation=1e-4) < 1).all()
    assert balance.sel(initial_deviation=1e-24).median() > 1


def test_the_slide_fails_and_says_why(run):
    verdict = next(v for v in run.verdicts if v.claim.id == "slide")
    assert verdict.verdict == "fails"
    assert verdict.claim.known_negative

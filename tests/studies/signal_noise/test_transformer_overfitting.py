"""The study transformer-overfitting: stopping, and both phases at sizes at which it takes seconds."""

import jax
import numpy as np
import pytest

import unlazy
from unlazy.studies.signal_noise.transformer_overfitting import TransformerOverfitting


def test_training_stops_where_the_loss_is_at_the_target():
    """More steps change nothing, and the loss was above the target one step before."""
    found = [
        jax.jit(TransformerOverfitting(signal_strength=16.0, n=8, d=100, width=4, steps=steps).simulate)(
            jax.random.key(3)
        )
        for steps in (300, 500)
    ]
    assert 0.015 < found[0]["training_loss"] <= 0.02
    assert all(found[0][name] == found[1][name] for name in found[0])


@pytest.mark.slow
def test_a_gradient_step_moves_the_value_direction_in_the_predicted_ratio():
    """The ratio of means: that of a single draw is noisy where the signal is weak."""
    study = TransformerOverfitting(signal_strength=2.0, n=20, d=400, steps=1)
    found = jax.jit(jax.vmap(study.simulate))(jax.random.split(jax.random.key(5), 64))["first_balance"]
    mean, error = np.mean(found), np.std(found, ddof=1) / 8
    expected = study.predict()["first_balance"]
    # Scores are not quite 0 at the start: 3% for attention that is not quite uniform.
    slack = 4 * error + 0.03 * expected
    assert abs(mean - expected) < slack
    assert abs(mean - 1.2 * expected) > slack


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "results.sqlite"
    return unlazy.run(
        "transformer-overfitting", over={"signal_strength": [0.2, 4.0], "width": [8]}, seeds=8, store=store
    )


def test_both_phases_are_seen_in_the_loss_the_attention_and_the_values(run):
    verdicts = {v.claim.id: v.verdict for v in run.verdicts}
    assert set(verdicts.values()) == {"holds"}
    assert (run.simulated.diverged_at == -1).all()
    low, high = (run.simulated.sel(signal_strength=s) for s in (0.2, 4.0))
    assert (low.test_error > 0.25).all()
    assert (high.test_error < 0.05).all()
    assert (low.attention < 1 / 3).all()
    assert (high.attention > 1 / 3).all()


def test_the_figure_has_a_panel_for_each_of_the_three(run):
    assert len(run.figure().axes) == 3

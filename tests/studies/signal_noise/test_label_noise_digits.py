"""The two stages of learning digits with wrong labels, at sizes at which it takes seconds."""

import numpy as np
import pytest

import unlazy
from unlazy.checks import InputError
from unlazy.plotting.drawing import draw_panels
from unlazy.studies.signal_noise.label_noise_digits import LabelNoiseDigits


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "results.sqlite"
    small = {"width": 64, "n": 100, "steps": 300}
    return unlazy.run("label-noise-digits", set=small, over={"flip_probability": [0.1, 0.3]}, seeds=6, store=store)


def test_classes_are_learned_before_the_mistakes(run):
    best = run.simulated.held_out_accuracy.argmax("step")
    at_best, end = run.simulated.isel(step=best).mean("seed"), run.simulated.isel(step=-1).mean("seed")
    assert (at_best.flipped_fit < 0.3).all()
    assert (at_best.clean_fit > 0.7).all()
    assert (end.flipped_fit > 0.95).all()
    assert (end.held_out_accuracy < at_best.held_out_accuracy).all()


def test_more_wrong_labels_cost_more(run):
    end = run.simulated.held_out_accuracy.isel(step=-1).mean("seed").squeeze()
    assert float(end.sel(flip_probability=0.3)) < float(end.sel(flip_probability=0.1)) - 0.05


def test_before_training_all_labels_are_guessed(run):
    start = run.simulated.isel(step=0)
    spread = np.sqrt(0.1 * 0.9 / (90 * 6))
    assert abs(float(start.clean_fit.sel(flip_probability=0.1).mean()) - 0.1) < 5 * spread + 0.05


def test_the_figure_draws_every_measure(run):
    figure = draw_panels(LabelNoiseDigits, LabelNoiseDigits.figure, {"main": run._picture("main")}).rows[0][0]
    assert [len(axes.containers) for axes in figure.axes] == [4, 4]


def test_a_share_below_one_sample_is_refused():
    with pytest.raises(InputError, match="flip_probability must be at least 1/n"):
        unlazy.run("label-noise-digits", set={"n": 20, "flip_probability": 0.01}, seeds=1)

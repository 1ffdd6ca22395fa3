import numpy as np
import pytest
from scipy.stats import ttest_1samp

from unlazy.estimators.common.folds import far_splits
from unlazy.estimators.common.gate import choose_stage, is_behind_far_out, is_gain, mean_of_rows, student_quantile


@pytest.mark.parametrize("level", [0.01, 0.05, 0.3])
def test_gains_are_those_of_the_one_sided_t_test(level):
    rng = np.random.default_rng(1)
    for gain in rng.standard_normal((200, 7)) + 0.5:
        expected = ttest_1samp(gain, 0.0, alternative="greater").pvalue < level
        assert is_gain(gain, student_quantile(level, 7)) == expected


def test_one_row_shows_no_gain_and_rows_held_out_again_count_once():
    assert not is_gain(np.array([5.0]), student_quantile(0.05, 1))
    gain = np.random.default_rng(2).standard_normal(40) + 0.2
    for standard_errors in (0.5, 1.0, 1.5, 2.0):
        again = is_gain(np.tile(gain, 3), standard_errors, copies=3.0, ddof=0)
        assert again == is_gain(gain, standard_errors, ddof=0)


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_held_out_several_times_have_their_mean(axis):
    held = np.array([3, 0, 3, 1, 3, 0])
    values = np.random.default_rng(3).standard_normal((4, 6, 2)).swapaxes(1, axis)
    found = mean_of_rows(values, held, axis)
    expected = [np.take(values, np.flatnonzero(held == row), axis).mean(axis=axis) for row in (0, 1, 3)]
    np.testing.assert_allclose(found, np.stack(expected, axis=axis))


def test_choice_takes_the_smallest_size_that_is_as_good_as_the_best():
    rng = np.random.default_rng(16)
    n = 2000
    one, two = rng.standard_normal((2, n))
    labels = one + two + 0.3 * rng.standard_normal(n)
    names = ["ridge", "1 term", "2 terms", "3 terms"]
    ladder = [(name,) for name in names]
    full = one + two
    predictions = np.column_stack([0.5 * one, one, full, full + 0.01 * rng.standard_normal(n)])
    choice = choose_stage(predictions, labels, names, ladder)
    assert choice.stage == "2 terms"
    assert choice.weight == pytest.approx(1, abs=0.02)
    fewer = one + 0.3 * rng.standard_normal(n)
    assert choose_stage(predictions, fewer, names, ladder).stage == "1 term"
    assert choose_stage(-predictions, labels, names, ladder).stage == "mean"


def test_what_is_clear_is_not_shrunk_and_what_is_chance_is():
    """Predictions that leave a ten-thousandth of the variance of 150 labels lose less than that by their weight."""
    rng = np.random.default_rng(17)
    signal, noise = rng.standard_normal((2, 150))
    labels = signal + 0.01 * noise
    choice = choose_stage(signal[:, None], labels, ["ridge"], ())
    assert np.mean((labels - choice.weight * signal) ** 2) < 1.01 * np.mean((labels - signal) ** 2)
    weights = [choose_stage(signal[:, None], rng.standard_normal(150), ["ridge"], ()).weight for _ in range(200)]
    assert np.mean(np.array(weights) == 0) > 0.9


def test_far_rows_are_the_longest_and_those_of_unusual_predictions():
    rng = np.random.default_rng(18)
    rows = rng.standard_normal((200, 3))
    rows[:10] *= 20
    predictions = rng.standard_normal(200)
    predictions[50:60] += np.where(np.arange(10) % 2, 30, -30)
    (_, longest), (kept, unusual) = far_splits(rows, predictions)
    assert sorted(longest) == list(range(10))
    assert sorted(unusual) == list(range(50, 60))
    assert sorted([*kept, *unusual]) == list(range(200))


def test_one_set_of_far_rows_that_the_simple_model_predicts_clearly_better_is_enough():
    assert not is_behind_far_out(np.array([1.4, 0.1]), np.array([1.0, 1.0]))
    assert is_behind_far_out(np.array([0.1, 1.6]), np.array([1.0, 1.0]))

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.observables.filter_spectrum import fine_frequencies, fine_share


def wave(per_pixel, side=16):
    return np.cos(2 * np.pi * per_pixel * np.arange(side))[:, None, None, None] * np.ones((1, side, 1, 1))


def test_constant_filters_are_smooth_and_a_chessboard_is_fine():
    board = (-1.0) ** np.add.outer(np.arange(8), np.arange(8))
    assert fine_share(np.ones((8, 8, 3, 2))) == pytest.approx(0, abs=1e-12)
    assert fine_share(board[..., None, None]) == pytest.approx(1)


@pytest.mark.parametrize(("per_pixel", "share"), [(1 / 16, 0), (1 / 4, 0), (5 / 16, 1), (1 / 2, 1)])
def test_a_wave_is_fine_if_it_is_shorter_than_four_pixels(per_pixel, share):
    assert fine_share(wave(per_pixel)) == pytest.approx(share, abs=1e-12)


def test_filters_count_by_their_power_and_not_by_their_scale():
    both = np.concatenate([wave(1 / 16), 2 * wave(3 / 8)], axis=3)
    assert fine_share(both) == pytest.approx(0.8)
    assert fine_share(-7 * both) == pytest.approx(0.8)


@pytest.mark.parametrize("side", [5, 28])
def test_white_noise_has_the_share_of_fine_frequencies(side):
    noise = np.random.default_rng(0).standard_normal((side, side, 1, 4000))
    assert fine_share(noise) == pytest.approx(fine_frequencies(side, side).mean(), abs=0.01)


def test_the_share_of_fine_frequencies_is_one_minus_a_sixteenth_of_pi():
    assert fine_frequencies(400, 400).mean() == pytest.approx(1 - np.pi / 16, abs=2e-3)


def test_filters_that_are_all_0_are_refused():
    with pytest.raises(InputError, match="must not all be 0"):
        fine_share(np.zeros((3, 3, 1, 1)))

"""Sharpness-aware minimisation: the prediction against Monte Carlo, known limits and the growth that it integrates."""

import numpy as np
import pytest
from scipy.special import ndtr

from unlazy.checks import InputError
from unlazy.theory import deactivating_radius, sam_error, sam_threshold, small_start_error
from unlazy.theory.signal_noise.relu_overfitting import difference_probability

SETTING = {"n": 20, "initial_scale": 0.01}


@pytest.mark.parametrize(("lift", "along"), [(0.5, 0.0), (1.0, 0.5), (2.0, 2.0), (8.0, 8.0), (30.0, 23.0)])
def test_difference_probability_is_that_of_drawn_numbers(lift, along):
    shared, own, draws = 0.75, 0.4, 400_000
    z = np.random.default_rng(0).standard_normal((3, draws))

    def response(u):
        return u * ndtr(u / own) + own * np.exp(-((u / own) ** 2) / 2) / np.sqrt(2 * np.pi)

    wrong = response(shared * z[0] + along * z[2]) - response(shared * z[1] - along * z[2]) < -lift
    error = difference_probability(lift, shared, own, along)
    assert abs(wrong.mean() - error) < 4 * np.sqrt(error / draws)


def test_without_sam_and_with_a_long_signal_the_error_is_that_of_orthogonal_noise():
    level, d = np.array([0.3, 1.0, 3.0]), 1e12
    norm = (level * d / 20) ** 0.25
    plain = sam_error(norm, d=d, sam_time=0.0, stop_loss=0.02, **SETTING)
    orthogonal = small_start_error(level, d=d, stop_loss=0.02, **SETTING)
    np.testing.assert_allclose(plain.test_error, orthogonal.test_error, rtol=1e-4)
    assert np.all(plain.mean_signal_coefficient == 0)


def test_after_long_sam_the_error_is_that_of_a_network_which_has_learned_the_signal_alone():
    norm = np.array([0.5, 1.0, 3.0])
    found = sam_error(norm, d=[[1e4], [1e8]], sam_time=1e6, **SETTING)
    np.testing.assert_allclose(found.test_error, np.broadcast_to(ndtr(-norm), (2, 3)), rtol=1e-6)


def test_signal_under_sam_solves_its_equation_of_growth():
    norm, n, d, time, steps = 3.0, 20, 1e4, 15.0, 100_000
    gamma = 0.0
    for _ in range(steps):
        gamma += time * norm**2 * np.sqrt(n / d) / 2 / steps / (1 + np.exp(gamma))
    found = sam_error(norm, d=d, sam_time=time, **SETTING)
    assert found.mean_signal_coefficient == pytest.approx(gamma, rel=1e-4)


def test_threshold_has_the_test_error_and_grows_with_the_dimension_without_sam_alone():
    d = np.array([1e6, 1e8, 1e10])
    plain, sharp = (sam_threshold(0.1, d=d, sam_time=time, **SETTING) for time in (0.0, 20.0))
    for norm, time in ((plain, 0.0), (sharp, 20.0)):
        np.testing.assert_allclose(sam_error(norm, d=d, sam_time=time, **SETTING).test_error, 0.1, rtol=1e-6)
    # The share of active pairs, which falls with d towards 1/2, takes a little of the power 1/4.
    assert np.all(np.abs(np.diff(np.log(plain)) / np.log(100) - 0.25) < 0.05)
    assert np.all(np.abs(np.diff(np.log(sharp))) < 0.01)
    assert np.all((sharp > 1.28) & (sharp < 1.4))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: deactivating_radius(100, 0, 5, 0.1), "width must be >= 1"),
        (lambda: sam_error(-1.0, d=100, sam_time=1.0, **SETTING), "signal_norm must be >= 0"),
        (lambda: sam_error(1.0, d=100, sam_time=-1.0, **SETTING), "sam_time must be >= 0"),
        (lambda: sam_error(1.0, d=100, sam_time=1.0, relative_step_size=1.0, **SETTING), "relative_step_size must be"),
        (lambda: sam_threshold(0.5, d=100, sam_time=1.0, **SETTING), "test_error must be"),
        (lambda: sam_threshold([0.1, 0.2], d=[1e3, 1e4, 1e5], sam_time=1.0, **SETTING), "broadcast"),
    ],
)
def test_what_makes_no_sense_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()

import numpy as np
import pytest

from unlazy.errors import InputError
from unlazy.functions.spectra import power_law, two_level


def test_power_law_has_a_straight_line_of_slope_minus_exponent_in_log_log():
    spectrum = power_law(50, 1.7)
    slopes = np.diff(np.log(spectrum)) / np.diff(np.log(np.arange(1, 51)))
    assert spectrum[0] == 1
    np.testing.assert_allclose(slopes, -1.7, rtol=1e-12)


def test_exponent_zero_is_isotropic_and_integers_stay_floats():
    assert power_law(4, 0).tolist() == [1.0] * 4
    assert power_law(3, 2).tolist() == [1.0, 1 / 4, 1 / 9]


def test_two_level_counts_its_levels():
    assert two_level(5, 2, 10.0).tolist() == [10.0, 10.0, 1.0, 1.0, 1.0]
    assert two_level(3, 0, 10, 0.5).tolist() == [0.5] * 3
    assert two_level(2, 2, 3).dtype == np.float64


def test_jax_namespace_gives_the_same_values_and_traces_the_parameters():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        traced_power = jax.jit(lambda a: power_law(20, a, xp=jax.numpy))(1.3)
        traced_levels = jax.jit(lambda high: two_level(6, 2, high, xp=jax.numpy))(4.0)
        slope = jax.grad(lambda a: power_law(20, a, xp=jax.numpy).sum())(1.3)
    j = np.arange(1, 21)
    assert traced_power.dtype == np.float64
    np.testing.assert_allclose(traced_power, power_law(20, 1.3), rtol=1e-14)
    np.testing.assert_allclose(traced_levels, two_level(6, 2, 4.0))
    np.testing.assert_allclose(slope, -np.sum(np.log(j) * j**-1.3), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: power_law(0, 1.0), "d must be an integer >= 1, got 0"),
        (lambda: power_law(2.5, 1.0), "d must be an integer >= 1, got 2.5"),
        (lambda: two_level(3, 4, 2.0), "leading must be <= d = 3, got 4"),
        (lambda: two_level(3, -1, 2.0), "leading must be an integer >= 0, got -1"),
    ],
)
def test_wrong_sizes_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()

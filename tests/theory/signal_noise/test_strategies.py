import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.signal_noise.strategies import balancing_ridge, sign_step_balance, stable_output


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: sign_step_balance(1.0, 10, 100, 5, signal_coordinates=[1, 101]),
            "signal_coordinates must be at most d = 100, got 101",
        ),
        (lambda: stable_output(2.0, 10, [2, 11], 1.0), "weak_samples must be at most n = 10, got 11"),
        (lambda: stable_output(1e-300, 10, 2, 1.0), "feature_ratio must be >= 1e-60"),
        (lambda: balancing_ridge(10, 2.0, 1e300, 0.1), "noise_deviation must be >= 0 and <= 1e.60, got 1e.300"),
        (lambda: balancing_ridge([[1, 2], [3]], 2.0, 1.0, 0.1), "n must be numeric"),
    ],
)
def test_what_makes_no_sense_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_a_spread_signal_that_covers_all_coordinates_leaves_the_noise_of_theirs():
    """k = d: the noise is 2 d phi(a)/sqrt(n(L-1)), the signal |mu| sqrt(d)(2 Phi(a) - 1)."""
    strength, n, d, tokens = 0.4, 10, 50, 5
    norm = np.sqrt(strength * d / n)
    a = norm * np.sqrt(n / (d * (tokens - 1)))
    from scipy.stats import norm as normal

    expected = norm * np.sqrt(d) * (2 * normal.cdf(a) - 1) / (2 * d * normal.pdf(a) / np.sqrt(n * (tokens - 1)))
    np.testing.assert_allclose(sign_step_balance(strength, n, d, tokens, d), expected, rtol=1e-12)

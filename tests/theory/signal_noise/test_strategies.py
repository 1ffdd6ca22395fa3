import pytest

from unlazy.checks import InputError
from unlazy.theory.signal_noise.strategies import stable_output


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stable_output(2.0, 10, [2, 11], 1.0), "weak_samples must be at most n = 10, got 11"),
        (lambda: stable_output(1e-300, 10, 2, 1.0), "feature_ratio must be >= 1e-60"),
    ],
)
def test_what_makes_no_sense_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()

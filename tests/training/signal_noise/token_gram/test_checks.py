"""Arguments that mean nothing are refused with a line that says what is allowed."""

import pytest

from unlazy.checks import InputError
from unlazy.training.signal_noise.token_gram import relu_power


def test_activation_powers_below_one_are_refused():
    with pytest.raises(InputError, match=r"power must be >= 1, got 0\.9"):
        relu_power(0.9)

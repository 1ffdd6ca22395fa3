"""Settings that cannot be or mean nothing are refused with a line that says what is allowed."""

import pytest

from unlazy.checks import InputError
from unlazy.training.signal_noise.token_gram import relu_power, validate

GOOD = {
    "power": 2,
    "samples": 20,
    "width": 10,
    "dimension": 41,
    "signal": 0.0,
    "noise": 1.0,
    "scale": 0.01,
    "learning_rate": 0.1,
    "flipped": 0.49,
    "flip_probability": 0.0,
    "batch": 20,
    "share": 1.0,
    "radius": 0.0,
}


def test_possible_settings_pass():
    validate(**GOOD)
    validate()
    validate(**(GOOD | {"power": 1}))
    validate(samples=7, balanced=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"power": 0.5}, "power must be >= 1, got 0.5"),
        ({"samples": 21, "dimension": 1e3}, "samples must be even for balanced classes, got 21"),
        ({"samples": 0}, "samples must be >= 1, got 0"),
        ({"dimension": 40}, "dimension must be >= 41 = 1 features"),
        ({"dimension": 41, "shared": 2}, "dimension must be >= 42"),
        ({"dimension": 41, "own": 2}, "dimension must be >= 61"),
        ({"flipped": 0.5}, "flipped must be < 0.5.*got 0.5"),
        ({"flip_probability": 0.7}, "flip_probability must be < 0.5.*got 0.7"),
        ({"flip_probability": 1.2}, "flip_probability must be >= 0 and <= 1, got 1.2"),
        ({"flipped": -0.1}, "flipped must be >= 0 and <= 1, got -0.1"),
        ({"share": 1.5}, "share must be >= 0 and <= 1, got 1.5"),
        ({"scale": 0.0}, "scale must be > 0.*got 0"),
        ({"scale": 0.0, "power": 1}, "scale must be > 0.*got 0"),
        ({"scale": -1.0}, "scale must be >= 0, got -1"),
        ({"scale": float("nan")}, "scale must be finite"),
        ({"noise": 0.0}, "noise must be > 0, got 0"),
        ({"learning_rate": -1.0}, "learning_rate must be > 0, got -1"),
        ({"batch": 21}, "batch must be <= samples = 20, got 21"),
        ({"radius": -1.0}, "radius must be >= 0, got -1"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        validate(**(GOOD | change))


def test_activation_powers_below_one_are_refused():
    with pytest.raises(InputError, match=r"power must be >= 1, got 0\.9"):
        relu_power(0.9)

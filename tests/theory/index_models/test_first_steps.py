"""The first gradient and the price of a step: shapes, extreme sizes, and what is refused."""

import math

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.index_models import (
    first_gradient,
    generative_exponent,
    information_exponent,
    monomial_exponents,
    spectral_threshold,
    step_price,
)


def test_one_number_of_samples_is_one_of_many():
    many = first_gradient("He2", "relu", [[10, 1000], [1e5, 1e12]], 50).alignment
    assert many.shape == (2, 2)
    for i, n in np.ndenumerate([[10, 1000], [1e5, 1e12]]):
        assert first_gradient("He2", "relu", n, 50).alignment == many[i]


@pytest.mark.parametrize("d", [3, 100, 10**12])
def test_alignment_goes_from_chance_to_one(d):
    """Without samples the cosine is that of a random direction, 1/(d-1); S^2 n >> V d makes it 1."""
    few, many = first_gradient("He1", "relu", [1e-9, 1e9 * d], d).alignment
    assert many == pytest.approx(1, abs=1e-6)
    assert few < 5 / (d - 1)


def test_the_price_of_a_step_is_its_ratio_of_gaussian_moments():
    z = np.linspace(-24, 24, 20_001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    y, m = (z**3 - 3 * z) / math.sqrt(6), 0.3
    linear = density @ y**6 / (density @ (y**3 * z)) ** 2
    signal = m * math.sqrt(1 - m**2) * density @ (y**2 * (z**2 - 1))
    quadratic = density @ (y**4 * (1 + m**2 * (z**2 - 1))) / signal**2
    found = step_price("He3", [1, 2, 3], m)
    assert found[0, 2] == pytest.approx(linear, rel=1e-9)
    assert found[1, 1] == pytest.approx(quadratic, rel=1e-9)
    assert np.isinf(found).sum() == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: first_gradient("He2", "relu", -1, 10), r"n must be > 0 and <= 1e\+300, got -1"),
        (lambda: first_gradient("He2", "relu", "x", 10), "n must be numeric"),
        (lambda: first_gradient("He2", "relu", 10, 2), "d must be an integer >= 3, got 2"),
        (lambda: step_price("He2", [1], 2.0), "overlap must be >= -1 and <= 1, got 2"),
        (lambda: step_price("He2", [0], 0.5), "label_powers must be >= 1, got 0"),
        (lambda: step_price("He2", [1], None), "overlap must be"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("of", [information_exponent, generative_exponent, monomial_exponents, spectral_threshold])
@pytest.mark.parametrize(
    ("link", "message"),
    [
        (lambda z: math.sin(z), "link must be a function of NumPy arrays, but it raised TypeError"),
        (lambda z: np.tanh(z).astype(np.float32), "link must compute in double precision, got float32"),
        (lambda z: z + 1j, "link must be real"),
        (lambda z: "a", "link must be numeric"),
    ],
)
def test_links_that_cannot_be_averaged_are_refused(of, link, message):
    with pytest.raises(InputError, match=message):
        of(link)

import math

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.index_models.leaps import leap_exponent, staircase_samples


@pytest.mark.parametrize(
    ("terms", "leaps"),
    [
        # the examples of Abbe, Boix-Adsera & Misiakiewicz (2023)
        ([[1, 0, 0], [1, 1, 0], [1, 1, 1]], (1, 1, 1)),
        ([[1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], (1, 2, 2, 2)),
        ([[1, 1, 1]], (3, 3, 3)),
        ([[2, 0], [1, 1]], (2, 2)),
        ([[0, 0], [2, 0]], (2, 0)),
    ],
)
def test_leaps_of_known_targets(terms, leaps):
    found = leap_exponent(terms)
    assert found.leaps == leaps
    assert found.exponent == max(leaps)
    assert found.samples_exponent == max(max(leaps) - 1, 1)


def test_one_direction_has_its_information_exponent_and_a_small_generative_one():
    for k in range(1, 8):
        assert leap_exponent([[k]]).exponent == k
    # h_k^2 has degree 2; the cube of an odd one degree 1
    assert [leap_exponent([[k]], label_powers=3).exponent for k in (3, 4, 5)] == [1, 2, 1]
    # even in each direction whatever is done to the label
    assert leap_exponent([[1, 1, 1]], label_powers=4).exponent == 2


def test_terms_that_cancel_do_not_count():
    assert leap_exponent([[1, 0], [0, 2]], [0.0, 1.0]).leaps == (0, 2)


def chains(rng, leap, d, target, size, share, runs):
    """Neurons in d - 1 dimensions, without the reduction to a chain."""
    from unlazy.functions.orthogonal import Hermite

    weights = rng.standard_normal((runs, d - 1))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    n = 0
    while np.mean(np.abs(weights[:, 0]) >= target) < share:
        first, x = rng.standard_normal(runs), rng.standard_normal((runs, d - 1))
        along = np.sum(weights * x, axis=1)
        label = first * (1 + Hermite().values(x[:, 0], leap)[leap])
        c = size / d * label * math.sqrt(leap + 1) * Hermite().values((first + along) / math.sqrt(2), leap)[leap]
        weights = weights + c[:, None] * (x - along[:, None] * weights)
        weights /= np.linalg.norm(weights, axis=1, keepdims=True)
        n += 1
    return n


def test_the_diffusion_is_that_of_neurons_in_d_dimensions():
    d, size, runs = 200, 0.03, 200
    n = chains(np.random.default_rng(0), 1, d, 0.5, size, 0.5, runs)
    found = staircase_samples(1, d, 0.5, size)
    assert abs(found / n - 1) < 0.06
    assert abs(1.2 * found / n - 1) > 0.06


def test_exponents_of_the_samples_are_those_of_the_leap_in_high_dimension():
    d = np.array([1e5, 1e6])
    for leap, power in ((1, 1), (3, 2), (4, 3)):
        sizes = 0.02 * d ** (-max(leap - 2, 0) / 2)
        n = [staircase_samples(leap, one, 0.5, size, share=0.25) for one, size in zip(d, sizes, strict=True)]
        np.testing.assert_allclose(np.diff(np.log(n))[0] / math.log(10), power, atol=0.03)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: leap_exponent([[]]), "term_degrees"),
        (lambda: leap_exponent([[1, 2]], [1.0, 2.0]), "coefficients"),
        (lambda: leap_exponent([[1, 2]], label_powers=0), "label_powers"),
        (lambda: leap_exponent([[12, 12, 12]], label_powers=6), "label_powers"),
        (lambda: staircase_samples(0, 100, 0.5, 0.1), "leap"),
        (lambda: staircase_samples(1, 100, 0.5, 0.1, share=1.0), "share"),
    ],
)
def test_refusals_name_the_argument(call, word):
    with pytest.raises(InputError, match=word):
        call()

"""The generators against their published words, and the laws of the numbers made of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from unlazy.random import (
    _centred,
    _quantile,
    chi,
    chi_square,
    normal,
    normals_at,
    short_normals,
    symmetric,
    threefry_four,
    threefry_pair,
    to_normal,
    uniform,
)

PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89)
ONES = (0xFFFFFFFF,) * 4


def test_drawing_flat_gives_the_numbers_of_a_direct_draw():
    flat, direct = jax.jit(lambda key: (normal(key, (5, 3, 2)), jax.random.normal(key, (5, 3, 2))))(jax.random.key(0))
    np.testing.assert_array_equal(flat, direct)


def test_precision_follows_jax_unless_it_is_named():
    def precision(dtype=None):
        return jax.eval_shape(lambda key: normal(key, (2,), dtype), jax.random.key(0)).dtype

    assert precision() == jnp.float32
    with jax.enable_x64(True):
        assert precision() == jnp.float64
        assert precision(jnp.float32) == jnp.float32


def test_an_empty_shape_is_one_number():
    assert jax.eval_shape(lambda key: normal(key, ()), jax.random.key(0)).shape == ()


def test_uniform_numbers_are_those_of_a_direct_draw_between_their_bounds():
    key = jax.random.key(0)
    found = np.asarray(uniform(key, (40, 3), -2.0, 5.0))
    np.testing.assert_array_equal(found, jax.random.uniform(key, (40, 3), float, -2.0, 5.0))
    assert -2 <= found.min() < -1.5
    assert 4.5 < found.max() < 5


@pytest.mark.parametrize(
    ("key", "counter", "rounds", "words"),
    [
        ((0, 0), (0, 0), 20, (0x6B200159, 0x99BA4EFE)),
        ((0, 0), (0, 0), 13, (0x9D1C5EC6, 0x8BD50731)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), 20, (0xC4923A9C, 0x483DF7A0)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), 13, (0xBA3E4725, 0xF27D669E)),
    ],
)
def test_words_are_the_known_answers_of_random123(key, counter, rounds, words):
    found = jax.jit(lambda key, counter: threefry_pair(key, counter, rounds))
    assert tuple(int(word) for word in found(*(tuple(map(np.uint32, x)) for x in (key, counter)))) == words


def test_quantile_of_steps_is_that_of_the_normal_law():
    cells = np.unique(np.concatenate([np.arange(0, 2**23, 997), np.arange(200), 2**23 - 1 - np.arange(200)]))
    u = (cells + 0.5) * 2.0**-23
    exact = -stats.norm.ppf((1 - u) / 2)
    found = np.asarray(jax.jit(_quantile)(jnp.asarray(np.concatenate([u, -u]), jnp.float32)), np.float64)
    np.testing.assert_allclose(found, np.concatenate([exact, -exact]), rtol=5e-7)


def test_numbers_of_steps_are_normal_and_independent_within_and_between_steps():
    key = jax.random.key(3)
    drawn = np.asarray(jax.jit(lambda: jnp.stack([normals_at(key, i, (400, 251)) for i in (0, 1)]))(), np.float64)
    assert stats.kstest(drawn[0].ravel(), "norm").pvalue > 1e-3
    size = drawn[0].size
    pairs = [(drawn[0], drawn[1]), (drawn[0, :-1], drawn[0, 1:]), (drawn[0, :, :-1], drawn[0, :, 1:])]
    pairs += [(np.abs(a), np.abs(b)) for a, b in pairs]
    for one, other in pairs:
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 4.5 / np.sqrt(size)


@pytest.mark.parametrize(
    ("rounds", "counter", "key", "words"),
    [
        (20, (0,) * 4, (0,) * 4, "9c6ca96a e17eae66 fc10ecd4 5256a7d8"),
        (20, ONES, ONES, "2a881696 57012287 f6c7446e a16a6732"),
        (13, ONES, ONES, "c4189358 1c9cc83a d5881c67 6a0a89e0"),
        (13, PI[:4], PI[4:], "4aa71d8f 734738c2 431fc6a8 ae6debf1"),
    ],
)
def test_the_words_are_those_that_its_authors_publish(rounds, counter, key, words):
    found = threefry_four(tuple(map(np.uint32, key)), tuple(map(np.uint32, counter)), rounds)
    assert " ".join(f"{int(word):08x}" for word in found) == words


def test_the_numbers_are_uniform_independent_and_inside():
    arrays = [np.asarray(part, float).ravel() for part in symmetric(jax.random.key(1), 6, (300, 500))]
    other = [np.asarray(part, float).ravel() for part in symmetric(jax.random.key(2), 2, (300, 500))]
    for part in (*arrays, *other):
        assert np.abs(part).max() < 1
        assert stats.kstest(part, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    # linear and quadratic correlations, between arrays, keys and neighbours
    first = arrays[0]
    rows = [*arrays, *other, *(np.roll(first, shift) for shift in (1, 2, 64, 500))]
    table = np.array([*rows, *(row**2 for row in rows)])
    assert np.abs(np.corrcoef(table) - np.eye(len(table))).max() < 5 / np.sqrt(first.size)
    # pairs of neighbours fill the square evenly
    counts, _, _ = np.histogram2d(first[::2], first[1::2], bins=20)
    assert stats.chisquare(counts.ravel()).pvalue > 1e-3


def test_extreme_words_give_finite_normal_numbers():
    words = jnp.array([0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], jnp.uint32)
    for dtype in (jnp.float32, jnp.float64):
        with jax.enable_x64(dtype is jnp.float64):
            found = np.asarray(to_normal(_centred(words, dtype)), float)
            places = np.array([0.5, 2**23 - 0.5, 0.5 - 2**23, -0.5]) / 2**23
            expected = np.sign(places) * stats.norm.isf((1 - np.abs(places)) / 2)
            np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("shape", [(1,), (7, 3), (100, 999)])
def test_normal_numbers_have_any_shape_and_their_law(shape):
    found = np.asarray(short_normals(jax.random.key(3), shape))
    assert found.shape == shape
    if found.size > 1000:
        assert stats.kstest(found.ravel(), "norm").pvalue > 1e-3
        assert stats.kstest(1.02 * found.ravel(), "norm").pvalue < 1e-2
        assert np.unique(found).size > 0.99 * found.size


@pytest.mark.parametrize("freedom", [1.0, 1.5, 2.0, 3.0, 7.0, 62.0, 1e4, 1e6])
def test_chi_square_numbers_are_the_quantiles_of_their_law(freedom):
    with jax.enable_x64(True):
        x = np.linspace(-5.42, 5.42, 2001)
        found = np.asarray(jax.jit(chi_square)(freedom, jnp.asarray(x)))
    law = stats.chi2(freedom)
    expected = np.where(x < 0, law.ppf(stats.norm.cdf(x)), law.isf(stats.norm.sf(x)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * np.sqrt(2 * freedom))
    single = np.asarray(jax.jit(chi_square)(jnp.float32(freedom), jnp.asarray(x, jnp.float32)), float)
    # what single precision can hold: a few roundings of the number itself, and of x
    slope = np.abs(np.gradient(expected, x))
    assert (np.abs(single - expected) < 1e-6 * (expected + 6 * slope + np.sqrt(freedom))).all()


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 1e6])
def test_chi_variables_have_their_law(freedom):
    rng, count = np.random.default_rng(0), 100_000
    normals, uniforms = rng.standard_normal((16, count)), rng.random((17, count))
    with jax.enable_x64(True):
        found = chi(jnp.asarray(normals), jnp.asarray(uniforms), jnp.full(count, float(freedom)))
    assert stats.kstest(np.asarray(found), stats.chi(freedom).cdf).pvalue > 1e-3
    assert stats.kstest(np.asarray(found), stats.chi(1.03 * freedom).cdf).pvalue < 1e-3

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.functions.spectra import harmful_example, index_blocks, misaligned_example, power_law, two_level


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


@pytest.mark.parametrize("d", [1, 100, 5759, 5760, 5849, 5850, 100_003, 2 * 10**9])
def test_index_blocks_count_every_direction_once(d):
    indices, copies = index_blocks(d)
    assert copies.sum() == d
    assert (copies == np.floor(copies)).all()
    assert (np.diff(indices) > 0).all()
    assert 1 <= indices[0] <= indices[-1] <= d
    assert indices.size < 10_000


@pytest.mark.parametrize("start", [5760, 12_345])
def test_sums_over_blocks_are_those_over_directions(start):
    d = 1_000_000
    indices, copies = index_blocks(d, breaks=(start, d))
    blocks, j = indices > start, np.arange(start + 1, d + 1, dtype=float)
    assert blocks.sum() < 2000
    # the tail alone, so that the first directions do not hide its error
    functions = [lambda j, b=b: j**-b for b in (0.0, 0.3, 1.0, 2.0, 4.0)]
    functions += [lambda j, b=b, c=c: 1 / (1 + (j / c) ** b) ** 2 for b in (1.0, 3.0) for c in (20.0, 2e4, 1e8)]
    for function in functions:
        np.testing.assert_allclose(copies[blocks] @ function(indices[blocks]), np.sum(function(j)), rtol=1e-10)


def test_tail_sums_agree_with_the_hurwitz_zeta_function():
    zeta = pytest.importorskip("scipy.special").zeta
    d = 2 * 10**9
    indices, copies = index_blocks(d, breaks=(6000,))
    tail = indices > 6000
    for exponent in (1.5, 2.0, 3.0):
        expected = zeta(exponent, 6001) - zeta(exponent, d + 1)
        np.testing.assert_allclose(copies[tail] @ indices[tail] ** -exponent, expected, rtol=1e-11)


def test_no_block_crosses_a_break():
    breaks = (0, 7000, 7001, 50_000)
    indices, copies = index_blocks(100_000, breaks=breaks)
    for end in breaks:
        assert copies[indices < end + 0.5].sum() == end
    assert 7001.0 in indices


def harmful_directions(n, d):
    j = np.arange(1, d + 1, dtype=float)
    return np.where(j <= n, 1 / j, 1 / n), j**-2


def misaligned_directions(n, d):
    j = np.arange(1, d + 1, dtype=float)
    return 1 / j, np.where(j == n, n, 1 / j)


@pytest.mark.parametrize(
    ("example", "directions", "power"),
    [(harmful_example, harmful_directions, 3), (misaligned_example, misaligned_directions, 2)],
)
def test_examples_stand_for_all_of_their_directions(example, directions, power):
    for n in (1, 2, 9):
        found = example(n)
        for short, full in zip(found, (*directions(n, n**power), np.ones(n**power)), strict=True):
            np.testing.assert_allclose(short, full, rtol=1e-15)
    # 5849 would be the last direction of the first block
    for n, d in ((60, 200_000), (5849, 100_000), (20_000, 400_000)):
        spectrum, prior, copies = example(n, d)
        full_spectrum, full_prior = directions(n, d)
        for written, expected in zip(example(n, d, written_out=True), (full_spectrum, full_prior, 1.0), strict=True):
            np.testing.assert_allclose(written, expected, rtol=1e-15)
        assert copies.sum() == d
        for kappa in (1e-6, 1e-3, 1.0):
            for short, full in (
                (spectrum / (spectrum + kappa), full_spectrum / (full_spectrum + kappa)),
                ((spectrum / (spectrum + kappa)) ** 2, (full_spectrum / (full_spectrum + kappa)) ** 2),
                (spectrum * prior / (spectrum + kappa) ** 2, full_spectrum * full_prior / (full_spectrum + kappa) ** 2),
                (
                    spectrum * prior / (spectrum * prior + kappa),
                    full_spectrum * full_prior / (full_spectrum * full_prior + kappa),
                ),
            ):
                np.testing.assert_allclose(copies @ short, full.sum(), rtol=1e-10)


def test_examples_stay_short_at_any_size():
    for example, n, d in ((harmful_example, 1280, 1280**3), (misaligned_example, 10**5, 10**10)):
        found = example(n)
        assert found.multiplicities.sum() == d
        assert found.spectrum.size < 10_000
    assert found.prior.max() == 10**5
    assert found.multiplicities[found.prior.argmax()] == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: power_law(0, 1.0), "d must be an integer >= 1, got 0"),
        (lambda: power_law(2.5, 1.0), "d must be an integer >= 1, got 2.5"),
        (lambda: two_level(3, 4, 2.0), "leading_directions must be <= d = 3, got 4"),
        (lambda: two_level(3, -1, 2.0), "leading_directions must be an integer >= 0, got -1"),
        (lambda: index_blocks(0), "d must be an integer >= 1, got 0"),
        (lambda: index_blocks(5, breaks=(6,)), "breaks must be <= d = 5, got 6"),
        (lambda: index_blocks(5, breaks=(-1,)), "breaks must be an integer >= 0, got -1"),
        (lambda: harmful_example(0), "n must be an integer >= 1, got 0"),
        (lambda: harmful_example(10, 9), "d must be >= n = 10, got 9"),
        (lambda: harmful_example(10, 1e3), "d must be an integer >= 1, got 1000.0"),
        (lambda: misaligned_example(2.5), "n must be an integer >= 1, got 2.5"),
        (lambda: misaligned_example(10, 9), "d must be >= n = 10, got 9"),
    ],
)
def test_wrong_sizes_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()

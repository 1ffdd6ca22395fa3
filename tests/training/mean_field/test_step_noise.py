import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import kstest

from unlazy.training.mean_field.step_noise import _quantile, noisy_step, normals_at, threefry_pair


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


def test_quantile_is_that_of_the_normal_law():
    cells = np.unique(np.concatenate([np.arange(0, 2**23, 997), np.arange(200), 2**23 - 1 - np.arange(200)]))
    u = (cells + 0.5) * 2.0**-23
    exact = -ndtri((1 - u) / 2)
    found = np.asarray(jax.jit(_quantile)(jnp.asarray(np.concatenate([u, -u]), jnp.float32)), np.float64)
    np.testing.assert_allclose(found, np.concatenate([exact, -exact]), rtol=5e-7)


def test_numbers_are_normal_and_independent_within_and_between_steps():
    key = jax.random.key(3)
    drawn = np.asarray(jax.jit(lambda: jnp.stack([normals_at(key, i, (400, 251)) for i in (0, 1)]))(), np.float64)
    assert kstest(drawn[0].ravel(), "norm").pvalue > 1e-3
    size = drawn[0].size
    pairs = [(drawn[0], drawn[1]), (drawn[0, :-1], drawn[0, 1:]), (drawn[0, :, :-1], drawn[0, :, 1:])]
    pairs += [(np.abs(a), np.abs(b)) for a, b in pairs]
    for one, other in pairs:
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 4.5 / np.sqrt(size)


def test_a_step_is_a_gradient_step_plus_noise_of_its_variance():
    particles, gradient = jnp.full((300, 101), 2.0), jnp.full((300, 101), 3.0)
    settings = {"temperature": 0.5, "confinement": 0.25, "step_size": 0.1}
    step = jax.jit(lambda *arrays: noisy_step(jax.random.key(0), 7, *arrays, **settings))
    moved = np.asarray(step(particles, gradient), np.float64)
    size = moved.size
    assert moved.mean() == pytest.approx(2 - 0.1 * (3 + 1), abs=4.5 * np.sqrt(0.1 / size))
    assert moved.var() == pytest.approx(0.1, rel=4.5 * np.sqrt(2 / size))

"""Tokens of signal and noise: their lengths and laws, and the supports of sparse noise."""

import jax
import jax.numpy as jnp
import numpy as np

from unlazy.data.signal_tokens import draw_supports, draw_tokens


def test_tokens_have_balanced_labels_a_signal_of_the_given_length_and_standard_noise():
    x, y = draw_tokens(jax.random.key(0), 40, 300, 4, signal_norm=5.0, signal_coordinates=9)
    assert y.sum() == 0
    np.testing.assert_allclose(jnp.linalg.norm(x[:, 0], axis=1), 5, rtol=1e-5)
    assert (jnp.count_nonzero(x[:, 0], axis=1) == 9).all()
    np.testing.assert_allclose(x[:, 0] * y[:, None], jnp.broadcast_to(x[0, 0], (40, 300)), rtol=1e-6)
    noise = np.asarray(x[:, 1:])
    assert abs(np.mean(noise**2) - 1) < 4 * np.sqrt(2 / noise.size)
    assert abs(np.mean(noise)) < 4 / np.sqrt(noise.size)


def test_supports_are_uniform_subsets():
    d, size, rows = 12, 4, 20_000
    found = np.asarray(draw_supports(jax.random.key(0), rows, d, size))
    assert all(len(set(row)) == size for row in found[:2000])
    assert found.min() == 0
    assert found.max() == d - 1
    member = np.array([(found == k).any(axis=1) for k in range(d)], float)
    single, pair = size / d, size * (size - 1) / (d * (d - 1))
    assert np.abs(member.mean(axis=1) - single).max() < 4.5 * np.sqrt(single * (1 - single) / rows)
    pairs = (member @ member.T / rows)[np.triu_indices(d, 1)]
    assert np.abs(pairs - pair).max() < 4.5 * np.sqrt(pair * (1 - pair) / rows)


def test_a_support_of_everything_is_everything():
    found = draw_supports(jax.random.key(1), 3, 5, 5)
    assert (np.sort(found, axis=1) == np.arange(5)).all()

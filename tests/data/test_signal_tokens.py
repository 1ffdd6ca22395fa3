"""Tokens of signal and noise: their lengths and laws, and noises that do not meet."""

import jax
import jax.numpy as jnp
import numpy as np

from unlazy.data.signal_tokens import draw_sparse_tokens, draw_tokens


def test_tokens_have_balanced_labels_a_signal_of_the_given_length_and_standard_noise():
    x, y = draw_tokens(jax.random.key(0), 40, 300, 4, signal_norm=5.0)
    assert y.sum() == 0
    np.testing.assert_allclose(jnp.linalg.norm(x[:, 0], axis=1), 5, rtol=1e-5)
    np.testing.assert_allclose(x[:, 0] * y[:, None], jnp.broadcast_to(x[0, 0], (40, 300)), rtol=1e-6)
    noise = np.asarray(x[:, 1:])
    assert abs(np.mean(noise**2) - 1) < 4 * np.sqrt(2 / noise.size)
    assert abs(np.mean(noise)) < 4 / np.sqrt(noise.size)


def test_sparse_noises_have_the_asked_coordinates_and_do_not_meet():
    n, fresh, s = 30, 10, 7
    sizes = {"signal_coordinates": 4, "noise_coordinates": s, "largest_noise_coordinates": 9}
    x, y = draw_sparse_tokens(jax.random.key(0), n, fresh, signal_norm=3.0, **sizes)
    x = np.asarray(x)
    assert x.shape == (n + fresh, 2, (n + 2) * 9)
    np.testing.assert_allclose(np.linalg.norm(x[:, 0], axis=1), 3, rtol=1e-5)
    assert (np.count_nonzero(x, axis=2) == [4, s]).all()
    np.testing.assert_allclose(x[:, 0] * np.asarray(y)[:, None], np.broadcast_to(x[0, 0], x[:, 0].shape), rtol=1e-6)
    met = (x[:, 1] != 0) @ (x[:, 1] != 0).T
    assert (met[:n, :n] == np.eye(n)).all()
    assert not met[:n, n:].any()
    assert not (x[:, 0] * x[:, 1]).any()
    entries = x[:, 1][x[:, 1] != 0]
    assert abs(np.mean(entries**2) * s - 1) < 4 * np.sqrt(2 / entries.size)

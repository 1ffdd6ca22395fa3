"""Where descent takes the denoiser: against descents of the whole loss, arrangements drawn at random, and limits."""

import numpy as np
import pytest
from scipy.optimize import minimize

from unlazy.checks import InputError
from unlazy.theory.signal_noise.denoising import denoising_loss, symmetric_stationary_point
from unlazy.theory.signal_noise.trained_denoiser import spread_denoiser


def orthogonal_samples(n, signal_strength, outside):
    """Orthogonal patches [mu_y, xi] with |xi| = 1, in a space of so many dimensions more than they span, and |mu|."""
    norm = np.sqrt(signal_strength / n)
    patches = np.zeros((n, 2, n + 2 + outside))
    patches[:, 1, 2 : n + 2] = np.eye(n)
    patches[::2, 0, 0] = patches[1::2, 0, 1] = norm
    return patches, norm


@pytest.mark.parametrize(("signal_strength", "time"), [(0.4, 0.6), (1.5, 0.3), (1.5, 2.0), (8.0, 1.0)])
def test_descents_of_the_whole_loss_from_random_weights_end_there(signal_strength, time):
    width, n = 4, 6
    patches, norm = orthogonal_samples(n, signal_strength, outside=width + 1)
    point = symmetric_stationary_point(patches, time, width=width)
    theory = spread_denoiser(signal_strength, norm, time, width=width)
    shape, rng = (width, patches.shape[2]), np.random.default_rng(0)

    def value(flat):
        found = denoising_loss(flat.reshape(shape), patches, time)
        return found.loss, found.gradient.ravel()

    options = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-10}
    start = 0.1 * np.linalg.norm(point.weights) / np.sqrt(shape[1]) * rng.standard_normal(shape)
    weights = minimize(value, start.ravel(), jac=True, method="L-BFGS-B", options=options).x.reshape(shape)
    overlaps = patches @ weights.T
    np.testing.assert_allclose(value(weights.ravel())[0], theory.loss, rtol=1e-7)
    np.testing.assert_allclose(overlaps[:, 0] / overlaps[:, 1], theory.balance, rtol=1e-3)
    np.testing.assert_allclose(theory.loss / point.loss, theory.relative_depth, rtol=1e-7)
    inside = np.sum(weights[:, : n + 2] ** 2, axis=1) / np.sum(weights**2, axis=1)
    np.testing.assert_allclose(inside, theory.inside_share, rtol=1e-3)
    size = np.linalg.norm(weights)
    assert np.abs(weights[:, n + 2 :].sum(axis=0)).max() < 1e-3 * size < np.abs(weights[:, n + 2 :]).max()


@pytest.mark.parametrize("time", [0.05, 0.7, 3.0])
def test_no_arrangement_of_the_kind_is_lower(time):
    """Equal overlaps, lengths and angles: a common part outside the span and a simplex, of any sizes."""
    width, n, signal_strength, rng = 5, 4, 3.0, np.random.default_rng(1)
    patches, norm = orthogonal_samples(n, signal_strength, outside=width + 1)
    theory = spread_denoiser(signal_strength, norm, time, width=width)
    simplex = np.eye(width) - 1 / width
    lowest = np.inf
    for _ in range(600):
        r, common, apart = theory.balance * np.exp(rng.normal()), rng.exponential(), rng.exponential(2)
        weights = np.zeros((width, patches.shape[2]))
        weights[:, :2], weights[:, 2 : n + 2] = r / norm, 1.0
        inside = np.linalg.norm(weights[0])
        weights[:, n + 2] = common * inside
        weights[:, n + 3 :] = apart * inside * simplex
        # along a ray the loss is A y^2 - B y in the third power of the size
        at = [denoising_loss(size * weights, patches, time).loss for size in (1.0, 2.0)]
        sixth, third = np.linalg.solve([[1, -1], [64, -8]], at)
        lowest = min(lowest, -(third**2) / (4 * sixth))
    assert theory.loss <= lowest + 1e-12 * abs(lowest)
    assert lowest < 0.8 * theory.loss < 0


def test_much_diffusion_has_closed_forms():
    width = np.array([3, 10, 28, 1000])
    found = spread_denoiser([0.1, 2.0, 7.0, 50.0], 5.0, 15.0, width=width)
    k = width * found.inside_share
    np.testing.assert_allclose((k - 1) ** 2 * (2 * k + 1), (width - 1) ** 2, rtol=1e-6)
    np.testing.assert_allclose(found.relative_depth, 3 * (2 * k + 1) / (2 * k + 7), rtol=1e-6)
    np.testing.assert_allclose(found.balance, [0.05, 1.0, 3.5, 25.0], rtol=1e-6)
    np.testing.assert_allclose((k[1], found.relative_depth[1]), (4, 1.8), rtol=1e-6)


def test_little_diffusion_gives_signal_and_noise_alike():
    found = spread_denoiser([0.5, 2.0, 8.0], 1e6, 1e-6, width=10)
    np.testing.assert_allclose(found.balance, 1, rtol=1e-3)
    np.testing.assert_allclose(found.loss, -18, rtol=1e-3)


def test_exchanging_signal_and_noise_inverts_the_balance():
    """With k = n SNR^2 / 2 the squares |mu|^2 / 2 and |xi|^2 / n = |mu|^2 / (2 k) change places."""
    k, square, times = 3.0, 5.0, np.array([0.05, 0.5, 3.0])
    one, other = (spread_denoiser(2 * a, np.sqrt(b), times, width=6) for a, b in ((k, square), (1 / k, square / k)))
    np.testing.assert_allclose(one.balance * other.balance, 1, rtol=1e-9)
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"signal_strength": 0.0}, "signal_strength must be"),
        ({"signal_norm": np.nan}, "signal_norm must be"),
        ({"time": 0.0}, "time must be"),
        ({"width": 2}, "width must be"),
        ({"width": 3.5}, "width must be"),
        ({"time": [1, 2], "width": [3, 4, 5]}, "time"),
    ],
)
def test_wrong_input_is_refused(arguments, message):
    right = {"signal_strength": 1.0, "signal_norm": 1.0, "time": 1.0, "width": 10}
    with pytest.raises(InputError, match=message):
        spread_denoiser(**right | arguments)

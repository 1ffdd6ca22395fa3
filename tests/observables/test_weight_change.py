import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.observables.weight_change import frobenius_change, outlier_share


def spiked(strength, shape=(300, 600), seed=0):
    """Noise W0 with singular values up to 1 + sqrt(m/n), and a change of rank one beside it."""
    rng = np.random.default_rng(seed)
    n, m = shape
    u, v = (direction / np.linalg.norm(direction) for direction in (rng.normal(size=n), rng.normal(size=m)))
    start = rng.normal(size=shape) / np.sqrt(n)
    return start, start + strength * np.outer(u, v)


@pytest.mark.parametrize("strength", [2.0, 3.0, 6.0])
def test_the_share_of_a_planted_spike_is_that_of_benaych_georges_and_nadakuditi(strength):
    n, m = shape = (300, 600)
    c = m / n
    square = strength**2
    # squared overlaps of the singular vectors of noise of variance 1/n with a spike, n x m
    left = 1 - c * (1 + square) / (square * (square + c))
    right = 1 - (c + square) / (square * (square + 1))
    found = [outlier_share(*spiked(strength, shape, seed), permutations=9, seed=seed) for seed in range(8)]
    shares = np.array([one.share for one in found])
    error = shares.std(ddof=1) / np.sqrt(shares.size)
    assert all(one.outliers == 1 for one in found)
    assert abs(shares.mean() - left * right) < 4 * error + 0.01
    # shuffled, the spike is noise too
    assert found[0].edge == pytest.approx((1 + np.sqrt(c)) * np.sqrt(1 + square / m), rel=0.02)


def test_a_spike_below_the_threshold_and_noise_on_noise_are_not_seen():
    weak = [outlier_share(*spiked(0.5, (200, 300), seed), seed=seed).share for seed in range(10)]
    rng = np.random.default_rng(1)
    start = rng.normal(size=(60, 100))
    noise = [outlier_share(start, start + rng.normal(size=start.shape), seed=seed).share for seed in range(10)]
    # each has an outlier by chance in one case of 20, and hardly any of the change lies along it
    assert np.mean(weak) < 0.02
    assert np.mean(noise) < 0.02


def test_scaling_all_weights_makes_no_outlier_though_it_does_against_the_initial_edge():
    start = np.random.default_rng(0).normal(size=(120, 200)) / np.sqrt(200)
    end = 1.5 * start
    assert np.sum(np.linalg.svd(end, compute_uv=False) > np.linalg.norm(start, 2)) > 30
    assert outlier_share(start, end).share < 0.03
    assert frobenius_change(start, end) == pytest.approx(0.5)


def test_the_share_does_not_depend_on_scale_order_or_transposition():
    start, end = spiked(3.0, (80, 120))
    share = outlier_share(start, end).share
    rng = np.random.default_rng(2)
    rows, columns = rng.permutation(80), rng.permutation(120)
    turned = outlier_share(7 * start[rows][:, columns].T, 7 * end[rows][:, columns].T).share
    assert turned == pytest.approx(share, rel=1e-8)
    assert outlier_share(start.reshape(80, 30, 2, 2), end.reshape(80, 30, 2, 2)).share == pytest.approx(share)


def test_all_of_a_change_of_strong_spikes_lies_along_outliers_and_none_of_no_change():
    start = np.random.default_rng(3).normal(size=(50, 70))
    u, v = np.linalg.qr(np.random.default_rng(4).normal(size=(70, 3)))[0][:50], np.eye(70)[:, :3]
    found = outlier_share(start, start + 1e4 * u @ v.T)
    assert found.outliers == 3
    assert found.share == pytest.approx(1, abs=1e-3)
    assert np.isnan(outlier_share(start, start).share)
    assert frobenius_change(0 * start, start) == np.inf


@pytest.mark.parametrize(
    ("initial", "final", "message"),
    [
        (np.ones((39, 50)), np.ones((39, 50)), "initial must be at least 40 wide on both sides, got"),
        (np.ones(50), np.ones(50), "initial must be weights"),
        (np.ones((50, 50)), np.ones((50, 51)), "final must have shape"),
        (np.ones((50, 50)), np.full((50, 50), np.nan), "final must be finite"),
    ],
)
def test_wrong_weights_are_refused(initial, final, message):
    with pytest.raises(InputError, match=message):
        outlier_share(initial, final)

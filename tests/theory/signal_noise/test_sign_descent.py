"""Sign descent on signal and sparse noise: the closed forms against loops in NumPy, and their limits."""

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.signal_noise.sign_descent import (
    kept_signal,
    memorised_test_loss,
    memorising_ridge,
    noise_token_attention,
    reversing_adversary,
    sign_descent_balance,
)


@pytest.mark.parametrize("signal_coordinates", [1, 20])
def test_the_balance_is_that_of_a_sign_step_on_noises_that_do_not_meet(signal_coordinates):
    """A linear readout v, y_i <v, mu> + <v, xi_i> as margins: the sign of its gradient, drawn without a network."""
    n, s, ratio = 20, 30, 0.4
    rng = np.random.default_rng(signal_coordinates)
    mu = np.full(signal_coordinates, ratio / np.sqrt(signal_coordinates))
    y = np.tile([1.0, -1.0], n // 2)
    found = []
    for _ in range(300):
        xi = rng.standard_normal((n, s)) / np.sqrt(s)
        signal = np.sign(n * mu) @ mu
        noise = np.mean(np.sum(np.sign(y[:, None] * xi) * y[:, None] * xi, axis=1))
        found.append(signal / noise)
    expected = sign_descent_balance(ratio, s, signal_coordinates)
    assert abs(np.mean(found) - expected) < 4 * np.std(found) / np.sqrt(300) + 0.001 * expected
    assert abs(np.mean(found) - expected) < 0.01 * expected


def test_attention_is_uniform_at_the_start_and_leaves_the_signal_whatever_the_sign():
    assert noise_token_attention(0.0) == 0.5
    assert noise_token_attention(1.3) == noise_token_attention(-1.3) == pytest.approx(1 / (1 + np.exp(1.3**2)))


def test_the_least_test_loss_lies_between_guessing_and_the_training_loss():
    balance = np.linspace(0, 1, 11)
    found = memorised_test_loss(balance, 0.02)
    assert found[0] == pytest.approx(np.log(2))
    assert (np.diff(found) < 0).all()
    assert (found > 0.02).all()


def test_the_reversing_adversary_solves_its_equation_and_is_pi_over_s_where_s_is_large():
    s = np.array([16.0, 64.0, 1e6])
    found, length = reversing_adversary(s), np.sqrt(2 * s / np.pi)
    np.testing.assert_allclose(found / 2 * (length - found) ** 2, 1, rtol=1e-10)
    assert (found < length / 3).all()
    assert found[-1] * s[-1] == pytest.approx(np.pi, rel=1e-4)
    assert reversing_adversary(2) == np.inf


def test_signs_reverse_the_signal_beyond_that_adversary_and_not_below():
    """One neuron, margins so small that all logistic factors are 1/2, half of many samples active."""
    s = 64
    length = np.sqrt(2 * s / np.pi)

    def signal(adversary):
        along, noise, step = 1e-3, np.full(2, 1e-3), 1e-4
        active = np.array([1.0, 0.0])
        for _ in range(2000):
            pull = along**2 - adversary * np.mean(active * (noise - adversary * along) ** 2)
            noise = noise + step * length * active
            along += step * np.sign(pull)
            if along < 0:
                return -1
        return along

    boundary = reversing_adversary(s)
    assert signal(0.9 * boundary) > 0
    assert signal(1.1 * boundary) < 0


def test_half_of_half_keep_the_signal_at_the_boundary_and_the_share_is_that_of_binomial_actives():
    s, n = 64, 200
    boundary = reversing_adversary(s)
    assert kept_signal(boundary, s, n) == pytest.approx(0.25)
    assert kept_signal(0.0, s, n) == 0.5
    rng = np.random.default_rng(1)
    active = rng.binomial(n // 2, 0.5, 100_000) / (n // 2)
    for alpha in (0.9 * boundary, 1.15 * boundary):
        expected = np.mean(alpha * active * (np.sqrt(2 * s / np.pi) - alpha) ** 2 < 1) / 2
        assert kept_signal(alpha, s, n) == pytest.approx(expected, abs=0.03)


def test_noise_below_the_ridge_s_fixed_point_is_forgotten_and_above_it_grows():
    """One neuron and one sample under signs of gradient and ridge, from a normal start that is scaled to a given z."""
    n, s, start = 20, 400, 1e-3
    rng = np.random.default_rng(3)
    xi, weights = rng.standard_normal(s) / np.sqrt(s), start * rng.standard_normal(s)
    first = 2 * start * np.linalg.norm(xi)
    weights += (first - weights @ xi) * xi / (xi @ xi)
    ridge = 1.5 * (xi @ xi) * first / n
    for share, grows in ((0.7, True), (1.4, False)):
        w = weights.copy()
        for _ in range(3000):
            w -= 1e-6 * np.sign(share * ridge * w - 1.5 / n * max(w @ xi, 0) ** 2 * xi)
        assert (w @ xi > first) == grows


def test_the_memorising_ridge_has_the_median_of_the_largest_of_normal_reads():
    rng = np.random.default_rng(0)
    n, m, deviation, norm = 20, 15, 0.01, 1.3
    largest = np.median(rng.standard_normal((40_000, m)).max(axis=1)) * deviation * norm
    assert memorising_ridge(n, m, deviation, norm) == pytest.approx(1.5 * norm**2 * largest / n, rel=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sign_descent_balance(-1, 10), "signal_to_noise must be >= 0"),
        (lambda: sign_descent_balance(1, 10, 0), "signal_coordinates must be >= 1"),
        (lambda: noise_token_attention(np.nan), "value_noise must"),
        (lambda: memorised_test_loss(1.5, 0.02), "balance must be >= 0 and <= 1, got 1.5"),
        (lambda: memorised_test_loss(0.5, 0.0), "stop_loss must be > 0"),
        (lambda: reversing_adversary(0), "noise_coordinates must be >= 1"),
        (lambda: memorising_ridge([[1, 2], [3]], 2, 1.0), "n must be numeric"),
    ],
)
def test_what_makes_no_sense_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()

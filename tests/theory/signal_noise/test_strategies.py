import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.signal_noise.strategies import (
    feature_balance,
    mixup_growth,
    momentum_growth,
    stable_output,
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stable_output(2.0, 10, [2, 11], 1.0), "weak_samples must be at most n = 10, got 11"),
        (lambda: stable_output(1e-300, 10, 2, 1.0), "feature_ratio must be >= 1e-60"),
    ],
)
def test_what_makes_no_sense_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("power", [1, 2, 3])
def test_a_first_step_moves_rare_features_as_predicted(power):
    """The gradient of many neurons without noise, and its polar factor by singular values."""
    rng, shares = np.random.default_rng(0), np.array([0.9, 0.1])
    gradient = shares * np.abs(rng.standard_normal((400_000, 2))) ** (power - 1)
    left, _, right = np.linalg.svd(gradient, full_matrices=False)
    polar = left @ right if power > 1 else gradient
    expected = feature_balance(shares[1] / shares[0], power)
    assert gradient.mean(0)[1] / gradient.mean(0)[0] == pytest.approx(expected.descent, rel=0.01)
    assert polar.mean(0)[1] / polar.mean(0)[0] == pytest.approx(expected.muon, rel=0.01)


def test_muon_leaves_no_feature_behind_however_rare():
    cosine = 2 / np.pi
    assert feature_balance(0.0).muon == pytest.approx(np.sqrt((1 - cosine) / (1 + cosine)))
    assert feature_balance(1.0, [1, 2, 5]).muon == pytest.approx(1.0)


@pytest.mark.parametrize("memory_time", [0.01, 1.0, 10.0, 1000.0])
def test_momentum_grows_and_coasts_as_the_flow_does(memory_time):
    """T x'' + x' = 3 x^2 g(x^3), g(s) = 1/(1 + e^s): the logistic loss of the margin x^3, integrated."""
    from scipy.integrate import solve_ivp
    from scipy.special import expit

    def flow(_, state):
        x, speed = state
        return speed, (3 * x**2 * expit(-(x**3)) - speed) / memory_time

    def at_level(_, state):
        return state[0] - 0.3

    run = solve_ivp(flow, (0, 1e6), (1e-3, 0.0), "LSODA", rtol=1e-8, atol=1e-12, events=at_level)
    speed = run.y_events[0][0, 1] / (1.5 * 0.3**2)
    found = momentum_growth(memory_time, 1.5, 3, 0.3, np.log(2))
    assert speed == pytest.approx(found.relative_speed, rel=0.08)
    assert memory_time * run.y[1].max() <= found.coast
    if memory_time == 1000:
        assert memory_time * run.y[1].max() == pytest.approx(found.coast, rel=0.05)


def test_momentum_grows_exactly_as_predicted_at_power_two():
    """T r^2 + r = c for x = e^(rt)."""
    found = momentum_growth(3.0, 0.7, 2, 1.0, 0.0)
    assert 3 * (0.7 * found.relative_speed) ** 2 + 0.7 * found.relative_speed == pytest.approx(0.7)


@pytest.mark.parametrize("mixing_weight", [0.5, 0.6, 0.9])
def test_mixup_growth_is_the_mean_gradient_over_all_pairs(mixing_weight):
    """Of a neuron of the class 1 with a small part along the rare feature, all logistic factors 1/2, no noise."""
    rare, n = 8, 40
    labels = np.tile([1.0, -1.0], n // 2)
    features = labels[:, None] * np.eye(2)[(np.arange(n) < rare).astype(int)]
    stay, take = mixing_weight, 1 - mixing_weight
    mixed = stay * features[:, None] + take * features[None]
    effective = stay * labels[:, None] + take * labels[None]

    def drift(z):
        return np.einsum("ij,ij,ijk->k", effective, np.maximum(mixed @ z, 0.0), mixed) / n**2 * 2

    found, small = mixup_growth(mixing_weight, rare / n), 0.01
    alone, both = drift(np.array([1.0, 0.0])), drift(np.array([1.0, small]))
    np.testing.assert_allclose(alone, [found.common_growth_rate, found.drive], rtol=1e-12)
    np.testing.assert_allclose((both - alone) / small, [found.drive, found.rare_growth_rate], rtol=1e-9)
    matrix = np.array([[found.common_growth_rate, found.drive], [found.drive, found.rare_growth_rate]])
    leading = np.linalg.eigh(matrix)[1][:, -1]
    assert found.balance == pytest.approx(leading[1] / leading[0])


def test_without_mixup_the_common_feature_moves_no_rare_one():
    found = mixup_growth(1.0, [0.0, 0.2, 0.5])
    np.testing.assert_allclose(found.common_growth_rate, [1.0, 0.8, 0.5])
    assert (found.drive == 0).all()
    assert (found.balance == 0).all()

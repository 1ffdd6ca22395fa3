import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.studies.signal_noise.large_learning_rate import LargeLearningRate
from unlazy.studies.signal_noise.mixup import Mixup
from unlazy.studies.signal_noise.momentum import Momentum
from unlazy.studies.signal_noise.sharpness_aware_minimisation import SharpnessAwareMinimisation
from unlazy.studies.signal_noise.xor_overfitting import XorOverfitting
from unlazy.theory import deactivating_radius, sam_error


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def runs(study, seeds, **arms):
    """Outputs (arm, seed) of a study for the values of one parameter, all in one program."""
    ((name, values),) = arms.items()

    def one(value, key):
        return dataclasses.replace(study, **{name: value}).simulate(key)

    keys = jax.random.split(jax.random.key(0), seeds)
    results = jax.jit(jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None)))(jnp.array(values), keys)
    return {name: np.asarray(result) for name, result in results.items()}


def test_unit_of_the_sam_radius_is_the_length_of_the_first_step():
    rng = np.random.default_rng(0)
    n, m, d, batch_size = 20, 10, 4000, 5
    rate, lengths = 0.5 * n * m / d, []
    for _ in range(50):
        noise, weights = rng.standard_normal((batch_size, d)), rng.standard_normal((2 * m, d))
        mu = np.eye(d)[0] * 2.0
        labels, second = rng.choice([-1.0, 1.0], batch_size), np.repeat([1.0, -1.0], m) / m
        push = labels[:, None] * second / (2 * batch_size)
        active_noise, active_signal = noise @ weights.T > 0, np.outer(labels, weights @ mu) > 0
        gradient = (push * active_noise).T @ noise + np.outer((push * active_signal).T @ labels, mu)
        lengths.append(rate * np.linalg.norm(gradient))
    assert np.mean(lengths) == pytest.approx(deactivating_radius(d, m, batch_size, rate), rel=0.02)


@pytest.mark.parametrize("strong_output", [1.0, 0.6])
def test_edge_of_stability_is_that_of_the_hessian(strong_output):
    """The Hessian of the squared loss by automatic differentiation, without noise, at weights with this output."""
    m, n, weak, ratio = 3, 20, 4, 2.0
    lengths = jnp.array([2.0, 1.0])
    classes = 1.0 - 2.0 * (jnp.arange(n) % 2)
    has_strong = jnp.arange(n) >= weak
    second = jnp.repeat(jnp.array([1.0, -1.0]), m) / m

    def loss(weights):
        images = weights.reshape(2 * m, 2) * lengths
        strong = jax.nn.relu(jnp.outer(classes * has_strong, images[:, 0])) ** 2
        other = jax.nn.relu(jnp.outer(classes, images[:, 1])) ** 2
        return jnp.mean(((strong + other) @ second - classes) ** 2) / 2

    spread = jnp.array([0.5, 1.0, 1.2])
    spread = jnp.tile(spread / jnp.sqrt(jnp.mean(spread**2)), 2) * jnp.sign(second)
    outputs = jnp.array([strong_output, 1 - strong_output])
    weights = spread[:, None] * jnp.sqrt(outputs) / lengths
    curvature = float(jnp.linalg.eigvalsh(jax.hessian(loss)(weights.ravel()))[-1])
    stable_rate = 2 / curvature * lengths[0] ** 2 / m
    predicted = LargeLearningRate(
        relative_step_size=float(stable_rate), n=n, weak_samples=weak, feature_ratio=ratio
    ).predict()
    if strong_output == 1:
        assert float(stable_rate) == pytest.approx(predicted["stable_step_size"], rel=1e-6)
    else:
        # The weak feature is in all samples, the formula takes it in as many as the strong one, and the fit of
        # samples without the strong feature is not neglected here.
        assert predicted["strong_output"] == pytest.approx(strong_output, rel=0.15)


@pytest.mark.slow
def test_training_at_a_large_rate_ends_at_the_edge_of_stability_and_small_rates_do_not_move_it():
    both = runs(LargeLearningRate(steps=600), 8, relative_step_size=(1.4, 0.5))
    large, small = ({name: values[arm] for name, values in both.items()} for arm in (0, 1))
    predicted = LargeLearningRate(relative_step_size=1.4).predict()["strong_output"]
    assert np.median(large["strong_output"]) == pytest.approx(predicted, rel=0.05)
    assert np.median(small["strong_output"]) > 0.97
    assert np.median(large["weak_error"]) < 0.02 < 0.2 < np.median(small["weak_error"])
    assert (large["rises"] > 0).mean() > 0.5
    assert np.all(small["rises"] == 0)


@pytest.mark.slow
def test_momentum_coasts_along_the_feature_as_far_as_the_loss_lets_it():
    found = runs(Momentum(), 8, momentum=(0.99, 0.999))["feature_weight"]
    for values, momentum in zip(found, (0.99, 0.999), strict=True):
        assert np.median(values) == pytest.approx(Momentum(momentum=momentum).predict()["feature_weight"], rel=0.1)


def test_momentum_zero_is_gradient_descent_on_explicit_vectors():
    steps, seeds = 400, 12
    study = Momentum(steps=steps)
    measured = runs(study, seeds, momentum=(0.0,))["small_error"][0]
    rng = np.random.default_rng(1)
    explicit = []
    for _ in range(seeds):
        n, d, width = study.n, int(study.d), study.width
        labels = 1.0 - 2.0 * (np.arange(n) % 2)
        amplitude = np.where(np.arange(n) < study.small_margin_samples, study.amplitude, 1.0)

        def noise(count, d=d):
            draws = study.noise_norm / np.sqrt(d) * rng.standard_normal((count, d))
            draws[:, 0] = 0
            return draws

        own, weights = noise(n), study.initial_deviation * rng.standard_normal((width, d))
        for _ in range(steps):
            signal = np.outer(labels * amplitude, weights[:, 0])
            images = own @ weights.T
            push = labels / (1 + np.exp(labels * (signal**3 + images**3).sum(1))) / n
            weights[:, 0] += study.step_size * (3 * signal**2 * (push * labels * amplitude)[:, None]).sum(0)
            weights += study.step_size * (3 * images**2 * push[:, None]).T @ own
        fresh = noise(4000) @ weights.T
        explicit.append(np.mean(((study.amplitude * weights[:, 0]) ** 3).sum() + (fresh**3).sum(1) < 0))
    error = np.hypot(measured.std(ddof=1), np.std(explicit, ddof=1)) / np.sqrt(seeds)
    assert error < 0.04
    assert abs(measured.mean() - np.mean(explicit)) < 4 * error + 0.005


def test_mixup_moves_the_rare_feature_with_the_common_one_as_predicted():
    """Not without mixup, nor with a drive that is twice as strong."""
    found = runs(Mixup(stop_loss=0.62, steps=100), 24, mixing_weight=(0.6, 1.0))["learned_ratio"]
    early = np.exp(np.log(found[0]).mean())
    expected = Mixup(mixing_weight=0.6).predict()["learned_ratio"]
    assert early == pytest.approx(expected, rel=0.25)
    assert found[1].mean() < 0.1 * expected


@pytest.mark.slow
def test_mixup_learns_what_plain_descent_does_not():
    both = runs(Mixup(steps=800), 6, mixing_weight=(1.0, 0.6))
    assert np.all(both["rare_feature_error"][0] > 0.4)
    assert np.all(both["rare_feature_error"][1] < 0.02)
    assert np.all(both["training_loss"][0] < 0.05)


@pytest.mark.slow
def test_sam_then_descent_has_the_predicted_error_where_plain_descent_memorises():
    both = runs(SharpnessAwareMinimisation(d=1e6), 16, sam_time=(0.0, 20.0))
    assert np.all(both["training_loss"] <= 0.1)
    found = sam_error(2.0, 20, 1e6, 0.01, [0.0, 20.0], relative_step_size=0.5)
    deviation = both["test_error"].std(axis=1, ddof=1) / 4
    # The theory is for many neurons; at m = 10 its errors are up to a tenth off.
    assert np.all(np.abs(both["test_error"].mean(1) - found.test_error) < 4 * deviation + 0.1 * found.test_error)
    np.testing.assert_allclose(both["switch_signal"].mean(1), found.mean_signal_coefficient, rtol=0.1)
    # Under SAM no noise is raised by more than a step of the logistic factor 1.
    assert both["switch_noise"][1].max() < 0.5 < both["noise_coefficient"].min()


def test_xor_signal_grows_along_each_feature_at_half_the_pace_of_a_single_one_and_only_on_one_side():
    """Explicit descent without noise, small steps: the pieces of the prediction, also for correlated features."""
    cosine, m, steps, rate = 0.5, 400, 200, 0.004
    rng = np.random.default_rng(0)
    u, v = np.array([1.0, 0.0]), np.array([cosine, np.sqrt(1 - cosine**2)])
    inputs, labels = np.array([u, v, -u, -v]), np.array([1.0, -1.0, 1.0, -1.0])
    second = np.repeat([1.0, -1.0], m) / m
    weights = 1e-6 * rng.standard_normal((2 * m, 2))
    for _ in range(steps):
        images = inputs @ weights.T
        pull = labels * 0.5 / 4
        weights += rate * m * ((images > 0) * second * pull[:, None]).T @ inputs
    outputs = np.maximum(inputs @ weights.T, 0) @ second
    # [y mu, xi] has gamma = eta |mu|^2 t/(4m) in all own neurons, eta = rate m, and the output is gamma.
    single = rate * steps / 4
    assert np.mean(labels * outputs) == pytest.approx(single * (1 - cosine**2) / 4, rel=0.03)


@pytest.mark.slow
def test_xor_error_follows_the_one_feature_theory_and_not_without_the_factor_sixteen():
    study = XorOverfitting()
    error = runs(study, 16, signal_level=(16.0,))["test_error"][0]
    standard_error = error.std(ddof=1) / 4
    predicted = study.predict()["test_error"]
    naive = dataclasses.replace(study, signal_level=16.0 * 16).predict()["test_error"]
    assert abs(error.mean() - predicted) < 4 * standard_error + 0.1 * predicted
    assert abs(error.mean() - naive) > 10 * standard_error

"""Problems drawn without vectors against the moments of Gaussian vectors and against problems of drawn vectors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.random import normal
from unlazy.training.signal_noise.token_gram import (
    Network,
    Patch,
    PatchDesign,
    draw,
    draw_signal_noise,
    from_vectors,
    gradient_descent,
    paired_second_layer,
    relu_power,
    signal_noise_design,
    train,
)

KEY = jax.random.key(1)
SEEDS = 20000


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def assert_mean(values, expected, seed_axis=0):
    """Means within 4.5 standard errors of what is expected, and standard errors that could tell a 20% deviation."""
    values = np.asarray(values)
    mean, error = values.mean(seed_axis), values.std(seed_axis) / np.sqrt(values.shape[seed_axis])
    assert np.all(np.abs(mean - expected) < 4.5 * error)
    assert np.all(5 * error < 0.2 * np.maximum(np.abs(expected), values.std(seed_axis)))


def many(n, width, d, **setting):
    def one(key):
        return draw_signal_noise(key, n=n, width=width, d=d, **setting)

    return jax.jit(jax.vmap(one))(jax.random.split(KEY, SEEDS))


# The smallest dimension that is possible (a chi variable with 1 degree of freedom), and a larger one.
@pytest.mark.parametrize("d", [6, 40])
@pytest.mark.parametrize("orthogonal", [True, False])
def test_inner_products_have_the_moments_of_gaussian_vectors(d, orthogonal):
    sigma, scale, length = 0.5, 0.1, 2.0
    problem = many(3, 1, d, signal_norm=length, noise_deviation=sigma, initial_deviation=scale, orthogonal=orthogonal)
    gram, start, inner = (np.asarray(x) for x in (problem.gram, problem.preactivations, problem.initial_gram))
    free = d - orthogonal
    np.testing.assert_allclose(gram[:, 0, 0], length**2)
    if orthogonal:
        assert np.all(gram[:, 1:, 0] == 0)
    else:
        assert_mean(gram[:, 1, 0] ** 2, sigma**2 * length**2)
    for i in (1, 2, 3):
        assert_mean(gram[:, i, i], sigma**2 * free)
        assert_mean((gram[:, i, i] - sigma**2 * free) ** 2, 2 * sigma**4 * free)
        assert_mean(start[:, :, i] ** 2, scale**2 * sigma**2 * free)
    assert_mean(gram[:, 1, 2] * gram[:, 2, 3] * gram[:, 3, 1], sigma**6 * free)
    assert_mean(start[:, 0, 1] * gram[:, 1, 3] * start[:, 0, 3], scale**2 * sigma**4 * free)
    assert_mean(start[:, 0, 1] * start[:, 1, 1] * inner[:, 0, 1], scale**4 * sigma**2 * free)
    assert_mean(start[:, :, 0] ** 2, scale**2 * length**2)
    for r in (0, 1):
        assert_mean(inner[:, r, r], scale**2 * d)
        assert_mean((inner[:, r, r] - scale**2 * d) ** 2, 2 * scale**4 * d)
    assert_mean(inner[:, 0, 1] ** 2, scale**4 * d)


@pytest.mark.slow
def test_training_a_drawn_problem_has_the_law_of_training_on_vectors():
    samples, width, d, seeds = 6, 2, 30, 4000
    rule, network, design = gradient_descent(0.1), Network(relu_power(1)), signal_noise_design(samples)
    signal, scale = 1.5, 0.05

    def without_vectors(key):
        return draw_signal_noise(key, n=samples, width=width, d=d, signal_norm=signal, initial_deviation=scale)

    def with_vectors(key):
        noise_key, weight_key = jax.random.split(key)
        noises = normal(noise_key, (samples, 1, d)).at[..., 0].set(0.0)
        mu = jnp.zeros((1, d)).at[0, 0].set(signal)
        return from_vectors(design, mu, noises, scale * normal(weight_key, (2 * width, d)), paired_second_layer(width))

    def numbers(problem):
        state = train(KEY, problem, network, rule, 20).state
        return jnp.array([state.loss, *state.weights.coefficients[0, :2], state.weights.preactivations.max()])

    found, expected = (
        np.asarray(jax.jit(jax.vmap(lambda key, f=f: numbers(f(key))))(jax.random.split(jax.random.key(seed), seeds)))
        for seed, f in enumerate((without_vectors, with_vectors))
    )
    error = np.sqrt((found.var(0) + expected.var(0)) / seeds)
    assert np.all(np.abs(found.mean(0) - expected.mean(0)) < 4.5 * error)
    assert np.all(np.abs(found.var(0) / expected.var(0) - 1) < 0.2)


def test_correlated_features_have_the_given_inner_products():
    features = np.array([[4.0, 1.0], [1.0, 2.0]])
    n = 4
    design = PatchDesign(
        patches=(Patch(shared=jnp.ones((n, 2))), Patch(own=jnp.ones((n, 1)))),
        labels=jnp.ones(n),
        classes=jnp.ones(n),
        weights=jnp.full(n, 0.25),
    )
    problems = jax.jit(
        jax.vmap(lambda key: draw(key, design, features, paired_second_layer(1), d=20, initial_deviation=0.1))
    )(jax.random.split(KEY, SEEDS))
    np.testing.assert_allclose(problems.gram[0, :2, :2], features, rtol=1e-12)
    np.testing.assert_allclose(problems.gram[:, 2:, :2], 0, atol=1e-12)
    assert_mean(problems.preactivations[:, 0, 0] * problems.preactivations[:, 0, 1], 0.01)
    assert_mean(problems.gram[:, 2, 2], 18)


def test_flipped_labels_are_as_many_in_each_class():
    design = signal_noise_design(20, largest_n=30, flip_probability=0.3)
    wrong = np.asarray(design.labels != design.classes)
    assert wrong[:20].sum() == 6
    assert not wrong[20:].any()
    assert np.asarray(design.classes)[wrong].sum() == 0
    np.testing.assert_allclose(design.weights.sum(), 1)
    assert np.all(np.asarray(design.weights)[20:] == 0)


def test_signal_of_length_zero_is_noise_alone():
    problem = draw_signal_noise(KEY, n=4, width=2, d=50, signal_norm=0.0, initial_deviation=0.1)
    assert np.all(np.asarray(problem.gram)[0] == 0)
    assert np.all(np.asarray(problem.preactivations)[:, 0] == 0)


def test_too_small_a_dimension_is_refused():
    with pytest.raises(InputError, match=r"d must be .*>= 9"):
        draw_signal_noise(KEY, n=4, width=2, d=8, signal_norm=1.0, initial_deviation=0.1)


def test_features_that_do_not_fit_the_design_are_refused():
    with pytest.raises(InputError, match="features must be the 1"):
        draw(KEY, signal_noise_design(4), jnp.ones(2), paired_second_layer(2), d=50, initial_deviation=0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shared_tokens": np.ones((2, 10))}, r"shared_tokens must have shape \(1, 10\)"),
        ({"own_tokens": np.ones((3, 1, 10))}, r"own_tokens must have shape \(4, 1, 10\)"),
        ({"second_layer": np.ones(3)}, r"second_layer must have shape \(4,\)"),
        ({"design": signal_noise_design(4)._replace(labels=np.ones(3))}, r"classes must have shape \(3,\)"),
        ({"design": signal_noise_design(4)._replace(patches=(Patch(),))}, r"patches\[0\] has neither"),
        ({"design": signal_noise_design(4)._replace(patches=())}, "at least one patch"),
        ({"design": signal_noise_design(4)._replace(weights=np.ones(4))}, "weights must have the sum 1, got 4"),
        ({"design": signal_noise_design(4)._replace(weights=np.array([2, -1, 0, 0]))}, "weights must be >= 0, got -1"),
        ({"design": signal_noise_design(4)._replace(labels=np.arange(4))}, "labels must be 1 or -1, got 0"),
        ({"design": signal_noise_design(4)._replace(classes=np.full(4, 2))}, "classes must be 1 or -1, got 2"),
        ({"own_tokens": np.full((4, 1, 10), np.nan)}, "own_tokens must be finite, got nan"),
        ({"initial_weights": np.full((4, 10), np.inf)}, "initial_weights must be finite, got inf"),
        ({"noise_deviation": -1.0}, "noise_deviation must be >= 0, got -1"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(change, message):
    arguments = {
        "design": signal_noise_design(4),
        "shared_tokens": np.ones((1, 10)),
        "own_tokens": np.ones((4, 1, 10)),
        "initial_weights": np.ones((4, 10)),
        "second_layer": np.ones(4),
    }
    with pytest.raises(InputError, match=message):
        from_vectors(**(arguments | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 0}, "n must be >= 1, got 0"),
        ({"n": 4.5}, "n must be whole, got 4.5"),
        ({"width": 0}, "width must be >= 1, got 0"),
        ({"width": 1.5}, "width must be whole and >= 1, got 1.5"),
        ({"n": 5, "largest_n": 4}, "n must be >= 1 and <= 4, got 5"),
        ({"n": 0, "largest_n": 4}, "n must be >= 1 and <= 4, got 0"),
        ({"n": 2.5, "largest_n": 4}, "n must be whole and >= 1 and <= .*, got 2.5"),
        ({"flip_probability": 0.5}, "flip_probability must be >= 0 and < 0.5, got 0.5"),
        ({"flip_probability": -0.1}, "flip_probability must be >= 0 and < 0.5, got -0.1"),
        ({"signal_norm": -1.0}, "signal_norm must be >= 0, got -1"),
        ({"signal_norm": np.nan}, "signal_norm must be finite and >= 0, got nan"),
        ({"initial_deviation": -1.0}, "initial_deviation must be >= 0, got -1"),
        ({"noise_deviation": -1.0}, "noise_deviation must be >= 0, got -1"),
        ({"d": np.nan}, "d must be finite"),
    ],
)
def test_settings_that_cannot_be_drawn_are_refused(change, message):
    setting = {"n": 4, "width": 2, "d": 50, "signal_norm": 1.0, "initial_deviation": 0.1}
    with pytest.raises(InputError, match=message):
        draw_signal_noise(KEY, **(setting | change))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "positive semi-definite Gram matrix, got the eigenvalue -1"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (np.array([1.0, -1.0]), "features must be >= 0, got -1"),
        (np.ones((2, 3)), r"got shape \(2, 3\)"),
        (np.array([1.0, np.nan]), "features must be finite, got nan"),
    ],
)
def test_features_that_cannot_be_are_refused(features, message):
    signs = np.array([1.0, -1.0])
    design = PatchDesign((Patch(shared=np.eye(2)), Patch(own=np.ones((2, 1)))), signs, signs, np.full(2, 0.5))
    with pytest.raises(InputError, match=message):
        draw(KEY, design, features, paired_second_layer(2), d=50, initial_deviation=0.1)

import doctest
import importlib
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.optim import label_noise


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def softmax_loss(w, x, y):
    scores = jax.nn.log_softmax(x @ w)
    return -jnp.mean(jnp.take_along_axis(scores, y[:, None], axis=1))


def problem(classes=3, n=6, d=4):
    rng = np.random.default_rng(0)
    return rng.normal(size=(d, classes)), rng.normal(size=(n, d)), np.arange(n) % classes


def test_the_example_runs():
    assert doctest.testmod(importlib.import_module("unlazy.optim.label_noise")).failed == 0


def test_probability_0_is_the_plain_loss():
    w, x, y = problem()
    noisy = label_noise(softmax_loss, 0.0, 3)
    for seed in range(5):
        assert noisy(w, x, y, jax.random.key(seed)) == softmax_loss(w, x, y)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_mean_gradient_is_that_of_the_mixture_over_all_labels(classes):
    w, x, y = problem(classes)
    p, draws = 0.3, 20_000
    noisy = label_noise(softmax_loss, p, classes)
    keys = jax.random.split(jax.random.key(1), draws)
    gradients = jax.jit(jax.vmap(lambda key: jax.grad(noisy)(w, x, y, key)))(keys)
    mixture = np.zeros_like(w)
    for labels in product(range(classes), repeat=len(y)):
        flipped = np.array(labels) != y
        chance = np.prod(np.where(flipped, p / (classes - 1), 1 - p))
        mixture += chance * np.asarray(jax.grad(softmax_loss)(w, x, np.array(labels)))
    error = np.asarray(gradients).std(axis=0, ddof=1) / np.sqrt(draws)
    assert (np.abs(np.asarray(gradients).mean(axis=0) - mixture) < 4 * error).all()
    # the same test rejects a probability that is wrong by 20%
    clean = np.asarray(jax.grad(softmax_loss)(w, x, y))
    assert (np.abs(mixture + 0.2 * (mixture - clean) - np.asarray(gradients).mean(axis=0)) > 4 * error).any()


def test_flipped_labels_are_spread_evenly_over_the_other_classes():
    values, p, n = (-3.0, 0.5, 2.0, 7.0), 0.6, 40_000
    y = np.full(n, 0.5)
    seen = np.asarray(label_noise(lambda params, x, labels: labels, p, values)(None, None, y, jax.random.key(0)))
    for value in values:
        chance = 1 - p if value == 0.5 else p / 3
        assert abs(np.mean(seen == value) - chance) < 4 * np.sqrt(chance * (1 - chance) / n)


def test_one_key_gives_the_same_labels_eagerly_compiled_and_mapped():
    w, x, y = problem()
    noisy = label_noise(softmax_loss, 0.4, 3)
    keys = jax.random.split(jax.random.key(3), 4)
    eager = np.array([noisy(w, x, y, key) for key in keys])
    assert len(set(eager.tolist())) > 1
    compiled = jax.jit(noisy)
    np.testing.assert_allclose([compiled(w, x, y, key) for key in keys], eager, rtol=1e-13)
    np.testing.assert_allclose(jax.vmap(lambda key: noisy(w, x, y, key))(keys), eager, rtol=1e-13)
    scanned = jax.lax.scan(lambda carry, key: (carry, noisy(w, x, y, key)), 0, keys)[1]
    np.testing.assert_allclose(scanned, eager, rtol=1e-13)

    def of_probability(p):
        return label_noise(softmax_loss, p, 3)(w, x, y, keys[0])

    np.testing.assert_allclose(jax.vmap(of_probability)(jnp.array([0.0, 0.4])), [softmax_loss(w, x, y), eager[0]])


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.float32])
def test_labels_keep_their_type(dtype):
    seen = []
    noisy = label_noise(lambda params, x, labels: seen.append(labels), 0.4, classes=(-1, 1))
    noisy(None, None, np.array([-1, 1, 1], dtype), jax.random.key(0))
    assert seen[0].dtype == dtype
    assert set(np.asarray(seen[0]).tolist()) <= {-1, 1}


def test_as_many_classes_as_there_are_integers():
    largest = 2**31 - 1
    y = np.array([0, 5, largest - 1], np.int32)
    found = label_noise(lambda params, x, labels: labels, 0.999, largest)(None, None, y, jax.random.key(0))
    assert found.dtype == np.int32
    assert (np.asarray(found) >= 0).all()
    assert (np.asarray(found) != y).sum() >= 2


@pytest.mark.parametrize(
    ("p", "classes", "message"),
    [
        (-0.1, 2, "flip_probability must be >= 0, got -0.1"),
        (0.5, 2, "flip_probability must be below 1 - 1/classes = 0.5, where labels say nothing, got 0.5"),
        (float("nan"), 2, "flip_probability must be finite and >= 0, got nan"),
        ([0.1, 0.2], 2, r"flip_probability must have 0 dimension\(s\), got shape \(2,\)"),
        (0.1, 1, r"classes must be >= 2 and <= 2.14748e\+09, got 1"),
        (0.1, 2.5, "classes must be whole and >= 2 and <= .*, got 2.5"),
        (0.1, (1, 1), r"classes must be at least 2 different labels, got \(1, 1\)"),
    ],
)
def test_bad_arguments_are_named(p, classes, message):
    with pytest.raises(InputError, match=message):
        label_noise(softmax_loss, p, classes)


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        ([-1, 1], 2, r"y must hold the classes 0, ..., 1, got -1"),
        ([0, 1], (-1, 1), r"y must hold the classes -1, 1, got 0"),
        (["cat", "dog"], 2, "y must hold numbers, not <U3"),
        ([0.5], 2, r"y must hold the classes 0, ..., 1, got 0.5"),
        ([True], 2, r"y must be of a type that holds the classes 0, ..., 1, got bool"),
        (np.array([3], np.uint8), 1000, r"y must be of a type that holds the classes 0, ..., 999, got uint8"),
    ],
)
def test_strange_labels_are_named(y, classes, message):
    with pytest.raises(InputError, match=message):
        label_noise(softmax_loss, 0.1, classes)(None, None, np.asarray(y), jax.random.key(0))


def test_a_loss_that_is_none_is_named():
    with pytest.raises(InputError, match="loss must be a function"):
        label_noise(3.0, 0.1)

import doctest
import importlib
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.optim import mixup


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def logistic(w, x, y):
    return jnp.mean(jnp.logaddexp(0, -y * jnp.tanh(x @ w)))


def problem(n=4):
    rng = np.random.default_rng(0)
    return rng.normal(size=3), rng.normal(size=(n, 3)), np.where(np.arange(n) % 2, 1.0, -1.0)


def by_hand(w, x, y, weight, partners):
    mixed = [weight * x[i] + (1 - weight) * x[j] for i, j in enumerate(partners)]
    outputs = [np.tanh(row @ w) for row in mixed]
    terms = [
        weight * np.log1p(np.exp(-y[i] * f)) + (1 - weight) * np.log1p(np.exp(-y[j] * f))
        for (i, j), f in zip(enumerate(partners), outputs, strict=True)
    ]
    return np.mean(terms)


def test_the_example_runs():
    assert doctest.testmod(importlib.import_module("unlazy.optim.mixup")).failed == 0


def test_every_pairing_occurs_equally_often_and_gives_the_loss_written_by_hand():
    w, x, y = problem()
    draws = 4800
    found = jax.vmap(lambda key: mixup(logistic, mixing_weight=0.6)(w, x, y, key))(
        jax.random.split(jax.random.key(0), draws)
    )
    expected = np.array([by_hand(w, x, y, 0.6, partners) for partners in permutations(range(4))])
    distance = np.abs(np.asarray(found)[:, None] - expected)
    assert distance.min(axis=1).max() < 1e-12
    counts = np.bincount(distance.argmin(axis=1), minlength=24)
    assert (np.abs(counts - draws / 24) < 4 * np.sqrt(draws / 24)).all()


@pytest.mark.parametrize("weight", [1.0, 1])
def test_weight_1_is_the_plain_loss(weight):
    w, x, y = problem()
    np.testing.assert_allclose(
        mixup(logistic, mixing_weight=weight)(w, x, y, jax.random.key(0)), logistic(w, x, y), rtol=1e-14
    )


@jax.jit
def mixed_inputs(concentration, keys):
    # for x = (1, 0) and the two exchanged, x~_1 is the weight, else it is 1
    mixed = mixup(lambda w, inputs, labels: inputs[0], concentration=concentration)
    return jax.vmap(lambda key: mixed(None, np.array([1.0, 0.0]), np.zeros(2), key))(keys)


def test_drawn_weights_have_the_moments_of_the_beta_distribution():
    draws = 20_000
    keys = jax.random.split(jax.random.key(0), draws)
    for concentration in (0.4, 1.0, 1e4):
        found = np.asarray(mixed_inputs(concentration, keys))
        weights, variance = found[found != 1.0], 1 / (4 * (2 * concentration + 1))
        assert abs(len(weights) / draws - 0.5) < 4 * 0.5 / np.sqrt(draws)
        assert abs(weights.mean() - 0.5) < 4 * np.sqrt(variance / len(weights))
        spread = np.var((weights - 0.5) ** 2) / len(weights)
        assert abs(np.mean((weights - 0.5) ** 2) - variance) < 4 * np.sqrt(spread)
    # weights 0 and 1 in the limit, where a ratio of gamma variates would be 0/0
    found = np.asarray(mixed_inputs(1e-3, keys))
    assert np.isfinite(found).all()
    assert abs(found.mean() - 0.75) < 4 * np.sqrt(3 / 16 / draws)


def test_trees_of_inputs_are_mixed_leaf_by_leaf_with_the_same_pairs():
    w, x, y = problem()

    def of_tree(w, inputs, labels):
        return logistic(w, jnp.concatenate([inputs["one"][:, None], inputs["rest"]], axis=1), labels["y"])

    key = jax.random.key(5)
    tree = mixup(of_tree, mixing_weight=0.3)(w, {"one": x[:, 0], "rest": x[:, 1:]}, {"y": y}, key)
    np.testing.assert_allclose(tree, mixup(logistic, mixing_weight=0.3)(w, x, y, key), rtol=1e-14)


def test_compiled_mapped_and_scanned_losses_are_the_eager_ones():
    w, x, y = problem()
    mixed = mixup(logistic, mixing_weight=0.6)
    keys = jax.random.split(jax.random.key(3), 4)
    eager = [mixed(w, x, y, key) for key in keys]
    np.testing.assert_allclose(jax.jit(mixed)(w, x, y, keys[0]), eager[0], rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(lambda key: mixed(w, x, y, key))(keys), eager, rtol=1e-12)
    scanned = jax.lax.scan(lambda carry, key: (carry, mixed(w, x, y, key)), 0, keys)[1]
    np.testing.assert_allclose(scanned, eager, rtol=1e-12)
    traced = jax.vmap(lambda weight: mixup(logistic, mixing_weight=weight)(w, x, y, keys[0]))(jnp.array([1.0, 0.6]))
    np.testing.assert_allclose(traced, [logistic(w, x, y), eager[0]], rtol=1e-12)


@pytest.mark.parametrize(
    "options", [{"mixing_weight": 0.5}, {"mixing_weight": np.float64(0.5)}, {"concentration": 0.4}]
)
def test_inputs_and_losses_keep_their_precision_and_whole_numbers_become_fractions(options):
    seen = []

    def loss(w, inputs, labels):
        seen.append(inputs.dtype)
        return jnp.mean(inputs) * w

    found = mixup(loss, **options)(jnp.float32(1), np.zeros((2, 1), np.float32), np.zeros(2), jax.random.key(0))
    assert seen[0] == found.dtype == np.float32
    mixup(loss, **options)(1.0, np.array([[1], [2]]), np.zeros(2), jax.random.key(0))
    assert seen[-1] == np.float64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give mixing_weight or concentration, got mixing_weight = None and concentration = None"),
        ({"mixing_weight": 0.5, "concentration": 1.0}, "give mixing_weight or concentration, got mixing_weight = 0.5"),
        ({"mixing_weight": 1.5}, "mixing_weight must be >= 0 and <= 1, got 1.5"),
        ({"concentration": 0}, "concentration must be > 0, got 0"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(InputError, match=message):
        mixup(logistic, **options)


def test_inputs_and_labels_of_different_length_are_named():
    with pytest.raises(
        InputError, match=r"same number of samples along their first axis, got shapes \(3, 2\) and \(4,\)"
    ):
        mixup(logistic, mixing_weight=0.5)(None, np.zeros((3, 2)), np.zeros(4), jax.random.key(0))


@pytest.mark.parametrize("y", [np.array(["cat", "dog"]), ["cat", "dog"]])
def test_labels_that_are_words_are_named(y):
    with pytest.raises(InputError, match="x and y must"):
        mixup(logistic, mixing_weight=0.5)(None, np.zeros((2, 2)), y, jax.random.key(0))

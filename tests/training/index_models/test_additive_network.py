import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.functions.elementwise import as_link, polynomial
from unlazy.random import short_normals
from unlazy.theory.index_models.additive import additive_drift
from unlazy.training.index_models.additive_network import AdditiveRule, escape, train_network

pytestmark = pytest.mark.usefixtures("optimised")
MIXED = polynomial((0.2, 0.0, 0.7, 0.5))
HE3 = as_link("He3")


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def test_the_network_makes_the_steps_of_its_definition():
    d, tasks, neurons, steps = 12, 3, 5, 128
    rng = np.random.default_rng(9)
    directions, start = rng.standard_normal((tasks, d)), rng.standard_normal((neurons, d))
    for rows in (directions, start):
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    strengths = np.array([0.5, 0.3, 0.8])

    def links(z):
        # a link of its own for every task
        return MIXED(z) * jnp.array([1.0, 1.0, 0.0]) + HE3(z) * jnp.array([0.0, 0.0, 1.0])

    rule = AdditiveRule(links, jnp.asarray(strengths), d, 0.3, MIXED, 0.04, jnp.asarray(directions), 0.5)
    key = jax.random.key(8)
    found = jax.jit(lambda start: train_network(key, start, rule, steps, records=2))(jnp.asarray(start))
    numbers = np.concatenate(
        [np.asarray(short_normals(jax.random.fold_in(key, block), (64, d + 1))) for block in range(2)]
    )
    weights = start.copy()
    for step, row in enumerate(numbers):
        x, z = row[:d], directions @ row[:d]
        label = strengths @ [MIXED(z[0]), MIXED(z[1]), HE3(z[2])] + 0.2 * row[d]
        for j in range(neurons):
            along = weights[j] @ x
            c = np.clip(0.3 / d * label * MIXED.derivative(along), -0.5 / np.sqrt(d), 0.5 / np.sqrt(d))
            moved = weights[j] + c * (x - along * weights[j])
            weights[j] = moved / np.linalg.norm(moved)
        if step == 63:
            np.testing.assert_allclose(found.overlaps[0], weights @ directions.T, atol=1e-12)
    np.testing.assert_allclose(found.weights, weights, atol=1e-12)
    np.testing.assert_allclose(found.overlaps[1], weights @ directions.T, atol=1e-12)


def test_one_block_of_small_steps_drifts_as_the_theory_says():
    tasks, d, size, blocks = 3, 20, 1e-3, 4000
    start = np.zeros(d)
    start[:4] = 0.6, 0.4, -0.3, np.sqrt(1 - 0.61)
    rule = AdditiveRule(HE3, jnp.full(tasks, tasks**-0.5), d, size, HE3, 0.01, clip=1e9)
    run = jax.jit(jax.vmap(lambda key: train_network(key, jnp.asarray(start)[None], rule, 64).overlaps[-1, 0]))
    moved = (np.asarray(run(jax.random.split(jax.random.key(1), blocks))) - start[:tasks]) * d / (64 * size)
    expected = additive_drift("He3", start[:tasks])
    error = moved.std(axis=0) / np.sqrt(blocks)
    # the square of a step, relative to it, is of the order of the step size
    assert (np.abs(moved.mean(axis=0) - expected) < 4 * error + 5 * size).all()
    assert (np.abs(moved.mean(axis=0) - 1.2 * expected) > 4 * error + 5 * size).any()


def test_dimensions_and_tasks_beyond_those_asked_for_do_not_matter():
    weights = jnp.asarray(np.eye(4)[:, [1, 0, 2, 3]] * 0.8 + 0.3)
    weights = weights / jnp.linalg.norm(weights, axis=1, keepdims=True)
    padded = jnp.pad(weights, ((0, 0), (0, 5)))
    wide = AdditiveRule(HE3, jnp.array([0.7, 0.7, 0.0]), 4, 0.2, HE3)
    found = escape(jax.random.key(1), padded, wide, 2.0, 640)
    assert (np.asarray(found.overlaps)[:, 2] == 0).all()
    assert np.isinf(found.n)
    trained = train_network(jax.random.key(2), padded, wide, 640)
    assert (np.asarray(trained.weights)[:, 4:] == 0).all()
    np.testing.assert_allclose(np.linalg.norm(trained.weights, axis=1), 1.0)


def test_a_loop_ends_when_its_share_of_the_neurons_is_there():
    d = 10
    weights = jnp.asarray(np.eye(d)[[0, 1, 2, 5]])
    rule = AdditiveRule(HE3, jnp.array([0.7, 0.7]), d, 1e-9, HE3)
    assert escape(jax.random.key(1), weights, rule, 0.9, 640, 0.5).n == 0
    assert np.isinf(escape(jax.random.key(1), weights, rule, 0.9, 640, 0.75).n)

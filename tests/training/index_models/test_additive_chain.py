from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from unlazy.functions.elementwise import as_link, polynomial
from unlazy.random import short_normals
from unlazy.theory.index_models.additive import additive_path
from unlazy.training.index_models.additive_chain import AdditiveRule, escape, train_network

pytestmark = pytest.mark.usefixtures("optimised")
MIXED = polynomial((0.2, 0.0, 0.7, 0.5))


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def direct(rng, start, rule, steps):
    """The neurons in d dimensions, each with samples of its own."""
    neurons, d = start.shape
    weights = start.copy()
    for _ in range(steps):
        x = rng.standard_normal((neurons, d))
        label = rule.link(x[:, : rule.tasks]).sum(axis=1) / np.sqrt(rule.tasks)
        label = label + np.sqrt(rule.noise_variance) * rng.standard_normal(neurons)
        along = np.sum(weights * x, axis=1)
        c = rule.step_size / d * label * rule.link.derivative(along)
        c = np.clip(c, -rule.clip / np.sqrt(d), rule.clip / np.sqrt(d))
        weights = weights + c[:, None] * (x - along[:, None] * weights)
        weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    return weights[:, : rule.tasks]


def ends(key, start, rule, steps):
    """The chains after a number of steps that is a multiple of the block: no overlap reaches 2."""
    return np.asarray(_escape(rule.link.name)(key, jnp.asarray(start), rule._replace(link=None), 2.0, steps).overlaps)


@cache
def _escape(name):
    """Compiled once per link and shape."""
    known = {MIXED.name: MIXED, "He3": as_link("He3")}[name]
    return jax.jit(lambda key, start, rule, *rest: escape(key, start, rule._replace(link=known), *rest))


@pytest.mark.parametrize("clip", [1.0, 0.2])
def test_the_chain_has_the_law_of_the_neuron_in_d_dimensions(clip):
    # few dimensions and large steps: nothing here is asymptotic
    d, tasks, chains, steps = 7, 3, 10_000, 64
    rule = AdditiveRule(MIXED, tasks, d, 0.15, 0.09, clip)
    start = np.zeros((chains, d))
    start[:, :5] = 0.5, -0.3, 0.2, 0.6, np.sqrt(1 - 0.25 - 0.09 - 0.04 - 0.36)
    expected = direct(np.random.default_rng(2), start, rule, steps)
    found = ends(jax.random.key(3), start[:, :tasks], rule, steps)
    for column in range(tasks):
        assert stats.ks_2samp(found[:, column], expected[:, column]).pvalue > 1e-3
    # the joint law, and the label noise, matter
    pairs = [one[:, 0] * one[:, 1] + one[:, 2] for one in (found, expected)]
    assert stats.ks_2samp(*pairs).pvalue > 1e-3
    other = ends(jax.random.key(3), start[:, :tasks], rule._replace(step_size=0.2), steps)
    assert stats.ks_2samp(other[:, 0], expected[:, 0]).pvalue < 1e-6


def test_the_chain_follows_the_flow_in_high_dimension():
    tasks, d, size, chains = 3, 20_000, 0.4, 64
    start = np.array([0.5, 0.3, 0.0])
    steps = 64 * 500
    rule = AdditiveRule(as_link("He3"), tasks, d, size, 0.01, 1e9)
    found = ends(jax.random.key(4), np.tile(start, (chains, 1)), rule, steps)
    expected = additive_path("He3", start, [steps / d], size, 0.01)[-1]
    error = found.std(axis=0) / np.sqrt(chains)
    assert (np.abs(found.mean(axis=0) - expected) < 4 * error + 1e-3).all()
    assert abs(found[:, 0].mean() - start[0] - 1.2 * (expected[0] - start[0])) > 4 * error[0] + 1e-3


def test_columns_beyond_the_tasks_stay_empty_and_do_not_matter():
    start = np.zeros((1000, 5))
    start[:, 0] = 0.4
    wide = ends(jax.random.key(5), start, AdditiveRule(as_link("He3"), 2, 30, 0.5), 128)
    narrow = ends(jax.random.key(6), start[:, :2], AdditiveRule(as_link("He3"), 2, 30, 0.5), 128)
    assert wide[:, 0].std() > 0.01
    assert (wide[:, 2:] == 0).all()
    assert stats.ks_2samp(wide[:, 0], narrow[:, 0]).pvalue > 1e-3


def test_half_is_the_middle_of_the_arrival_times_and_later_ones_are_infinite():
    start = jnp.array([[0.9], [0.5], [0.5], [0.5], [0.0]])
    rule = AdditiveRule(as_link("He3"), 1, 50, 0.2)
    found = _escape("He3")(jax.random.key(7), start, rule._replace(link=None), 0.6, 50_000)
    samples = np.asarray(found.n)
    assert samples[0] == 0
    assert np.sum(np.isfinite(samples)) >= 3
    assert found.median_n == np.sort(samples)[2]
    never = _escape("He3")(jax.random.key(7), start, rule._replace(link=None), 1.5, 128)
    assert np.isinf(np.asarray(never.n)).all()
    assert np.isinf(never.median_n)


def test_the_network_makes_the_steps_of_its_definition():
    d, tasks, neurons, steps = 12, 3, 5, 128
    rule = AdditiveRule(MIXED, tasks, d, 0.3, 0.04, 0.5)
    key, start = jax.random.key(8), np.random.default_rng(9).standard_normal((neurons, d))
    start /= np.linalg.norm(start, axis=1, keepdims=True)
    found = train_network(key, jnp.asarray(start), rule, steps, records=2)
    numbers = np.concatenate(
        [np.asarray(short_normals(jax.random.fold_in(key, block), (64, d + 1))) for block in range(2)]
    )
    weights = start.copy()
    for step, row in enumerate(numbers):
        x, label = row[:d], MIXED(row[:tasks]).sum() / np.sqrt(tasks) + 0.2 * row[d]
        for j in range(neurons):
            along = weights[j] @ x
            c = np.clip(0.3 / d * label * MIXED.derivative(along), -0.5 / np.sqrt(d), 0.5 / np.sqrt(d))
            moved = weights[j] + c * (x - along * weights[j])
            weights[j] = moved / np.linalg.norm(moved)
        if step == 63:
            np.testing.assert_allclose(found.overlaps[0], weights[:, :tasks], atol=1e-12)
    np.testing.assert_allclose(found.weights, weights, atol=1e-12)
    np.testing.assert_allclose(found.overlaps[1], weights[:, :tasks], atol=1e-12)

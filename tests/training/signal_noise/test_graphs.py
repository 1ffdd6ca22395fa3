import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.training.signal_noise.graphs import averaged, graph_run, groups, random_neighbours
from unlazy.training.signal_noise.token_gram import (
    Network,
    from_vectors,
    gradient_descent,
    relu_power,
    signal_noise_design,
    train,
)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def test_groups_are_of_one_class():
    averages, classes = np.asarray(groups(12, 3)), 1.0 - 2.0 * (np.arange(12) % 2)
    assert sorted(np.unique(averages)) == [0, pytest.approx(1 / 3)]
    np.testing.assert_allclose(averages.sum(1), 1)
    np.testing.assert_allclose(averages @ classes, classes)
    np.testing.assert_allclose(averages @ averages, averages)


@pytest.mark.parametrize(("homophily", "others"), [(1.0, 0), (0.5, 2), (0.25, 3)])
def test_random_neighbours_are_as_many_for_all_and_of_the_classes_that_are_asked_for(homophily, others):
    n, neighbours = 20, 8
    averages = np.asarray(random_neighbours(jax.random.key(3), n, neighbours, homophily))
    chosen, classes = averages > 0, np.arange(n) % 2
    assert (chosen.sum(0) == neighbours).all()
    assert (chosen.sum(1) == neighbours).all()
    assert chosen.diagonal().all()
    assert ((chosen & (classes[:, None] != classes)).sum(1) == others).all()
    other = np.asarray(random_neighbours(jax.random.key(4), n, neighbours, homophily))
    assert (averages != other).any()


def test_training_on_averages_is_that_on_averaged_vectors():
    """Against descent with explicit vectors and automatic differentiation."""
    n, m, d, power, step_size = 8, 3, 40, 3, 0.05
    rng = np.random.default_rng(0)
    mu, noise = np.zeros((1, d)), rng.standard_normal((n, 1, d))
    mu[0, 0] = 2.0
    weights, second = 0.3 * rng.standard_normal((2 * m, d)), np.repeat([1.0, -1.0], m) / m
    averages = random_neighbours(jax.random.key(0), n, 3, 0.4)
    problem = averaged(from_vectors(signal_noise_design(n), mu, noise, weights, second), averages)
    network = Network(relu_power(power))
    found = train(jax.random.key(1), problem, network, gradient_descent(step_size), 20).state

    labels = 1.0 - 2.0 * (jnp.arange(n) % 2)
    patches = jnp.einsum("ij,jpd->ipd", averages, jnp.stack([labels[:, None] * mu[0], noise[:, 0]], axis=1))

    def outputs(w):
        return (jax.nn.relu(jnp.einsum("rd,npd->nrp", w, patches)) ** power).sum(-1) @ second

    slope = jax.jit(jax.grad(lambda w: jnp.mean(jax.nn.softplus(-labels * outputs(w)))))
    w = jnp.asarray(weights)
    for _ in range(20):
        w = w - step_size * slope(w)
    np.testing.assert_allclose(found.outputs, outputs(w), rtol=1e-8)
    assert np.abs(np.asarray(outputs(w)) - np.asarray(outputs(jnp.asarray(weights)))).max() > 0.01


def test_a_graph_learns_the_signal_where_the_network_alone_memorises():
    sizes = {"power": 3, "n": 32, "d": 1e12, "width": 10, "initial_scale": 0.01, "stop_loss": 0.05, "steps": 1000}

    def loss(key, neighbours):
        found = graph_run(key, neighbours=neighbours, homophily=1.0, graph=1, signal_strength=0.9, **sizes)
        return found["test_loss"]

    both = jax.jit(jax.vmap(jax.vmap(loss, (0, None)), (None, 0)))
    alone, averaging = both(jax.random.split(jax.random.key(0), 8), jnp.array([1, 16])).mean(1)
    assert alone > 0.5 > 0.3 > averaging

"""A first layer that is trained over tasks: gradients against differentiation, descent against n x n algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.data.linear_tasks import LinearTasks, first_tasks, linear_tasks
from unlazy.random import normal
from unlazy.training.regression import trained_layer
from unlazy.training.regression.two_timescale import balanced_noise

SPECTRUM, PRIOR = 1 / np.arange(1, 13.0), np.arange(1, 13.0) ** -1.5
N, PENALTY, NOISE, WEIGHT = 6, 0.3, 0.25, 0.5


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def drawn(shared, tasks=10, seed=0):
    return linear_tasks(jax.random.key(seed), SPECTRUM, PRIOR, N, tasks, NOISE, shared=shared)


def start(width=5):
    return trained_layer.init(jax.random.key(9), SPECTRUM, width, 1.0)


def fitted(layer, x, y):
    """The primal ridge fit of every column of y to W x, and what is minimised: (1/n)|y - H v|^2 + ridge |v|^2."""
    hidden = x * layer if layer.ndim == 1 else x @ layer.T
    return hidden, jnp.linalg.solve(hidden.T @ hidden + PENALTY * jnp.eye(hidden.shape[1]), hidden.T @ y)


def training_error(layer, inputs, labels, noise):
    """From its definition: second layers are fitted to labels + noise and judged on the labels."""
    total = 0.0
    for x, y, e in zip(inputs, labels, noise, strict=True):
        hidden, second = fitted(layer, x, y + e)
        total += (jnp.sum((y - hidden @ second) ** 2) + PENALTY * jnp.sum(second**2)) / (N * y.shape[1])
    return total / len(inputs)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("diagonal", [True, False])
def test_the_gradient_is_that_of_the_training_error_through_the_second_layer(shared, diagonal):
    data = drawn(shared)
    layer = normal(jax.random.key(1), (12,)) if diagonal else start()
    noise = normal(jax.random.key(2), data.labels.shape)
    expected = jax.grad(training_error)(layer, data.inputs, data.labels, noise)
    given = (data.inputs, data.labels, noise)
    found = trained_layer.gradient(layer, *given, PENALTY, trained_layer.inverses)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)

    def inverse(kernels, penalty):
        return np.linalg.inv(kernels + penalty * np.eye(N))

    host = trained_layer.gradient(np.array(layer), *map(np.array, given), PENALTY, inverse)
    np.testing.assert_allclose(host, expected, rtol=1e-9, atol=1e-12)


def criterion(layer, data):
    """R(W) by the hat matrix of the primal fit."""
    total = 0.0
    for x, y in zip(data.inputs, data.labels, strict=True):
        hidden, second = fitted(layer, x, y)
        hat = fitted(layer, x, jnp.eye(N))[1]
        error = (jnp.sum((y - hidden @ second) ** 2) + PENALTY * jnp.sum(second**2)) / y.shape[1]
        total += (error + WEIGHT * jnp.trace(hidden @ hat)) / N
    return total / len(data.inputs)


def test_the_expected_gradient_is_that_of_the_degrees_of_freedom_criterion():
    """Noise enters by its second moments alone: +-(n v)^1/2 e_i average to what fresh noise does."""
    data, layer = drawn(True), start()
    noise = jnp.tile(balanced_noise(N, WEIGHT), 10)[None]
    labels = jnp.repeat(data.labels, 2 * N, axis=2)
    found = trained_layer.gradient(layer, data.inputs, labels, noise, PENALTY, trained_layer.inverses)
    np.testing.assert_allclose(found, jax.grad(criterion)(layer, data), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shared", [True, False])
def test_risks_are_those_of_fits_one_by_one(shared):
    data, layer = drawn(shared), start()
    options = {"penalty": PENALTY, "noise_variance": NOISE, "label_noise_variance": WEIGHT}
    found = trained_layer.layer_risks(
        jax.random.key(3), layer, data, jnp.asarray(SPECTRUM), jnp.asarray(PRIOR), designs=400, **options
    )
    assert found.criterion == pytest.approx(float(criterion(layer, data)), rel=1e-10)
    missed = [
        layer.T @ fitted(layer, x, y)[1] - b
        for x, y, b in zip(data.inputs, data.labels, data.coefficients, strict=True)
    ]
    risk = np.mean([np.sum(np.square(m) * SPECTRUM[:, None], axis=0) for m in missed])
    assert found.risk == pytest.approx(risk, rel=1e-10)
    new = linear_tasks(jax.random.key(4), SPECTRUM, PRIOR, N, 4000, NOISE, shared=False)
    hidden = new.inputs @ layer.T
    second = jnp.linalg.solve(hidden.mT @ hidden + PENALTY * jnp.eye(5), hidden.mT @ new.labels)
    each = np.sum(np.square(layer.T @ second - new.coefficients)[:, :, 0] * SPECTRUM, axis=1)
    error = each.std() / np.sqrt(each.size)
    assert abs(found.new_risk - each.mean()) < 5 * error
    assert abs(1.2 * found.new_risk - each.mean()) > 5 * error


def test_descent_in_sample_space_is_descent_on_the_layer_and_stays_in_its_subspace():
    data, layer = drawn(True), start()
    sizes = jnp.linspace(2.0, 0.5, 30)
    options = {"penalty": PENALTY, "label_noise_variance": WEIGHT}
    found = trained_layer.closed_descent(layer, data, jnp.asarray(SPECTRUM), sizes, **options)
    moved = layer
    slope = jax.jit(jax.grad(criterion))
    for size in sizes:
        moved = moved - size * slope(moved, data)
    assert found.closed_criterion == pytest.approx(float(criterion(moved, data)), rel=1e-8)
    assert found.closed_criterion < float(criterion(layer, data)) - 0.05
    missed = moved.T @ fitted(moved, data.inputs[0], data.labels[0])[1] - data.coefficients[0]
    assert found.closed_risk == pytest.approx(np.mean(np.sum(np.square(missed) * SPECTRUM[:, None], axis=0)), rel=1e-8)
    outside = np.linalg.svd(np.array(data.inputs[0]))[2][N:]
    np.testing.assert_allclose((moved - layer) @ outside.T, 0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_a_step_is_right_on_average_over_batches_and_noise(shared):
    data, layer = drawn(shared), start()
    step = trained_layer.build_step(data, penalty=PENALTY, batch_size=3, tasks=8, label_noise_variance=WEIGHT)
    moved = jax.vmap(lambda key: step(key, 1.0, layer) - layer)(jax.random.split(jax.random.key(5), 3_000))
    used = LinearTasks(*(array if array.shape[0] == 1 else array[:8] for array in data))
    used = used._replace(labels=used.labels[..., :8])
    expected = -jax.grad(criterion)(layer, used)
    error = moved.std(0) / np.sqrt(len(moved))
    assert (abs(moved.mean(0) - expected) < 5 * error).all()
    assert (abs(moved.mean(0) - 1.2 * expected) > 5 * error).any()


def test_first_tasks_are_means_over_these():
    data, layer = drawn(True), start()
    used = first_tasks(data, 7)
    few = data._replace(labels=data.labels[..., :7], coefficients=data.coefficients[..., :7])
    options = {"penalty": PENALTY, "noise_variance": NOISE, "label_noise_variance": WEIGHT}
    given = jnp.asarray(SPECTRUM), jnp.asarray(PRIOR)
    found, expected = (
        trained_layer.layer_risks(jax.random.key(3), layer, each, *given, **options) for each in (used, few)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_groups_of_several_tasks_are_refused():
    data = drawn(False)
    with pytest.raises(InputError, match="one group or groups of one task"):
        trained_layer.build_step(
            data._replace(labels=jnp.ones((10, N, 2))), penalty=1.0, batch_size=2, tasks=4, label_noise_variance=0.1
        )

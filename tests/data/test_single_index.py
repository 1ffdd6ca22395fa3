import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.data.single_index import SingleIndex


def test_noiseless_labels_are_the_link_of_the_projection_on_a_unit_direction():
    data = SingleIndex(d=4, link="tanh")
    x, y = data.sample(jax.random.key(0), 7)
    beta = np.asarray(data.direction)
    assert np.linalg.norm(beta) == 1.0
    np.testing.assert_allclose(y, np.tanh(np.asarray(x) @ beta), rtol=1e-6)


def test_noise_has_the_stated_variance():
    n, variance = 20_000, 0.09
    data = SingleIndex(d=3, link="identity", noise_variance=variance)
    x, y = data.sample(jax.random.key(1), n)
    measured = np.mean(np.asarray(y - data.target(x)) ** 2)
    standard_error = variance * np.sqrt(2 / n)
    assert abs(measured - variance) < 4 * standard_error
    # The test can tell a variance from a standard deviation.
    assert abs(np.sqrt(variance) - variance) > 100 * standard_error


def test_labels_correlate_with_the_inputs_along_the_direction_by_the_links_mean_slope():
    n, d = 20_000, 3
    data = SingleIndex(d=d, link="erf", noise_variance=0.1)
    x, y = (np.asarray(array, np.float64) for array in data.sample(jax.random.key(2), n))
    products = x * y[:, None]
    standard_error = products.std(axis=0) / np.sqrt(n)
    expected = 2 / np.sqrt(3 * np.pi) * np.asarray(data.direction)  # Stein: E[x g(x.beta)] = E[g'] beta
    assert np.all(np.abs(products.mean(axis=0) - expected) < 4 * standard_error)
    assert expected[0] > 50 * standard_error[0]


def test_noise_variance_may_be_traced():
    def labels(variance):
        return SingleIndex(4, "relu", variance).sample(jax.random.key(3), 7)[1]

    variances = [0.0, 0.5, 2.0]
    single = [labels(variance) for variance in variances]
    np.testing.assert_allclose(jax.jit(jax.vmap(labels))(jnp.array(variances)), single, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("d", "n"), [(0, 5), (3, 0)])
def test_empty_data_are_refused(d, n):
    with pytest.raises(InputError, match="must be >= 1"):
        SingleIndex(d).sample(jax.random.key(0), n)


def test_an_unknown_link_is_refused():
    with pytest.raises(InputError, match="mean relu"):
        SingleIndex(3, link="rellu").sample(jax.random.key(0), 2)

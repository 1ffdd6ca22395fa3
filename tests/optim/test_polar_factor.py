import doctest
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.linalg

from unlazy.checks import InputError
from unlazy.optim import scale_by_polar_factor


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def factor(update, **options):
    transformation = scale_by_polar_factor(**options)
    return jax.jit(transformation.update)(update, transformation.init(update))[0]


def test_the_example_runs():
    assert doctest.testmod(importlib.import_module("unlazy.optim.polar_factor")).failed == 0


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (1, 4)])
def test_it_is_the_polar_factor_of_scipy(shape):
    matrix = np.random.default_rng(0).normal(size=shape)
    np.testing.assert_allclose(factor(matrix), scipy.linalg.polar(matrix)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_zero_singular_values_are_dropped_at_any_scale(scale):
    rng = np.random.default_rng(1)
    thin, wide = np.linalg.qr(rng.normal(size=(7, 2)))[0], np.linalg.qr(rng.normal(size=(5, 2)))[0]
    matrix = scale * thin @ np.diag([3.0, 1e-6]) @ wide.T
    np.testing.assert_allclose(factor(matrix), thin @ wide.T, rtol=0, atol=1e-8)
    # a coarser tolerance leaves the larger direction alone
    np.testing.assert_allclose(
        factor(matrix, relative_tolerance=1e-3), np.outer(thin[:, 0], wide[:, 0]), rtol=0, atol=1e-8
    )


def test_it_is_the_form_that_the_token_engine_uses():
    # (D G D^T)^(-1/2) D in token coordinates is the factor of D Z for G = Z Z^T
    rng = np.random.default_rng(2)
    coefficients, tokens = rng.normal(size=(4, 6)), rng.normal(size=(6, 30))
    squares, vectors = np.linalg.eigh(coefficients @ tokens @ tokens.T @ coefficients.T)
    root = vectors @ np.diag(squares**-0.5) @ vectors.T
    np.testing.assert_allclose(factor(coefficients @ tokens), root @ coefficients @ tokens, rtol=0, atol=1e-11)


def test_the_zero_matrix_stays_zero_and_nan_stays_visible():
    assert not np.asarray(factor(np.zeros((3, 4)))).any()
    assert np.isnan(factor(np.array([[np.nan, 1.0], [0.0, 1.0]]))).all()


def test_vectors_are_normalised_numbers_signed_and_tensors_stacks_of_matrices():
    rng = np.random.default_rng(3)
    tree = {"vector": rng.normal(size=6), "number": np.array(-3.0), "stack": rng.normal(size=(2, 3, 4, 5))}
    found = factor({**tree, "nothing": np.zeros((0, 3)), "zero": np.zeros(2)})
    np.testing.assert_allclose(found["vector"], tree["vector"] / np.linalg.norm(tree["vector"]), rtol=1e-13)
    np.testing.assert_allclose(found["number"], -1.0)
    for index in np.ndindex(2, 3):
        expected = scipy.linalg.polar(tree["stack"][index])[0]
        np.testing.assert_allclose(found["stack"][index], expected, rtol=0, atol=1e-12)
    assert found["nothing"].shape == (0, 3)
    assert not np.asarray(found["zero"]).any()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_updates_keep_their_type(dtype):
    found = factor(jnp.asarray(np.random.default_rng(0).normal(size=(3, 5)), dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(np.asarray(found, float) @ np.asarray(found, float).T, np.eye(3), atol=2e-2)


def test_the_newton_schulz_factor_of_optax_is_only_near():
    # what the docstring says of the difference
    gradient = np.random.default_rng(4).normal(size=(20, 200))
    muon = optax.contrib.scale_by_muon(nesterov=False)
    near = np.asarray(muon.update(gradient, muon.init(gradient), gradient)[0])
    exact = np.asarray(factor(gradient))
    np.testing.assert_allclose(np.linalg.svd(exact, compute_uv=False), 1.0, rtol=1e-12)
    values = np.linalg.svd(near, compute_uv=False)
    assert values.max() - values.min() > 0.1
    cosine = np.sum(near * exact) / np.linalg.norm(near) / np.linalg.norm(exact)
    assert 0.9 < cosine < 0.999


def test_descent_with_it_lowers_every_singular_value_alike():
    # minimise |W - A|^2/2: the error's singular values fall by the rate at each step while they are above it
    target = np.diag([3.0, 2.0, 1.0])
    optimiser = optax.chain(scale_by_polar_factor(), optax.scale_by_learning_rate(0.1))

    def step(carry, _):
        weights, state = carry
        change, state = optimiser.update(weights - target, state, weights)
        return (optax.apply_updates(weights, change), state), None

    start = jnp.zeros((3, 3))
    weights = jax.lax.scan(step, (start, optimiser.init(start)), length=8)[0][0]
    np.testing.assert_allclose(weights, 0.8 * np.eye(3), atol=1e-12)


def test_a_mapped_update_is_the_single_one():
    stack = jnp.asarray(np.random.default_rng(5).normal(size=(4, 3, 5)))
    np.testing.assert_allclose(jax.vmap(factor)(stack), [factor(one) for one in stack], rtol=0, atol=1e-13)


@pytest.mark.parametrize("tolerance", [-1e-3, 2.0, float("nan")])
def test_a_bad_tolerance_is_named(tolerance):
    with pytest.raises(InputError, match="relative_tolerance must be"):
        scale_by_polar_factor(tolerance)

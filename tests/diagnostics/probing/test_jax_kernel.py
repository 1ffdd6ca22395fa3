"""The tangent kernel of JAX functions against whole Jacobians."""

import numpy as np
import pytest

import unlazy.diagnostics.probing.jax_kernel as kernels
from unlazy.diagnostics.probing.jax_network import JaxNetwork

jax = pytest.importorskip("jax")
N, LEFT, CLASSES = 9, 6, 3


def dense(params, rows):
    return jax.numpy.tanh(rows @ params["a"]) @ params["b"]


def shared(params, rows):
    """One matrix twice."""
    hidden = rows
    for _ in range(2):
        hidden = jax.numpy.tanh(hidden @ params["a"])
    return hidden @ params["b"]


def sequence(params, rows):
    """A matrix at each of 6 places."""
    places = rows.reshape(len(rows), 6, -1)
    return jax.numpy.tanh(places @ params["a"]).mean(axis=1) @ params["b"]


def convolution(params, rows):
    places = rows.reshape(len(rows), 4, 4, -1)
    order = ("NHWC", "HWIO", "NHWC")
    hidden = jax.lax.conv_general_dilated(places, params["a"], (2, 2), "SAME", dimension_numbers=order)
    return jax.numpy.tanh(hidden).reshape(len(rows), -1) @ params["b"]


def dead(params, rows):
    """No gradient in the first matrix for half of the rows."""
    return jax.nn.relu(rows[:, :1]) * (rows @ params["a"]) @ params["b"]


CASES = {
    "dense": (dense, 60, (60, 50), (50, CLASSES), 4),
    "shared": (shared, 50, (50, 50), (50, CLASSES), 4),
    "sequence": (sequence, 6 * 80, (80, 80), (80, CLASSES), 12),
    "convolution": (convolution, 16 * 20, (3, 3, 20, 60), (4 * 60, CLASSES), 4),
    "dead": (dead, 60, (60, 50), (50, CLASSES), 4),
    # six products: four columns are too few, and more would not pay
    "whole": (sequence, 6 * 30, (30, 30), (30, CLASSES), 4),
}
"""Network, columns of a row, shapes of the matrices, and the most columns of U and V that are asked for."""


@pytest.mark.parametrize(
    ("case", "precision"), [*((case, "float64") for case in CASES), ("dense", "float32"), ("dense", "rounded")]
)
def test_the_kernel_is_that_of_the_jacobian_and_asks_for_no_more_than_it_must(case, precision, monkeypatch):
    network, d, *shapes, columns = CASES[case]
    rng = np.random.default_rng(0)
    asked = set()
    factors = kernels._factors
    monkeypatch.setattr(kernels, "_factors", lambda *given: asked.add(given[1].here.shape[1]) or factors(*given))
    with jax.enable_x64(precision == "float64"):
        kind = "float32" if precision == "float32" else "float64"  # which JAX rounds unless it is told otherwise
        params = {
            name: (rng.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))).astype(kind)
            for name, shape in zip("ab", shapes, strict=True)
        }
        rows = rng.standard_normal((N, d)).astype(kind)
        jacobian = jax.jacrev(network)(params, rows)
        whole = [np.asarray(one, np.float64).reshape(N, CLASSES, -1) for one in jacobian.values()]
        expected = sum(np.einsum("ikp,jkp->ij", one, one) for one in whole)[:LEFT] / CLASSES
        for budget in (1e9, 1.0):
            found, _ = JaxNetwork(network, params).kernel(params, rows, LEFT, budget, lambda text: None)
            tolerance = 1e-10 if precision == "float64" else 1e-5
            np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max(), rtol=0)
    assert max(asked) == columns + 2

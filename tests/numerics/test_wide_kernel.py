"""Kernels of wide networks against the closed forms for erf and relu, and against many neurons."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erf

from unlazy.functions.elementwise import as_activation
from unlazy.numerics.wide_kernel import wide_kernel, wide_tangent_kernel


def _points(count, d, seed=0):
    return np.random.default_rng(seed).standard_normal((count, d)) / np.sqrt(d)


@pytest.mark.parametrize("d", [20, 200])
def test_erf_has_the_kernels_of_williams(d):
    x, y = _points(7, d), _points(5, d, 1)
    inner, squares = x @ y.T, np.outer(1 + 2 * np.sum(x**2, 1), 1 + 2 * np.sum(y**2, 1))
    conjugate = 2 / np.pi * np.arcsin(2 * inner / np.sqrt(squares))
    slopes = 4 / np.pi / np.sqrt(squares - 4 * inner**2)
    np.testing.assert_allclose(wide_kernel(erf, x, y), conjugate, atol=1e-8)
    sigma = as_activation("erf")
    np.testing.assert_allclose(
        wide_tangent_kernel(sigma, sigma.derivative, x, y), conjugate + inner * slopes, atol=1e-7
    )


def test_the_diagonal_is_exact_whatever_the_degree():
    x = _points(4, 30)
    steep = lambda h: np.tanh(5 * h)  # noqa: E731

    def square(radius):
        return quad(lambda z: steep(radius * z) ** 2 * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), -9, 9, limit=200)[0]

    expected = [square(np.linalg.norm(row)) for row in x]
    np.testing.assert_allclose(np.diag(wide_kernel(steep, x, x)), expected, rtol=1e-8)


def test_it_is_the_mean_over_many_neurons():
    x, y = _points(6, 40), _points(3, 40, 1)
    weights = np.random.default_rng(2).standard_normal((40, 400_000))
    sigma = as_activation("tanh")
    left, right = sigma(x @ weights), sigma(y @ weights)
    mean = left @ right.T / weights.shape[1]
    spread = np.sqrt((left**2) @ (right**2).T / weights.shape[1] - mean**2) / np.sqrt(weights.shape[1])
    assert (np.abs(wide_kernel(sigma, x, y) - mean) < 5 * spread).all()


def test_a_zero_row_has_the_kernel_of_f_at_zero():
    x = np.vstack([np.zeros(10), _points(1, 10)])
    found = wide_kernel(np.cos, x, x)
    np.testing.assert_allclose(found[0], [1.0, np.exp(-np.sum(x[1] ** 2) / 2)], rtol=1e-10)


def test_relu_has_the_arc_cosine_kernel():
    x = _points(6, 5)
    x = np.vstack([x, -x, 3 * x[:1]])
    norms = np.linalg.norm(x, axis=1)
    cosine = np.clip(x @ x.T / np.outer(norms, norms), -1, 1)
    angle = np.arccos(cosine)
    expected = np.outer(norms, norms) / (2 * np.pi) * (np.sin(angle) + (np.pi - angle) * cosine)
    found = wide_kernel(as_activation("relu"), x, x)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    # rows on one line: opposite ones have no neuron in common
    line = np.abs(cosine) > 1 - 1e-12
    np.testing.assert_allclose(found[line], expected[line], atol=1e-12)
    assert np.linalg.eigvalsh(found).min() > -1e-12


def test_large_rows_are_as_accurate_as_small_ones():
    x = 130 * _points(5, 400)
    squares = 1 + 2 * np.sum(x**2, 1)
    expected = 2 / np.pi * np.arcsin(2 * x @ x.T / np.sqrt(np.outer(squares, squares)))
    np.testing.assert_allclose(wide_kernel(erf, x, x), expected, atol=1e-6)

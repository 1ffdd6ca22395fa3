import numpy as np
import pytest

from unlazy.training.kernels.sphere import by_degree, harmonic_kernel


def test_a_kernel_of_given_masses_has_their_sum_on_the_diagonal_and_orthogonal_degrees():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4000, 7))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    masses = (0.2, 1.0, 0.5)
    np.testing.assert_allclose(by_degree(np.ones(1), 7, masses), [1.7], rtol=1e-12)
    squares = by_degree(x[:1] @ x.T, 7, masses) ** 2
    # E_y k(x, y)^2 = sum_k M_k^2 / N_k with N = 1, 7, 27
    assert squares.mean() == pytest.approx(0.04 + 1 / 7 + 0.25 / 27, rel=4 * squares.std() / squares.mean() / 4000**0.5)


@pytest.mark.parametrize("degree", [2, 3])
def test_the_kernel_of_one_degree_is_that_of_one_mass(degree):
    products = np.linspace(-1, 1, 21)
    expected = by_degree(products, 9, np.eye(degree + 1)[degree].tolist())
    np.testing.assert_allclose(harmonic_kernel(products, 9, degree), expected, atol=1e-12)

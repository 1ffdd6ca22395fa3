"""The first direction of a kernel fit's gradients: against ridge regression, and refusals."""

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.one_step import (
    LinkMoments,
    gradient_cosine,
    link_moments,
    outer_product_misalignment,
    preconditioned_cosine,
)
from unlazy.theory.regression import ridge_equivalent

D, EVEN = 10**6, LinkMoments(0.0, 0.5)


@pytest.mark.parametrize("link", ["erf", "tanh", "sign"])
@pytest.mark.parametrize("ridge", [1e-3, 0.1, 3.0])
def test_the_linear_kernel_has_the_misalignment_of_the_ridge_direction(link, ridge):
    """Two derivations: from the test error alone, and from norm and overlap of the ridge direction."""
    moments, noise = link_moments(link), 0.05
    n = D * np.array([0.5, 2.0, 8.0])
    unexplained = noise + moments.nonlinear
    fit = ridge_equivalent([1.0], moments.linear**2 / D, n, ridge, unexplained, multiplicities=[D])
    found = outer_product_misalignment(link, n, D, fit.risk + unexplained)
    np.testing.assert_allclose(found, 1 - preconditioned_cosine(link, n / D, ridge, noise) ** 2, rtol=1e-5)


def test_a_fit_that_learns_nothing_has_the_misalignment_of_one_gradient_step():
    moments, noise = link_moments("erf"), 0.05
    found = outer_product_misalignment("erf", 4 * D, D, moments.variance + noise)
    assert found == pytest.approx(1 - gradient_cosine("erf", 4, noise) ** 2, rel=1e-5)


def test_one_dimension_has_nothing_outside():
    assert outer_product_misalignment("tanh", 100, 1, 0.1) == 0


def test_an_even_link_without_error_has_no_gradient():
    with pytest.raises(InputError, match="link must have a linear part"):
        outer_product_misalignment(EVEN, 100, 10, 0.0)
    assert outer_product_misalignment(EVEN, 100, 10, 0.1) == 1

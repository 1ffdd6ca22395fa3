import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.numerics.contrasts import helmert_contrasts


def test_contrasts_are_orthonormal_and_sum_to_zero():
    for classes in (2, 3, 7):
        basis = helmert_contrasts(classes)
        np.testing.assert_allclose(basis.T @ basis, np.eye(classes - 1), atol=1e-15)
        np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-15)


def test_one_class_has_no_contrast():
    with pytest.raises(InputError, match="classes must be an integer >= 2"):
        helmert_contrasts(1)

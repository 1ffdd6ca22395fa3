import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.numerics.margin_losses import logistic_prox, loss_of


def test_the_logistic_prox_solves_its_equation():
    margin, variance = np.meshgrid(np.linspace(-50, 50, 401), [1e-3, 1.0, 17.0, 100.0, 1e3, 1e4])
    s = logistic_prox(margin, variance)
    assert (np.abs(s - margin - variance / (1 + np.exp(s))) < 1e-12 * (1 + variance)).all()


def test_unknown_losses_are_named():
    with pytest.raises(InputError, match=r"loss must be one of square, logistic, hinge; got 'squre' \(did you mean"):
        loss_of("squre")

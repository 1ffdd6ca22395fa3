import numpy as np
import pytest

from unlazy.studies.in_context.mean_field_attention import MeanFieldAttention
from unlazy.studies.in_context.saddle_escape import SaddleEscape


@pytest.mark.parametrize(("features", "missing"), [(1, 1), (2, 1), (4, 3)])
def test_differences_of_the_loss_confirm_the_closed_form_of_the_saddle(features, missing):
    found = SaddleEscape(features=features, missing_features=missing).predict()
    np.testing.assert_allclose(found["numerical_least_eigenvalue"], found["least_eigenvalue"], rtol=1e-5)
    np.testing.assert_allclose(found["numerical_curvature"], found["curvature"], rtol=1e-5)
    assert found["numerical_multiplicity"] == found["multiplicity"] == missing**2


def test_the_floor_is_the_number_of_features_that_do_not_fit():
    floors = [MeanFieldAttention(true_features=true).predict()["floor"] for true in (3, 5, 7)]
    assert floors == [0, 0, 2]

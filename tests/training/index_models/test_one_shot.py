import numpy as np
import pytest

from unlazy.functions.elementwise import as_link
from unlazy.theory.index_models.spectral.estimators import (
    best_linear_transform,
    best_spectral_transform,
    linear_overlap,
    spectral_overlap,
)
from unlazy.training.index_models.one_shot import best_weights, one_shot_direction


@pytest.mark.parametrize("link", ["He2", "He3"])
def test_one_shot_directions_have_the_predicted_overlap(link):
    rng = np.random.default_rng(1)
    d, n, squares = 200, 800, []
    for _ in range(12):
        rows = rng.standard_normal((n, d))
        squares.append(one_shot_direction(rows, as_link(link)(rows[:, 0]), link)[0] ** 2)
    limit = linear_overlap(link, n / d) if link == "He3" else spectral_overlap(link, n / d).squared_overlap
    expected, error = float(limit), np.std(squares, ddof=1) / np.sqrt(12)
    assert abs(np.mean(squares) - expected) < 4 * error + 2 / d
    assert abs(np.mean(squares) - 0.8 * expected) > 4 * error + 2 / d


@pytest.mark.parametrize("name", ["He2", "He3"])
def test_transforms_in_closed_form_are_those_of_the_theory(name):
    labels = as_link(name)(np.random.default_rng(5).standard_normal(200))
    expected = (best_linear_transform if name == "He3" else best_spectral_transform)(name)(labels)
    np.testing.assert_allclose(best_weights(labels, name), expected, rtol=1e-9, atol=1e-9)

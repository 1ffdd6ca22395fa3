import math

import numpy as np
import pytest

from unlazy.numerics.quadrature import gauss_rule, hermite_rule, panels, unit_rule


@pytest.mark.parametrize("count", [1, 5, 40])
def test_rules_are_exact_for_polynomials_up_to_their_degree(count):
    powers = np.arange(2 * count)
    points, weights = unit_rule(count)
    np.testing.assert_allclose(weights @ points[:, None] ** powers, 1 / (powers + 1), rtol=1e-12)
    points, weights = hermite_rule(min(count, 12))
    even = np.arange(min(count, 12))
    doubles = [math.prod(range(2 * k - 1, 0, -2)) for k in even]
    np.testing.assert_allclose(weights @ points[:, None] ** (2 * even), doubles, rtol=1e-11)


def test_panels_agree_with_one_rule_for_each_of_them():
    edges = np.array([-2.0, -1.0, 0.5, 4.0])
    points, weights = panels(edges, 12)
    np.testing.assert_allclose(weights @ np.exp(points), np.exp(4) - np.exp(-2), rtol=1e-13)
    apart = gauss_rule(edges[:-1], np.diff(edges), 12)
    assert apart.points.shape == (3, 12)
    np.testing.assert_allclose((apart.weights * np.exp(apart.points)).sum(axis=1), np.diff(np.exp(edges)), rtol=1e-13)


def test_short_panels_far_out_keep_their_length():
    assert gauss_rule(1e6, 1e-12, 7).weights.sum() == pytest.approx(1e-12, rel=1e-15)


def test_remembered_rules_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        unit_rule(5).points[0] = 1.0

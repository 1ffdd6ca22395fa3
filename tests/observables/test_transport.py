import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import binom

from unlazy.checks import InputError
from unlazy.observables.transport import expected_deviation, wasserstein_distance


def test_equal_sizes_are_an_assignment_and_a_shift_costs_its_length():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((40, 3)), rng.standard_normal((40, 3))
    costs = cdist(a, b)
    assert wasserstein_distance(a, b) == pytest.approx(costs[linear_sum_assignment(costs)].mean())
    assert wasserstein_distance(a, a + np.array([3.0, 0.0, 4.0])) == pytest.approx(5.0)


def test_unequal_sizes_on_the_line_are_the_area_between_the_distributions():
    assert wasserstein_distance([[0.0], [1.0]], [[0.0]]) == pytest.approx(0.5)


def test_samples_of_other_dimension_are_refused():
    with pytest.raises(InputError, match="other must have 2 columns"):
        wasserstein_distance(np.zeros((3, 2)), np.zeros((3, 1)))


@pytest.mark.parametrize("n", [1, 5, 50, 4000])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.2, 0.5, 0.93, 1.0])
def test_the_mean_deviation_of_a_share_is_the_sum_over_all_counts(n, share):
    counts = np.arange(n + 1)
    exact = binom.pmf(counts, n, share) @ np.abs(counts / n - share)
    assert expected_deviation(n, share) == pytest.approx(exact, rel=1e-9, abs=1e-15)

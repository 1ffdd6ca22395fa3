"""Which rows are held out together."""

import numpy as np

from unlazy.estimators.common.folds import parted_halves


def test_halves_share_classes_and_part_neighbours_in_the_order_of_numbers():
    rng = np.random.default_rng(0)
    for strata in (rng.integers(3, size=101), rng.standard_normal(101)):
        one, other = parted_halves(strata, np.random.RandomState(0))
        np.testing.assert_array_equal(np.sort(np.concatenate([one, other])), np.arange(101))
        for level in np.quantile(strata, np.linspace(0, 1, 12)):
            assert abs(np.sum(strata[one] <= level) - np.sum(strata[other] <= level)) <= 1

"""Contests of benchmarks: what is kept of the contestants, and who is whose rival. No benchmark is run."""

import numpy as np
import pytest

from benchmarks.contest import BAYES, Comparison, Fit, against_others, compare, errors_table, times_table


class Constant:
    def __init__(self, value):
        self.value = value

    def fit(self, x, y):
        return self

    def predict(self, x):
        return np.full(len(x), self.value)


def test_an_error_is_the_mean_square_over_the_variance_of_the_targets():
    target = np.array([1.0, 3.0])
    found = compare(
        lambda d: {"none": Constant(0.0), "mean": Constant(2.0)}, "two rows", np.ones((4, 3)), *[target] * 3
    )
    assert found.sizes == (4, 3)
    assert (found.mean("none"), found.mean("mean")) == (5.0, 1.0)


def test_rivals_are_all_but_our_other_ways_those_that_failed_and_who_knows_the_law():
    errors = {"ours": [1.0, 2.0], "our other": [0.1, 0.1], "near": [2.0, 4.0], "failed": [np.nan] * 2, BAYES: [0.5] * 2}
    one = Comparison("a case", (5, 2), {name: [Fit(e, 3.0, 2.0) for e in two] for name, two in errors.items()})
    rows = {row.label: row.values for row in against_others("it", [one], "ours", ["our other"])}
    assert rows["it: error of the best other / unlazy"] == pytest.approx([2.0])
    assert not any(name in label for label in rows for name in ("our other", BAYES))
    table = errors_table([one], "ours", left_out=["our other"])
    assert "0.50 (x/ 1.00) ours / near" in table
    assert table.splitlines()[1].split()[-6:-4] == ["failed", BAYES]
    assert "3.00 / 2.00" in times_table([one])
    assert errors_table([], "ours") == times_table([]) == ": none"

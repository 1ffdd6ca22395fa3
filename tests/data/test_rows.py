import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.data.rows import draw_rows, row_sets


def test_targets_of_images_are_their_parity_or_one_column_for_each_class():
    parity, classes = (
        draw_rows(np.random.default_rng(0), "mnist", 50, 20, shrink=4, task=t) for t in ("parity", "classes")
    )
    np.testing.assert_array_equal(parity.inputs, classes.inputs)
    np.testing.assert_array_equal(parity.targets[:, 0], 2 * (classes.targets.argmax(axis=1) % 2) - 1)
    np.testing.assert_allclose(classes.targets.sum(axis=1), 0, atol=1e-12)
    assert parity.inputs.shape == (50, 7, 7, 1)
    assert parity.fresh_targets.shape == (20, 1)


def test_rows_of_a_table_are_distinct_and_its_own():
    found = draw_rows(np.random.default_rng(1), "diabetes", 300, 100)
    rows = np.concatenate([found.inputs, found.fresh_inputs])
    assert len(np.unique(rows, axis=0)) == 400
    assert found.targets.shape == (300, 1)


def test_more_rows_than_there_are_and_unknown_sets_are_refused():
    with pytest.raises(InputError, match="n and fresh must be at most"):
        draw_rows(np.random.default_rng(0), "diabetes", 400, 100)
    with pytest.raises(InputError, match="dataset must be one of mnist"):
        draw_rows(np.random.default_rng(0), "mnits", 4, 1)
    assert {"mnist", "cifar10", "diabetes"} <= set(row_sets())

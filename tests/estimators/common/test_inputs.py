"""What every estimator says of a table that is not yet numbers."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import unlazy.estimators as estimators
from unlazy.checks import InputError

REGRESSORS = (
    estimators.SingleIndexRegressor,
    estimators.AdditiveIndexRegressor,
    estimators.MultiIndexRegressor,
    estimators.OneStepRegressor,
    estimators.OneStepFeatures,
    estimators.SharedMetricRegressor,
    estimators.NoiseRegularizedRidge,
    estimators.MeanFieldRegressor,
)
CLASSIFIERS = (estimators.LogisticRegressionLOO, estimators.MeanFieldClassifier)
OTHERS = (estimators.DiffusionDensity,)


def table(n=40):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.standard_normal(n), "age": rng.standard_normal(n)})
    frame["colour"] = rng.choice(["red", "green"], n)
    frame["kind"] = pd.Categorical(rng.choice(["a", "b"], n))
    labels = frame["size"] + (frame["colour"] == "red")
    return frame, labels.to_numpy()


def arguments(kind, frame, labels):
    if kind in OTHERS:
        return (frame,)
    return frame, (labels > labels.mean()).astype(int) if kind in CLASSIFIERS else labels


@pytest.mark.parametrize("kind", REGRESSORS + CLASSIFIERS + OTHERS)
def test_columns_with_texts_are_named_with_the_transformer_that_helps(kind):
    frame, labels = table()
    with pytest.raises(InputError) as refused:
        kind().fit(*arguments(kind, frame, labels))
    message = str(refused.value)
    assert "\n" not in message
    assert re.match(r"X must be numeric, got the text '(red|green)' in column 'colour', 'kind': ", message)
    assert "make_column_transformer((OneHotEncoder(), ['colour', 'kind']), remainder='passthrough')" in message


@pytest.mark.parametrize("kind", REGRESSORS + CLASSIFIERS + OTHERS)
def test_columns_with_gaps_are_named_with_the_transformer_that_helps(kind):
    frame, labels = table()
    frame = frame[["size", "age"]]
    for gap in (np.nan, None, pd.NA):
        holed = frame.astype({"age": object})
        holed.loc[3, "age"] = gap
        with pytest.raises(InputError, match=r"^X must not have gaps, got NaN in column 'age': .*SimpleImputer"):
            kind().fit(*arguments(kind, holed, labels))
    rows = frame.to_numpy().copy()
    rows[5, 1] = np.nan
    with pytest.raises(InputError, match=r"^X must not have gaps, got NaN in column 1: .*SimpleImputer"):
        kind().fit(*arguments(kind, rows, labels))


def test_the_announced_transformers_help():
    frame, labels = table(80)
    frame.loc[3, "age"] = np.nan
    encode = make_column_transformer((OneHotEncoder(), ["colour", "kind"]), remainder="passthrough")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = make_pipeline(encode, SimpleImputer(), estimators.SingleIndexRegressor(random_state=0))
        assert model.fit(frame, labels).score(frame, labels) > 0.9


def test_gaps_in_new_rows_and_texts_in_labels_are_named():
    frame, labels = table()
    rows = frame[["size", "age"]]
    with pytest.raises(InputError, match=r"^y must be numeric, got the text 'high'"):
        estimators.OneStepRegressor().fit(rows, np.where(labels > 0, "high", "low"))
    model = estimators.NoiseRegularizedRidge(width=20, random_state=0).fit(rows, labels)
    new = rows.copy()
    new.loc[0, "size"] = np.nan
    with pytest.raises(InputError, match=r"^X must not have gaps, got NaN in column 'size'"):
        model.predict(new)


def test_columns_of_tasks_are_named():
    rng = np.random.default_rng(1)
    tasks = [(rng.standard_normal((8, 3)), rng.standard_normal(8)) for _ in range(4)]
    tasks[2][0][1, 2] = np.nan
    with pytest.raises(InputError, match=r"^X of task 2 must not have gaps, got NaN in column 2"):
        estimators.MetaMetricRegressor().fit(tasks)

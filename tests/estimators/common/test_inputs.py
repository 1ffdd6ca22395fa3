"""Tables as they are: what every estimator makes of text, dates and gaps, and what it says of arrays that have some."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import unlazy.estimators as estimators
from unlazy.checks import InputError
from unlazy.data.table_encoder import TableEncoder

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
CLASSIFIERS = (estimators.LogisticRegressionLOO, estimators.MeanFieldClassifier, estimators.OneStepClassifier)
OTHERS = (estimators.DiffusionDensity,)


QUICK = {
    "MeanFieldRegressor": {"certificate": False, "steps": 100, "particles": 16, "amplitude": 3.0, "prior_scale": 0.3},
    "MeanFieldClassifier": {"certificate": False, "steps": 100, "particles": 16, "amplitude": 3.0, "prior_scale": 0.3},
    "AdditiveIndexRegressor": {"cv": 2},
    "MultiIndexRegressor": {"cv": 2},
    "OneStepRegressor": {"width": 30},
    "OneStepFeatures": {"width": 30},
    "OneStepClassifier": {"width": 30},
    "NoiseRegularizedRidge": {"width": 30},
}


def made(kind):
    model = kind(**QUICK.get(kind.__name__, {}))
    if kind.__name__.startswith("MeanField"):
        model.set_params(temperature=0.01)
    return model.set_params(random_state=0) if "random_state" in model.get_params() else model


def table(n=60):
    """Numbers with a gap, text with a gap, a category, a switch, dates, an empty and a constant column."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.standard_normal(n), "age": rng.standard_normal(n)})
    frame["colour"] = rng.choice(["red", "green"], n)
    frame["kind"] = pd.Categorical(rng.choice(["a", "b", "c"], n))
    frame["member"] = rng.random(n) < 0.5
    frame["since"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, n), "D")
    frame["empty"], frame["one"] = np.nan, "same"
    labels = frame["size"] + (frame["colour"] == "red") + 0.1 * rng.standard_normal(n)
    frame.loc[3, "age"] = np.nan
    frame.loc[5, "colour"] = None
    return frame, labels.to_numpy()


def labels_of(kind, labels):
    return np.where(labels > labels.mean(), "high", "low") if kind in CLASSIFIERS else labels


def answers(model, frame):
    if hasattr(model, "predict_proba"):
        return model.predict_proba(frame)
    return model.predict(frame) if hasattr(model, "predict") else model.transform(frame)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", REGRESSORS + CLASSIFIERS)
def test_a_table_with_text_dates_and_gaps_is_learned_as_its_encoded_columns_are(kind):
    frame, labels = table()
    model = made(kind).fit(frame, labels_of(kind, labels))
    encoder = TableEncoder().fit(frame)
    same = made(kind).fit(encoder.transform(frame), labels_of(kind, labels))
    np.testing.assert_array_equal(answers(model, frame), answers(same, encoder.transform(frame)))
    assert model.encoder_.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
    assert same.encoder_ is None
    assert model.n_features_in_ == frame.shape[1]
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    new = pd.DataFrame({"colour": ["blue", None], "size": [np.nan, 0.3]}, index=[7, 8])
    new = new.reindex(columns=[*reversed(frame.columns), "more"])
    assert np.isfinite(answers(model, new)).all()
    np.testing.assert_array_equal(answers(pickle.loads(pickle.dumps(model)), new), answers(model, new))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", REGRESSORS + CLASSIFIERS)
def test_a_table_of_numbers_is_taken_as_it_is_and_gaps_in_new_rows_are_medians(kind):
    frame, labels = table()
    rows = frame[["size", "member"]].assign(other=np.arange(len(frame)) % 7)
    target = labels_of(kind, labels)
    model, same = made(kind).fit(rows, target), made(kind).fit(rows.to_numpy(np.float64), target)
    assert model.encoder_ is None
    np.testing.assert_array_equal(answers(model, rows), answers(same, rows.to_numpy(np.float64)))
    holed = rows.astype({"other": object}).iloc[:3].copy()
    holed.iloc[0, 2] = None
    filled = holed.copy()
    filled.iloc[0, 2] = np.median(rows["other"])
    np.testing.assert_array_equal(answers(model, holed), answers(model, filled))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_table_goes_through_cross_validation_and_pipelines():
    frame, labels = table(90)
    model = estimators.SingleIndexRegressor(random_state=0)
    assert cross_val_score(model, frame, labels, cv=2).min() > 0.8
    inside = make_pipeline(TableEncoder().set_output(transform="pandas"), clone(model)).fit(frame, labels)
    np.testing.assert_allclose(inside.predict(frame), clone(model).fit(frame, labels).predict(frame))
    assert "colour = red" in inside[-1].feature_names_in_


@pytest.mark.filterwarnings("ignore:y has one target")
def test_features_of_a_table_are_named_after_its_encoded_columns():
    frame, labels = table(120)
    model = estimators.SharedMetricRegressor(cv=2, basis="features", steps=(3,), start_exponent=-1.0)
    model.set_params(groups=np.arange(frame.shape[1])).fit(frame, labels)
    assert set(model.get_feature_names_out()) <= set(model.encoder_.get_feature_names_out())
    # a label for a column of the table is one weight for all that it is encoded in
    for column in np.unique(model.encoder_.sources_):
        own = model.metric_[model.encoder_.sources_ == column]
        np.testing.assert_allclose(own, own[0], rtol=1e-5)
    features = estimators.OneStepFeatures(width=5, spike_deviation=1.0, random_state=0).set_output(transform="pandas")
    assert features.fit_transform(frame, labels).shape == (120, 5 + len(features.encoder_.sources_))


@pytest.mark.parametrize("kind", [estimators.MetaMetricRegressor, estimators.InContextRegressor])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tasks_that_are_tables_share_one_encoding(kind):
    frame, labels = table(240)
    parts = [slice(30 * i, 30 * (i + 1)) for i in range(8)]
    tasks = [(frame[part], labels[part]) for part in parts]

    def predictions(tasks, new):
        model = kind()
        if hasattr(model, "pretrain"):
            return model.pretrain(tasks[:-1]).fit(*tasks[-1]).predict(new)
        return model.fit(tasks[:-1]).adapt(*tasks[-1]).predict(new)

    # the encoder of the pretraining tasks
    encoder = TableEncoder().fit(frame[:210])
    encoded = [(encoder.transform(X), y) for X, y in tasks]
    np.testing.assert_array_equal(predictions(tasks, frame), predictions(encoded, encoder.transform(frame)))


@pytest.mark.parametrize("kind", REGRESSORS + CLASSIFIERS + OTHERS)
def test_arrays_with_texts_or_gaps_are_refused_and_the_columns_named(kind):
    frame, labels = table()
    arguments = () if kind in OTHERS else (labels_of(kind, labels),)
    texts = frame[["size", "colour", "kind"]].to_numpy()
    with pytest.raises(
        InputError, match=r"^X must be numeric, got the text '.*' in column 1, 2: .*TableEncoder\(\)"
    ) as told:
        kind().fit(texts, *arguments)
    assert "\n" not in str(told.value)
    rows = frame[["size", "age"]].to_numpy().copy()
    with pytest.raises(InputError, match=r"^X must not have gaps, got NaN in column 1: .*TableEncoder\(\)"):
        kind().fit(rows, *arguments)


def test_a_density_has_no_meaning_for_text_and_gaps():
    frame, _ = table()
    for part in (frame[["colour"]], frame[["age"]]):
        with pytest.raises(InputError, match="in column"):
            estimators.DiffusionDensity().fit(part)


def test_texts_in_labels_and_gaps_in_new_rows_of_an_array_are_named():
    frame, labels = table()
    rows = frame[["size"]].to_numpy()
    with pytest.raises(InputError, match=r"^y must be numeric, got the text 'high'"):
        estimators.OneStepRegressor().fit(frame, np.where(labels > 0, "high", "low"))
    model = estimators.NoiseRegularizedRidge(width=20, random_state=0).fit(rows, labels)
    with pytest.raises(InputError, match=r"^X must not have gaps, got NaN in column 0"):
        model.predict(np.array([[np.nan]]))


def test_columns_of_tasks_are_named():
    rng = np.random.default_rng(1)
    tasks = [(rng.standard_normal((8, 3)), rng.standard_normal(8)) for _ in range(4)]
    tasks[2][0][1, 2] = np.nan
    with pytest.raises(InputError, match=r"^X of task 2 must not have gaps, got NaN in column 2"):
        estimators.MetaMetricRegressor().fit(tasks)

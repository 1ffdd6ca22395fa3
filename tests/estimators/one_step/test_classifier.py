"""Classes from features of few directions: probabilities, and logistic regression where these bring nothing."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from unlazy.checks import InputError
from unlazy.estimators import OneStepClassifier
from unlazy.estimators.one_step import search


@parametrize_with_checks([OneStepClassifier(width=20, spike_deviations=(1.0,), max_directions=1, refinements=1, cv=2)])
def test_classifier_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


LOGITS = {
    "linear": lambda first, second: 2 * first,
    "band": lambda first, second: 4 * (np.abs(first) - 0.7),
    "xor": lambda first, second: 4 * first * second,
}


def draw(kind, n, seed, d=10):
    """Rows, classes and the true probabilities of the second class."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    first, second = np.linalg.qr(np.random.default_rng(99).standard_normal((d, 2)))[0].T
    chances = 1 / (1 + np.exp(-LOGITS[kind](X @ first, X @ second)))
    return X, np.where(rng.random(n) < chances, "yes", "no"), chances


@pytest.mark.parametrize("kind", ["band", "xor"])
def test_what_no_threshold_along_a_direction_can_tell_is_learned_and_its_probabilities_are_right(kind):
    X, y, _ = draw(kind, 1000, 1)
    new, truth, chances = draw(kind, 20_000, 2)
    model = OneStepClassifier(random_state=0).fit(X, y)
    found = model.predict_proba(new)
    assert model.model_ == "one step"
    bayes = -np.mean(chances * np.log(chances) + (1 - chances) * np.log(1 - chances))
    logistic = log_loss(truth, LogisticRegression().fit(X, y).predict_proba(new))
    # at least 60% of what can be gained over logistic regression, which is blind to both
    assert log_loss(truth, found) < logistic - 0.6 * (logistic - bayes)
    # among rows to which a share p is told about p are of the class: standard errors are below .014 in each tenth
    edges = np.quantile(found[:, 1], np.linspace(0, 1, 11))
    place = np.clip(np.searchsorted(edges, found[:, 1]) - 1, 0, 9)
    for tenth in range(10):
        told, true = found[place == tenth, 1].mean(), chances[place == tenth].mean()
        assert abs(told - true) < 0.1, (tenth, told, true)
    assert model.predict(new).tolist() == model.classes_[found.argmax(axis=1)].tolist()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    # the expected held-out loss is that of new rows, up to what one draw of 1000 rows says
    assert model.cv_log_loss_["one step"] == pytest.approx(log_loss(truth, found), abs=0.06)


def test_logistic_regression_is_kept_where_it_is_right():
    X, y, _ = draw("linear", 500, 3)
    model = OneStepClassifier(random_state=0).fit(X, y)
    assert model.model_ == "logistic"
    assert model.scores_ == ()
    scaled = (X - model.mean_) / model.scale_
    same = LogisticRegression(C=model.C_).fit(scaled, y)
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(scaled), atol=1e-3)


def test_three_classes_on_a_ring_are_told_apart():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((1500, 6))
    radius = np.linalg.norm(X[:, :2], axis=1)
    y = np.digitize(radius, [0.8, 1.5])
    model = OneStepClassifier(width=100, random_state=0).fit(X[:700], y[:700])
    assert model.model_ == "one step"
    assert len(model.scores_) == 3
    assert (
        model.score(X[700:], y[700:]) > 0.75 > 0.6 > LogisticRegression().fit(X[:700], y[:700]).score(X[700:], y[700:])
    )


def test_many_rows_are_searched_in_part_and_all_fitted(monkeypatch):
    X, y, _ = draw("band", 3000, 7)
    new, truth, _ = draw("band", 4000, 8)
    whole = OneStepClassifier(width=50, random_state=0).fit(X, y)
    for module in ("predictor", "classifier", "base"):
        monkeypatch.setattr(f"unlazy.estimators.one_step.{module}.SEARCH_ROWS", 800)
    part = OneStepClassifier(width=50, random_state=0).fit(X, y)
    losses = [log_loss(truth, model.predict_proba(new)) for model in (whole, part)]
    assert losses[1] < 1.03 * losses[0]
    assert search.SEARCH_ROWS > 3000


def test_wrong_classes_are_named():
    X, y, _ = draw("linear", 40, 9)
    with pytest.raises(InputError, match="y must hold at least 2 classes, got 1 class"):
        OneStepClassifier().fit(X, np.zeros(40))
    with pytest.raises(InputError, match=r"cv must be >= 2 and leave at least two rows in each fold, got cv=30"):
        OneStepClassifier(cv=30).fit(X, y)

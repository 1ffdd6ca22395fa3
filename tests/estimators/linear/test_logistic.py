import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from unlazy.checks import InputError
from unlazy.estimators import LogisticRegressionLOO

EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "a row of weight 2 is left out whole, two equal rows one by one"
}


@parametrize_with_checks([LogisticRegressionLOO(Cs=3)], expected_failed_checks=lambda estimator: EXPECTED)
def test_estimator_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("columns", [13, 200])
def test_fit_is_that_of_logistic_regression_at_the_chosen_strength(classes, columns):
    X, y = load_wine(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[y < classes], y[y < classes]
    X = X if columns == 13 else np.tanh(X @ np.random.default_rng(0).normal(size=(13, columns)))
    model = LogisticRegressionLOO(Cs=[0.01, 0.3, 10.0]).fit(X, y)
    plain = LogisticRegression(C=model.C_, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-4)
    assert model.coef_.shape == plain.coef_.shape
    assert model.score(X, y) == plain.score(X, y)


def test_chosen_strength_is_nearly_the_best_on_new_rows():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:200], order[200:]
    grid = np.logspace(-3, 3, 7)
    model = LogisticRegressionLOO(Cs=grid).fit(X[train], y[train])

    def loss(fit):
        return -np.mean(fit.predict_log_proba(X[test])[np.arange(len(test)), y[test]])

    losses = [loss(LogisticRegression(C=C, max_iter=5000).fit(X[train], y[train])) for C in grid]
    assert loss(model) < 1.05 * min(losses)
    # what it promises is what new rows show, for the strong penalties too
    np.testing.assert_allclose(model.loo_log_loss_path_[:4], losses[:4], rtol=0.15)


def test_refits_give_exact_leave_one_out_losses():
    X, y = load_wine(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[::4], y[::4]
    model = LogisticRegressionLOO(Cs=[100.0], refits=len(X)).fit(X, y)
    losses = []
    for row in range(len(X)):
        kept = np.arange(len(X)) != row
        fit = LogisticRegression(C=100.0, tol=1e-9, max_iter=10_000).fit(X[kept], y[kept])
        losses.append(-fit.predict_log_proba(X[[row]])[0, y[row]])
    assert model.loo_log_loss_ == pytest.approx(np.mean(losses), rel=1e-3)


@pytest.mark.parametrize(
    ("options", "labels", "message"),
    [
        ({"Cs": 0}, None, "Cs must be an integer >= 1"),
        ({"Cs": [1.0, -1.0]}, None, "Cs must be >= 1e-10"),
        ({"Cs": "many"}, None, "Cs must be numeric"),
        ({"refits": 0.5}, None, "refits must be an integer"),
        ({}, np.zeros(20, int), "two classes or more, got the one class 0"),
        ({}, np.arange(20) == 3, "two rows or more of every class, with a weight above 0, got 1 of True"),
    ],
)
def test_bad_settings_are_refused_in_one_line(options, labels, message):
    X = np.random.default_rng(0).normal(size=(20, 3))
    y = np.arange(20) % 2 if labels is None else labels
    with pytest.raises(InputError, match=message):
        LogisticRegressionLOO(**options).fit(X, y)

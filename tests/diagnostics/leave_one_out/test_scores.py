import warnings

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import (
    Lasso,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
    RidgeCV,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from unlazy.checks import InputError
from unlazy.diagnostics import loo_path, loo_scores

rng = np.random.default_rng(0)


def _iris(n=60):
    X, y = load_iris(return_X_y=True)
    kept = np.random.default_rng(1).permutation(len(X))[:n]
    return StandardScaler().fit_transform(X[kept]), y[kept]


def _binary(n=80, d=5):
    X = np.random.default_rng(2).normal(size=(n, d)) * np.arange(1, d + 1)
    labels = X[:, 0] - X[:, 1] + 2 * np.random.default_rng(3).normal(size=n) > 0
    return X, np.where(labels, "yes", "no")


def _refits(model, X, y, rows, weights=None):
    """Decision function (or prediction) of each row by scikit-learn's own fit without it."""
    found = []
    for row in rows:
        kept = np.arange(len(X)) != row
        fit = model.fit(X[kept], y[kept], **({} if weights is None else {"sample_weight": weights[kept]}))
        value = fit.decision_function if hasattr(fit, "decision_function") else fit.predict
        found.append(value(X[[row]])[0])
    return np.array(found)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("columns", [4, 40])
def test_ridge_scores_are_those_of_refits_exactly(intercept, columns):
    X = rng.normal(size=(25, columns)) + 1
    y = np.column_stack([X[:, 0] + rng.normal(size=25), rng.normal(size=25) + 3])
    weights = rng.uniform(0.5, 2, size=25)
    model = Ridge(alpha=[0.7, 3.0], fit_intercept=intercept, solver="cholesky")
    expected = _refits(model, X, y, range(25), weights)
    found = loo_scores(model.fit(X, y, sample_weight=weights), X, y, weights)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-9, atol=1e-9)
    assert found.is_exact
    np.testing.assert_allclose(found.loo_error, np.average(np.sum((y - expected) ** 2, axis=1), weights=weights))


def test_ridge_classifier_and_ridge_cv_are_exact():
    X, y = _iris()
    model = RidgeClassifier(alpha=2.0, class_weight={0: 1.0, 1: 3.0, 2: 0.5})
    expected = _refits(model, X, y, range(len(X)))
    found = loo_scores(model.fit(X, y), X, y)
    np.testing.assert_allclose(found.scores, expected, atol=1e-9)
    assert found.loo_error == np.mean(expected.argmax(axis=1) != y)
    target = X[:, 0] + rng.normal(size=len(X))
    chosen = RidgeCV(alphas=[0.1, 1, 10], store_cv_results=True).fit(X, target)
    errors = chosen.cv_results_.mean(axis=0)
    assert loo_scores(chosen, X, target).loo_error == pytest.approx(errors.min(), rel=1e-6)


@pytest.mark.parametrize("case", ["three classes", "no intercept", "balanced", "no penalty", "liblinear", "weighted"])
def test_logistic_scores_are_near_those_of_refits(case):
    X, y = _binary() if case in ("no penalty", "liblinear") else _iris()
    options = {
        "no intercept": {"fit_intercept": False},
        "balanced": {"class_weight": {0: 1.0, 1: 2.0, 2: 0.5}},
        "no penalty": {"C": np.inf},
        "liblinear": {"solver": "liblinear", "intercept_scaling": 3.0},
    }
    weights = np.random.default_rng(5).uniform(0.5, 2, size=len(X)) if case == "weighted" else None
    model = LogisticRegression(**{"tol": 1e-10, "max_iter": 10_000, **options.get(case, {})})
    rows = np.arange(0, len(X), 4)
    expected = _refits(model, X, y, rows, weights)
    model.fit(X, y, **({} if weights is None else {"sample_weight": weights}))
    found = loo_scores(model, X, y, weights)
    inner = model.decision_function(X)[rows]
    # leaving a row out moves its score by far more than the Newton step misses
    moved, missed = np.abs(inner - expected).mean(), np.abs(found.scores[rows] - expected).mean()
    assert missed < 0.08 * moved
    refitted = loo_scores(model, X, y, weights, refits=len(X))
    np.testing.assert_allclose(refitted.scores[rows], expected, atol=2e-4)
    assert found.distance_from_optimum < 1e-3


def test_more_columns_than_rows_are_as_good():
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 3][:40] / 16, y[y < 3][:40]
    model = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000)
    expected = _refits(model, X, y, range(0, 40, 4))
    found = loo_scores(model.fit(X, y), X, y)
    losses = -log_softmax(expected, axis=1)[np.arange(10), y[::4]]
    assert found.losses[::4].mean() == pytest.approx(losses.mean(), rel=0.05)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1)


def test_an_unconverged_fit_is_moved_to_its_optimum():
    X, y = _iris()
    good = loo_scores(LogisticRegression(C=10, tol=1e-10, max_iter=10_000).fit(X, y), X, y)
    rough = LogisticRegression(C=10, tol=1e-2).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = loo_scores(rough, X, y)
    assert found.distance_from_optimum > 1e-3
    np.testing.assert_allclose(found.scores, good.scores, atol=1e-2)
    with pytest.warns(UserWarning, match="not those of the fit"):
        loo_scores(LogisticRegression().fit(X, y), X[::-1], y)


def test_separable_data_with_little_penalty_are_refined_by_refits():
    X, y = _iris(50)
    kept = y != 2
    X, y = X[kept], y[kept]
    model = LogisticRegression(C=1e4, tol=1e-8, max_iter=100_000).fit(X, y)
    found = loo_scores(model, X, y, refits=len(X))
    assert np.isfinite(found.scores).all()
    assert found.leverage.max() < 1
    rows = np.argsort(-found.leverage)[:3]
    expected = _refits(LogisticRegression(C=1e4, tol=1e-9, max_iter=100_000), X, y, rows)
    np.testing.assert_allclose(found.scores[rows], expected, rtol=2e-3)


def test_path_and_single_fits_agree_and_print():
    X, y = _iris()
    Cs = [10.0, 0.1, 1.0]
    path = loo_path(X, y, Cs)
    for i, C in enumerate(Cs):
        single = loo_scores(LogisticRegression(C=C, tol=1e-9, max_iter=10_000).fit(X, y), X, y)
        # the Hessian may be that of a point 0.02 away, in scores
        assert path.loo_log_loss[i] == pytest.approx(single.loo_log_loss, rel=1e-3)
        assert path.loo_log_loss_deviation[i] == pytest.approx(single.losses.std(ddof=1) / len(X) ** 0.5, rel=1e-3)
        np.testing.assert_allclose(path.scores[i], single.scores, atol=1e-2)
    assert path.best_C == Cs[int(np.argmin(path.loo_log_loss))]
    assert "best" in str(path)
    assert "log loss" in str(single)


def test_pipeline_and_cv_models_are_their_last_step():
    X, y = _iris()
    raw = 3 * X + 5
    pipe = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-9, max_iter=1000)).fit(raw, y)
    plain = LogisticRegression(tol=1e-9, max_iter=1000).fit(StandardScaler().fit_transform(raw), y)
    expected = loo_scores(plain, StandardScaler().fit_transform(raw), y).scores
    np.testing.assert_allclose(loo_scores(pipe, raw, y).scores, expected, atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = LogisticRegressionCV(Cs=[0.5], l1_ratios=(0,), max_iter=1000, use_legacy_attributes=False).fit(X, y)
    single = LogisticRegression(C=0.5, tol=1e-9, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(loo_scores(chosen, X, y).scores, loo_scores(single, X, y).scores, atol=1e-3)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LogisticRegression(), "must be fitted, got a LogisticRegression that is not"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "must be fitted"),
        (SVC(), "must be a fitted LogisticRegression.*got SVC"),
        (Lasso(), "got Lasso"),
        ("model", "got str"),
        (Ridge(positive=True), "positive=True"),
        (LogisticRegression(l1_ratio=1.0, solver="saga"), "penalty l2 or none.*l1_ratio=1"),
        (LogisticRegression(l1_ratio=0.5, solver="saga"), "penalty l2 or none.*l1_ratio=0.5"),
        (LogisticRegression(C=np.inf, max_iter=20), "unique optimum"),
    ],
)
def test_unsupported_models_are_refused_in_one_line(model, message):
    X, y = _iris(40)
    y = (y > 0).astype(int)
    if "must be fitted" not in message and hasattr(model, "fit"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
    with pytest.raises(InputError, match=message) as error:
        loo_scores(model, X, y)
    assert "\n" not in str(error.value)


def test_wrong_rows_labels_and_weights_are_refused_in_one_line():
    X, y = _iris(40)
    model = LogisticRegression().fit(X, y)
    bad = [
        ((X[:, :2], y), {}, "4 columns that the model was fitted on, got 2"),
        ((X, y[:-1]), {}, "one label for each of the 40 rows"),
        ((X, y + 5), {}, r"labels that the model was fitted on \(0, 1, 2\), got"),
        ((X, np.zeros_like(y)), {}, "two rows or more of every class"),
        ((np.where(X > 1, np.nan, X), y), {}, "X must be finite"),
        ((X, y, np.ones(3)), {}, "sample_weight must have one number"),
        ((X, y, -np.ones(40)), {}, "sample_weight must be >= 0"),
        ((X, y), {"refits": -1}, "refits must be"),
    ]
    for arguments, options, message in bad:
        with pytest.raises(InputError, match=message):
            loo_scores(model, *arguments, **options)
    with pytest.raises(InputError, match="two classes or more, got the one class 1"):
        loo_path(X, np.ones(40, int), [1.0])
    with pytest.raises(InputError, match="Cs must be >= 1e-10"):
        loo_path(X, y, [0.0])
    assert loo_scores(Ridge().fit(X, y), X, y).loo_log_loss is None


def test_a_row_that_alone_decides_a_weight_is_named():
    X = np.zeros((6, 2))
    X[:, 0] = np.arange(6)
    X[3, 1] = 1.0
    y = np.arange(6.0) ** 2
    with pytest.raises(InputError, match="without row 3"):
        loo_scores(Ridge(alpha=0.0).fit(X, y), X, y)

"""AdditiveIndexRegressor: what it finds on fresh data, what it refuses, and its parts against other methods."""

import warnings

import numpy as np
import pytest

from unlazy.estimators import AdditiveIndexRegressor
from unlazy.estimators.index.additive.links import fit_terms
from unlazy.estimators.index.links import fit_kind
from unlazy.estimators.index.newton import refine
from unlazy.functions.elementwise import as_link
from unlazy.functions.orthogonal import Hermite

LINKS = ("He3", "abs", "tanh", "He2")
TEST_ROWS = 3000


def standardised_link(name):
    nodes, weights = Hermite().grid(1, (0.0,))
    values = as_link(name)(nodes)
    mean = weights @ values
    return lambda t: (as_link(name)(t) - mean) / np.sqrt(weights @ (values - mean) ** 2)


def draw(names, d, n, noise, seed):
    """Rows, labels, new rows, their targets and orthonormal directions; f = M^(-1/2) sum of links of variance 1."""
    rng = np.random.default_rng([20261117, seed, d, n])
    directions = np.linalg.qr(rng.standard_normal((d, len(names))))[0]
    x = rng.standard_normal((n + TEST_ROWS, d))
    target = sum(standardised_link(name)(t) for name, t in zip(names, (x @ directions).T, strict=True))
    target = target / np.sqrt(len(names))
    return x[:n], target[:n] + noise * rng.standard_normal(n), x[n:], target[n:], directions


def score(model, x, target):
    return 1 - np.mean((model.predict(x) - target) ** 2) / np.var(target)


@pytest.mark.parametrize(("names", "n"), [(LINKS[:2], 600), (LINKS[:3], 800)])
def test_directions_and_links_are_found(names, n):
    x, y, x_test, target, directions = draw(names, 30, n, 0.1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = AdditiveIndexRegressor(len(names), random_state=0).fit(x, y)
    assert model.certain_
    assert model.n_terms_ == len(names)
    overlaps = np.abs(model.directions_ @ directions)
    assert np.all(overlaps.max(axis=0) > 0.99)
    assert sorted(overlaps.argmax(axis=1)) == list(range(len(names)))
    assert score(model, x_test, target) > 0.95


def test_prediction_is_the_sum_of_centred_links():
    x, y, x_test, _, _ = draw(("abs", "tanh"), 12, 400, 0.1, 2)
    x, x_test, y = 5 + 3 * x, 5 + 3 * x_test, 100 * y - 7
    model = AdditiveIndexRegressor(2, random_state=0).fit(x, y)
    terms = np.column_stack([g(t) for g, t in zip(model.links_, (x @ model.directions_.T).T, strict=True)])
    np.testing.assert_allclose(terms.mean(axis=0), 0, atol=1e-6 * terms.std())
    np.testing.assert_allclose(model.intercept_ + terms.sum(axis=1), model.predict(x), rtol=1e-7, atol=1e-5)
    np.testing.assert_allclose(model.term_variances_, terms.var(axis=0), rtol=1e-6)
    assert model.term_variances_[0] >= model.term_variances_[1]
    np.testing.assert_allclose(np.linalg.norm(model.directions_, axis=1), 1)
    index, step = x_test @ model.directions_[0], 1e-4
    numeric = (model.links_[0](index + step) - model.links_[0](index - step)) / (2 * step)
    np.testing.assert_allclose(model.links_[0].slope(index), numeric, atol=1e-3 * np.abs(numeric).max())


def test_automatic_number_of_terms_is_enough_for_the_data():
    for names in (("tanh",), ("He2", "tanh")):
        x, y, x_test, target, _ = draw(names, 6, 200, 0.2, 3)
        model = AdditiveIndexRegressor("auto", cv=2, random_state=0).fit(x, y)
        assert model.n_terms_ >= len(names)
        assert score(model, x_test, target) > 0.95


def test_units_constant_and_collinear_columns_change_nothing(in_odd_units):
    x, y, x_test, target, _ = draw(("abs", "tanh"), 12, 400, 0.1, 4)
    model = AdditiveIndexRegressor(2, random_state=0).fit(in_odd_units(x), 1e40 * y)
    assert np.all(model.directions_[:, 12] == 0)
    assert 1 - np.mean((model.predict(in_odd_units(x_test)) / 1e40 - target) ** 2) / np.var(target) > 0.97


def test_rare_labels_without_relation_to_the_rows_are_not_certain():
    """Few ones among zeros are separated by few directions: that fits them, and predicts nothing."""
    rng = np.random.default_rng(17)
    x, y = rng.standard_normal((300, 30)), np.zeros(300)
    y[:7] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = AdditiveIndexRegressor(2, cv=2, random_state=0).fit(x, y)
    assert not model.certain_
    prediction = model.predict(rng.standard_normal((2000, 30)))
    assert np.mean((prediction - y.mean()) ** 2) < 0.05 * y.var()


def test_weak_signal_falls_back_to_what_held_out_rows_support():
    from sklearn.linear_model import RidgeCV

    x, y, x_test, target, _ = draw(("tanh", "tanh"), 15, 150, 1.0, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = AdditiveIndexRegressor(2, cv=3, random_state=0).fit(x, y)
    ridge = score(RidgeCV(np.logspace(-2, 4, 25)).fit(x, y), x_test, target)
    assert score(model, x_test, target) > ridge - 0.1
    assert 0 < model.shrinkage_ < 1
    assert model.stage_ in model.stage_scores_


def test_too_few_rows_for_the_terms_are_warned_of_with_the_rule():
    x, y, _, _, _ = draw(("abs", "tanh"), 10, 100, 0.1, 10)
    with pytest.warns(UserWarning, match=r"n = 100 is below the rule n >= 10 n_terms d = 200"):
        AdditiveIndexRegressor(2, random_state=0).fit(x, y)


def test_figure_shows_every_link():
    x, y, _, _, _ = draw(("He2", "tanh"), 8, 300, 0.1, 11)
    model = AdditiveIndexRegressor(2, random_state=0).fit(x, y)
    axes = model.plot()
    assert len(axes) == 2
    for m, one in enumerate(axes):
        points, line = one.get_lines()
        np.testing.assert_allclose(line.get_ydata(), model.links_[m](line.get_xdata()))
        others = model.predict(x) - model.links_[m](x @ model.directions_[m])
        np.testing.assert_allclose(points.get_ydata(), y - others, atol=1e-8)


@pytest.mark.parametrize("wanted", [("p2", "p3"), ("s8", "p3"), ("s8", "s16")])
def test_terms_solve_the_penalised_least_squares_problem(wanted):
    """Backfitting to convergence at the same penalties has the same fixed point."""
    rng = np.random.default_rng(12)
    t = rng.standard_normal((400, 2)) @ np.array([[1.0, 0.4], [0.0, 1.0]])
    y = np.abs(t[:, 0]) + np.tanh(t[:, 1]) + 0.2 * rng.standard_normal(400)
    fit = fit_terms(t, y, wanted, np.zeros((400, 2)), 200)
    terms = np.zeros((400, 2))
    for _ in range(200):
        for m, kind in enumerate(wanted):
            values = fit_kind(t[:, m], y - terms.sum(axis=1) + terms[:, m], kind).values
            terms[:, m] = values - values.mean()
    np.testing.assert_allclose(fit.function.terms(t), terms, atol=2e-3)
    np.testing.assert_allclose(fit.function(t) + y.mean(), fit.values, atol=1e-8)
    smoother = fit.basis @ fit.inverse @ fit.basis.T
    np.testing.assert_allclose(smoother @ y + y.mean(), fit.values, atol=1e-5)
    assert np.trace(smoother) == pytest.approx(fit.freedom)


def test_joint_refinement_ends_where_the_error_is_stationary():
    x, y, _, _, directions = draw(("He2", "He3"), 8, 300, 0.3, 13)
    rng = np.random.default_rng(14)

    def fit(t, labels):
        return fit_terms(t, labels, ("p2", "p3"), np.zeros(t.shape), 1)

    found = refine(x, y, directions + 0.1 * rng.standard_normal((8, 2)), fit, 60, settled=1e-9)

    def error(w):
        return fit(x @ (w / np.linalg.norm(w, axis=0)), y).error

    for _ in range(5):
        change = 1e-4 * rng.standard_normal((8, 2))
        difference = error(found.directions + change) - error(found.directions - change)
        assert abs(difference) < 1e-6 * np.linalg.norm(change)
        assert error(found.directions + 300 * change) > error(found.directions)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:n = .* is below the rule")
@pytest.mark.parametrize(("count", "n", "runs"), [(2, 500, 10), (4, 1000, 5)])
def test_acceptance_where_the_greedy_fit_failed(count, n, runs):
    """The cases M = 2, n = 10 d and M = 4, n = 20 d at d = 50, on seeds not used while the estimator was made."""
    scores = []
    for seed in range(7000, 7000 + runs):
        x, y, x_test, target, _ = draw(LINKS[:count], 50, n, 0.1, seed)
        scores.append(score(AdditiveIndexRegressor(count, random_state=seed).fit(x, y), x_test, target))
    assert np.mean(np.array(scores) > 0.95) >= 0.9

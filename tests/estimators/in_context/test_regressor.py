import pickle
import warnings
from math import factorial

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermeval
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from unlazy.checks import InputError
from unlazy.estimators import InContextRegressor
from unlazy.estimators.in_context.tasks import cut

NOISE = 0.1
D = 20


def low_rank_root(rng, rank=3):
    return np.linalg.qr(rng.standard_normal((D, rank)))[0] * np.sqrt(1 / rank)


def draw(rng, root, tasks, rows, mean=0.0, intercept=0.0, noise=NOISE):
    """Tasks (X, y, b, a): x ~ N(0, I), b = mean + root g, intercept a of the given mean and deviation 1 if not zero."""
    drawn = []
    for t in range(tasks):
        b = mean + root @ rng.standard_normal(root.shape[1])
        a = intercept + rng.standard_normal() if intercept else 0.0
        X = rng.standard_normal((rows if isinstance(rows, int) else rows[t % len(rows)], len(root)))
        drawn.append((X, X @ b + a + np.sqrt(noise) * rng.standard_normal(len(X)), b, a))
    return drawn


def pairs_of(drawn):
    return [task[:2] for task in drawn]


def excess(model, drawn):
    """E (prediction - x.b - a)^2 for x ~ N(0, I), mean over the tasks."""
    total = []
    for X, y, b, a in drawn:
        model.fit(X, y)
        total.append(np.sum((model.coef_ - b) ** 2) + (model.intercept_ - a) ** 2)
    return np.mean(total)


def bayes(X, y, root):
    prior = root @ root.T
    return prior @ X.T @ np.linalg.solve(X @ prior @ X.T + NOISE * np.eye(len(X)), y)


def bayes_excess(drawn, root, mean=0.0):
    prior = root @ root.T
    total = []
    for X, y, b, _ in drawn:
        residual = y - X @ (mean + np.zeros(len(b)))
        found = mean + prior @ X.T @ np.linalg.solve(X @ prior @ X.T + NOISE * np.eye(len(X)), residual)
        total.append(np.sum((found - b) ** 2))
    return np.mean(total)


@pytest.fixture(scope="module")
def pretrained():
    rng = np.random.default_rng(0)
    root = low_rank_root(rng)
    tasks = pairs_of(draw(rng, root, 150, (8, 10, 15)))
    return InContextRegressor(max_steps=60).pretrain(tasks), tasks, root


def nonlinear_tasks(rng, d, tasks, rows):
    """He_2 and He_3 of one direction of the first two coordinates, which differs from task to task."""
    drawn = []
    for _ in range(tasks):
        beta, c = rng.standard_normal(2), rng.standard_normal(2)
        beta, c = beta / np.linalg.norm(beta), c / np.linalg.norm(c)
        X = rng.standard_normal((rows, d))
        s = X[:, :2] @ beta
        y = sum(c[j - 2] * hermeval(s, [0] * j + [1]) / np.sqrt(factorial(j)) for j in (2, 3))
        drawn.append((X, y + 0.1 * rng.standard_normal(rows)))
    return drawn


def test_low_rank_tasks_are_learned_nearly_as_well_as_with_their_true_prior(pretrained):
    model, _, root = pretrained
    new = draw(np.random.default_rng(1), root, 200, 8)
    found = excess(model, new)
    best = bayes_excess(new, root)
    alone = excess(RidgeCV(np.logspace(-3, 3, 25)), new)
    assert best < found < 1.6 * best
    assert found < alone / 3
    projector = model.subspace_ @ model.subspace_.T
    assert model.subspace_.shape == (D, 3)
    assert np.sum((projector @ np.linalg.qr(root)[0]) ** 2) > 0.97 * 3
    np.testing.assert_allclose(model.noise_variance_, NOISE, rtol=0.2)
    np.testing.assert_allclose(np.trace(model.task_covariance_), 1.0, rtol=0.2)
    np.testing.assert_allclose(model.effective_rank_, 3.0, atol=0.6)


def test_predicted_deviations_are_those_of_the_errors(pretrained):
    model, _, root = pretrained
    rng = np.random.default_rng(2)
    squares = []
    for X, y, b, _ in draw(rng, root, 300, 8):
        places = rng.standard_normal((5, D))
        labels = places @ b + np.sqrt(NOISE) * rng.standard_normal(5)
        found, deviation = model.fit(X, y).predict(places, return_std=True)
        squares.append(np.mean(((labels - found) / deviation) ** 2))
    np.testing.assert_allclose(np.mean(squares), 1.0, atol=4 * np.std(squares) / np.sqrt(300) + 0.1)
    # a deviation that left out the noise or the prior would fail the line above
    assert np.mean(squares) > 0.8


def test_isotropic_tasks_are_as_good_as_the_bayes_predictor():
    rng = np.random.default_rng(3)
    root = np.eye(D) / np.sqrt(D)
    model = InContextRegressor().pretrain(pairs_of(draw(rng, root, 200, 10)))
    new = draw(rng, root, 200, 10)
    assert excess(model, new) < 1.03 * bayes_excess(new, root)


def test_mean_and_intercept_of_the_tasks_are_learned():
    rng = np.random.default_rng(4)
    root, mean = 0.3 * low_rank_root(rng), np.linspace(-1, 1, D)
    tasks = pairs_of(draw(rng, root, 100, (3, 6), mean=mean, intercept=5.0))
    model = InContextRegressor().pretrain(tasks)
    np.testing.assert_allclose(model.task_mean_, mean, atol=0.15)
    np.testing.assert_allclose(model.task_intercept_, 5.0, atol=0.4)
    new = draw(rng, root, 200, 3, mean=mean, intercept=5.0)
    without = InContextRegressor(task_mean="zero").pretrain(tasks)
    assert excess(model, new) < 0.5 * excess(without, new)
    assert without.task_mean_.tolist() == [0.0] * D


def test_nonlinear_tasks_are_learned_in_their_common_plane():
    rng = np.random.default_rng(5)
    tasks, new = nonlinear_tasks(rng, 10, 120, 40), nonlinear_tasks(rng, 10, 60, 140)
    model = InContextRegressor("auto").pretrain(tasks)
    assert model.mode_ == "subspace_kernel"
    assert model.subspace_.shape == (10, 2)
    assert np.sum(model.subspace_[:2] ** 2) > 0.97 * 2
    errors = [np.mean((model.fit(X[:40], y[:40]).predict(X[40:]) - y[40:]) ** 2) / np.var(y) for X, y in new]
    assert np.median(errors) < 0.1
    assert model.cv_errors_["empirical_bayes"] > 0.8 * np.mean([np.var(y) for _, y in tasks])


def test_linear_attention_beats_ridge_on_the_context_but_not_empirical_bayes(pretrained):
    eb, tasks, root = pretrained
    model = InContextRegressor("linear_attention").pretrain(tasks)
    new = draw(np.random.default_rng(6), root, 200, 10)
    found = excess(model, new)
    assert excess(eb, new) < found < excess(RidgeCV(np.logspace(-3, 3, 25)), new)
    assert model.task_covariance_ is None
    assert model.noise_variance_ is None
    with pytest.raises(InputError, match="return_std must be False"):
        model.predict(new[0][0], return_std=True)


def test_attention_for_a_stated_context_length_is_better_there():
    rng = np.random.default_rng(13)
    root = low_rank_root(rng)
    tasks, new = pairs_of(draw(rng, root, 80, 60)), draw(rng, root, 1000, 3)
    told, untold = (InContextRegressor("linear_attention", context=c).pretrain(tasks) for c in (3, None))
    assert told._state.learned.context <= 3 < 59 == untold._state.learned.context
    gains = [excess(untold, [task]) - excess(told, [task]) for task in new]
    assert np.mean(gains) > 4 * np.std(gains) / np.sqrt(len(gains))


def test_tasks_are_cut_into_pieces_that_keep_every_row():
    pair = np.arange(20.0).reshape(10, 2), np.arange(10.0)
    assert [len(y) for _, y in cut(pair, 4)] == [5, 5]
    assert [len(y) for _, y in cut(pair, 2)] == [3, 3, 2, 2]
    assert [len(y) for _, y in cut(pair, 9)] == [10]
    np.testing.assert_array_equal(np.concatenate([y for _, y in cut(pair, 2)]), pair[1])
    assert cut(pair, None)[0] is pair


def test_levels_that_differ_far_more_than_slopes_do_not_hurt():
    rng = np.random.default_rng(14)
    root = low_rank_root(rng)
    plain, new = draw(rng, root, 60, 10), draw(rng, root, 100, 8)
    shifts = 1e3 * rng.standard_normal(160)
    tasks = [(X, y + a) for (X, y, _, _), a in zip(plain, shifts[:60], strict=True)]
    moved = [(X, y + a, b, a) for (X, y, b, _), a in zip(new, shifts[60:], strict=True)]
    flat = InContextRegressor().pretrain(pairs_of(plain))
    steep = InContextRegressor().pretrain(tasks)
    # with nothing known of the intercept the best is to centre the rows and use the true prior
    centred = [(X - X.mean(axis=0), y - y.mean(), b, X.mean(axis=0)) for X, y, b, _ in moved]
    best = np.mean(
        [np.sum((bayes(X, y, root) - b) ** 2) + (x @ (bayes(X, y, root) - b)) ** 2 for X, y, b, x in centred]
    )
    best += NOISE / 8
    assert excess(steep, moved) / best < 1.25 * excess(flat, new) / bayes_excess(new, root)
    assert excess(steep, moved) < 0.5 * excess(RidgeCV(np.logspace(-3, 3, 25)), moved)


def test_attention_weights_are_ridge_on_left_out_prompts():
    rng = np.random.default_rng(7)
    tasks = pairs_of(draw(rng, low_rank_root(rng)[:3, :2], 40, (3, 5)))
    model = InContextRegressor("linear_attention", task_mean="zero").pretrain(tasks)
    learned, scales = model._state.learned, model._state.scales
    products, labels = [], []
    for X, y in tasks:
        tokens, targets = scales.design(X) @ learned.whitening, scales.targets(y)
        for i in range(len(y)):
            rest = np.arange(len(y)) != i
            h = np.append(4 * np.mean(targets[rest, None] * tokens[rest], axis=0), np.mean(targets[rest] ** 2))
            products.append(np.outer(tokens[i], h).ravel())
            labels.append(targets[i])
    products, labels = np.array(products), np.array(labels)
    normal = products.T @ products + len(labels) / 4 * learned.ridge * np.eye(20)
    expected = np.linalg.solve(normal, products.T @ labels).reshape(4, 5)
    np.testing.assert_allclose(learned.weights, expected, rtol=1e-6, atol=1e-9)


def test_predictions_do_not_depend_on_units():
    rng = np.random.default_rng(8)
    tasks = pairs_of(draw(rng, low_rank_root(rng), 30, (5, 8)))
    (X, y), *rest = tasks
    plain = InContextRegressor(max_steps=10).pretrain(rest).fit(X, y)
    factors = np.logspace(-20, 20, D)
    scaled = InContextRegressor(max_steps=10).pretrain([(A * factors + 3 * factors, 1e30 * t - 1e30) for A, t in rest])
    scaled.fit(X * factors + 3 * factors, 1e30 * y - 1e30)
    expected = 1e30 * plain.predict(X) - 1e30
    np.testing.assert_allclose(scaled.predict(X * factors + 3 * factors), expected, rtol=1e-6, atol=1e24)
    np.testing.assert_allclose(scaled.noise_variance_, 1e60 * plain.noise_variance_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:the rows of these")
def test_sampler_is_the_same_as_a_list_of_its_draws():
    root = low_rank_root(np.random.default_rng(9))
    drawn = []

    def sampler(rng):
        drawn.append(draw(rng, root, 1, int(rng.integers(3, 9)))[0][:2])
        return drawn[-1]

    first = InContextRegressor(max_steps=5, random_state=1).pretrain(sampler, n_tasks=20)
    assert len(drawn) == first.n_tasks_ == 20
    again = InContextRegressor(max_steps=5, random_state=1).pretrain(sampler, n_tasks=20)
    np.testing.assert_array_equal(first.task_covariance_, again.task_covariance_)
    np.testing.assert_array_equal(drawn[0][0], drawn[20][0])
    listed = InContextRegressor(max_steps=5, task_mean="zero", cv=20).pretrain(drawn[:20])
    once_more = InContextRegressor(max_steps=5, task_mean="zero", cv=20, random_state=3).pretrain(drawn[:20][::-1])
    # with one task to a fold neither order nor seed matters
    np.testing.assert_allclose(listed.task_covariance_, once_more.task_covariance_, rtol=1e-6, atol=1e-9)


def test_few_tasks_of_many_directions_are_warned_about():
    rng = np.random.default_rng(10)
    with pytest.warns(UserWarning, match="more tasks would help"):
        InContextRegressor().pretrain(pairs_of(draw(rng, np.eye(D), 4, 6)))


@pytest.mark.parametrize("mode", ["empirical_bayes", "linear_attention", "subspace_kernel"])
def test_pickled_and_cloned_models_predict_the_same(mode, pretrained):
    _, tasks, _ = pretrained
    model = InContextRegressor(mode, rank=2, max_steps=3).pretrain(tasks[:30])
    X, y = tasks[-1]
    empty, twin = pickle.loads(pickle.dumps(model)), clone(model.fit(X, y))
    for other in (empty, twin):
        with pytest.raises(NotFittedError):
            other.predict(X)
    for other in (pickle.loads(pickle.dumps(model)), empty.fit(X, y), twin.fit(X, y)):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        assert other.get_params() == model.get_params()
        assert other.mode_ == mode
        assert other.cv_mse_ == model.cv_mse_
        np.testing.assert_array_equal(other.subspace_, model.subspace_)
    scores = cross_val_score(model, X, y, cv=3)
    assert np.isfinite(scores).all()


def one(rows=4, columns=3):
    return np.arange(rows * columns, dtype=float).reshape(rows, columns) ** 2, np.arange(rows, dtype=float)


@pytest.mark.parametrize(
    ("tasks", "n_tasks", "message"),
    [
        ([], None, "at least 2 pairs"),
        ([one()], None, "at least 2 pairs"),
        ([one(), one(columns=2)], None, "3 features like task 0, got 2"),
        ([one(), (one()[0], np.ones(3))], None, "4 entries like the rows of X"),
        (
            [one(), (np.full((2, 3), np.nan), np.ones(2))],
            None,
            "X of task 1 must not have gaps",
        ),
        ([one(), (np.ones((2, 3)), [np.inf, 0])], None, "y of task 1 must be finite"),
        ([one(), (np.zeros((0, 3)), np.zeros(0))], None, "X of task 1 must not be empty"),
        ([one(), (np.ones(3), np.ones(3))], None, "X of task 1 must have 2 dimension"),
        ([one(), (np.ones((2, 3)) * 1e200, np.ones(2))], None, r"X of task 1 must be >= -1e\+100"),
        ([one(), "ab"], None, "pairs"),
        (one(), None, "tasks must be a list of pairs"),
        ([one(), None], None, "pairs"),
        (3, None, "tasks must be pairs"),
        ({"a": one()}, None, "tasks must be pairs"),
        ([(X, np.ones(4)) for X, _ in (one(), one())], None, "targets that vary"),
        (lambda rng: one(), None, "n_tasks of a sampler must be an integer >= 2, got None"),
        (lambda rng: one(), 1, "n_tasks of a sampler must be an integer >= 2, got 1"),
        (lambda rng: 3, 5, "must return a pair"),
        (lambda rng: one(int(rng.integers(2, 9)), int(rng.integers(2, 9))), 50, "features like task 0"),
        ([one(), one()], 4, "n_tasks must be None"),
        ([(np.ones((2, 1001)), np.ones(2))] * 2, None, "at most 1000 features"),
    ],
)
def test_wrong_tasks_are_refused_with_the_reason(tasks, n_tasks, message):
    with pytest.raises(InputError, match=message):
        InContextRegressor().pretrain(tasks, n_tasks=n_tasks)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "bayes"},
        {"rank": 0},
        {"rank": 4},
        {"rank": 1.5},
        {"context": 0},
        {"task_mean": "none"},
        {"max_steps": -1},
        {"cv": 1},
    ],
)
def test_wrong_parameters_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        InContextRegressor(**options).pretrain([one(), one(5)])


def test_wrong_order_of_calls_and_wrong_contexts_are_refused(pretrained):
    model, tasks, _ = pretrained
    X, y = tasks[0]
    with pytest.raises(InputError, match="pretrained before fit"):
        InContextRegressor().fit(X, y)
    fresh = clone(model)
    for unready in (fresh, InContextRegressor()):
        with pytest.raises(NotFittedError, match=r"call pretrain\(tasks\), then fit"):
            unready.predict(X)
    with pytest.raises(InputError, match="20 features like the pretraining tasks, got 19"):
        fresh.fit(X[:, 1:], y)
    for bad_X, bad_y in ((X * np.nan, y), (X, y * np.nan), (X[:0], y[:0]), (X, y[:-1])):
        with pytest.raises(ValueError, match=r"NaN|minimum of 1|inconsistent"):
            fresh.fit(bad_X, bad_y)
    with pytest.raises(InputError, match="call pretrain again"):
        clone(model).set_params(mode="subspace_kernel").fit(X, y)
    fresh.fit(X, y)
    with pytest.raises(InputError, match="overflow"):
        fresh.predict(np.full((1, D), 1.7e308))


@pytest.mark.parametrize("mode", ["empirical_bayes", "linear_attention", "subspace_kernel"])
@pytest.mark.parametrize("case", ["two tasks", "single rows", "copies", "noiseless", "constant feature", "huge"])
def test_odd_but_legal_tasks_give_finite_predictions(mode, case):
    rng = np.random.default_rng(11)
    tasks = pairs_of(draw(rng, np.eye(3), 12, (2, 4, 9)))
    if case == "two tasks":
        tasks = tasks[:2]
    elif case == "single rows":
        tasks = [(X[:1], y[:1]) for X, y in tasks]
    elif case == "copies":
        tasks = [tasks[1]] * 6
    elif case == "constant feature":
        tasks = [(np.column_stack([X[:, :2], np.full(len(X), 7.0)]), y) for X, y in tasks]
    elif case == "huge":
        tasks = [(1e90 * X, 1e-90 * y) for X, y in tasks]
    elif case == "noiseless":
        tasks = pairs_of(draw(rng, np.eye(3), 12, 9, noise=0.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if case == "single rows" and mode == "linear_attention":
            with pytest.raises(InputError, match="at least 2 rows"):
                InContextRegressor(mode).pretrain(tasks)
            return
        model = InContextRegressor(mode, max_steps=20).pretrain(tasks)
    X, y = tasks[0]
    for labels in (y, np.full(len(y), y[0])):
        assert np.isfinite(model.fit(X, labels).predict(X)).all()
    assert np.isfinite(model.fit(X[:1], y[:1]).predict(X)).all()
    assert np.isfinite([model.cv_mse_, model.effective_rank_, model.effective_tasks_]).all()
    if case == "noiseless" and mode == "empirical_bayes":
        long = draw(rng, np.eye(3), 1, 9, noise=0.0)[0]
        np.testing.assert_allclose(model.fit(*long[:2]).coef_, long[2], atol=1e-3)


class PretrainsItself(InContextRegressor):
    """Pretrained on linear tasks of the width it is fitted with, since the common checks bring data of many widths."""

    def fit(self, X, y):
        shape = getattr(X, "shape", None) or np.asarray(X).shape
        width = shape[1] if len(shape) == 2 and shape[1] else 1
        if not hasattr(self, "_state") or width != len(self._state.scales.mean):
            self.pretrain(pairs_of(draw(np.random.default_rng(0), np.eye(width), 10, 2 * width)))
        return super().fit(X, y)


@pytest.mark.filterwarnings("ignore:the rows of these")
@parametrize_with_checks([PretrainsItself(max_steps=3)])
def test_context_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)

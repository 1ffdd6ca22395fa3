import pickle
from itertools import permutations

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from unlazy.checks import InputError
from unlazy.estimators import OneStepFeatures, OneStepRegressor
from unlazy.estimators.common.folds import make_splits
from unlazy.estimators.one_step.directions import linear_fit
from unlazy.estimators.one_step.ridge import LinearKernel, RidgeFold, left_out_errors, read_out, read_out_many
from unlazy.estimators.one_step.search import LINEAR, ONE_STEP, RANDOM, Candidate, Recipe, choose, search
from unlazy.functions.elementwise import as_activation
from unlazy.numerics.index_directions import linear_signal
from unlazy.theory.one_step.gradient_step import best_direction_ridge, gradient_cosine, preconditioned_cosine

LINKS = {
    "tanh": lambda s: np.tanh(3 * s),
    "hinge": lambda s: 1.5 * np.maximum(s, 0),
    "linear": lambda s: s,
    "even": lambda s: 2 * np.abs(s),
    "square": lambda s: s**2 - 1,
    "noise": lambda s: 0 * s,
}
SMALL = {"width": 60, "random_state": 0}


def draw(link, n, d, seed, noise=0.2):
    """Training rows, their labels, new rows and their targets; the direction is (1, ..., 1)/sqrt(d)."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n + 2000, d))
    target = LINKS[link](x.sum(axis=1) / np.sqrt(d))
    return x[:n], target[:n] + noise * rng.standard_normal(n), x[n:], target[n:]


def error(model, data):
    x, y, x_new, target = data
    return np.mean((model.fit(x, y).predict(x_new) - target) ** 2) / max(np.var(target), 1e-300)


@pytest.mark.filterwarnings("ignore:signal_z_ is", "ignore:y must correlate")
@parametrize_with_checks([OneStepRegressor(width=50), OneStepFeatures(width=50), OneStepFeatures(spike_deviation=0)])
def test_estimator_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("link", ["tanh", "hinge"])
def test_functions_of_one_direction_are_learned_far_better_than_by_ridge_or_random_features(link):
    for seed in (901, 902):
        data = draw(link, 300, 30, seed)
        learned = error(OneStepRegressor(random_state=0), data)
        ridge = error(RidgeCV(np.logspace(-2, 4, 25)), data)
        random = min(
            error(make_pipeline(RBFSampler(gamma=g / 30, n_components=400, random_state=0), Ridge(a)), data)
            for g in (0.1, 0.3, 1)
            for a in (0.003, 0.03, 0.3)
        )
        assert learned < 0.25 * min(ridge, random)


def test_one_step_as_in_the_theory_already_beats_ridge_and_refinement_improves_it():
    data = draw("tanh", 300, 30, 903)
    ridge = error(RidgeCV(np.logspace(-2, 4, 25)), data)
    single = error(OneStepRegressor(background=True, refinements=0, max_directions=0, random_state=0), data)
    assert single < 0.4 * ridge
    assert error(OneStepRegressor(random_state=0), data) < 0.7 * single


def test_linear_targets_keep_ridge():
    for seed in (911, 912, 913):
        data = draw("linear", 300, 30, seed)
        learned = OneStepRegressor(random_state=0)
        assert error(learned, data) <= 1.2 * error(RidgeCV(np.logspace(-2, 4, 25)), data)
        assert learned.model_ == "linear"
        assert learned.directions_.shape == (0, 30)


@pytest.mark.parametrize("link", ["even", "square"])
def test_extra_directions_see_even_functions_to_which_one_step_is_blind(link):
    data = draw(link, 600, 20, 921)
    with pytest.warns(UserWarning, match="one step is blind"):
        learned = error(OneStepRegressor(random_state=0), data)
    with pytest.warns(UserWarning, match="one step is blind"):
        blind = error(OneStepRegressor(max_directions=0, refinements=0, random_state=0), data)
    assert learned < 0.1
    assert learned < 0.25 * blind


@pytest.mark.parametrize("link", ["even", "square", "noise"])
def test_features_of_one_step_refuse_what_they_cannot_see(link):
    x, y, *_ = draw(link, 600, 20, 922, noise=0.5)
    with pytest.raises(InputError, match=r"information exponent >= 2.*OneStepRegressor.*spike_deviation=0"):
        OneStepFeatures(**SMALL).fit(x, y)
    assert OneStepFeatures(spike_deviation=0, **SMALL).fit(x, y).directions_.shape == (0, 20)
    assert OneStepFeatures(min_signal=-np.inf, spike_deviation=1.0, **SMALL).fit(x, y).spike_deviation_ == 1.0


def test_with_few_rows_features_of_one_step_warn_instead():
    x, y, *_ = draw("even", 80, 10, 923, noise=0.5)
    with pytest.warns(UserWarning, match="one step is blind.*with 80 rows"):
        OneStepFeatures(**SMALL).fit(x, y)


def linear_part(rows, labels):
    rows, labels = rows - rows.mean(axis=0), labels - labels.mean()
    return linear_signal(rows, labels, linear_fit(rows, labels).factors)


def test_signal_is_the_sum_over_pairs_of_different_samples_less_what_permuted_labels_give():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((6, 3)) @ rng.standard_normal((3, 3))
    rows -= rows.mean(axis=0)
    labels = rows[:, 0] + rng.standard_normal(6)
    labels -= labels.mean()
    covariance = rows.T @ rows / 6
    products = rows @ np.linalg.solve(covariance + np.trace(covariance) / 6 * np.eye(3), rows.T)
    pairs = ~np.eye(6, dtype=bool)

    def total(labels):
        return (np.outer(labels, labels) * products)[pairs].sum()

    excess = total(labels) - np.mean([total(np.array(order)) for order in permutations(labels)])
    spread = 2 * ((np.outer(labels, labels) * products)[pairs] ** 2).sum()
    # E of the excess for labels rows @ b, b ~ N(0, I / trace)
    kernel = rows @ rows.T / np.trace(covariance)
    weight = (kernel * products)[pairs].sum() + np.trace(kernel) / 30 * products[pairs].sum()
    found = linear_part(rows, labels)
    np.testing.assert_allclose(found.z, excess / np.sqrt(spread), rtol=1e-9)
    np.testing.assert_allclose(found.square, excess / weight, rtol=1e-9)


@pytest.mark.parametrize(("n", "d"), [(200, 20), (60, 120)])
def test_signal_of_noise_has_mean_0_and_variance_1(n, d):
    rng = np.random.default_rng(4)
    values = [linear_part(rng.standard_normal((n, d)), rng.standard_normal(n)).z for _ in range(400)]
    assert abs(np.mean(values)) < 4 / np.sqrt(400)
    assert abs(np.std(values) - 1) < 4 / np.sqrt(800) + 0.05


@pytest.mark.parametrize(("n", "d", "draws"), [(400, 40, 200), (60, 120, 1200)])
def test_linear_signal_is_the_variance_that_is_linear_in_x(n, d, draws):
    """y = 0.8 s + noise of deviation 0.6, directions drawn anew: b1^2 = 0.64."""
    rng = np.random.default_rng(5)
    values = []
    for _ in range(draws):
        rows, direction = rng.standard_normal((n, d)), rng.standard_normal(d)
        labels = 0.8 * rows @ direction / np.linalg.norm(direction) + 0.6 * rng.standard_normal(n)
        values.append(linear_part(rows, labels).square)
    bound = 4 * np.std(values) / np.sqrt(draws)
    assert abs(np.mean(values) - 0.64) < bound
    assert abs(np.mean(values) - 0.8 * 0.64) > bound


@pytest.mark.parametrize("precondition", [True, False])
def test_direction_and_its_estimated_alignment_are_those_of_the_theory(precondition):
    n, d, noise = 400, 100, 0.3
    link = LINKS["tanh"]

    def theory(ratio):
        if precondition:
            return preconditioned_cosine(link, ratio, best_direction_ridge(link, ratio, noise**2), noise**2)
        return gradient_cosine(link, ratio, noise**2)

    cosines, estimates = [], []
    for seed in range(12):
        x, y, *_ = draw("tanh", n, d, 940 + seed, noise)
        model = OneStepFeatures(20, spike_deviation=1.0, precondition=precondition, random_state=0).fit(x, y)
        cosines.append(model.direction_.sum() / np.sqrt(d) / np.linalg.norm(model.direction_))
        estimates.append(model.alignment_)
    # the estimate is of directions that four fifths of the rows give
    for values, expected in ((cosines, theory(n / d)), (estimates, theory(0.8 * n / d))):
        bound = 4 * np.std(values, ddof=1) / np.sqrt(12)
        assert abs(np.mean(values) - expected) < bound
        assert abs(np.mean(values) - 0.8 * expected) > bound


def test_directions_are_found_anew_in_every_fold():
    """Of pure noise nothing can be predicted; a direction that had seen the held-out labels would predict them."""
    rng = np.random.default_rng(6)
    n, d, count = 100, 80, 50
    recipe_parts = rng.standard_normal((d, count)) / np.sqrt(d), rng.standard_normal((1, count))
    recipe = Recipe(as_activation("tanh"), *recipe_parts, rng.standard_normal(count), True, 2)
    plain, spiked = Candidate(RANDOM, True, 0.0, 0), Candidate(ONE_STEP, True, 4.0, 0)
    alphas = np.array([1e-2])
    honest, leaking = [], []
    for _ in range(6):
        rows, labels = rng.standard_normal((n, d)), rng.standard_normal(n)
        splits = make_splits(5, 0, rows, labels)
        found = search(rows, labels, splits, recipe, [plain, spiked], alphas).errors
        honest.append(found[spiked].mean() / found[plain].mean())
        # the same comparison with the direction of all rows
        coefficients = linear_fit(rows, labels, np.array([1e-3])).coefficients
        index = rows @ coefficients / np.std(rows @ coefficients)
        hidden = rows @ recipe.initial + recipe.biases + 4 * np.outer(index, recipe.second[0])
        folds = [RidgeFold(LinearKernel(rows / np.sqrt(d)), labels, *split) for split in splits]
        features = np.tanh(hidden) / np.sqrt(count)
        wrong = [fold.predictions(features, alphas)[:, 0] - labels[fold.held] for fold in folds]
        leaking.append(np.mean(np.concatenate(wrong) ** 2) / found[plain].mean())
    assert np.mean(honest) > 0.95
    assert np.mean(leaking) < 0.8


@pytest.mark.parametrize(("n", "count"), [(30, 50), (80, 20)])
def test_held_out_predictions_are_those_of_scikit_learns_ridge(n, count):
    rng = np.random.default_rng(7)
    rows, features, labels = rng.standard_normal((n, 4)), rng.standard_normal((n, count)), rng.standard_normal(n)
    held, train = np.arange(5), np.arange(5, n)
    alphas = np.array([1e-4, 0.1, 3.0])
    found = RidgeFold(LinearKernel(rows), labels, train, held).predictions(features, alphas)
    design = np.hstack([features, rows])
    for column, alpha in enumerate(alphas):
        expected = Ridge(len(train) * alpha, solver="svd").fit(design[train], labels[train]).predict(design[held])
        np.testing.assert_allclose(found[:, column], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("link", ["tanh", "linear", "even"])
@pytest.mark.filterwarnings("ignore:signal_z_ is")
def test_predictions_follow_from_the_fitted_attributes(link):
    x, y, new, _ = draw(link, 200, 5, 950)
    model = OneStepRegressor(**SMALL).fit(3 * x + 7, 5 * y - 2)
    z = (3 * new + 7 - model.mean_) / model.scale_
    hidden = np.tanh(z @ model.weights_ + model.biases_) / np.sqrt(max(len(model.biases_), 1))
    expected = np.hstack([hidden, z / np.sqrt(5)]) @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(3 * new + 7), expected, rtol=1e-10)
    if model.model_ == "one step" and not model.background_:
        # every neuron sees the directions and nothing else
        away = np.linalg.lstsq((model.directions_ * model.scale_).T, model.weights_, rcond=None)[1]
        np.testing.assert_allclose(away, 0, atol=1e-18)
    np.testing.assert_allclose(np.std((3 * x + 7) @ model.direction_), 1, rtol=1e-9)
    np.testing.assert_allclose(np.std((3 * x + 7) @ model.directions_.T, axis=0), 1, rtol=1e-9)
    design = np.hstack([np.tanh(((3 * x + 7 - model.mean_) / model.scale_) @ model.weights_ + model.biases_)])
    design = np.hstack(
        [design / np.sqrt(max(len(model.biases_), 1)), (3 * x + 7 - model.mean_) / model.scale_ / 5**0.5]
    )
    ridge = Ridge(200 * model.ridge_, solver="svd").fit(design, 5 * y - 2)
    np.testing.assert_allclose(ridge.predict(design), model.predict(3 * x + 7), rtol=1e-4, atol=1e-4)


def test_features_are_the_hidden_layer_and_the_standardised_inputs():
    x, y, new, _ = draw("tanh", 200, 5, 951)
    model = OneStepFeatures(spike_deviation=2.0, **SMALL).fit(x, y)
    found = model.transform(new)
    z = (new - x.mean(axis=0)) / x.std(axis=0)
    np.testing.assert_allclose(found[:, :60], np.tanh(z @ model.weights_ + model.biases_) / np.sqrt(60), rtol=1e-9)
    np.testing.assert_allclose(found[:, 60:], z / np.sqrt(5), rtol=1e-9)
    names = model.get_feature_names_out()
    assert (len(names), names[0]) == (65, "onestepfeatures0")
    plain = OneStepFeatures(spike_deviation=0, **SMALL).fit(x, y)
    moved = model.weights_ - plain.weights_
    assert np.linalg.matrix_rank(moved, tol=1e-9) == 1
    left = np.linalg.svd(moved)[0][:, 0]
    assert abs(left @ (model.direction_ * model.scale_)) == pytest.approx(
        np.linalg.norm(model.direction_ * model.scale_)
    )
    assert OneStepFeatures(**SMALL).fit(x, y).spike_deviation_ in (0.5, 1.0, 2.0, 4.0)


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    x, y, new, _ = draw("tanh", 100, 5, 952)
    first = OneStepRegressor(**SMALL).fit(x, y)
    expected = first.predict(new)
    np.testing.assert_array_equal(OneStepRegressor(**SMALL).fit(x, y).predict(new), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict(new), expected)
    other = OneStepRegressor(width=60, random_state=1).fit(x, y)
    assert np.abs(other.predict(new) - expected).max() > 1e-6


@pytest.mark.parametrize(("x_unit", "y_unit"), [(1e120, 1.0), (1e-120, 1e100), (1.0, 1e-120), (1e3, 1e3)])
def test_units_only_change_units(x_unit, y_unit):
    x, y, new, _ = draw("tanh", 100, 5, 953)
    plain = OneStepRegressor(**SMALL).fit(x, y)
    scaled = OneStepRegressor(**SMALL).fit(x_unit * x, y_unit * y)
    np.testing.assert_allclose(scaled.predict(x_unit * new) / y_unit, plain.predict(new), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scaled.direction_ * x_unit, plain.direction_, rtol=1e-6, atol=1e-9)


def test_constant_columns_are_ignored_and_copies_share_their_weight():
    x, y, new, _ = draw("tanh", 150, 5, 954)
    model = OneStepRegressor(**SMALL).fit(np.column_stack([x, np.full(150, 3.0), x[:, 0]]), y)
    assert model.direction_[5] == 0
    assert model.direction_[0] == pytest.approx(model.direction_[6], rel=1e-6)
    predicted = [model.predict(np.column_stack([new, np.full(2000, c), new[:, 0]])) for c in (3.0, -50.0)]
    np.testing.assert_array_equal(*predicted)
    with pytest.warns(UserWarning, match="signal_z_ is 0"):
        model = OneStepRegressor(**SMALL).fit(np.ones((30, 2)), y[:30])
    np.testing.assert_allclose(model.predict(new[:, :2]), y[:30].mean())


def test_more_columns_than_rows_need_no_square_matrix_of_columns():
    rng = np.random.default_rng(8)
    x = rng.standard_normal((60, 30_000))
    y = 0.05 * x[:, :4000].sum(axis=1) + rng.standard_normal(60)
    with pytest.warns(UserWarning, match="signal_z_"):
        predicted = OneStepRegressor(width=20, max_directions=1, random_state=0).fit(x, y).predict(x)
    assert np.isfinite(predicted).all()


def test_columns_that_vary_in_few_rows_may_be_constant_in_a_fold():
    x, y, new, _ = draw("hinge", 150, 2, 960)
    x[:, 1] = np.arange(150) == 7
    y = np.abs(x[:, 0]) + 0.01 * y
    with pytest.warns(UserWarning, match="signal_z_"):
        model = OneStepRegressor(max_directions=2, cv=3, **SMALL).fit(x, y)
    assert np.isfinite(model.predict(new)).all()
    assert model.cv_mse_ < 0.3 * np.var(y)


def test_record_holds_every_choice_and_its_error():
    x, y, *_ = draw("tanh", 150, 5, 955)
    model = OneStepRegressor(spike_deviations=(0, 2.0), ridges=[1e-3, 1e-1], max_directions=0, **SMALL).fit(x, y)
    record = model.cv_results_
    assert {len(column) for column in record.values()} == {2 * 4}
    assert set(record["model"]) == {"linear", "random features", "one step"}
    chosen = (record["model"] == model.model_) & (record["background"] == model.background_)
    chosen &= (record["spike_deviation"] == model.spike_deviation_) & (record["ridge"] == model.ridge_)
    assert record["cv_mse"][chosen] == pytest.approx([model.cv_mse_])
    assert 0.03 < model.cv_mse_ < 0.2


@pytest.mark.parametrize("activation", ["relu", "erf", "softplus", np.sin])
def test_other_activations_learn_too(activation):
    data = draw("tanh", 300, 10, 956)
    assert error(OneStepRegressor(activation=activation, random_state=0), data) < 0.08


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width must be an integer >= 1, got 0"),
        ({"width": 2.5}, "width must be an integer >= 1, got 2.5"),
        ({"activation": "tan"}, "activation must be one of .*, tanh, .*did you mean tanh"),
        ({"activation": 3}, "activation must be one of .*, tanh, .* or a function of arrays, got 3"),
        ({"activation": np.cos}, r"linear coefficient mu1 = E\[z sigma\(z\)\] != 0"),
        ({"activation": np.log}, "activation must be finite, got nan at -"),
        ({"activation": lambda z: z + 1j}, "activation must be real, got complex numbers"),
        ({"activation": lambda z: [z, "a"]}, "activation must return an array of numbers"),
        (
            {"activation": lambda z: 1e200 * np.tanh(z)},
            r"activation must be square integrable, got values up to 1e\+200",
        ),
        ({"width": 10**12}, r"width must fit into .* GiB of memory, got 1000000000000, which needs .* GiB"),
        ({"precondition": "yes"}, "precondition must be True or False, got 'yes'"),
    ],
)
@pytest.mark.parametrize("kind", [OneStepRegressor, OneStepFeatures])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_wrong_settings_are_named(kind, options, message):
    x, y, *_ = draw("tanh", 50, 3, 957)
    with pytest.raises(InputError, match=message):
        kind(**options).fit(x, y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (OneStepRegressor(spike_deviations=(-1.0,)), "spike_deviations must be >= 0 .*got -1"),
        (OneStepRegressor(spike_deviations=()), "spike_deviations must not be empty"),
        (OneStepRegressor(ridges=(0.0,)), "ridges must be >= 1e-10 .*got 0"),
        (OneStepRegressor(ridges=(-1.0,)), "ridges must be >= 1e-10 .*got -1"),
        (OneStepRegressor(background="maybe"), "background must be 'cv', True or False, got 'maybe'"),
        (OneStepRegressor(max_directions=-1), "max_directions must be an integer >= 0, got -1"),
        (OneStepRegressor(refinements=1.5), "refinements must be an integer >= 0, got 1.5"),
        (OneStepRegressor(background=np.array([True, False])), "background must be 'cv', True or False, got array"),
        (OneStepRegressor(spike_deviations=["1"]), r"spike_deviations must be numeric, got \['1'\]"),
        (OneStepRegressor(ridges=[True]), r"ridges must be numeric, got \[True\]"),
        (OneStepRegressor(cv=1), "cv must be >= 2"),
        (OneStepRegressor(cv=[[0]]), r"cv must be .* pairs of training and held-out rows, got \[\[0\]\]"),
        (OneStepRegressor(cv="5"), "cv must be a number of folds, a splitter or .*, got '5'"),
        (OneStepFeatures(spike_deviation=True), "spike_deviation must be numeric, got True"),
        (OneStepFeatures(min_signal="3"), "min_signal must be numeric, got '3'"),
        (OneStepFeatures(spike_deviation=-1), "spike_deviation must be >= 0 .*got -1"),
        (OneStepFeatures(spike_deviation="auto"), "spike_deviation must be 'cv' or a number >= 0, got 'auto'"),
        (OneStepFeatures(min_signal="low"), "min_signal must be numeric"),
    ],
)
def test_wrong_choices_are_named(model, message):
    x, y, *_ = draw("tanh", 50, 3, 958)
    with pytest.raises(InputError, match=message):
        model.fit(x, y)


@pytest.mark.parametrize("model", [OneStepRegressor(), OneStepFeatures()])
def test_wrong_data_are_named(model):
    x, y, *_ = draw("tanh", 50, 3, 959)
    with pytest.raises(InputError, match="at least 10 rows, got n_samples = 9"):
        model.fit(x[:9], y[:9])
    with pytest.raises(InputError, match="y must have a target that is not constant"):
        model.fit(x, np.full(50, 2.0))
    with pytest.raises(ValueError, match="X must not have gaps, got NaN in column 0, 1, 2"):
        model.fit(np.where(x > 1, np.nan, x), y)
    with pytest.raises(ValueError, match="y must not have gaps, got NaN"):
        model.fit(x, np.where(y > 0.5, np.nan, y))
    with pytest.raises(ValueError, match="Expected 2D array"):
        model.fit(x[:, 0], y)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        model.fit(x, np.column_stack([y, y]))


@pytest.mark.filterwarnings("ignore:signal_z_ is")
@pytest.mark.parametrize(("n", "d"), [(20, 3), (40, 5)])
def test_linear_targets_keep_ridge_with_few_rows_too(n, d):
    learned, plain, left = [], [], 0
    for seed in range(25):
        data = draw("linear", n, d, [970, n, seed], noise=0.5)
        model = OneStepRegressor(**SMALL)
        learned.append(error(model, data))
        plain.append(error(make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 5, 30))), data))
        left += model.model_ != "linear"
    assert np.mean(learned) <= 1.1 * np.mean(plain)
    assert left <= 3


@pytest.mark.filterwarnings("ignore:signal_z_ is")
def test_outliers_of_y_do_no_more_harm_than_to_ridge():
    learned, plain = [], []
    for seed in range(10):
        x, y, *new = draw("tanh", 150, 20, [971, seed], noise=0.3)
        rng = np.random.default_rng([972, seed])
        y += 20 * rng.choice([-1, 1], 150) * (rng.random(150) < 0.02)
        model = OneStepRegressor(random_state=seed)
        learned.append(error(model, (x, y, *new)))
        plain.append(error(make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 5, 30))), (x, y, *new)))
        assert np.abs(model.predict(new[0])).max() < np.abs(y).max()
    assert np.mean(learned) <= 1.1 * np.mean(plain)


@pytest.mark.parametrize(("errors_of_mean", "model"), [(1.5, LINEAR), (3.0, ONE_STEP)])
def test_linear_model_is_left_for_two_standard_errors(errors_of_mean, model):
    rng = np.random.default_rng(9)
    noise = rng.standard_normal(100)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    linear, spiked = Candidate(LINEAR, False, 0.0, 0), Candidate(ONE_STEP, True, 1.0, 0)
    first = 10 + rng.random((100, 1))
    second = first - noise[:, None] - errors_of_mean / np.sqrt(100)
    assert choose({linear: first, spiked: second}, np.ones(1)).candidate.model == model


def test_errors_that_overflow_never_win():
    linear, spiked = Candidate(LINEAR, False, 0.0, 0), Candidate(ONE_STEP, True, 1.0, 0)
    plain = Candidate(RANDOM, True, 0.0, 0)
    good, bad = np.ones((20, 2)), np.full((20, 2), np.inf)
    assert choose({linear: good, plain: bad, spiked: bad}, np.ones(2)).candidate == linear
    assert choose({plain: bad, spiked: good}, np.ones(2)).candidate == spiked


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("power", [25, 31, 61])
def test_numbers_that_overflow_are_no_choice(power):
    x, y, *_ = draw("tanh", 120, 4, 973)
    model = OneStepRegressor(activation=lambda z: z**power, **SMALL).fit(x, y)
    assert np.isfinite(model.cv_mse_)
    assert model.cv_mse_ <= model.cv_results_["cv_mse"][model.cv_results_["model"] == "linear"].min() * 1.01
    assert np.isfinite(model.predict(x)).all()


@pytest.mark.parametrize(("n", "d"), [(40, 6), (20, 30)])
def test_left_out_errors_are_those_of_fits_without_the_row(n, d):
    rng = np.random.default_rng(10)
    design, labels, alphas = rng.standard_normal((n, d)) + 2, rng.standard_normal(n) + 3, np.array([1e-2, 1.0])
    found = left_out_errors(design, labels, alphas)
    for alpha, value in zip(alphas, found, strict=True):
        # the ridge n alpha |b|^2 stays that of all rows
        left_out = cross_val_predict(Ridge(n * alpha), design, labels, cv=LeaveOneOut())
        np.testing.assert_allclose(value, np.mean((labels - left_out) ** 2), rtol=1e-8)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("kind", [OneStepRegressor, OneStepFeatures])
def test_rows_far_beyond_the_training_rows_are_refused_or_give_finite_numbers(kind):
    x, y, *_ = draw("tanh", 120, 4, 974)
    model = kind(**SMALL).fit(1e-100 * x, y)
    new = model.predict if kind is OneStepRegressor else model.transform
    assert np.isfinite(new(1e100 * x)).all()
    with pytest.raises(InputError, match=r"X must be a finite number of training standard deviations .*e\+2"):
        new(1e250 * x)


def test_activation_may_work_in_place_or_return_lists():
    x, y, new, _ = draw("tanh", 100, 4, 975)
    expected = OneStepRegressor(activation=np.tanh, **SMALL).fit(x, y).predict(new)
    for activation in (lambda z: np.tanh(z, out=z), lambda z: np.tanh(z).tolist()):
        np.testing.assert_array_equal(OneStepRegressor(activation=activation, **SMALL).fit(x, y).predict(new), expected)


def test_readout_of_many_rows_is_that_of_all_at_once_with_the_ridge_of_least_gcv():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((9000, 3)) + 5
    weights = rng.standard_normal((3, 20))
    labels = np.tanh(rows[:, 0] - 5) + rng.standard_normal(9000)

    def features(some):
        return np.tanh(some @ weights) + 3

    ridges = np.array([1e-4, 1e-2, 1.0])
    found = read_out_many(features, rows, labels, ridges)
    design = features(rows)
    gcv = []
    for ridge in ridges:
        hat = design - design.mean(axis=0)
        hat = hat @ np.linalg.solve(hat.T @ hat + 9000 * ridge * np.eye(20), hat.T)
        residual = (labels - labels.mean()) - hat @ (labels - labels.mean())
        gcv.append(np.mean(residual**2) / (1 - (1 + np.trace(hat)) / 9000) ** 2)
    assert found.ridge == ridges[int(np.argmin(gcv))]
    expected = read_out(design, labels, found.ridge)
    np.testing.assert_allclose(found.coefficients, expected.coefficients, rtol=1e-6, atol=1e-8)
    assert found.intercept == pytest.approx(expected.intercept, abs=1e-6)


def test_many_rows_are_searched_in_part_and_all_fitted(monkeypatch):
    """Directions and coefficients come from all rows: the error is that of all, not of the part."""
    X, y, new, clean = draw("tanh", 6000, 20, 0, noise=1.0)
    for module in ("predictor", "base"):
        monkeypatch.setattr(f"unlazy.estimators.one_step.{module}.SEARCH_ROWS", 600)
    all_rows, part = (error(OneStepRegressor(**SMALL), (X[:n], y[:n], new, clean)) for n in (6000, 600))
    assert all_rows < 0.3 * part


@pytest.mark.filterwarnings("ignore:signal_z_ is")
def test_predictions_stay_near_the_range_of_y_unless_ridge_is_kept():
    X, y, _, _ = draw("even", 400, 5, 3)
    model = OneStepRegressor(**SMALL).fit(X, y)
    assert model.model_ == "one step"
    far = model.predict(1e3 * X)
    assert far.max() <= y.max() + np.ptp(y) + 1e-9
    assert far.min() >= y.min() - np.ptp(y) - 1e-9
    linear = OneStepRegressor(**SMALL).fit(X, X[:, 0])
    assert linear.model_ == "linear"
    np.testing.assert_allclose(linear.predict(1e3 * X), 1e3 * X[:, 0], rtol=0.05, atol=1)

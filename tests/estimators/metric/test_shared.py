import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

from unlazy.checks import InputError
from unlazy.data.many_tasks import diagonal_tasks, many_tasks
from unlazy.estimators import SharedMetricRegressor
from unlazy.estimators.common.folds import make_splits
from unlazy.estimators.common.scaling import scale_data
from unlazy.estimators.metric.bases import FeatureBasis
from unlazy.estimators.metric.search import HeldOutChoice, PathRecord, choose, search_path


@pytest.fixture(scope="module")
def data():
    return many_tasks("sparse", np.random.default_rng(3), n=60, d=150, tasks=12)


@pytest.fixture(scope="module")
def fitted(data):
    return SharedMetricRegressor().fit(data.design, data.targets)


def assert_same_fit(first, second, **tolerances):
    assert (first.basis_, first.steps_) == (second.basis_, second.steps_)
    np.testing.assert_allclose(first.coef_, second.coef_, **tolerances)


def test_few_shared_features_are_found_and_ridge_is_far_behind(data, fitted):
    relevant = data.prior > 0
    assert fitted.basis_ == "features"
    assert fitted.metric_[relevant].min() > 10 * fitted.metric_[~relevant].max()
    ridge = RidgeCV(np.logspace(-2, 4, 25)).fit(data.design, data.targets)
    assert data.excess_risk(fitted.coef_.T) < 0.3 * data.excess_risk(ridge.coef_.T)
    assert data.excess_risk(fitted.coef_.T) < 2 * data.bayes_risk()


@pytest.mark.parametrize(
    "options", [{}, {"basis": "pca"}, {"steps": (0,)}, {"criterion": "degrees_of_freedom", "dtype": "float64"}]
)
def test_fit_is_ridge_on_the_learned_features(data, options):
    """scikit-learn's Ridge on `transform(X)` with the penalty `alpha_` gives the same predictions."""
    model = SharedMetricRegressor(rank=None, **options).fit(data.design, data.targets)
    learned = model.transform(data.design)
    assert learned.shape[1] == np.count_nonzero(model.metric_)
    ridge = Ridge(alpha=model.alpha_).fit(learned, data.targets)
    fresh = np.random.default_rng(0).standard_normal((20, 150))
    np.testing.assert_allclose(model.predict(fresh), ridge.predict(model.transform(fresh)), rtol=1e-5, atol=1e-6)
    spectrum = np.linalg.eigvalsh(learned @ learned.T / len(learned))[::-1]
    np.testing.assert_allclose(model.metric_spectrum_, spectrum, rtol=1e-5, atol=1e-7 * spectrum[0])
    eigenvalues = 60 * spectrum
    np.testing.assert_allclose(model.degrees_of_freedom_, np.sum(eigenvalues / (eigenvalues + model.alpha_)), rtol=1e-5)


def test_step_zero_is_ridge_of_the_features_as_they_are(data):
    model = SharedMetricRegressor(steps=(0,), start_exponent=0, basis="features", rank=None)
    model.fit(data.design, data.targets)
    assert model.criterion_ == "ridge"
    np.testing.assert_allclose(model.metric_, model.metric_[0], rtol=1e-9)
    ridge = Ridge(alpha=model.alpha_ / model.metric_[0]).fit(data.design, data.targets)
    np.testing.assert_allclose(model.coef_, ridge.coef_, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, rtol=1e-4, atol=1e-7)


def test_rank_confines_predictions_to_combinations_of_targets(data):
    model = SharedMetricRegressor(rank=np.int64(2)).fit(data.design, data.targets)
    assert model.rank_ == 2
    assert np.linalg.matrix_rank(model.coef_, tol=1e-8) == 2


def test_cross_validation_does_not_see_held_out_labels_through_the_metric():
    """Targets are noise: a metric that had seen the held-out labels would predict them."""
    rng = np.random.default_rng(0)
    for criterion in ("evidence", "degrees_of_freedom"):
        targets = rng.standard_normal((60, 5))
        model = SharedMetricRegressor(criterion=criterion, random_state=1).fit(rng.standard_normal((60, 400)), targets)
        assert model.cv_mse_ > 0.93 * targets.var()
        assert model.path_["cv_mse"].min() > 0.9 * targets.var()


def test_cv_errors_are_those_of_ridge_fits_without_the_fold(data):
    """Step 0 at every penalty, against scikit-learn's Ridge with the first metric of a fit to the training rows."""
    folds = list(KFold(3, shuffle=True, random_state=5).split(data.design))
    options = {"steps": (0,), "start_exponent": 0, "basis": "features", "rank": None, "dtype": "float64"}
    path = SharedMetricRegressor(cv=folds, **options).fit(data.design, data.targets).path_
    errors = np.zeros(len(path["alpha"]))
    for train, held in folds:
        first = SharedMetricRegressor(cv=5, **options).fit(data.design[train], data.targets[train]).metric_[0]
        for i, penalty in enumerate(path["alpha"]):
            ridge = Ridge(alpha=penalty / first).fit(data.design[train], data.targets[train])
            errors[i] += np.sum((ridge.predict(data.design[held]) - data.targets[held]) ** 2)
    np.testing.assert_allclose(path["cv_mse"], errors / data.targets.size, rtol=1e-7)


def test_result_is_that_of_ridge_cv_where_another_start_earns_nothing():
    """Features of variance 1/j and a weak signal: evidence prefers other exponents, the held-out rows do not."""
    variances = 1 / np.arange(1, 301)
    preferred = []
    for seed in range(6):
        prior = np.full(300, 0.02 / variances.sum())
        data = diagonal_tasks(np.random.default_rng(7_000 + seed), variances, prior, 80, 5, 0.25)
        model = SharedMetricRegressor().fit(data.design, data.targets)
        assert (model.criterion_, model.start_exponent_, model.basis_) == ("ridge", 0.0, "features")
        scale = np.sum((data.design - data.design.mean(axis=0)) ** 2) / len(data.design)
        ridge = RidgeCV(scale * np.logspace(-8, 4, 49)).fit(data.design, data.targets)
        np.testing.assert_allclose(model.coef_, ridge.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.intercept_, ridge.intercept_, rtol=1e-6, atol=1e-9)
        forced = SharedMetricRegressor(steps=(1,)).fit(data.design, data.targets)
        preferred.append(forced.start_exponent_)
    assert set(preferred) != {0.0}


def chance_records(rng, candidates, rows, gain=0.0):
    """Ridge and as many others with held-out errors that differ by chance, apart from a gain."""
    ridge = rng.exponential(size=rows)
    records = []
    for i in range(candidates + 1):
        errors = ridge + (rng.standard_normal(rows) - gain) * (i > 0)
        choice = HeldOutChoice(1.0, 1, errors)
        table = np.array([[choice.error]])
        names = ("features", "evidence" if i else "ridge", i)
        records.append(PathRecord(*names, np.ones(1), np.ones(1, int), table, choice, choice, 1.0, (), i == 0))
    return records


@pytest.mark.parametrize("candidates", [1, 25])
@pytest.mark.parametrize("rows", [15, 100])
def test_ridge_is_left_by_chance_in_one_of_twenty_data_sets_and_for_a_clear_gain(candidates, rows):
    rng = np.random.default_rng(0)
    left = np.mean([choose(chance_records(rng, candidates, rows))[0].step > 0 for _ in range(2000)])
    assert 0.03 < left < 0.07
    assert all(choose(chance_records(rng, candidates, rows, gain=2.0))[0].step > 0 for _ in range(100))


def test_rows_that_several_folds_hold_out_count_once(data):
    """The same folds given twice say nothing new, so they change nothing."""
    folds = list(KFold(3, shuffle=True, random_state=5).split(data.design))
    once = SharedMetricRegressor(cv=folds).fit(data.design, data.targets)
    twice = SharedMetricRegressor(cv=folds + folds).fit(data.design, data.targets)
    assert_same_fit(once, twice, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(once.cv_mse_, twice.cv_mse_, rtol=1e-9)
    row_errors = rows_of(data, folds), rows_of(data, folds + folds)
    np.testing.assert_allclose(*row_errors, rtol=1e-9)


def rows_of(data, folds):
    basis = FeatureBasis(scale_data(data.design, data.targets, "float64"), (0.0,))
    parts = [basis.split(train, held).fold for train, held in folds]
    (record,) = search_path(parts, "features", "evidence", 0.3, [0], (), adapt=False)
    return record.best.row_errors


def test_few_rows_are_held_out_more_than_once():
    rows, targets = np.zeros((25, 2)), np.zeros((25, 1))
    splits = make_splits(5, 0, rows, targets)
    held = np.concatenate([part for _, part in splits])
    np.testing.assert_array_equal(np.bincount(held), 3)
    assert len({tuple(part) for _, part in splits}) == 15
    assert len(make_splits(5, 0, np.zeros((60, 2)), np.zeros((60, 1)))) == 5


def test_ridge_that_learned_nothing_has_the_penalty_of_leave_one_out():
    data = many_tasks("dense", np.random.default_rng(1), n=50, d=200, tasks=10)
    model = SharedMetricRegressor(steps=(0,), start_exponent=0, basis="features", dtype="float64")
    model.fit(data.design, data.targets)
    penalties = model.alpha_ / model.metric_[0] * np.array([0.5, 0.75, 1.0, 1.33, 2.0])
    errors = np.zeros(5)
    for i in range(50):
        rest = np.arange(50) != i
        for j, penalty in enumerate(penalties):
            ridge = Ridge(alpha=penalty).fit(data.design[rest], data.targets[rest])
            errors[j] += np.sum((ridge.predict(data.design[[i]]) - data.targets[i]) ** 2)
    assert np.argmin(errors) == 2


def test_noise_estimate_is_near_the_truth_where_the_metric_explains_the_targets():
    estimates = []
    for seed in range(4):
        data = many_tasks("sparse", np.random.default_rng(100 + seed), n=80, d=300, tasks=10, noise_variance=0.25)
        estimates.append(SharedMetricRegressor().fit(data.design, data.targets).noise_variance_)
    assert 0.2 < np.mean(estimates) < 0.3


def test_known_noise_variance_is_kept(data):
    model = SharedMetricRegressor(noise_variance=0.25).fit(data.design, data.targets)
    assert model.noise_variance_ == 0.25
    np.testing.assert_allclose(model.excess_risk_, max(model.cv_mse_ - 0.25, 0))


def test_principal_components_are_chosen_where_the_signal_is_rotated():
    data = many_tasks("rotated_power_laws", np.random.default_rng(2), n=80, d=300, tasks=20)
    model = SharedMetricRegressor().fit(data.design, data.targets)
    assert model.basis_ == "pca"
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(len(model.metric_)), atol=1e-4)
    ridge = RidgeCV(np.logspace(-4, 3, 29)).fit(data.design, data.targets)
    assert data.excess_risk(model.coef_.T) < data.excess_risk(ridge.coef_.T)


def test_features_of_one_group_share_one_weight_which_helps_if_the_groups_are_right():
    data = many_tasks("graded_groups", np.random.default_rng(4), n=80, d=400, tasks=10)
    groups = np.arange(400) // 20
    model = SharedMetricRegressor(groups=groups, start_exponent=0).fit(data.design, data.targets)
    weights = model.metric_.reshape(20, 20)
    np.testing.assert_allclose(weights, weights[:, :1] * np.ones(20), rtol=1e-4)
    alone = SharedMetricRegressor().fit(data.design, data.targets)
    assert data.excess_risk(model.coef_.T) < 0.95 * data.excess_risk(alone.coef_.T)


@pytest.mark.parametrize(("x", "y"), [(1e150, 1.0), (1e-150, 1e-100), (1.0, 1e150), (1e100, 1e-60), (1e-3, 1e3)])
def test_units_of_features_and_targets_only_change_units(data, fitted, x, y):
    model = SharedMetricRegressor().fit(x * data.design, y * data.targets)
    np.testing.assert_allclose(model.coef_ * (x / y), fitted.coef_, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(model.cv_mse_ / y / y, fitted.cv_mse_, rtol=1e-3)


def test_sizes_that_no_number_can_hold_are_refused(data):
    with pytest.raises(InputError, match="rescale"):
        SharedMetricRegressor().fit(1e-150 * data.design, 1e150 * data.targets)
    with pytest.raises(InputError, match="y must have a variance"):
        SharedMetricRegressor().fit(data.design, 1e-200 * data.targets)


def test_columns_of_very_different_sizes_are_learned_if_start_is_standardised(data):
    sizes = 10.0 ** np.linspace(-120, 120, 150)
    model = SharedMetricRegressor(start_exponent=-1, basis="features").fit(data.design, data.targets)
    stretched = clone(model).fit(data.design * sizes, data.targets)
    np.testing.assert_allclose(stretched.coef_ * sizes, model.coef_, rtol=1e-3, atol=1e-5)


def test_shifts_only_move_the_intercept(data, fitted):
    model = SharedMetricRegressor().fit(data.design + 3.0, data.targets - 7.0)
    np.testing.assert_allclose(model.coef_, fitted.coef_, rtol=1e-3, atol=1e-5)
    moved = fitted.intercept_ - 7.0 - 3.0 * fitted.coef_.sum(axis=1)
    np.testing.assert_allclose(model.intercept_, moved, rtol=1e-3, atol=1e-3)


def test_order_of_rows_does_not_matter_if_the_folds_move_along(data):
    order = np.random.default_rng(1).permutation(60)
    place = np.argsort(order)
    folds = list(KFold(5).split(data.design))
    moved = [(place[train], place[held]) for train, held in folds]
    first = SharedMetricRegressor(cv=folds).fit(data.design, data.targets)
    second = SharedMetricRegressor(cv=moved).fit(data.design[order], data.targets[order])
    assert_same_fit(first, second, rtol=1e-3, atol=1e-5)


def test_same_random_state_gives_the_same_fit_and_copies_predict_alike(data, fitted):
    again = clone(fitted).fit(data.design, data.targets)
    np.testing.assert_array_equal(again.coef_, fitted.coef_)
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(loaded.predict(data.design), fitted.predict(data.design))
    other = clone(fitted).set_params(random_state=9).fit(data.design, data.targets)
    assert other.cv_mse_ != fitted.cv_mse_


def test_path_is_a_table_whose_least_error_is_the_one_reported(fitted):
    path = fitted.path_
    assert {len(column) for column in path.values()} == {len(path["cv_mse"])}
    np.testing.assert_allclose(path["cv_mse"].min(), fitted.cv_mse_)
    best = np.argmin(path["cv_mse"])
    assert (path["basis"][best], path["step"][best]) == (fitted.basis_, fitted.steps_)
    np.testing.assert_allclose(path["alpha"][best], fitted.alpha_)


def test_single_target_warns_and_predicts_in_the_shape_of_y(data):
    with pytest.warns(UserWarning, match="one target"):
        flat = SharedMetricRegressor().fit(data.design, data.targets[:, 0])
    with pytest.warns(UserWarning, match="one target"):
        column = SharedMetricRegressor().fit(data.design, data.targets[:, :1])
    assert flat.predict(data.design).shape == (60,)
    assert column.predict(data.design).shape == (60, 1)
    np.testing.assert_allclose(column.predict(data.design)[:, 0], flat.predict(data.design))


def test_constant_targets_and_columns_are_harmless(data, fitted):
    design = np.column_stack([data.design, np.full(60, 0.1), np.zeros(60)])
    targets = np.column_stack([data.targets, np.full(60, 4.0)])
    model = SharedMetricRegressor().fit(design, targets)
    np.testing.assert_allclose(model.predict(design)[:, -1], 4.0, rtol=1e-9)
    assert (model.metric_[-2:] == 0).all()
    assert (model.coef_[:, -2:] == 0).all()
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("basis", ["auto", "features", "pca"])
def test_features_that_never_vary_give_the_mean(data, basis):
    model = SharedMetricRegressor(basis=basis).fit(np.ones((60, 3)), data.targets)
    np.testing.assert_allclose(model.predict(np.ones((2, 3))), np.tile(data.targets.mean(axis=0), (2, 1)))


def test_one_feature_equal_rows_and_many_rows_are_fine():
    rng = np.random.default_rng(0)
    design = np.repeat(rng.standard_normal((15, 1)), 4, axis=0)
    targets = design @ rng.standard_normal((1, 3)) + 0.01 * rng.standard_normal((60, 3))
    for rows in (design, np.hstack([design, design])):
        model = SharedMetricRegressor().fit(rows, targets)
        assert model.score(rows, targets) > 0.99


def test_exact_linear_targets_without_noise_are_recovered():
    rng = np.random.default_rng(0)
    design, coefficients = rng.standard_normal((60, 100)), np.zeros((100, 5))
    coefficients[:4] = rng.standard_normal((4, 5))
    model = SharedMetricRegressor().fit(design, design @ coefficients)
    np.testing.assert_allclose(model.coef_.T, coefficients, atol=0.02)


def test_final_fit_is_in_double_precision():
    """scikit-learn's Ridge on the learned features, far below the rounding of single precision."""
    rng = np.random.default_rng(0)
    design = rng.standard_normal((60, 8))
    targets = design @ rng.standard_normal((8, 5))
    model = SharedMetricRegressor(noise_variance=0).fit(design, targets)
    learned = model.transform(design)
    ridge = Ridge(alpha=model.alpha_, solver="svd").fit(learned, targets)
    np.testing.assert_allclose(model.predict(design), ridge.predict(learned), rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_components_are_orthonormal_where_column_scales_span_four_decades(dtype):
    rng = np.random.default_rng(0)
    design = rng.standard_normal((60, 100)) * 10.0 ** -np.linspace(0, 4, 100)
    targets = design[:, :3] / design[:, :3].std(axis=0) + rng.standard_normal((60, 3))
    found = SharedMetricRegressor(basis="pca", dtype=dtype).fit(design, targets).components_
    np.testing.assert_allclose(found @ found.T, np.eye(len(found)), atol=1e-5)


def test_more_targets_than_rows_are_as_good_as_fewer():
    data = many_tasks("sparse", np.random.default_rng(5), n=50, d=120, tasks=200)
    model = SharedMetricRegressor().fit(data.design, data.targets)
    assert model.coef_.shape == (200, 120)
    assert data.excess_risk(model.coef_.T, model.intercept_) < 1.5 * data.bayes_risk()


def test_pipeline_passes_the_learned_features_on(data):
    model = make_pipeline(SharedMetricRegressor(), RidgeCV())
    model.fit(data.design, data.targets)
    assert model.score(data.design, data.targets) > 0.5
    assert len(model[0].get_feature_names_out()) == np.count_nonzero(model[0].metric_)


def test_learned_features_have_the_names_of_the_input_and_components_that_of_the_class(data):
    names = np.array([f"gene {j}" for j in range(150)], dtype=object)
    model = SharedMetricRegressor(basis="features").fit(data.design, data.targets)
    kept = np.flatnonzero(model.metric_)
    assert 0 < len(kept) < 150
    assert model.get_feature_names_out(names).tolist() == [f"gene {j}" for j in kept]
    assert model.get_feature_names_out().tolist() == [f"x{j}" for j in kept]
    components = SharedMetricRegressor(basis="pca").fit(data.design, data.targets)
    assert components.get_feature_names_out()[0] == "sharedmetricregressor0"
    assert len(components.get_feature_names_out()) == components.transform(data.design).shape[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "evidense"}, "did you mean evidence"),
        ({"basis": "feature"}, "did you mean features"),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"cv": 31}, "cv must be >= 2 and leave at least two rows"),
        ({"cv": 1}, "cv must be >= 2"),
        ({"cv": []}, r"cv must give folds .*, got cv=\[\]"),
        ({"cv": [5]}, "cv must give pairs"),
        ({"cv": [([0, 1, 2], [3, 60])]}, r"cv must give rows as integers from 0 to 59, got \[3, 60\]"),
        ({"cv": [([0, 1, 2], [-1])]}, "cv must give rows"),
        ({"cv": [([0, 1, 2], [])]}, "cv must give folds with two training rows and a held-out one"),
        ({"noise_variance": -0.1}, "noise_variance must be >= 0"),
        ({"groups": [0, 1]}, r"groups must have shape \(150,\)"),
        ({"groups": np.zeros(150), "basis": "pca"}, "groups must be None"),
        ({"rank": 0}, "rank must be"),
        ({"steps": ()}, "steps must be"),
        ({"steps": (0, -1)}, "steps must be"),
        ({"steps": (0.5,)}, "steps must be"),
        ({"start_exponent": np.nan}, "start_exponent must be finite"),
        ({"start_exponent": 99}, "start_exponent must be >= -10"),
    ],
)
def test_wrong_parameters_are_refused(data, options, message):
    with pytest.raises(InputError, match=message):
        SharedMetricRegressor(**options).fit(data.design, data.targets)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, np.ones_like(y)), "not constant"),
        (lambda X, y: (X[:9], y[:9]), "n_samples=9"),
        (lambda X, y: (X[:, 0], y), "Expected 2D array"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers"),
        (lambda X, y: (np.where(X > 2, np.nan, X), y), "NaN"),
        (lambda X, y: (X, np.where(y > 1, np.inf, y)), "infinity"),
    ],
)
def test_wrong_data_are_refused(data, change, message):
    with pytest.raises(ValueError, match=message):
        SharedMetricRegressor().fit(*change(data.design, data.targets))


@pytest.mark.filterwarnings("ignore:y has one target")
@pytest.mark.parametrize(
    ("basis", "tasks", "kind"), [("features", 4, "sparse"), ("pca", 4, "power_laws"), ("auto", 1, "dense")]
)
def test_rows_in_a_basis_of_their_span_give_what_all_rows_give(monkeypatch, basis, tasks, kind):
    """More rows than columns are replaced by as many as there are columns; products of all rows are the reference."""
    data = many_tasks(kind, np.random.default_rng(3), n=120, d=25, tasks=tasks, noise_variance=0.25)
    X = np.column_stack([data.design, np.full(120, 2.0), data.design[:, 0]])
    found = SharedMetricRegressor(basis=basis, dtype="float64").fit(X, data.targets)
    monkeypatch.setattr("unlazy.estimators.metric.bases._is_tall", lambda rows: False)
    expected = SharedMetricRegressor(basis=basis, dtype="float64").fit(X, data.targets)
    assert (found.criterion_, found.steps_, found.rank_) == (expected.criterion_, expected.steps_, expected.rank_)
    np.testing.assert_allclose(found.path_["cv_mse"], expected.path_["cv_mse"], rtol=1e-6)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.metric_spectrum_, expected.metric_spectrum_, rtol=1e-6, atol=1e-10)
    assert found.noise_variance_ == pytest.approx(expected.noise_variance_, rel=1e-6)

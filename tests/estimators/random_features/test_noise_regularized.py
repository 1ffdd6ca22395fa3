import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

from unlazy.checks import InputError
from unlazy.estimators import NoiseRegularizedRidge
from unlazy.estimators.random_features.noisy_features import noisy_features
from unlazy.functions.elementwise import as_activation
from unlazy.theory.one_step.noise_injection import noise_injection_equivalent


@pytest.mark.filterwarnings("ignore:y has one target")
@parametrize_with_checks([NoiseRegularizedRidge(width=30), NoiseRegularizedRidge(0.0, width=30)])
def test_estimator_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


def features(model, X, noise=0.0):
    rows = (X - model.mean_) / model.deviation_
    return np.tanh((rows + noise) @ model.weights_ + model.biases_)


def augmented(model, X, y, delta, alpha, copies, rng):
    """Coefficients and intercept of ridge regression on so many noisy copies of each row, each of weight 1/copies."""
    count = model.weights_.shape[1]
    gram, moment = np.diag(np.append(np.full(count, alpha), 0.0)), np.zeros(count + 1)
    for _ in range(copies):
        design = np.column_stack([features(model, X, delta * rng.standard_normal(X.shape)), np.ones(len(X))])
        gram, moment = gram + design.T @ design / copies, moment + design.T @ y / copies
    return np.linalg.solve(gram, moment)


@pytest.mark.parametrize("load", [load_diabetes, load_wine])
@pytest.mark.parametrize("delta", [0.3, 1.0])
def test_closed_form_equals_explicit_augmentation_up_to_its_monte_carlo_error(load, delta):
    X, y = load(return_X_y=True)
    y = (y - y.mean()) / y.std()
    model = NoiseRegularizedRidge(delta**2, alpha=0.01, width=100).fit(X, y)
    rng = np.random.default_rng(7)
    design = np.column_stack([features(model, X), np.ones(len(X))])
    one, other = (design @ augmented(model, X, y, delta, 0.01, 400, rng) for _ in range(2))
    allowed = 1.5 * np.std(one - other) / np.sqrt(2)
    assert np.std((one + other) / 2 - model.predict(X)) < allowed
    wrong = clone(model).set_params(input_noise_variance=(0.8 * delta) ** 2).fit(X, y)
    assert np.std((one + other) / 2 - wrong.predict(X)) > allowed


def test_without_noise_it_is_ridge_on_random_features():
    X, y = load_diabetes(return_X_y=True)
    model = NoiseRegularizedRidge(0.0, alpha=0.3, width=150).fit(X, y)
    plain = Ridge(alpha=0.3).fit(features(model, X), y)
    np.testing.assert_allclose(model.predict(X), plain.predict(features(model, X)), rtol=1e-7)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-5, atol=1e-6 * np.abs(plain.coef_).max())
    left_out = cross_val_predict(Ridge(alpha=0.3), features(model, X), y, cv=LeaveOneOut())
    np.testing.assert_allclose(model.loo_mse_, np.mean((y - left_out) ** 2), rtol=1e-6)


def test_vanishing_noise_is_no_noise():
    X, y = load_diabetes(return_X_y=True)
    for activation in ("tanh", "relu"):
        plain, faint = (
            NoiseRegularizedRidge(delta**2, alpha=1.0, width=80, activation=activation).fit(X, y).predict(X)
            for delta in (0.0, 1e-6)
        )
        np.testing.assert_allclose(faint, plain, atol=1e-3 * y.std())


@pytest.mark.parametrize("delta", [0.4, 1.2])
def test_left_out_error_is_that_of_fits_without_the_row(delta):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((25, 3))
    y = np.tanh(X[:, 0]) + 0.3 * rng.standard_normal(25)
    model = NoiseRegularizedRidge(delta**2, alpha=[0.05, 1.0], width=20).fit(X, y)
    hidden = (X - model.mean_) / model.deviation_ @ model.weights_ + model.biases_
    noisy = noisy_features(as_activation("tanh"), delta, hidden, model.weights_.T @ model.weights_)
    for alpha, found in zip(model.path_["alpha"], model.path_["loo_mse"], strict=True):
        errors = []
        for i in range(25):
            kept = np.arange(25) != i
            design = np.column_stack([noisy.mean[kept], np.ones(24)])
            penalty = np.zeros((21, 21))
            penalty[:-1, :-1] = 25 * noisy.covariance + alpha * np.eye(20)
            solution = np.linalg.solve(design.T @ design + penalty, design.T @ y[kept])
            errors.append(y[i] - np.append(np.tanh(hidden[i]), 1.0) @ solution)
        np.testing.assert_allclose(found, np.mean(np.square(errors)), rtol=1e-8)


@pytest.mark.parametrize("dimension", [1, 2, 40])
def test_covariance_of_a_quadratic_activation_has_its_closed_form(dimension):
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((dimension, 12))
    weights /= np.linalg.norm(weights, axis=0)
    hidden, cosines, delta = rng.standard_normal((50, dimension)) @ weights, weights.T @ weights, 0.7
    found = noisy_features(as_activation(np.square), delta, hidden, cosines)
    np.testing.assert_allclose(found.mean, hidden**2 + delta**2, atol=1e-5)
    expected = 4 * delta**2 * cosines * (hidden.T @ hidden / 50) + 2 * delta**4 * cosines**2
    np.testing.assert_allclose(found.covariance, expected, atol=1e-5)


@pytest.mark.parametrize("activation", ["tanh", "relu", "erf"])
def test_covariance_in_one_dimension_is_that_of_a_fine_sum_over_the_noise(activation):
    # all cosines are 1 or -1, the worst case for the series
    rng = np.random.default_rng(2)
    signs = np.sign(rng.standard_normal(10))
    hidden = rng.standard_normal((300, 1)) * signs + rng.standard_normal(10)
    function = as_activation(activation)
    found = noisy_features(function, 1.0, hidden, np.outer(signs, signs))
    z = np.linspace(-9, 9, 3001)
    weights = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    copies = function(hidden[:, None] + z[None, :, None] * signs)
    mean = np.einsum("z,iza->ia", weights, copies)
    second = np.einsum("z,iza,izb->ab", weights, copies, copies, optimize=True) / len(hidden)
    np.testing.assert_allclose(found.mean, mean, atol=1e-4)
    np.testing.assert_allclose(found.covariance, second - mean.T @ mean / len(hidden), atol=3e-3)


def test_risk_on_gaussian_rows_is_that_of_the_theory():
    d, n, count, seeds, delta = 150, 375, 225, 8, 0.5
    expected = noise_injection_equivalent(
        "tanh", np.sign, n / d, count / d, 1e-3, 0.04, input_noise_variance=delta**2
    ).test_error
    errors = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X, fresh = rng.standard_normal((n, d)), rng.standard_normal((4000, d))
        model = NoiseRegularizedRidge(delta**2, alpha=1e-3 * n, width=count, bias_deviation=0.0, random_state=seed)
        model.fit(X, np.sign(X[:, 0]) + 0.2 * rng.standard_normal(n))
        errors.append(np.mean((model.predict(fresh) - np.sign(fresh[:, 0])) ** 2) + 0.04)
    allowed = 4 * np.std(errors, ddof=1) / np.sqrt(seeds) + 0.02 * expected
    assert abs(np.mean(errors) - expected) < allowed < 0.2 * expected


def test_noise_removes_the_interpolation_peak():
    rng = np.random.default_rng(3)
    X, fresh = rng.standard_normal((200, 20)), rng.standard_normal((2000, 20))
    truth = np.tanh(2 * fresh[:, 0])
    y = np.tanh(2 * X[:, 0]) + 0.3 * rng.standard_normal(200)
    plain, noisy = (
        np.mean((NoiseRegularizedRidge(noise, alpha=1e-3, width=200).fit(X, y).predict(fresh) - truth) ** 2)
        for noise in (0.0, "cv")
    )
    assert noisy < 0.2 * plain
    assert noisy < 0.5 * np.var(truth)


def test_choice_is_the_least_left_out_error_of_the_grid():
    X, y = load_diabetes(return_X_y=True)
    model = NoiseRegularizedRidge([0.0, 0.09, 0.64], alpha=[0.1, 1.0, 10.0], width=60).fit(X, y)
    path = model.path_
    assert len(path["loo_mse"]) == 9
    best = np.argmin(path["loo_mse"])
    assert (model.input_noise_variance_, model.alpha_, model.loo_mse_) == tuple(
        path[k][best] for k in ("input_noise_variance", "alpha", "loo_mse")
    )
    again = clone(model).set_params(input_noise_variance=model.input_noise_variance_, alpha=model.alpha_).fit(X, y)
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-12)


def test_several_targets_are_fitted_side_by_side():
    X, y = load_diabetes(return_X_y=True)
    pair = np.column_stack([y, -3 * y**2])
    both = NoiseRegularizedRidge(0.16, alpha=0.5, width=50).fit(X, pair).predict(X)
    for column in range(2):
        alone = NoiseRegularizedRidge(0.16, alpha=0.5, width=50).fit(X, pair[:, column]).predict(X)
        np.testing.assert_allclose(both[:, column], alone, rtol=1e-8)


def test_units_constant_columns_and_few_rows_do_no_harm():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((30, 100))
    y = X[:, 0]
    plain = NoiseRegularizedRidge(width=40).fit(X, y).predict(X)
    scaled = NoiseRegularizedRidge(width=40).fit(1e90 * X + 1e90, 1e-60 * y)
    np.testing.assert_allclose(1e60 * scaled.predict(1e90 * X + 1e90), plain, atol=1e-6)
    X[:, 7] = 5.0
    assert np.isfinite(NoiseRegularizedRidge(width=40).fit(X, y).predict(X)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_noise_variance": -0.1}, "input_noise_variance must be >= 0"),
        ({"input_noise_variance": [0.1, np.nan]}, "input_noise_variance must be finite"),
        ({"input_noise_variance": "best"}, "input_noise_variance must be 'cv'"),
        ({"input_noise_variance": [[0.1]]}, "input_noise_variance must be a number or a list"),
        ({"input_noise_variance": []}, "input_noise_variance must not be empty"),
        ({"alpha": 0.0}, "alpha must be >= 1e-08"),
        ({"alpha": "auto"}, "alpha must be numeric"),
        ({"width": 0}, "width must be an integer >= 1"),
        ({"width": 2.5}, "width must be an integer >= 1 and <= .*, got 2.5"),
        ({"activation": "tanhh"}, r"activation must be one of .*did you mean tanh\?"),
        ({"activation": np.log}, "activation must be finite"),
        ({"activation": np.sum}, "activation must return one number per point"),
        ({"bias_deviation": -1.0}, "bias_deviation must be >= 0"),
        ({"bias_deviation": "1"}, "bias_deviation must be numeric, got '1'"),
        ({"alpha": "0.1"}, "alpha must be numeric, got '0.1'"),
        ({"input_noise_variance": True}, "input_noise_variance must be numeric, got True"),
        ({"width": "5"}, "width must be an integer >= 1 and <= .*, got '5'"),
        ({"activation": lambda x: x + 1j}, "activation must be real, got complex numbers"),
        ({"activation": lambda x: 1e200 * np.tanh(x)}, r"activation must have values up to 1e\+100 .*got .*e\+"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, message):
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(InputError, match=message) as caught:
        NoiseRegularizedRidge(**options).fit(X, y)
    assert "\n" not in str(caught.value)


def test_constant_target_is_refused():
    with pytest.raises(InputError, match="y must have a target that is not constant"):
        NoiseRegularizedRidge().fit(np.arange(20.0).reshape(10, 2), np.ones(10))


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("activation", [np.sign, lambda x: np.tanh(20 * x)])
def test_covariance_of_steep_activations_of_few_inputs_is_that_of_a_fine_sum_over_the_noise(activation, dimension):
    rng = np.random.default_rng(12)
    weights = rng.standard_normal((dimension, 8))
    weights /= np.linalg.norm(weights, axis=0)
    hidden = rng.standard_normal((30, dimension)) @ weights + rng.standard_normal(8)
    found = noisy_features(as_activation(activation), 0.5, hidden, weights.T @ weights).covariance
    z = np.linspace(-6, 6, 6001 if dimension == 1 else 241)
    grid = np.stack(np.meshgrid(*[z] * dimension), axis=-1).reshape(-1, dimension)
    chance = np.exp(-np.sum(grid**2, axis=1) / 2)
    expected = np.mean(
        [np.cov(activation(h + 0.5 * grid @ weights).T, aweights=chance, ddof=0) for h in hidden], axis=0
    )
    np.testing.assert_allclose(found, expected, atol=0.01 * expected.max())


def test_covariance_of_many_rows_is_near_that_of_all_of_them():
    """2000 of 6000 rows: entries are means over rows of numbers that spread by about 0.3 of the largest."""
    rng = np.random.default_rng(13)
    weights = rng.standard_normal((10, 15))
    weights /= np.linalg.norm(weights, axis=0)
    hidden, cosines = rng.standard_normal((6000, 10)) @ weights, weights.T @ weights
    function = as_activation("tanh")
    found = noisy_features(function, 0.7, hidden, cosines)
    parts = [noisy_features(function, 0.7, part, cosines) for part in np.split(hidden, 3)]
    expected = np.mean([part.covariance for part in parts], axis=0)
    np.testing.assert_allclose(found.covariance, expected, atol=4 * 0.3 / np.sqrt(2000) * expected.max())
    assert np.abs(found.covariance - 0.8 * expected).max() > 4 * 0.3 / np.sqrt(2000) * expected.max()
    np.testing.assert_allclose(found.mean, np.concatenate([part.mean for part in parts]), atol=1e-6)


def test_activation_may_work_in_place():
    rng = np.random.default_rng(14)
    X = rng.standard_normal((60, 3))
    y = np.tanh(X[:, 0]) + 0.1 * rng.standard_normal(60)
    plain, in_place = (
        NoiseRegularizedRidge(width=30, activation=activation).fit(X, y).predict(X)
        for activation in (np.tanh, lambda x: np.tanh(x, out=x))
    )
    np.testing.assert_array_equal(in_place, plain)


@pytest.mark.filterwarnings("error")
def test_rows_far_beyond_the_training_rows_are_refused_or_predicted_by_finite_numbers():
    rng = np.random.default_rng(15)
    X = rng.standard_normal((60, 3))
    model = NoiseRegularizedRidge(width=30).fit(1e-100 * X, X[:, 0])
    assert np.isfinite(model.predict(1e100 * X)).all()
    with pytest.raises(InputError, match=r"X must be a finite number of training standard deviations .*e\+2"):
        model.predict(1e250 * X)


def test_constant_inputs_without_biases_are_predicted_by_the_mean():
    y = np.arange(20.0)
    model = NoiseRegularizedRidge(width=5, bias_deviation=0.0).fit(np.ones((20, 2)), y)
    np.testing.assert_allclose(model.predict(np.ones((2, 2))), 9.5)

import copy

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from unlazy.checks import InputError
from unlazy.estimators import MeanFieldClassifier, MeanFieldRegressor, network_certificate, optimality_certificate
from unlazy.estimators.mean_field.fit import NetworkSetting, padded, train_all, width_spread

pytestmark = pytest.mark.usefixtures("optimised")
FIXED = {"amplitude": 3.0, "prior_scale": 0.7, "temperature": 0.01, "particles": 32, "steps": 300}


# sklearn's checks meet two dozen shapes, each with its own compiled program
@pytest.mark.slow
@parametrize_with_checks(
    [
        MeanFieldRegressor(**FIXED, certificate=False, random_state=0),
        MeanFieldClassifier(**FIXED, certificate=False, random_state=0),
    ]
)
def test_estimators_keep_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


def parity(n, d=20, seed=0):
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (n + 1000, d))
    y = np.where(signs[:, 0] * signs[:, 1] > 0, "even", "odd")
    return signs[:n], y[:n], signs[n:], y[n:]


@pytest.mark.slow
def test_classifier_learns_a_parity_better_than_the_best_kernel_machine():
    from sklearn.svm import SVC

    x, y, x_test, y_test = parity(200)
    settings = {"amplitude": 10.0, "prior_scale": 0.2, "temperature": 0.003}
    model = MeanFieldClassifier(**settings, particles=128, steps=1500, certificate=False, random_state=0).fit(x, y)
    assert model.score(x_test, y_test) > 0.9
    kernels = (SVC(C=c, gamma=g / 20).fit(x, y) for c in (0.1, 1, 10, 100) for g in (0.1, 1, 10))
    assert model.score(x_test, y_test) > max(kernel.score(x_test, y_test) for kernel in kernels)
    chances = model.predict_proba(x_test)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (model.classes_[chances.argmax(axis=1)] == model.predict(x_test)).all()


def test_width_spread_is_the_formula_with_full_covariances():
    rng = np.random.default_rng(0)
    particles, rows, new = rng.standard_normal((40, 3)), rng.standard_normal((12, 3)), rng.standard_normal((5, 3))
    amplitude, temperature, curvature = 2.0, 0.05, rng.uniform(0.1, 1, 12) / 12
    at_rows, at_new = (amplitude * np.tanh(particles @ x.T) for x in (rows, new))
    joint = np.cov(np.hstack([at_rows, at_new]).T, bias=True)
    inner, cross, own = joint[:12, :12], joint[:12, 12:], joint[12:, 12:]
    expected = np.diag(own - cross.T @ np.linalg.solve(inner + np.diag(temperature / curvature), cross))
    found = width_spread(particles, rows, amplitude, temperature, curvature).deviation(new, 10)
    np.testing.assert_allclose(found, np.sqrt(expected / 10), rtol=1e-8)


def test_padding_changes_no_mean():
    rows = padded(np.ones((50, 6)), np.ones((2, 50)))
    assert rows.weights.sum() == pytest.approx(1)
    assert (rows.weights > 0).sum() == 50
    assert rows.inputs.shape[0] >= 50
    assert rows.inputs.sum() == 50 * 7


def test_bold_steps_stay_stable_where_the_confinement_is_strong():
    """Four safe steps would be 3 / (2 confinement) here, and the linear confinement is unstable beyond 1."""
    rows = np.random.default_rng(0).standard_normal((24, 5))
    labels = np.sign(rows[:, :1]).T
    some, setting = padded(rows, labels), NetworkSetting(*np.array([[1.0], [0.1], [0.1]]))
    trained = train_all(
        0, some, some.labels, some.weights[None], setting, loss="logistic", count=64, steps=500, whole=True
    )
    assert np.isfinite(trained.predictions).all()
    # with so much entropy and so little height the data say next to nothing
    assert np.sqrt(np.mean(trained.clouds**2)) == pytest.approx(0.1, rel=0.15)


@pytest.fixture(scope="module")
def sine():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (100, 1))
    y = 5 + 2 * np.sin(2 * x[:, 0]) + 0.2 * rng.standard_normal(100)
    model = MeanFieldRegressor(amplitude=4.0, prior_scale=1.0, temperature=0.03, steps=1000, random_state=0)
    return model.fit(x[:64], y[:64]), x, y


def test_gap_of_a_trained_regressor_is_certified_and_small(sine):
    model, x, y = sine
    assert model.certificates_[0].holds
    # the loss of the mean of y is 0.5
    assert -4 * model.optimality_gap_se_ < model.optimality_gap_ < 0.05
    assert model.score(x[64:], y[64:]) > 0.5
    both = model.predict(x), model.predict(x, law="gibbs")
    assert np.abs(both[0] - both[1]).max() < 0.3 * np.std(y)
    mean, deviation = model.predict(x[:64], return_std=True)
    np.testing.assert_array_equal(mean, model.predict(x[:64]))
    np.testing.assert_allclose(deviation, model.width_std_, rtol=1e-4)


def test_certificates_by_function_agree_with_that_of_the_fit(sine):
    model, x, y = sine
    again = optimality_certificate(model, x[:64], y[:64], markov_chains=4096, random_state=1)[0]
    assert again.holds
    error = np.hypot(again.standard_error, model.optimality_gap_se_)
    assert abs(again.optimality_gap - model.optimality_gap_) < 4 * error
    with pytest.raises(InputError, match="y must have one entry per row of X"):
        optimality_certificate(model, x[:64], y[:60])


def test_the_certified_law_is_refused_where_its_certificate_failed(sine):
    model, x, _ = sine
    failed = copy.copy(model)
    failed.certificates_ = [model.certificates_[0]._replace(reasons=("two halves differ",))]
    with pytest.raises(InputError, match=r"law='gibbs' needs a certificate that passed.*two halves differ"):
        failed.predict(x, law="gibbs")


@pytest.mark.slow
def test_posterior_covers_networks_drawn_from_its_prior():
    """Labels made by a network of the prior: 90% intervals of the posterior hold its values in 80 to 97% of places."""
    count, n, d, amplitude, scale, noise = 32, 120, 2, 10.0, 1.0, 0.3
    covered = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        weights = scale * rng.standard_normal((count, d + 1))
        x = rng.standard_normal((n + 200, d))
        truth = amplitude * np.tanh(x @ weights[:, :d].T + weights[:, d]).mean(axis=1)
        y = truth + noise * rng.standard_normal(len(x))
        model = MeanFieldRegressor(
            amplitude=amplitude / y[:n].std(),
            prior_scale=scale,
            particles=count,
            steps=400,
            posterior=True,
            temperature=1.0,
            noise_variance=noise**2,
            certificate=False,
            random_state=seed,
        ).fit(x[:n], y[:n])
        mean, deviation = model.predict(x[n:], return_std=True)
        covered.append(np.mean(np.abs(mean - truth[n:]) < 1.645 * deviation))
    assert 0.8 < np.mean(covered) < 0.97


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "temperature must be > 0, got 0"),
        ({"prior_scale": -1.0}, "prior_scale must be > 0, got -1"),
        ({"amplitude": "large"}, "amplitude must be 'auto', a number > 0 or a list of such, got 'large'"),
        ({"particles": 1}, "particles must be an integer >= 2, got 1"),
        ({"steps": 10}, "steps must be an integer >= 100, got 10"),
        ({"noise_variance": -1}, "noise_variance must be > 0, got -1"),
        ({"posterior": True}, "noise_variance must be a number where"),
    ],
)
def test_bad_settings_are_named(settings, message):
    x = np.arange(20.0).reshape(10, 2)
    with pytest.raises(InputError, match=message):
        MeanFieldRegressor(**(FIXED | settings)).fit(x, x[:, 0] ** 2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": np.full(5, 0.5), "loss": "logistic"}, "y must be -1 or 1 for the logistic loss, got 0.5"),
        ({"cloud": np.ones((3, 2))}, "cloud must have d \\+ 1 = 3 columns, got 2"),
        ({"temperature": -0.1}, "temperature must be > 0, got -0.1"),
        ({"loss": "hinge"}, "loss must be one of square, logistic"),
        ({"y": np.ones(4)}, "y must have one entry per row of X, got 4 for 5"),
    ],
)
def test_bad_input_of_a_certificate_is_named(changed, message):
    arguments = {"cloud": np.ones((3, 3)), "X": np.ones((5, 2)), "y": np.ones(5)} | changed
    settings = {"amplitude": 1.0, "temperature": 0.1, "confinement": 0.1} | arguments
    with pytest.raises(InputError, match=message):
        network_certificate(**settings)


def test_labels_of_one_class_are_refused():
    with pytest.raises(InputError, match="at least 2 classes, got 1 class"):
        MeanFieldClassifier(**FIXED).fit(np.ones((6, 2)), np.zeros(6))


SEARCHED = {"amplitude": [3.0], "prior_scale": 0.5, "temperature": [0.003, 0.01], "particles": 32, "steps": 300}


def test_ridge_is_kept_where_y_is_linear_and_left_where_it_bends():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 3))
    straight = x @ [1.0, 2.0, -1.0] + 0.5 * rng.standard_normal(300)
    bent = np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(300)
    ridge = MeanFieldRegressor(**SEARCHED, certificate=False, random_state=0).fit(x, straight)
    assert ridge.stage_ == "ridge"
    assert ridge.stage_scores_["ridge"] > ridge.stage_scores_["network"] - 0.05
    # ridge regression is linear: its second differences are 0
    steps = ridge.predict(np.outer([-1.0, 0.0, 1.0], [1.0, 1.0, 1.0]))
    assert steps[0] - 2 * steps[1] + steps[2] == pytest.approx(0, abs=1e-9)
    network, deviation = ridge.predict(x, return_std=True)
    assert np.ptp(network - ridge.predict(x)) > 0
    assert (deviation > 0).all()
    bends = MeanFieldRegressor(**SEARCHED, certificate=False, random_state=0).fit(x, bent)
    assert bends.stage_ == "network"
    # a network of tanh is bounded
    assert np.abs(bends.predict(1e6 * x)).max() < np.abs(bent.mean()) + 3.0 * bent.std() * 1.01


def test_of_many_rows_some_train_the_network_and_none_are_certified(monkeypatch):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((700, 3))
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(700)
    monkeypatch.setattr("unlazy.estimators.mean_field.base._MOST_ROWS", 400)
    monkeypatch.setattr("unlazy.estimators.mean_field.base._MOST_CERTIFIED_ROWS", 300)
    with pytest.warns(UserWarning, match="certificates are made up to 300 rows, got 400"):
        model = MeanFieldRegressor(**SEARCHED, random_state=0).fit(x, y)
    assert len(np.unique(model.training_indices_)) == len(model.width_std_) == 400
    assert np.isnan(model.optimality_gap_)
    with pytest.raises(InputError, match="law='gibbs' needs a certificate"):
        model.predict(x, law="gibbs")
    # the scales are those of all rows
    np.testing.assert_allclose(model.mean_, x.mean(axis=0))

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.studies.index_models.additive_localisation import AdditiveLocalisation, _missed
from unlazy.studies.index_models.additive_scaling import AdditiveScaling
from unlazy.studies.index_models.fine_tuning import FineTuning
from unlazy.studies.index_models.kernel_vs_index import LEARNERS, KernelVsIndex
from unlazy.studies.index_models.shared.lasso import PENALTIES, SMALLEST, lasso_cv
from unlazy.studies.index_models.shared.one_shot import one_shot_direction, one_shot_overlap


@pytest.mark.parametrize(("n", "features"), [(50, 60), (150, 60), (60, 8)])
def test_the_lasso_is_that_of_scikit_learn(n, features):
    from sklearn.linear_model import LassoCV

    rng = np.random.default_rng(0)
    x = np.maximum(
        rng.standard_normal((160, 6)) @ rng.standard_normal((6, features)) / 2 + rng.uniform(-2, 2, features), 0
    )
    y = np.tanh(x[:, 0]) + x[:, 1] + 0.1 * rng.standard_normal(160)
    with jax.enable_x64(True):
        given = jnp.asarray(x), jnp.asarray(y), n
        found, usual = (jax.jit(lasso_cv, static_argnums=3)(*given, sweeps) for sweeps in (1000, 20))
    rows, labels = x[:n], y[:n]
    largest = np.abs((rows - rows.mean(axis=0)).T @ (labels - labels.mean())).max() / n
    folds = [(np.flatnonzero(np.arange(n) % 5 != k), np.flatnonzero(np.arange(n) % 5 == k)) for k in range(5)]
    penalties = largest * np.geomspace(1, SMALLEST, PENALTIES)
    expected = LassoCV(alphas=penalties, cv=folds, tol=1e-10, max_iter=10**6).fit(rows, labels)
    np.testing.assert_allclose(found.penalty, expected.alpha_, rtol=1e-9)
    for fit, tolerance in ((found, 1e-5), (usual, 0.02)):
        fitted = x @ np.asarray(fit.coefficients) + float(fit.intercept)
        assert np.std(fitted - expected.predict(x)) < tolerance * y.std()
        assert abs(np.mean(fitted - expected.predict(x))) < tolerance * y.std()


def test_missed_is_the_chance_over_all_choices_of_neurons():
    from itertools import combinations

    neurons, found = 7, 2
    for width in range(1, 8):
        without = [not {0, 1} & set(chosen) for chosen in combinations(range(neurons), width)]
        np.testing.assert_allclose(
            _missed(jnp.asarray(found), neurons, jnp.asarray(float(width))), np.mean(without), atol=1e-5
        )


def test_one_shot_overlaps_are_those_of_the_note():
    # |z| with T = 1 - 1/max(z^2, 1e-3) and lambda_1^2 of He3
    found = [one_shot_overlap("He2", ratio) for ratio in (1.0, 2.0, 4.0)]
    np.testing.assert_allclose(found, [0.2307, 0.6388811, 0.92449], atol=2e-3)
    assert one_shot_overlap("He2", 0.4999) == 0 < one_shot_overlap("He2", 0.6)
    signal = 4 * 0.6678316716
    np.testing.assert_allclose(one_shot_overlap("He3", 4.0), signal / (1 + signal), rtol=1e-8)


@pytest.mark.parametrize("link", ["He2", "He3"])
def test_one_shot_directions_have_the_predicted_overlap(link):
    from unlazy.functions.links import link as named

    rng = np.random.default_rng(1)
    d, n, squares = 200, 800, []
    for _ in range(12):
        rows = rng.standard_normal((n, d))
        squares.append(one_shot_direction(rows, named(link)(rows[:, 0]), link)[0] ** 2)
    expected, error = one_shot_overlap(link, n / d), np.std(squares, ddof=1) / np.sqrt(12)
    assert abs(np.mean(squares) - expected) < 4 * error + 2 / d
    assert abs(np.mean(squares) - 0.8 * expected) > 4 * error + 2 / d


def test_a_kernel_learns_all_and_the_index_too_where_samples_abound():
    score = KernelVsIndex(link="He2", d=8, samples_per_dimension=40.0).simulate(np.random.default_rng(2))["score"]
    found = dict(zip(LEARNERS, score, strict=True))
    assert found["matched kernel"] > 0.999
    assert found["refined index"] > 0.999
    assert found["one-shot index"] > 0.9


def test_without_samples_of_the_second_degree_a_kernel_has_n_over_its_multiplicity():
    d = 40
    harmonics = (d - 1) * (d + 2) / 2
    predicted = KernelVsIndex(link="He2", d=d, samples_per_dimension=4.0).predict()
    np.testing.assert_allclose(predicted["bound"], 4 * d / harmonics)
    np.testing.assert_allclose(predicted["score"][0], predicted["bound"], rtol=0.02)


@pytest.mark.parametrize(
    ("study", "message"),
    [
        (AdditiveScaling(tasks=32), "tasks must be at most most_tasks = 16, got 32"),
        (AdditiveScaling(d=6), "d must be at least tasks \\+ 3 = 7, got 6"),
        (AdditiveScaling(d=100_000), "tasks, d and step would need up to 5e\\+11 samples, more than 1e\\+09"),
        (AdditiveScaling(start=8.0), "start must be below the root of d = 64, got 8"),
        (AdditiveLocalisation(width=(8, 128)), "width must be at most most_neurons = 64, got 128"),
        (AdditiveLocalisation(d=10), "d must be at least tasks \\+ 3 = 11, got 10"),
        (FineTuning(fresh_samples=(50, 400)), "fresh_samples must be at most most_samples = 200, got 400"),
        (FineTuning(tasks=62), "d must be at least tasks \\+ 3 = 65, got 64"),
    ],
)
def test_parameters_that_do_not_fit_are_named(study, message):
    with pytest.raises(InputError, match=message):
        study.validate()


def test_random_starts_of_one_task_have_no_flow():
    assert np.isinf(AdditiveScaling(tasks=1, start=0.0).predict()["samples"])
    many = [AdditiveScaling(tasks=tasks, start=0.0).predict()["drift_only"] / tasks for tasks in (2, 4, 16)]
    assert many[0] > many[1] > many[2]


@pytest.mark.parametrize("name", ["He2", "He3"])
def test_transforms_in_closed_form_are_those_of_the_theory(name):
    from unlazy.functions.links import link
    from unlazy.studies.index_models.shared.one_shot import best_weights
    from unlazy.theory.index_models.spectral.estimators import best_linear_transform, best_spectral_transform

    labels = link(name)(np.random.default_rng(5).standard_normal(200))
    expected = (best_linear_transform if name == "He3" else best_spectral_transform)(name)(labels)
    np.testing.assert_allclose(best_weights(labels, name), expected, rtol=1e-9, atol=1e-9)

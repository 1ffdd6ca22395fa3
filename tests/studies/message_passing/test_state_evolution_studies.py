import dataclasses

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.studies.message_passing.glm_state_evolution import GLMStateEvolution
from unlazy.studies.message_passing.lasso_error import LassoError
from unlazy.studies.message_passing.mixture_classification import MixtureClassification
from unlazy.studies.message_passing.shared.convex_fits import fit, fit_logistic
from unlazy.studies.message_passing.shared.evolution import fixed_count


@pytest.fixture(params=[20, 120])
def problem(request):
    rng = np.random.default_rng(0)
    design = rng.standard_normal((request.param, 40)) / np.sqrt(40)
    return design, np.sign(design @ rng.standard_normal(40) + 0.5 * rng.standard_normal(request.param))


@pytest.mark.parametrize("bias", [True, False])
def test_logistic_fits_are_those_of_scikit_learn(problem, bias):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1 / 0.05, fit_intercept=bias, tol=1e-12, max_iter=10_000).fit(*problem)
    weights, offset = fit_logistic(*problem, 0.05, bias)
    np.testing.assert_allclose(weights, model.coef_[0], atol=2e-5)
    np.testing.assert_allclose(offset, np.ravel(model.intercept_)[0] if bias else 0.0, atol=2e-5)


def test_hinge_fits_have_no_duality_gap(problem):
    """A lower bound of the objective: the dual at the clipped forces of the margins, in which the fit is no input."""
    from sklearn.svm import LinearSVC

    design, labels = problem
    weights = fit("hinge", design, labels, 0.05)
    model = LinearSVC(C=1 / 0.05, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=1_000_000).fit(design, labels)

    def objective(w):
        return np.maximum(1 - labels * (design @ w), 0).sum() + 0.025 * w @ w

    np.testing.assert_allclose(objective(weights), objective(model.coef_[0]), rtol=1e-5)
    np.testing.assert_allclose(weights, model.coef_[0], atol=2e-3)


def test_square_fits_solve_the_normal_equations(problem):
    design, labels = problem
    weights = fit("square", design, labels, 0.05)
    np.testing.assert_allclose(design.T @ (labels - design @ weights), 0.05 * weights, atol=1e-10)


@pytest.mark.parametrize(("label", "noise"), [("linear", 0.3), ("sign", 0.1), ("probit", 0.5), ("logit", 3.0)])
def test_test_errors_given_the_overlaps_are_averages_over_a_large_sample(label, noise):
    loss = "square" if label == "linear" else "logistic"
    study = GLMStateEvolution(loss=loss, label=label, label_noise=noise, n=(400_000,))
    rng = np.random.default_rng(0)
    fields, other = rng.standard_normal((2, 400_000))
    scores = 1.2 * fields + 0.7 * other
    y = study._labels(rng, fields)
    sample = (y - scores) ** 2 if label == "linear" else (y * scores < 0)
    error = study._test_error(1.2, 1.2**2 + 0.7**2)
    assert abs(sample.mean() - error) < 4 * sample.std() / np.sqrt(400_000)


def test_nested_training_sets_have_the_same_number_of_chosen_samples_in_every_draw():
    for seed in range(3):
        chosen = fixed_count(np.random.default_rng(seed).random(200), 0.1, (200, 50))
        assert (chosen[:50].sum(), chosen.sum()) == (5, 20)


def test_clusters_of_one_draw_have_the_declared_moments():
    study = MixtureClassification(d=50, spread=2.0, tilt=1.0, share=0.3, separation=1.5)
    means, variances, shares = study._clusters()
    np.testing.assert_allclose(np.linalg.norm(means, axis=1), 1.5 / np.sqrt(50))
    np.testing.assert_allclose(variances.sum(axis=1), [1.0, 2.0])
    np.testing.assert_allclose(shares, [0.3, 0.7])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "linear"}, "label must be linear with the square loss"),
        ({"label_noise": 0.6}, "label_noise, a flip probability for sign labels, must be >= 0 and < 0.5"),
        ({"label": "logit", "label_noise": 0.0}, "label_noise must be > 0"),
    ],
)
def test_parameters_that_do_not_fit_together_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(GLMStateEvolution(), **change).validate()


def test_a_bias_is_refused_where_it_is_not_fitted():
    with pytest.raises(InputError, match="bias must be false with the hinge loss"):
        MixtureClassification(loss="hinge").validate()
    MixtureClassification(loss="hinge", bias=False).validate()


@pytest.mark.parametrize("separation", [0.0, 1.5])
def test_the_closed_form_is_judged_only_where_the_clusters_differ(separation, tmp_path):
    from unlazy.lab.running.run import run

    small = {"separation": separation, "d": 20, "n": (40,)}
    result = run(MixtureClassification, set=small, seeds=2, store=tmp_path / "store.sqlite")
    verdicts = {verdict.claim.id: verdict.verdict for verdict in result.verdicts}
    for claim in ("averaging", "averaging-theory"):
        assert (verdicts[claim] == "untested") == (separation == 0)


def test_a_lasso_fit_satisfies_its_optimality_conditions():
    """What the fit minimises is |y - A s|^2 / 2 + penalty |s|_1: the correlations of its residual are the penalty."""
    study = LassoError(p=60, noise=0.1, penalty=(0.3, 0.1))
    found = study.simulate(np.random.default_rng(3))
    rng = np.random.default_rng(3)
    signal = np.zeros(60)
    signal[:6] = study._values()
    np.testing.assert_allclose(signal @ signal, 6)
    design = rng.standard_normal((36, 60)) / 6
    y = design @ signal + 0.1 * rng.standard_normal(36)
    for i, penalty in enumerate((0.3, 0.1)):
        fit = np.zeros(60)
        length = 1 / np.linalg.norm(design, 2) ** 2
        for _ in range(20_000):
            moved = fit + length * design.T @ (y - design @ fit)
            fit = np.sign(moved) * np.maximum(np.abs(moved) - length * penalty, 0)
        np.testing.assert_allclose(found["train_mse"][i], np.mean((y - design @ fit) ** 2), rtol=1e-4)
        np.testing.assert_allclose(found["mse"][i], np.mean((fit - signal) ** 2), rtol=1e-3)
        assert found["nonzeros"][i] == np.mean(fit != 0)

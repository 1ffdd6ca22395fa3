import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from unlazy.data.digit_parity import digits
from unlazy.studies.message_passing.covariates_real import CovariatesReal


def test_theory_of_two_clusters_agrees_with_an_independent_computation():
    theory = CovariatesReal(loss="logistic", n=(100, 200, 400, 800), penalty=(1.0,)).predict()
    np.testing.assert_allclose(theory["test_error"][:, 0], [0.111, 0.094, 0.082, 0.074], atol=6e-4)


def test_fits_are_those_of_scikit_learn():
    pool = digits()
    found = CovariatesReal(n=(60,), penalty=(0.5,)).simulate(np.random.default_rng(4))
    drawn = np.random.default_rng(4).integers(0, len(pool.inputs), 60)
    targets = pool.labels - pool.labels.mean()
    fit = Ridge(alpha=0.5, fit_intercept=False).fit(pool.inputs[drawn], targets[drawn])
    np.testing.assert_allclose(found["test_error"][0, 0], np.mean((targets - fit.predict(pool.inputs)) ** 2))
    found = CovariatesReal(loss="logistic", n=(120,), penalty=(2.0,)).simulate(np.random.default_rng(4))
    order = np.random.default_rng(4).permutation(len(pool.inputs))
    logistic = LogisticRegression(C=0.5, tol=1e-8, max_iter=5000).fit(
        pool.inputs[order[:120]], pool.labels[order[:120]]
    )
    wrong = 1 - logistic.score(pool.inputs[order[120:]], pool.labels[order[120:]])
    np.testing.assert_allclose(found["test_error"][0, 0], wrong)


def test_surrogates_of_both_losses_follow_theory_where_rows_are_many():
    for loss in ("square", "logistic"):
        study = CovariatesReal(loss=loss, n=(400,), penalty=(3.0,))
        runs = np.array([study.simulate(np.random.default_rng(seed))["surrogate_error"][0, 0] for seed in range(16)])
        theory = study.predict()["surrogate_error"][0, 0]
        error = runs.std(ddof=1) / 4
        assert abs(runs.mean() - theory) < 4 * error + 0.02 * theory
        assert 4 * error + 0.02 * theory < 0.1 * theory

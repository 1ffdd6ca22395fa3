import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.training.index_models.lasso import PENALTIES, SMALLEST, lasso_cv


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

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from unlazy.data.real import load
from unlazy.training.kernels import learning_curves as curves


def test_curves_from_data_agree_with_plain_training():
    inputs, targets = load("wine").standardised()
    assert np.sum(np.var(targets, axis=0)) == pytest.approx(1)
    kernel = curves.kernel_of("rbf", inputs)
    found = curves.trained(np.random.default_rng(3), kernel, targets, 60, (0.1, 2.0), 1)
    order = np.random.default_rng(3).permutation(len(kernel))
    train, test = order[:60], order[60:]
    for error, ridge in zip(found, (0.1, 2.0), strict=True):
        model = KernelRidge(alpha=ridge, kernel="precomputed").fit(kernel[np.ix_(train, train)], targets[train])
        missed = model.predict(kernel[np.ix_(test, train)]) - targets[test]
        assert error == pytest.approx(np.mean(np.sum(missed**2, axis=1)), rel=1e-8)


def test_a_power_law_is_recovered_from_its_own_curve(monkeypatch):
    monkeypatch.setattr(curves, "trained", lambda rng, k, y, n, ridges, splits: np.array([0.1 + 2 * n**-0.7, 3 / n]))
    found = curves.power_law_forecast(None, np.eye(100), None, [200, 1000], (1.0, 2.0), 1)
    expected = [[0.1 + 2 * n**-0.7 for n in (200, 1000)], [3 / n for n in (200, 1000)]]
    np.testing.assert_allclose(found, expected, rtol=2e-3)


def test_eigenlearning_is_right_for_a_pool_that_is_the_population():
    """With few training rows out of a large pool the pool is as good as the population."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((600, 3))
    kernel = np.exp(-np.sum((x[:, None] - x) ** 2, axis=2) / 6)
    y = np.sin(x[:, :1]) + 0.3 * rng.standard_normal((600, 1))
    y -= y.mean()
    truth = curves.trained(rng, kernel, y, 20, (0.5,), 400)
    assert curves.eigenlearning_forecast(kernel, y, [20], (0.5,))[0, 0] == pytest.approx(truth[0], rel=0.06)

"""The displacement of linearised networks."""

import jax
import numpy as np

from unlazy.observables.linearised import linearised_displacement


def test_a_linear_model_moves_exactly_as_the_formula_says():
    rng = np.random.default_rng(0)
    features, labels = rng.standard_normal((12, 30)), rng.standard_normal(12)
    weights = np.zeros(30)
    for _ in range(25):
        weights -= 0.1 * features.T @ (features @ weights - labels) / 12
    with jax.enable_x64(True):
        moved = float(linearised_displacement(features @ features.T, labels, 0.1, 25))
    np.testing.assert_allclose(moved, np.linalg.norm(weights), rtol=1e-10)


def test_a_rank_deficient_kernel_moves_only_along_its_range():
    rng = np.random.default_rng(1)
    features = np.zeros((6, 3))
    features[:3] = rng.standard_normal((3, 3))
    labels = rng.standard_normal(6)
    weights = np.linalg.pinv(features) @ labels
    with jax.enable_x64(True):
        moved = float(linearised_displacement(features @ features.T, labels, 0.2, 100_000))
    np.testing.assert_allclose(moved, np.linalg.norm(weights), rtol=1e-4)

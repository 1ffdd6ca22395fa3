import jax
import jax.numpy as jnp
import numpy as np

from unlazy.theory.in_context.landscape import measured_slopes
from unlazy.training.in_context.teacher_learning import factored_moments


def test_slopes_from_factored_moments_are_those_of_the_tokens():
    """The derivative by a difference of least squares on the tokens, nearly dependent features included."""
    rng = np.random.default_rng(0)
    n, k, true = 200, 3, 2
    f = np.linalg.qr(rng.standard_normal((n, true)))[0] * np.sqrt(n)
    targets = np.concatenate([f, np.zeros((n, 1))], axis=1)
    h = 0.3 * f @ rng.standard_normal((true, k)) + rng.standard_normal((n, k))
    h[:, 2] = h[:, 1] + 0.01 * h[:, 2]
    with jax.enable_x64(True):
        found = {name: np.asarray(a)[0] for name, a in factored_moments(jnp.asarray(h)[None], targets).items()}
    np.testing.assert_allclose(found["longest"], np.linalg.norm(h, axis=1).max())
    c_squared = np.linalg.norm(f, axis=1).max() * found["longest"]
    result = measured_slopes(found["basis_cross_moment"], found["basis_root"], np.sqrt(c_squared), true)

    def loss(features):
        return np.sum((f - features @ np.linalg.lstsq(features, f, rcond=None)[0]) ** 2) / n

    np.testing.assert_allclose(result.loss, loss(h), rtol=1e-4)
    g = np.linalg.lstsq(h, f, rcond=None)[0].T
    z = f.T @ (f - h @ g.T) / n
    left, singular, right = np.linalg.svd(z @ g, full_matrices=False)
    ends = [loss((1 - s) * h + s * f @ (left @ right)) for s in (1e-7, -1e-7)]
    np.testing.assert_allclose(result.steepest_slope, (ends[0] - ends[1]) / 2e-7, rtol=2e-3)
    np.testing.assert_allclose(result.slope_formula, -2 * singular.sum(), rtol=2e-3)
    share = loss(h) - np.floor(loss(h))
    np.testing.assert_allclose(result.slope_bound, -2 / c_squared * share * (1 - share), rtol=1e-3)

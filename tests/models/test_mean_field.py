import jax
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.models.mean_field import LOSSES, named_loss, network_functional, predictions, safe_step_size, with_one


@pytest.mark.parametrize("name", LOSSES)
def test_slope_curvature_and_conjugate_belong_to_the_loss(name):
    loss = named_loss(name)
    f = np.linspace(-3, 3, 13)
    y = np.where(np.arange(13) % 2, 1.0, -1.0)
    tiny = 1e-5
    numeric = (loss.value(f + tiny, y) - loss.value(f - tiny, y)) / (2 * tiny)
    np.testing.assert_allclose(loss.slope(f, y), numeric, atol=1e-9)
    second = (loss.slope(f + tiny, y) - loss.slope(f - tiny, y)) / (2 * tiny)
    np.testing.assert_allclose(loss.curvature(f, y), second, atol=1e-9)
    # the supremum of g f - l(f) by brute force
    g, places = loss.slope(f, y), np.linspace(-8, 8, 160_001)
    brute = [(slope * places - loss.value(places, label)).max() for slope, label in zip(g, y, strict=True)]
    np.testing.assert_allclose(loss.conjugate(g, y), brute, atol=1e-7)
    assert loss.curvature(places, 1.0).max() == pytest.approx(loss.sharpness)


def test_gradient_of_the_functional_is_that_of_the_first_variation():
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        particles, inputs = rng.standard_normal((7, 3)), with_one(rng.standard_normal((5, 2)))
        labels, amplitude = rng.standard_normal(5), 3.0
        rows = (jax.numpy.asarray(inputs), jax.numpy.asarray(labels))
        found = 7 * jax.grad(network_functional(named_loss("square"), amplitude))(jax.numpy.asarray(particles), rows)
        values = np.tanh(particles @ inputs.T)
        residual = amplitude * values.mean(axis=0) - labels
        expected = amplitude * (residual / 5 * (1 - values**2)) @ inputs
        np.testing.assert_allclose(found, expected, rtol=1e-10)
        outputs = predictions(jax.numpy.asarray(particles), rows[0], amplitude)
        np.testing.assert_allclose(outputs, residual + labels, rtol=1e-10)


def test_safe_step_is_half_the_limit_of_linear_stability():
    inputs = with_one(np.random.default_rng(1).standard_normal((30, 4))).astype(np.float32)
    rows = (jax.numpy.asarray(inputs), None)
    largest = np.linalg.eigvalsh(inputs.T @ inputs / 30)[-1]
    assert float(safe_step_size(rows, named_loss("logistic"), 6.0, 0.2)) == pytest.approx(
        1 / (9 * largest + 0.4), rel=1e-4
    )


def test_an_unknown_loss_is_refused():
    with pytest.raises(InputError, match="loss must be one of square, logistic; got 'hinge'"):
        named_loss("hinge")

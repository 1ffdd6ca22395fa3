"""One gradient step and the readout, against finite differences and plain linear algebra."""

import numpy as np
import pytest

from unlazy.functions.elementwise import as_activation
from unlazy.numerics.ridge import ridge_coefficients
from unlazy.training.one_step.gradient_step import (
    draw_samples,
    erf_risk,
    first_step,
    kernel_readout,
    readout,
    step_direction,
)


@pytest.mark.parametrize("name", ["erf", "tanh"])
def test_the_step_is_minus_the_gradient_of_half_the_mean_squared_error(name):
    sigma = as_activation(name)
    rng = np.random.default_rng(0)
    samples = draw_samples(rng, 30, 5, np.tanh, 0.1)
    step = first_step(rng, samples, 7, name)

    def loss(weights):
        output = sigma(samples.inputs @ weights) @ step.second_layer / np.sqrt(7)
        return 0.5 * np.mean((samples.labels - output) ** 2)

    for i, j in ((0, 0), (3, 2), (4, 6)):
        moved = np.zeros((5, 7))
        moved[i, j] = 1e-6
        slope = (loss(step.initial + moved) - loss(step.initial - moved)) / 2e-6
        assert step.direction[i, j] == pytest.approx(-np.sqrt(7) * slope, rel=1e-6)
    np.testing.assert_allclose(step.weights(2.5), step.initial + 2.5 * step.direction)


def test_a_later_step_is_the_gradient_where_it_is_taken():
    sigma = as_activation("tanh")
    rng = np.random.default_rng(8)
    samples = draw_samples(rng, 30, 5, np.tanh, 0.1)
    weights, second_layer = rng.standard_normal((5, 7)), rng.standard_normal(7)

    def loss(weights):
        output = sigma(samples.inputs @ weights) @ second_layer / np.sqrt(7)
        return 0.5 * np.mean((samples.labels - output) ** 2)

    found = step_direction(samples, weights, second_layer, "tanh")
    for i, j in ((0, 0), (3, 2), (4, 6)):
        moved = np.zeros((5, 7))
        moved[i, j] = 1e-6
        slope = (loss(weights + moved) - loss(weights - moved)) / 2e-6
        assert found[i, j] == pytest.approx(-np.sqrt(7) * slope, rel=1e-6)


def test_the_rank_one_part_is_what_a_linear_network_has_before_its_output():
    rng = np.random.default_rng(1)
    samples = draw_samples(rng, 40, 6, np.tanh, 0.0)
    step = first_step(rng, samples, 5, "identity", with_output=False)
    np.testing.assert_allclose(step.direction, step.rank_one, rtol=1e-12)


def test_second_layers_have_their_support():
    rng = np.random.default_rng(2)
    samples = draw_samples(rng, 10, 3, np.tanh, 0.0)
    step = first_step(rng, samples, 400, "tanh", support=(0.5, 2.0))
    assert set(np.round(np.sqrt(400) * step.second_layer, 9)) == {0.5, 2.0}


@pytest.mark.parametrize("n", [8, 40])
def test_the_readout_is_ridge_regression(n):
    rng = np.random.default_rng(3)
    features, test = rng.standard_normal((n, 15)), rng.standard_normal((50, 15))
    labels, truth = rng.standard_normal(n), rng.standard_normal(50)
    found = readout(features, labels, test, truth, (0.01, 1.0))
    for index, ridge in enumerate((0.01, 1.0)):
        b = np.linalg.solve(features.T @ features / n + ridge * np.eye(15), features.T @ labels / n)
        assert found.risk[index] == pytest.approx(np.mean((test @ b - truth) ** 2), rel=1e-9)
        assert found.training_error[index] == pytest.approx(np.mean((features @ b - labels) ** 2), rel=1e-9)


def test_samples_see_the_first_coordinate_only():
    samples = draw_samples(np.random.default_rng(4), 20_000, 3, np.sign, 0.25)
    np.testing.assert_array_equal(samples.truth, np.sign(samples.inputs[:, 0]))
    assert np.var(samples.labels - samples.truth) == pytest.approx(0.25, rel=0.04)


def test_the_kernel_readout_solves_its_equations():
    rng = np.random.default_rng(3)
    points, new, labels, truth = (
        rng.standard_normal((30, 4)),
        rng.standard_normal((9, 4)),
        *rng.standard_normal((2, 30)),
    )
    truth = truth[:9]
    kernel, crossed = (np.exp(rows @ points.T / 4) for rows in (points, new))
    found = kernel_readout(kernel, labels, crossed, truth, (0.01, 1.0))
    for ridge, risk, training in zip((0.01, 1.0), found.risk, found.training_error, strict=True):
        dual = np.linalg.solve(kernel + 30 * ridge * np.eye(30), labels)
        assert risk == pytest.approx(np.mean((crossed @ dual - truth) ** 2), rel=1e-9)
        assert training == pytest.approx(np.mean((kernel @ dual - labels) ** 2), rel=1e-9)


def test_the_exact_risk_of_erf_features_is_that_of_many_points():
    rng, sigma = np.random.default_rng(5), as_activation("erf")
    weights = rng.standard_normal((8, 6)) / np.sqrt(8)
    weights[0] += rng.standard_normal(6)
    fits, points = rng.standard_normal((6, 2)) / 2, rng.standard_normal((200_000, 8))

    def link(x):
        return np.tanh(3 * x)

    missed = (sigma(points @ weights) @ fits - link(points[:, :1])) ** 2
    error = missed.std(axis=0) / np.sqrt(len(points))
    found = erf_risk(weights, fits, link)
    assert (abs(found - missed.mean(axis=0)) < 4 * error).all()
    assert (abs(1.2 * found - missed.mean(axis=0)) > 4 * error).all()


def test_single_precision_changes_no_digit_that_counts():
    """The ridge at which `step_risks` begins to compute in it, against the same fit in double precision."""
    rng, sigma = np.random.default_rng(6), as_activation("erf")
    samples = draw_samples(rng, 200, 100, np.tanh, 0.01, np.float32)
    step = first_step(rng, samples, 200, "erf")
    found = []
    for precision in (np.float32, np.float64):
        features = sigma(samples.inputs.astype(precision) @ step.weights(10.0).astype(precision))
        fits = ridge_coefficients(features, samples.labels.astype(precision), 200 * np.array([1e-3])).T
        found.append(erf_risk(step.weights(10.0).astype(precision), fits, np.tanh))
    np.testing.assert_allclose(*found, rtol=1e-3)

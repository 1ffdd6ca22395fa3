import numpy as np
import pytest
from scipy.optimize import minimize

from unlazy.checks import InputError
from unlazy.theory.signal_noise.denoising import (
    denoiser_balance,
    denoising_loss,
    early_denoiser_balance,
    symmetric_minimum,
    symmetric_stationary_point,
)


def samples(n, d, signal_strength, seed=0):
    """Patches [mu_y, xi] with noise orthogonal to both signals, and |mu|^2."""
    rng = np.random.default_rng(seed)
    square = signal_strength * d / n
    patches = np.zeros((n, 2, d))
    patches[:, 1, 2:] = rng.standard_normal((n, d - 2))
    patches[::2, 0, 0] = patches[1::2, 0, 1] = np.sqrt(square)
    return patches, square


def orthogonal_samples(n, signal_strength):
    """The same with noise patches that are orthogonal to one another, of length 1."""
    square = signal_strength / n
    patches = np.zeros((n, 2, n + 2))
    patches[:, 1, 2:] = np.eye(n)
    patches[::2, 0, 0] = patches[1::2, 0, 1] = np.sqrt(square)
    return patches, square


def test_the_loss_is_the_mean_over_drawn_noise():
    rng = np.random.default_rng(1)
    weights, patches, time, draws = 0.5 * rng.standard_normal((3, 4)), rng.standard_normal((2, 2, 4)), 0.4, 400_000
    alpha = np.exp(-time)
    total = np.zeros(draws)
    for x in patches.reshape(-1, 4):
        noise = rng.standard_normal((draws, 4))
        output = ((alpha * x + np.sqrt(1 - alpha**2) * noise) @ weights.T) ** 2 @ weights / np.sqrt(3)
        total += np.sum((output - noise) ** 2 - noise**2, axis=1) / len(patches)
    deviation = total.std() / np.sqrt(draws)
    assert 4 * deviation < 0.2 * abs(total.mean())
    np.testing.assert_allclose(denoising_loss(weights, patches, time).loss, total.mean(), atol=4 * deviation)


def test_the_gradient_is_the_derivative_of_the_loss():
    rng = np.random.default_rng(2)
    weights, patches = 0.5 * rng.standard_normal((3, 5)), rng.standard_normal((4, 2, 5))
    gradient = denoising_loss(weights, patches, 0.7).gradient
    for index in np.ndindex(weights.shape):
        step = np.zeros(weights.shape)
        step[index] = 1e-5
        ends = [denoising_loss(weights + sign * step, patches, 0.7).loss for sign in (1, -1)]
        np.testing.assert_allclose((ends[0] - ends[1]) / 2e-5, gradient[index], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("time", [1e-3, 0.2, 1.0, 4.0, 30.0, 100.0])
@pytest.mark.parametrize("signal_strength", [0.1, 2.0, 20.0])
def test_the_balance_is_that_of_the_stationary_point_of_orthogonal_patches(signal_strength, time):
    patches, square = orthogonal_samples(10, signal_strength)
    found = symmetric_stationary_point(patches, time)
    theory = denoiser_balance(signal_strength, np.sqrt(square), time)
    np.testing.assert_allclose(found.overlaps[:, 0], theory.signal_overlap, rtol=1e-7)
    np.testing.assert_allclose(found.overlaps[:, 1], theory.noise_overlap, rtol=1e-7)
    np.testing.assert_allclose(theory.balance, theory.signal_overlap / theory.noise_overlap, rtol=1e-12)


@pytest.mark.parametrize("width", [1, 5])
def test_the_stationary_point_is_one_of_the_whole_loss(width):
    patches, _ = samples(12, 80, 1.0)
    found = symmetric_stationary_point(patches, 0.5, width=width)
    together = np.tile(found.weights, (width, 1))
    gradient = denoising_loss(together, patches, 0.5).gradient
    nearby = denoising_loss(1.01 * together, patches, 0.5).gradient
    assert np.abs(gradient).max() < 1e-9 * np.abs(nearby).max()
    single = symmetric_stationary_point(patches, 0.5)
    np.testing.assert_allclose(found.weights, width ** (-1 / 6) * single.weights, rtol=1e-9)
    rng = np.random.default_rng(3)
    for _ in range(20):
        moved = single.weights + 0.05 * np.linalg.norm(single.weights) * rng.standard_normal(80) / np.sqrt(80)
        assert denoising_loss(moved[None], patches, 0.5).loss > single.loss


def descended(patches, time, start):
    """The loss where a descent of one neuron ends."""

    def value(w):
        found = denoising_loss(w[None], patches, time)
        return found.loss, found.gradient[0]

    return minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 20_000, "ftol": 1e-15}).fun


def dependent_samples():
    """More patches than dimensions of their span, in more dimensions than these; no w has the same overlap with all."""
    rng = np.random.default_rng(5)
    return np.concatenate([0.5 + rng.standard_normal((10, 2, 5)), np.zeros((10, 2, 3))], axis=2)


@pytest.mark.parametrize("time", [0.05, 0.15, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("patches", [samples(6, 40, 2.0)[0], dependent_samples()], ids=["independent", "dependent"])
def test_the_minimum_is_where_descents_from_anywhere_end(patches, time):
    point, lowest = symmetric_stationary_point(patches, time), symmetric_minimum(patches, time)
    rng, size = np.random.default_rng(6), np.linalg.norm(lowest.weights) / np.sqrt(patches.shape[2])
    ends = [descended(patches, time, scale * size * rng.standard_normal(patches.shape[2])) for scale in (0.2, 1, 1, 3)]
    np.testing.assert_allclose(ends, lowest.loss, rtol=1e-6)
    assert lowest.outside_slope > -1e-9
    assert lowest.least_curvature > 0
    if point.outside_slope < 0:
        assert lowest.loss < point.loss
        assert lowest.outside_square > 0
    else:
        np.testing.assert_array_equal(lowest.weights, point.weights)


@pytest.mark.parametrize("width", [1, 4])
def test_the_minimum_at_small_times_has_its_closed_form_and_the_stationary_point_is_a_saddle(width):
    patches, square = samples(20, 1500, 2.0)
    time, beta = 0.15, np.sqrt(-np.expm1(-0.3))
    point, lowest = (
        function(patches, time, width=width) for function in (symmetric_stationary_point, symmetric_minimum)
    )
    overlap = (beta / (1 + np.sqrt(3))) ** (1 / 3)
    length = width ** (-1 / 3)
    np.testing.assert_allclose(np.exp(-time) * lowest.overlaps, overlap * np.sqrt(length), rtol=1e-9)
    np.testing.assert_allclose(lowest.weights @ lowest.weights, length * overlap**2 / np.sqrt(3) / beta**2, rtol=1e-9)
    np.testing.assert_allclose(lowest.loss, -4 / (3 + np.sqrt(3)), rtol=1e-9)
    # the slope outside the span, by differences
    span = np.linalg.qr(patches.reshape(-1, 1500).T)[0]
    outward = np.random.default_rng(0).standard_normal(1500)
    outward -= span @ (span.T @ outward)
    outward *= np.linalg.norm(point.weights) / np.linalg.norm(outward)
    moved = denoising_loss(np.tile(point.weights + 1e-3 * outward, (width, 1)), patches, time).loss
    np.testing.assert_allclose((moved - point.loss) / 1e-6, point.outside_slope, rtol=1e-3)
    assert point.outside_slope < 0 < point.least_curvature
    found = denoiser_balance(2.0, np.sqrt(square), time)
    np.testing.assert_allclose(found.outside_slope, point.outside_slope, rtol=0.05)
    assert found.minimum_balance == 1


@pytest.mark.parametrize("time", [0.01, 0.15, 1.0, 4.0])
@pytest.mark.parametrize("find", [symmetric_stationary_point, symmetric_minimum])
def test_neurons_that_differ_outside_the_span_lower_the_loss(find, time):
    patches, _ = samples(6, 40, 2.0)
    point, alpha, beta = find(patches, time, width=2), np.exp(-time), np.sqrt(-np.expm1(-2 * time))
    known = np.vstack([patches.reshape(-1, 40), point.weights])
    z = np.linalg.svd(known)[2][-1]
    step = 1e-4 * np.linalg.norm(point.weights)
    pair = point.weights + step * np.array([[1], [-1]]) * z
    g, a = 2 ** (1 / 3) * point.weights @ point.weights, alpha * 2 ** (1 / 6) * point.overlaps
    pull = (2 * beta**2 * g * (a**2 + beta**2 * g) - 4 * beta * a).sum(axis=1).mean()
    # m^(-2/3) |z|^2 sum c_r^2 with two neurons and c = +-1
    change = (denoising_loss(pair, patches, time).loss - point.loss) / step**2
    np.testing.assert_allclose(change, 2 ** (-2 / 3) * 2 * pull, rtol=1e-4)
    assert change < 0


@pytest.mark.parametrize("signal_strength", [0.1, 2.0, 30.0])
def test_the_stationary_point_of_orthogonal_patches_turns_into_a_saddle_at_its_threshold(signal_strength):
    square = 7.0
    threshold = np.log1p(square / (np.sqrt(3) * (2 + signal_strength))) / 2
    slopes = denoiser_balance(
        signal_strength, np.sqrt(square), threshold * np.array([0.1, 0.999, 1.001, 3])
    ).outside_slope
    assert (np.sign(slopes) == [-1, -1, 1, 1]).all()
    at = denoiser_balance(signal_strength, np.sqrt(square), threshold)
    np.testing.assert_allclose((at.outside_slope, at.balance), (0, 1), atol=1e-9)
    patches, square = orthogonal_samples(10, signal_strength)
    wider = np.concatenate([patches, np.zeros((10, 2, 1))], axis=2)
    threshold = np.log1p(square / (np.sqrt(3) * (2 + signal_strength))) / 2
    for time in threshold * np.array([0.5, 1.5]):
        found, theory = (
            symmetric_stationary_point(wider, time),
            denoiser_balance(signal_strength, np.sqrt(square), time),
        )
        np.testing.assert_allclose(found.outside_slope, theory.outside_slope, rtol=1e-7)
        signal, noise = np.abs(symmetric_minimum(wider, time).overlaps).mean(axis=0)
        np.testing.assert_allclose(signal / noise, theory.minimum_balance, rtol=1e-7)
    # without a dimension outside the span there is no way down
    lowest = symmetric_minimum(patches, threshold / 2)
    np.testing.assert_array_equal(lowest.weights, symmetric_stationary_point(patches, threshold / 2).weights)


def test_the_ratio_agrees_with_an_independent_computation():
    strengths = np.array([0.1, 0.5, 1, 2, 5, 20])
    # n = 40, d = 10,000, t = .2; found with drawn noise patches
    square = strengths * 1e4 / 40
    np.testing.assert_allclose(
        denoiser_balance(strengths, np.sqrt(square), 0.2).balance,
        [1.336, 1.245, 1.138, 1.0005, 0.849, 0.752],
        atol=1.5e-3,
    )
    # n = 40, d = 1000, t = 4, where a draw shifts all of them by up to .03; overlaps of patches lift them by n/d
    square = strengths * 1e3 / 40
    relative = denoiser_balance(strengths, np.sqrt(square), 4.0).balance / (strengths / 2)
    np.testing.assert_allclose(relative, [1.066, 1.064, 1.062, 1.057, 1.044, 0.982], atol=0.08)
    np.testing.assert_allclose(
        relative / relative[0], np.array([1.066, 1.064, 1.062, 1.057, 1.044, 0.982]) / 1.066, atol=2e-3
    )


def test_drawn_noise_patches_have_the_ratio_of_orthogonal_ones():
    for signal_strength in (0.3, 5.0):
        patches, square = samples(20, 20_000, signal_strength)
        overlaps = np.abs(symmetric_stationary_point(patches, 0.3).overlaps).mean(axis=0)
        np.testing.assert_allclose(
            overlaps[0] / overlaps[1], denoiser_balance(signal_strength, np.sqrt(square), 0.3).balance, rtol=0.01
        )


def test_much_diffusion_gives_half_the_signal_strength():
    strengths = np.array([1e-3, 0.1, 2.0, 50.0])
    np.testing.assert_allclose(denoiser_balance(strengths, 5.0, 20.0).balance, strengths / 2, rtol=1e-6)
    assert np.isfinite(denoiser_balance(1e12, 1e-6, 100.0).balance)
    np.testing.assert_allclose(denoiser_balance(1e-12, 1e6, 100.0).balance, 5e-13, rtol=1e-6)


def test_little_diffusion_gives_a_number_of_order_one():
    strengths = np.geomspace(1e-3, 4e3, 23)
    found = early_denoiser_balance(strengths)
    np.testing.assert_allclose(denoiser_balance(strengths, 1e3, 1e-7).balance, found, rtol=1e-6)
    # exchanging signal and noise exchanges k = x/2 and 1/k
    np.testing.assert_allclose(early_denoiser_balance(4 / strengths), 1 / found, rtol=1e-10)
    np.testing.assert_allclose(early_denoiser_balance(2.0), 1.0, rtol=1e-12)
    roots = np.roots([1, 0, 0, -2, -1])
    np.testing.assert_allclose(
        early_denoiser_balance(1e-12), roots[np.isreal(roots) & (roots.real > 0)].real, rtol=1e-9
    )
    assert (np.diff(found) < 0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: denoising_loss(np.ones((2, 3)), np.ones((4, 2, 5)), 1.0), "weights must have 5 columns"),
        (lambda: denoising_loss(np.ones((2, 3)), np.ones((4, 3)), 1.0), "patches must have shape"),
        (lambda: denoising_loss(np.ones((2, 3)), np.ones((4, 2, 3)), 0.0), "time must be"),
        (lambda: symmetric_stationary_point(np.zeros((4, 2, 3)), 1.0), "patches must not all be 0"),
        (lambda: symmetric_stationary_point(np.array([[[1.0, 0]], [[-1.0, 0]]]), 1.0), "signals of opposite sign"),
        (lambda: symmetric_stationary_point(np.ones((4, 2, 3)), 1.0, width=1.5), "width must be an integer >= 1"),
        (lambda: symmetric_stationary_point(np.full((4, 2, 3), 1e-150), 100.0), "patches must be larger"),
        (lambda: denoiser_balance(0.0, 1.0, 1.0), "signal_strength must be"),
        (lambda: early_denoiser_balance(np.nan), "signal_strength must be"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.numerics.reverse_diffusion import (
    SCHEMES,
    denoised,
    gaussian_limit,
    gaussian_reverse,
    reverse_steps,
    run_reverse,
    time_grid,
)

MEAN, VARIANCE = 0.7, np.array([0.0, 0.3, 1.0])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_simulated_points_have_the_exact_moments_of_their_scheme(scheme):
    times = time_grid(3.0, 0.01, 12)
    exact = gaussian_reverse(scheme, times, MEAN, VARIANCE, denoise=False)

    def score(points, time):
        return -(points - np.exp(-time) * MEAN) / (np.exp(-2 * time) * VARIANCE + 1 - np.exp(-2 * time))

    rng = np.random.default_rng(0)
    found = run_reverse(rng, score, rng.standard_normal((100_000, 3)), times, scheme=scheme, denoise=False)
    error = np.sqrt(exact.variance / len(found))
    assert (np.abs(found.mean(axis=0) - exact.mean) < 4 * error).all()
    np.testing.assert_allclose(found.var(axis=0), exact.variance, rtol=4 * np.sqrt(2 / len(found)))


@pytest.mark.parametrize("denoise", [True, False])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_converges_with_order_one_to_the_limit_in_closed_form(scheme, denoise):
    limit = gaussian_limit(scheme, 2.0, 0.05, MEAN, VARIANCE[1:], denoise=denoise)
    coarse, fine = (
        gaussian_reverse(scheme, time_grid(2.0, 0.05, steps), MEAN, VARIANCE[1:], denoise=denoise)
        for steps in (500, 1000)
    )
    for values, half, whole in zip(limit, coarse, fine, strict=True):
        errors = np.abs(half - values), np.abs(whole - values)
        exact = errors[1] < 1e-12
        np.testing.assert_allclose(errors[0][~exact] / errors[1][~exact], 2, rtol=0.03)


def test_the_flow_from_the_right_start_keeps_the_law():
    """Without an error of the start the limit is the diffused law itself: data N(0, 1) have none."""
    for scheme in ("flow", "exponential"):
        found = gaussian_limit(scheme, 1.0, 0.01, 0.0, 1.0, denoise=False)
        assert float(found.mean) == 0
        assert float(found.variance) == pytest.approx(1, rel=1e-14)


def test_a_posterior_step_to_time_zero_is_the_denoised_point():
    points, scores = np.random.default_rng(1).standard_normal((2, 5))
    step = reverse_steps("posterior", np.array([0.3, 1e-300]))
    np.testing.assert_allclose(step.state * points + step.score * scores, denoised(points, scores, 0.3), rtol=1e-13)
    assert step.noise[0] < 1e-140


def test_denoising_removes_the_noise_in_directions_without_spread():
    times = time_grid(4.0, 1e-3, 30)
    assert float(gaussian_reverse("exponential", times, 0.5, 0.0, denoise=True).variance) == 0
    assert float(gaussian_reverse("exponential", times, 0.5, 0.0, denoise=False).variance) > 1e-3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: time_grid(1.0, 1.0, 5), "start must be above stop = 1, got 1"),
        (lambda: time_grid(1.0, 0.0, 5), "stop must be > 0, got 0"),
        (lambda: time_grid(1.0, 0.1, 0), "steps must be an integer >= 1, got 0"),
        (lambda: reverse_steps("exponental", [2.0, 1.0]), "did you mean exponential"),
        (lambda: reverse_steps("flow", [1.0, 2.0]), "times must be at least two decreasing numbers"),
        (lambda: gaussian_reverse("flow", [2.0, 1.0], 0.0, -1.0), "variance must be >= 0, got -1"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()

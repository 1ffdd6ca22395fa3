import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from unlazy.checks import InputError
from unlazy.theory.message_passing.lasso import lasso_state_evolution


def test_the_lasso_agrees_with_an_independent_computation():
    found = lasso_state_evolution(0.1, 0.6, 0.2, 0.04)
    values = (
        found.effective_noise_deviation,
        found.relative_threshold,
        found.coefficient_error,
        found.selected_share,
        found.training_error,
    )
    np.testing.assert_allclose(values, (0.263858242, 1.296812336, 0.017772703, 0.249301872, 0.023785141), atol=6e-10)
    np.testing.assert_allclose(found.risk, found.effective_noise_deviation**2 - 0.04, rtol=1e-9)


@pytest.mark.parametrize("case", [(0.05, 0.2, 1e-3, 0.5), (1.0, 3.0, 0.5, 0.01), (0.3, 0.6, 20.0, 1.0)])
def test_solutions_satisfy_the_equations_by_adaptive_quadrature(case):
    density, ratio, penalty, noise = case
    found = lasso_state_evolution(*case)
    tau, cut = found.effective_noise_deviation, found.relative_threshold * found.effective_noise_deviation

    def tails(function, deviation):
        """E over both tails |x| > cut of a normal x, and the probability that |x| <= cut."""
        law = stats.norm(scale=deviation)
        reach = cut + 12 * deviation
        return 2 * integrate.quad(lambda x: function(x) * law.pdf(x), cut, reach, epsabs=0, epsrel=1e-11)[0]

    total = np.sqrt(1 + tau**2)
    gain, rest = 1 / total**2, tau**2 / total**2
    zero = tails(lambda x: (x - cut) ** 2, tau)
    # given x = s + tau z, s is normal with mean gain x and variance rest
    kept = tails(lambda x: (x - cut - gain * x) ** 2 + rest, total)
    inside = integrate.quad(lambda x: ((gain * x) ** 2 + rest) * stats.norm.pdf(x, scale=total), -cut, cut)[0]
    mse = (1 - density) * zero + density * (kept + inside)
    share = (1 - density) * tails(lambda x: 1.0, tau) + density * tails(lambda x: 1.0, total)
    np.testing.assert_allclose([found.coefficient_error, found.selected_share], [mse, share], rtol=1e-7, atol=1e-14)
    np.testing.assert_allclose(tau**2, noise + mse / ratio, rtol=1e-9)
    np.testing.assert_allclose(cut * (1 - share / ratio), penalty, rtol=1e-8)


def test_fits_have_the_predicted_error_and_support():
    """Eight fits with the number and the energy of the nonzeros fixed; the tolerance is four standard errors."""
    from sklearn.linear_model import Lasso

    p, n, penalty, density, noise = 500, 300, 0.2, 0.1, 0.04
    theory = lasso_state_evolution(density, n / p, penalty, noise)
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        signal = np.zeros(p)
        values = rng.standard_normal(round(density * p))
        signal[: values.size] = values / np.sqrt(np.mean(values**2))
        design = rng.standard_normal((n, p)) / np.sqrt(n)
        y = design @ signal + np.sqrt(noise) * rng.standard_normal(n)
        fit = Lasso(alpha=penalty / n, fit_intercept=False, tol=1e-8, max_iter=100_000).fit(design, y).coef_
        found.append([np.mean((fit - signal) ** 2), np.mean(fit != 0), np.mean((y - design @ fit) ** 2)])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(8)
    expected = np.array([theory.coefficient_error, theory.selected_share, theory.training_error])
    assert (np.abs(mean - expected) < 4 * error).all()
    assert (np.abs(mean - 1.2 * expected) > 4 * error).all()


def test_arguments_broadcast_and_wrong_ones_are_refused():
    found = lasso_state_evolution(0.1, [0.3, 2.0], [[0.1], [1.0], [10.0]], 0.04)
    assert found.coefficient_error.shape == (3, 2)
    assert (np.diff(found.selected_share, axis=0) < 0).all()
    legal = {"nonzero_share": 0.1, "samples_per_dimension": 0.5, "l1_penalty": 0.1, "noise_variance": 0.1}
    for change in (
        {"samples_per_dimension": 0.0},
        {"l1_penalty": 0.0},
        {"nonzero_share": 1.5},
        {"noise_variance": -0.1},
    ):
        with pytest.raises(InputError, match=next(iter(change))):
            lasso_state_evolution(**(legal | change))


@pytest.mark.parametrize("small", [1e-4, 1e-8, 1e-9, 1e-20, 1e-60])
def test_small_penalty_and_noise_have_their_common_limit(small):
    """With penalty c and noise c^2 all signals lie above the threshold: one equation in theta, by plain formulas."""
    ratio, density = 0.6, 0.1

    def error(theta):
        pure = 2 * ((1 + theta**2) * special.ndtr(-theta) - theta * stats.norm.pdf(theta))
        return density * (1 + theta**2) + (1 - density) * pure

    def share(theta):
        return density + (1 - density) * 2 * special.ndtr(-theta)

    def noise(theta):
        return (1 - error(theta) / ratio) ** -0.5

    theta = optimize.brentq(lambda t: t * noise(t) * (1 - share(t) / ratio) - 1, 0.9, 1.75, xtol=1e-14)
    found = lasso_state_evolution(density, ratio, small, small**2)
    tolerance = 10 * small + 1e-10
    np.testing.assert_allclose(found.effective_noise_deviation / small, noise(theta), rtol=tolerance)
    np.testing.assert_allclose(
        found.coefficient_error / small / small, error(theta) * noise(theta) ** 2, rtol=tolerance
    )
    np.testing.assert_allclose(found.selected_share, share(theta), rtol=tolerance)
    # units do not matter where all signals are large
    other = lasso_state_evolution(density, ratio, 1e-3 * small, small**2)
    np.testing.assert_allclose(other.risk, other.effective_noise_deviation**2 - small**2, rtol=1e-9)


def test_without_noise_the_fit_is_the_limit_of_small_noise_and_of_a_simulation():
    found = lasso_state_evolution(0.1, 0.6, 0.2, [0.0, 1e-20])
    for field in found:
        np.testing.assert_allclose(field[0], field[1], rtol=1e-12)
    # coordinate descent at p = 1500, four draws: 0.00554 +- 0.00016, nonzeros 0.0934
    assert abs(found.coefficient_error[0] - 0.00554) < 3 * 0.00016
    np.testing.assert_allclose(found.effective_noise_deviation**2, found.coefficient_error / 0.6, rtol=1e-12)
    nothing = lasso_state_evolution(0.0, 0.6, 0.2, 0.0)
    assert (
        nothing.coefficient_error,
        nothing.selected_share,
        nothing.training_error,
        nothing.effective_noise_deviation,
    ) == (0, 0, 0, 0)


@pytest.mark.parametrize("penalty", [1e-9, 1e-10, 1e-50])
def test_without_penalty_more_samples_than_coefficients_give_least_squares(penalty):
    found = lasso_state_evolution(0.1, 2.0, penalty, 0.04)
    np.testing.assert_allclose(
        [found.coefficient_error, found.selected_share, found.training_error], [0.08, 1, 0.02], rtol=1e-7
    )


@pytest.mark.parametrize("penalty", [1e-100, 1e-8])
@pytest.mark.parametrize("noise_variance", [1e-8, 1.0, 1e6])
@pytest.mark.parametrize("ratio", [1e-6, 1e-3])
def test_fits_of_pure_noise_to_few_samples_use_all_of_them(ratio, noise_variance, penalty):
    found = lasso_state_evolution(0.0, ratio, penalty, noise_variance)
    # P(eta != 0) = 2 Phi(-theta) = ratio up to the penalty, and E eta^2 = 2 int_theta^inf (z - theta)^2 phi
    theta = -stats.norm.ppf(ratio / 2)
    z = np.linspace(theta, theta + 12, 40_001)
    error = 2 * np.trapezoid((z - theta) ** 2 * stats.norm.pdf(z), z)
    tau = optimize.brentq(lambda tau: tau**2 * (1 - error / ratio) / noise_variance - 1, 0, 1e4 * noise_variance**0.5)
    np.testing.assert_allclose(found.selected_share, ratio, rtol=1e-3)
    np.testing.assert_allclose(found.effective_noise_deviation, tau, rtol=1e-3)

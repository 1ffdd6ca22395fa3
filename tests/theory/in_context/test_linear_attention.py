import numpy as np
import pytest
from scipy.integrate import quad

from unlazy.checks import InputError
from unlazy.theory.in_context.finite_size import exact_error, finite_size_errors, gaussian_task_moments, task_moments
from unlazy.theory.in_context.linear_attention import bayes_error, linear_attention_errors, optimal_ridge

PUBLISHED = [
    ((0.4, 2, 0.5, 0, 0.25), None, (1.84669607475, 1.50444486548, 1.07757698510)),
    ((2, 2, 0.5, 0, 0.25), None, (0, 1.76439457783, 0.924282923937)),
    ((0.5, 5, 2, 1e-3, 0.01), None, (1.00456731550, 0.799297917037, 0.655592780024)),
    ((3, 1, np.inf, 0.2, 0.1), None, (0.283176086633, 0.850719769894, 0.850719769894)),
    ((1, 3, 1, 0.01, 0.25), None, (0.101178084546, 3.80332451220, 2.55928583850)),
    ((2, 2, 4, 0.1, 0.1), 8, (0.179735643458, 0.596365063863, 0.515339480595)),
]


@pytest.mark.parametrize(("setting", "test", "expected"), PUBLISHED)
def test_errors_agree_with_an_independent_computation(setting, test, expected):
    found = linear_attention_errors(*setting, test_context_per_dimension=test)
    np.testing.assert_allclose(found[:3], expected, rtol=1e-11)


def resolvent(tasks_per_dimension, s):
    """M(s) by the plain quadratic formula of the paper."""
    c = 1 / tasks_per_dimension
    u = s + 1 - c
    return (np.sqrt(u**2 + 4 * c * s) - u) / (2 * c * s)


@pytest.mark.parametrize("tasks_per_dimension", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("noise", [0.05, 0.7])
def test_ridgeless_errors_are_the_closed_forms_of_the_paper(tasks_per_dimension, noise):
    alpha = 1.7
    q = (1 + noise) / alpha
    for tau in (0.2, 0.6, 0.9):
        mu = q * resolvent(tasks_per_dimension / tau, q)
        inside = 1 - tau * (1 - mu) ** 2 + mu * (noise / q - 1)
        expected = tau * (1 + q) / (1 - tau) * inside - 2 * tau * (1 - mu) + 1 + noise
        found = linear_attention_errors(tau, alpha, tasks_per_dimension, 0, noise).new_task_error
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    m = resolvent(tasks_per_dimension, q)
    big = 1 / (1 - tasks_per_dimension * (m / (tasks_per_dimension + m)) ** 2)
    for tau in (1.1, 2.0, 30.0):
        expected = (big - 1 / (tau - 1)) * (1 + q) * (q * m) ** 2 + (3 - 2 * tau) / (tau - 1) * m * q**2
        expected += ((1 + noise) * m / (tau - 1) + 1) * q + noise * m / (tau - 1) + noise
        found = linear_attention_errors(tau, alpha, tasks_per_dimension, 0, noise).new_task_error
        np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.parametrize("tasks_per_dimension", [0.4, 3.0])
@pytest.mark.parametrize("setting", [(0.6, 0.3), (1.8, 0.05)])
def test_errors_are_averages_over_the_marchenko_pastur_density(tasks_per_dimension, setting):
    (tau, ridge), alpha, noise, q_test = setting, 1.5, 0.2, 1.2 / 6
    found = linear_attention_errors(tau, alpha, tasks_per_dimension, ridge, noise, test_context_per_dimension=6)
    q, c, xi = (1 + noise) / alpha, 1 / tasks_per_dimension, found.effective_ridge_times_dimension
    s, ends = q + xi, ((1 - np.sqrt(c)) ** 2, (1 + np.sqrt(c)) ** 2)

    def mean(function):
        def density(angle):
            x = np.mean(ends) - np.diff(ends)[0] / 2 * np.cos(angle)
            return function(x) * (np.diff(ends)[0] / 2 * np.sin(angle)) ** 2 / (2 * np.pi * c * x)

        return quad(density, 0, np.pi, epsabs=1e-13)[0] + max(1 - tasks_per_dimension, 0) * function(0.0)

    np.testing.assert_allclose(xi * (1 - mean(lambda x: (x + q) / (x + s)) / tau), ridge, rtol=1e-10)
    own = noise + mean(lambda x: (x * s**2 + q * x**2) / (x + s) ** 2)
    own /= 1 - mean(lambda x: ((x + q) / (x + s)) ** 2) / tau
    new = noise + mean(lambda x: (s**2 + q_test * x**2) / (x + s) ** 2)
    new += (1 + q_test) / tau * mean(lambda x: (x + q) / (x + s) ** 2) * own
    old = noise + mean(lambda x: (x * s**2 + q_test * x**2) / (x + s) ** 2)
    old += mean(lambda x: (x + q_test) * (x + q) / (x + s) ** 2) / tau * own
    np.testing.assert_allclose(found[1:3], [new, old], rtol=1e-9)
    np.testing.assert_allclose(found.training_error, (ridge / xi) ** 2 * own, rtol=1e-9)


def test_the_error_diverges_at_interpolation_and_is_inf_there():
    assert linear_attention_errors(1.0, 2, 2, 0, 0.25).new_task_error == np.inf
    assert linear_attention_errors(1.0, 2, 2, 0, 0.25, test_context_per_dimension=5).pretraining_task_error == np.inf
    distance = np.array([1e-9, 1e-8, 1e-6])
    for side in (-1, 1):
        errors = linear_attention_errors(1 + side * distance, 2, 2, 0, 0.25).new_task_error
        np.testing.assert_allclose(errors * distance, errors[2] * distance[2], rtol=1e-5)


def test_extreme_settings_give_numbers_that_satisfy_the_equations_and_bounds():
    tau, alpha, kappa, noise, ridge = np.meshgrid(
        [1e-3, 1 - 1e-9, 1 + 1e-9, 2.0, 1e6, np.inf],
        [1e-3, 1.0, 1e6],
        [1e-3, 1 - 1e-9, 1.0, 1e6, np.inf],
        [0.0, 0.25, 100.0],
        [0.0, 1e-12, 1e-3, 1e6],
    )
    with np.errstate(all="raise", under="ignore"):
        found = linear_attention_errors(tau, alpha, kappa, ridge, noise)
    for field in found:
        assert np.isfinite(field).all()
        assert (field >= 0).all()
    assert (found.new_task_error >= bayes_error(alpha, noise) * (1 - 1e-12)).all()
    huge = linear_attention_errors(tau, alpha, kappa, 1e30, noise)
    np.testing.assert_allclose(huge.new_task_error, 1 + noise, rtol=1e-9)


def test_infinite_ratios_are_the_limits_of_large_ones():
    np.testing.assert_allclose(
        linear_attention_errors(np.inf, 2, np.inf, 0.1, 0.25),
        linear_attention_errors(1e12, 2, 1e12, 0.1, 0.25),
        rtol=1e-9,
    )
    q = 1.25 / 2
    # with everything known of the tasks, the best multiple of h has the error rho + q/(1+q)
    np.testing.assert_allclose(linear_attention_errors(np.inf, 2, np.inf, 0, 0.25).new_task_error, 0.25 + q / (1 + q))


def test_few_tasks_leave_what_they_do_not_span():
    found = linear_attention_errors(1e9, 1000, [0.25, 0.5, 0.9, 1, 1.1, 2], 0, 0.25).new_task_error
    expected = [0.75006, 0.50037, 0.10164, 0.01861, 0.00227, 0.00101]
    np.testing.assert_allclose(found - bayes_error(1000, 0.25), expected, atol=6e-6)


def test_the_optimal_ridge_is_a_stationary_point_and_agrees_with_an_independent_computation():
    tau = np.array([0.5, 0.95, 1.05, 2.0])
    found = optimal_ridge(tau, 2, 2, 0.25)
    np.testing.assert_allclose(found.ridge_times_dimension, [3.52, 1.93, 1.76, 0.968], rtol=4e-3)
    np.testing.assert_allclose(found.errors.new_task_error, [1.126, 1.052, 1.038, 0.949], atol=6e-4)
    for target, field in (("new tasks", "new_task_error"), ("pretraining tasks", "pretraining_task_error")):
        best = optimal_ridge(tau, 2, 0.7, 0.25, test_tasks=target)
        least = getattr(best.errors, field)
        again = linear_attention_errors(tau, 2, 0.7, best.ridge_times_dimension, 0.25)
        np.testing.assert_allclose(getattr(again, field), least, rtol=1e-12)
        for factor in (0.5, 0.97, 1.03, 2.0):
            other = linear_attention_errors(tau, 2, 0.7, factor * best.ridge_times_dimension, 0.25)
            assert (getattr(other, field) > least).all()


def test_no_ridge_is_optimal_for_infinitely_many_prompts_and_tasks():
    found = optimal_ridge(np.inf, 3, np.inf, 0.1)
    assert found.ridge_times_dimension == 0
    assert found.errors.new_task_error < linear_attention_errors(np.inf, 3, np.inf, 1e-3, 0.1).new_task_error


def test_the_bayes_error_is_that_of_an_independent_computation_and_of_drawn_contexts():
    np.testing.assert_allclose(
        bayes_error([2, 0.5, 1], [0.25, 0.1, 0.01]), [0.42539052968, 0.67416573868, 0.10512492197], rtol=1e-10
    )
    np.testing.assert_allclose(bayes_error([0.3, 1, 2, np.inf], 0.0), [0.7, 0, 0, 0], atol=1e-15)
    rng, d, noise = np.random.default_rng(3), 300, 0.3
    for alpha in (0.5, 2.0):
        tokens = rng.standard_normal((int(alpha * d), d)) / np.sqrt(d)
        posterior = noise * np.trace(np.linalg.inv(tokens.T @ tokens + noise * np.eye(d))) / d
        np.testing.assert_allclose(noise + posterior, bayes_error(alpha, noise), rtol=0.02)


def drawn_prompts(rng, tasks, n, context, noise):
    """Queries, features and labels from drawn contexts."""
    d = tasks.shape[1]
    chosen = tasks[rng.integers(len(tasks), size=n)]
    tokens = rng.standard_normal((n, context + 1, d)) / np.sqrt(d)
    labels = np.einsum("nid,nd->ni", tokens, chosen) + np.sqrt(noise) * rng.standard_normal((n, context + 1))
    y, x = labels[:, :-1], tokens[:, :-1]
    features = np.column_stack([d / context * np.einsum("ni,nid->nd", y, x), np.mean(y**2, axis=1)])
    return tokens[:, -1], features, labels[:, -1], chosen


@pytest.mark.parametrize("law", ["rows", "gaussian"])
def test_moments_and_exact_errors_are_those_of_drawn_contexts(law):
    rng = np.random.default_rng(5)
    d, context, noise, n = 4, 3, 0.4, 400_000
    root = rng.standard_normal((d, d))
    if law == "rows":
        tasks = rng.standard_normal((3, d)) + 0.5
        moments = task_moments(tasks, context, noise)
    else:
        tasks = rng.standard_normal((n, d)) @ root.T
        moments = gaussian_task_moments(root @ root.T, context, noise)
    queries, features, labels, chosen = drawn_prompts(rng, tasks, n, context, noise)
    weights = 0.3 * rng.standard_normal((d, d + 1))
    squares = (labels - np.einsum("nd,de,ne->n", queries, weights, features)) ** 2
    products = {
        "feature": (features[:, :, None] * features[:, None, :], moments.feature_moment),
        "cross": (chosen[:, :, None] * features[:, None, :], moments.cross_moment),
        "error": (squares, exact_error(moments, weights)),
    }
    for name, (samples, expected) in products.items():
        allowed = 4.5 * samples.std(axis=0) / np.sqrt(n)
        assert (np.abs(samples.mean(axis=0) - expected) <= allowed).all(), name
        largest = np.unravel_index(np.argmax(np.abs(expected)), np.shape(expected))
        wrong = np.abs(samples.mean(axis=0) - 1.2 * np.asarray(expected))
        assert wrong[largest] > allowed[largest], name


def test_the_finite_size_errors_tend_to_the_limit():
    setting = (0.7, 2, 1.5, 0.3, 0.2)
    limit = linear_attention_errors(*setting, test_context_per_dimension=5)
    gaps = []
    for d in (30, 480):
        tasks = np.random.default_rng(d).standard_normal((int(1.5 * d), d))
        own, test = task_moments(tasks, 2 * d, 0.2), gaussian_task_moments(np.eye(d), 5 * d, 0.2)
        found = finite_size_errors(own, 0.7 * d**2, 0.3, test_moments=test)
        gaps.append(abs(found.test_error / limit.new_task_error - 1))
        old = finite_size_errors(own, 0.7 * d**2, 0.3, test_moments=task_moments(tasks, 5 * d, 0.2))
        gaps.append(abs(old.test_error / limit.pretraining_task_error - 1))
    assert max(gaps[2:]) < 0.01
    assert gaps[2] < gaps[0]


def test_the_finite_size_errors_are_those_of_the_plain_matrix_formulas():
    rng = np.random.default_rng(2)
    d, n, ridge = 6, 30, 0.4
    own = task_moments(rng.standard_normal((4, d)), 9, 0.2)
    test = gaussian_task_moments(np.diag([3.0, 2, 1, 1, 0.5, 0.1]), 5, 0.2)
    found = finite_size_errors(own, n, ridge, test_moments=test)
    eye, xi = np.eye(d + 1), found.effective_ridge_times_dimension
    inverse = np.linalg.inv(own.feature_moment + xi * eye)
    np.testing.assert_allclose(xi * (1 - d / n * np.trace(own.feature_moment @ inverse)), ridge, rtol=1e-10)
    mean = own.cross_moment @ inverse
    own_error = exact_error(own, mean) / (
        1 - d / n * np.trace(own.feature_moment @ inverse @ own.feature_moment @ inverse)
    )
    np.testing.assert_allclose(found.pretraining_task_error, own_error, rtol=1e-10)
    spread = np.trace(test.feature_moment @ inverse @ own.feature_moment @ inverse)
    np.testing.assert_allclose(found.test_error, exact_error(test, mean) + d / n * spread * own_error, rtol=1e-10)
    np.testing.assert_allclose(found.training_error, (ridge / xi) ** 2 * own_error, rtol=1e-10)
    same = finite_size_errors(own, n, ridge)
    np.testing.assert_allclose(same.test_error, same.pretraining_task_error, rtol=1e-15)


def test_one_task_without_noise_is_the_limit_of_little_noise():
    tasks = np.linspace(0.5, 2.0, 5)[None]
    n, ridge = np.array([3.0, 10.0, 40.0, 300.0]), np.array([0.1, 1e-3, 0.2, 0.05])
    found, near = (finite_size_errors(task_moments(tasks, 12, noise), n, ridge) for noise in (0.0, 1e-9))
    for one, other in zip(found, near, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_one_task_without_noise_and_ridge_is_least_squares_on_the_plane_of_its_features():
    moments = task_moments(np.linspace(0.5, 2.0, 5)[None], 12, 0.0)
    assert np.linalg.matrix_rank(moments.feature_moment) == 5
    weights = moments.cross_moment @ np.linalg.pinv(moments.feature_moment, rcond=1e-12)
    best = exact_error(moments, weights)
    found = finite_size_errors(moments, [50.0, 1e9, 25.0], 0)
    # 25 parameters on n samples of Gaussian noise: n / (n - 25)
    np.testing.assert_allclose(found.test_error[:2], [2 * best, best], rtol=1e-7)
    assert found.test_error[2] == np.inf
    np.testing.assert_allclose(found.training_error[0], best / 2, rtol=1e-9)


def test_the_finite_size_errors_broadcast_and_are_inf_at_d_times_d_plus_1_prompts():
    d = 5
    own = task_moments(np.random.default_rng(0).standard_normal((7, d)), 10, 0.1)
    test = gaussian_task_moments(np.eye(d), 10, 0.1)
    found = finite_size_errors(own, [[20.0], [30.0], [60.0]], [0.0, 1e-9, 0.5], test_moments=test)
    assert found.test_error.shape == (3, 3)
    assert found.test_error[1, 0] == found.pretraining_task_error[1, 0] == np.inf
    assert np.isfinite(np.delete(found.test_error.ravel(), 3)).all()
    np.testing.assert_allclose(found.test_error[[0, 2], 0], found.test_error[[0, 2], 1], rtol=1e-6)
    np.testing.assert_allclose(found.training_error[:2, 0], 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompts_per_squared_dimension": 0}, "prompts_per_squared_dimension must be >= 1e-100, got 0"),
        ({"context_per_dimension": np.inf}, "context_per_dimension must be finite"),
        ({"tasks_per_dimension": -1}, "tasks_per_dimension must be >= 1e-100, got -1"),
        ({"tasks_per_dimension": 1e200}, r"tasks_per_dimension must be <= 1e\+100 or inf, got 1e\+200"),
        ({"noise_variance": -0.1}, "noise_variance must be >= 0"),
        ({"ridge_times_dimension": -1e-9}, "ridge_times_dimension must be >= 0"),
        ({"ridge_times_dimension": np.nan}, "ridge_times_dimension must be finite"),
        (
            {"prompts_per_squared_dimension": [1, 2], "ridge_times_dimension": [1, 2, 3]},
            "values and .*: give arrays that broadcast",
        ),
    ],
)
def test_wrong_input_is_named(change, message):
    legal = {
        "prompts_per_squared_dimension": 1,
        "context_per_dimension": 1,
        "tasks_per_dimension": 1,
        "noise_variance": 1,
        "ridge_times_dimension": 1,
    }
    with pytest.raises(InputError, match=message):
        linear_attention_errors(**legal | change)


def test_wrong_moments_and_weights_are_named():
    moments = gaussian_task_moments(np.eye(3), 5, 0.1)
    with pytest.raises(
        InputError, match=r"attention_weights must have shape \(..., 3, 4\) like the moments, got shape \(3, 3\)"
    ):
        exact_error(moments, np.eye(3))
    with pytest.raises(InputError, match="test_moments must have the dimension d = 3 of moments, got 2"):
        finite_size_errors(moments, 10, 0, test_moments=gaussian_task_moments(np.eye(2), 5, 0.1))
    with pytest.raises(InputError, match="must have a feature_moment that is not 0"):
        finite_size_errors(task_moments(np.zeros((2, 3)), 5, 0.0), 10, 0)
    with pytest.raises(InputError, match="context must be >= 1"):
        task_moments(np.ones((2, 3)), 0.5, 0.0)
    with pytest.raises(InputError, match="task_covariance must be symmetric"):
        gaussian_task_moments([[1.0, 0.5], [0.0, 1.0]], 5, 0.0)
    with pytest.raises(InputError, match="test_tasks must be one of new tasks, pretraining tasks"):
        optimal_ridge(1, 1, 1, 1, test_tasks="old tasks")


def test_the_optimal_ridge_lies_inside_its_grid_with_few_prompts_and_short_test_contexts():
    setting = (1.3e-3, 17.1, 1.64, 38.6)
    best = optimal_ridge(*setting, test_context_per_dimension=0.0175)
    ridges = np.geomspace(1e-3, 1e12, 3001)
    brute = linear_attention_errors(*setting[:3], ridges, setting[3], test_context_per_dimension=0.0175).new_task_error
    assert float(best.ridge_times_dimension) == pytest.approx(ridges[np.argmin(brute)], rel=0.02)
    assert float(best.errors.new_task_error) <= brute.min() * (1 + 1e-12)


def test_a_covariance_with_negative_eigenvalues_is_refused():
    with pytest.raises(InputError, match="negative eigenvalues, got one of -1"):
        gaussian_task_moments(-np.eye(3), 5, 0.1)
    nearly = np.array([[1.0, 1e-17], [0.0, 1.0]])
    gaussian_task_moments(nearly, 5, 0.1)

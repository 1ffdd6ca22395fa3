import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import eval_hermitenorm, factorial
from scipy.stats import norm

from unlazy.checks import InputError
from unlazy.theory.in_context.first_step import prompt_gradient, relu_coefficients, sphere_moments
from unlazy.theory.in_context.first_step_noise import prompt_gradient_squares, tasks_for_signal


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def orthonormal_hermite(i, z):
    return eval_hermitenorm(i, z) / np.sqrt(factorial(i))


@pytest.mark.parametrize("bias", [-2.5, -0.3, 0.0, 1.7])
def test_relu_coefficients_are_the_integrals_they_stand_for(bias):
    found = relu_coefficients(bias, 7)
    for i in range(8):
        value = quad(lambda z: orthonormal_hermite(i, z) * (z + bias) * norm.pdf(z), -bias, 12)[0]  # noqa: B023
        change = quad(lambda z: orthonormal_hermite(i, z) * z * norm.pdf(z), -bias, 12)[0]  # noqa: B023
        np.testing.assert_allclose(
            (found.hermite_coefficients[i], found.scale_derivatives[i]), (value, change), atol=1e-10
        )


def test_relu_coefficients_stay_numbers_far_out():
    found = relu_coefficients(np.array([-1e300, -1e99, -50.0, 50.0, 1e99]), 5)
    assert np.isfinite(found.hermite_coefficients).all()
    assert np.isfinite(found.scale_derivatives).all()
    np.testing.assert_allclose(found.hermite_coefficients[1], [0, 0, 0, 1, 1], atol=1e-15)
    np.testing.assert_allclose(found.hermite_coefficients[0], [0, 0, 0, 50, 1e99], atol=1e-15)


@pytest.mark.parametrize("r", [1, 2, 3, 7])
def test_sphere_moments_are_those_of_a_beta_variable(r):
    moments = [np.prod([(0.5 + j) / (r / 2 + j) for j in range(i)]) for i in range(6)]
    np.testing.assert_allclose(sphere_moments(r, 5), moments, rtol=1e-14)


def brute_force(weight, bias, basis, lowest, highest):
    """E phi grad phi by quadrature over inputs and directions in a plane; the gradient by finite differences."""
    nodes, masses = np.polynomial.legendre.leggauss(400)

    def correlations(w):
        """E[h_i(x.beta) relu(w.x + b)] given the length of w and its cosine with beta, over the kink exactly."""
        size = np.linalg.norm(w)
        low = -bias / size
        z = low + (12 - low) * (1 + nodes) / 2
        mass = masses * (12 - low) / 2 * norm.pdf(z) * (size * z + bias)
        return np.array([mass @ orthonormal_hermite(i, z) for i in range(lowest, highest + 1)]), size

    angles = (np.arange(64) + 0.5) * 2 * np.pi / 64
    total, square = np.zeros(len(weight)), 0.0
    for angle in angles:
        beta = basis @ [np.cos(angle), np.sin(angle)]

        def phis(w, beta=beta):
            values, size = correlations(w)
            return values * (w @ beta / size) ** np.arange(lowest, highest + 1)

        step = 1e-5
        slopes = [(phis(weight + step * e) - phis(weight - step * e)) / (2 * step) for e in np.eye(len(weight))]
        # the coefficients of different degrees are uncorrelated, each with mean square 1/(p-k+1)
        total += np.array([phis(weight) @ slope for slope in slopes]) / (highest - lowest + 1)
        square += phis(weight) @ phis(weight) / (highest - lowest + 1)
    return total / len(angles), square / len(angles)


@pytest.mark.parametrize(("lowest", "highest"), [(1, 1), (1, 3), (2, 3), (3, 5)])
@pytest.mark.parametrize("length", [0.4, 1.0, 2.3])
def test_gradient_is_that_of_quadrature_and_finite_differences(lowest, highest, length, rng):
    basis = np.linalg.qr(rng.standard_normal((4, 2)))[0]
    weight = rng.standard_normal(4)
    weight *= length / np.linalg.norm(weight)
    found = prompt_gradient(weight[None], 0.4, basis, lowest, highest)
    gradient, square = brute_force(weight, 0.4, basis, lowest, highest)
    np.testing.assert_allclose(found.gradient[0], gradient, atol=1e-8 * max(1, abs(gradient).max()))
    np.testing.assert_allclose(found.mean_square[0], square, rtol=1e-9)


def test_gradient_inside_the_subspace_is_parallel_to_the_projected_weight(rng):
    weights = rng.standard_normal((5, 30))
    basis = np.linalg.qr(rng.standard_normal((30, 3)))[0]
    found = prompt_gradient(weights, rng.uniform(-1, 1, 5), basis, 2, 4)
    inside, projected = found.gradient @ basis, weights @ basis
    cosines = np.sum(inside * projected, axis=1) / np.linalg.norm(inside, axis=1) / np.linalg.norm(projected, axis=1)
    np.testing.assert_allclose(np.abs(cosines), 1, rtol=1e-12)


@pytest.mark.parametrize("lowest", [1, 2, 3])
def test_gradient_shrinks_with_the_power_of_the_overlap_that_the_lowest_degree_gives(lowest):
    sizes = []
    for overlap in (1e-3, 2e-3):
        weight = np.array([[overlap, 0.0, np.sqrt(1 - overlap**2)]])
        gradient = prompt_gradient(weight, 0.3, np.eye(3)[:, :2], lowest, lowest + 1).gradient
        sizes.append(abs(gradient[0, 0]))
    np.testing.assert_allclose(np.log2(sizes[1] / sizes[0]), 2 * lowest - 1, atol=1e-4)


def test_only_the_span_of_the_subspace_matters(rng):
    weights, basis = rng.standard_normal((4, 6)), rng.standard_normal((6, 2))
    found = prompt_gradient(weights, 0.1, basis, 1, 3)
    other = prompt_gradient(weights, 0.1, basis @ np.array([[2.0, 1.0], [-1.0, 3.0]]), 1, 3)
    np.testing.assert_allclose(found.gradient, other.gradient, rtol=1e-10)


def test_extreme_weights_and_biases_give_numbers():
    weights = np.array([[0.0, 0.0, 0.0], [1e-90, 0.0, 1e-90], [1e90, 1e90, 0.0], [1.0, 1.0, 1.0]])
    for bias in (-1e100, -1.0, 0.0, 1e100):
        found = prompt_gradient(weights, bias, np.eye(3)[:, :1], 1, 6)
        assert all(np.isfinite(part).all() for part in found)
        np.testing.assert_array_equal(found.gradient[0], 0)
    # a neuron that never turns off is linear: only degree 1 is left, A_1 = D_1 = 1
    linear = prompt_gradient([[0.6, 0.8]], 1e100, np.eye(2)[:, :1], 1, 2)
    np.testing.assert_allclose(linear.gradient, [[0.3, 0.0]], atol=1e-14)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lowest_degree": 0}, "lowest_degree must be an integer >= 1"),
        ({"lowest_degree": 4}, "highest_degree must be an integer >= 4 and <= 100, got 3"),
        ({"lowest_degree": 1.5}, "lowest_degree must be an integer"),
        ({"highest_degree": 101}, "highest_degree must be an integer >= 1 and <= 100, got 101"),
        ({"subspace": np.ones((3, 2))}, "independent columns"),
        ({"subspace": np.ones((3, 4))}, "r <= 3"),
        ({"subspace": np.ones((2, 1))}, r"shape \(3, r\)"),
        ({"weights": np.full((2, 3), np.nan)}, "weights must be finite"),
        ({"weights": np.ones(3)}, "weights must have 2"),
        ({"biases": np.ones(3)}, "biases must be a number"),
    ],
)
def test_wrong_input_is_refused_in_one_line(change, message):
    arguments = {
        "weights": np.ones((2, 3)),
        "biases": 0.0,
        "subspace": np.eye(3)[:, :2],
        "lowest_degree": 1,
        "highest_degree": 3,
    }
    with pytest.raises(InputError, match=message) as refusal:
        prompt_gradient(**{**arguments, **change})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: relu_coefficients(np.nan, 3), "bias must be finite, got nan"),
        (lambda: relu_coefficients("x", 3), "bias must be numeric"),
        (lambda: relu_coefficients(0.0, -1), "highest_degree must be an integer >= 1 and <= 100, got -1"),
        (lambda: sphere_moments(0, 3), "rank must be an integer >= 1, got 0"),
        (lambda: sphere_moments(None, 3), "rank must be an integer"),
    ],
)
def test_wrong_moments_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_squares_of_the_gradient_are_integrals_over_one_number_in_one_dimension():
    """r = d = 1 and linear tasks: every expectation is over one number."""
    bias, n, noise = 0.4, 3.0, 0.25

    def mean(g):
        return quad(lambda z: g(z) * norm.pdf(z), -bias, 12)[0]

    value, slope_ = mean(lambda z: z * (z + bias)), mean(lambda z: z * z)
    # f = +-x, so that y^2 = x^2 + noise; R x = x
    q0 = mean(lambda z: (z**2 + noise) * z**2)
    q1 = mean(lambda z: (z**2 + noise) * (z + bias) * z)
    q2 = mean(lambda z: (z**2 + noise) * (z + bias) ** 2)
    far, near = 1 - 1 / n, 1 / n
    c0, c1, c2 = far * value**2 + near * q2, far * value * slope_ + near * q1, far * slope_**2 + near * q0
    wanted = (q0 * c0 + 2 * q1 * c1 + q2 * c2) / 4
    found = prompt_gradient_squares([[1.0]], bias, [[1.0]], 1, 1, tasks=1, context=n, noise_variance=noise)
    np.testing.assert_allclose(found.inside, [wanted], rtol=1e-8)
    np.testing.assert_allclose(found.outside, 0, atol=1e-12)


def test_many_prompts_leave_the_mean_gradient(rng):
    weights = rng.standard_normal((4, 6))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    law = weights, rng.uniform(-1, 1, 4), np.linalg.qr(rng.standard_normal((6, 2)))[0], 2, 3
    few, many = (prompt_gradient_squares(*law, tasks=tasks, context=20) for tasks in (10, 1e15))
    gradient = prompt_gradient(*law).gradient
    inside = np.sum((gradient @ law[2]) ** 2, axis=1)
    np.testing.assert_allclose(many.inside, inside, rtol=1e-5)
    np.testing.assert_allclose(many.outside, np.sum(gradient**2, axis=1) - inside, rtol=1e-5)
    assert (few.outside > many.outside).all()


@pytest.mark.slow
def test_tasks_for_signal_are_those_of_many_drawn_neurons(rng):
    d, rank, context = 10, 2, 50
    weights = rng.standard_normal((20_000, d))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    law = weights, rng.uniform(-1, 1, len(weights)), np.eye(d)[:, :rank], 2, 2
    signal = np.sum(prompt_gradient(*law).gradient ** 2)
    total = sum(np.sum(part) for part in prompt_gradient_squares(*law, tasks=1, context=context))
    np.testing.assert_allclose(tasks_for_signal(d, rank, 2, 2, context), total / signal - 1, rtol=0.05)
    # a share of 9/10 takes nine times as many as one half
    ratio = tasks_for_signal(d, rank, 2, 2, context, expected_share=0.9) / tasks_for_signal(d, rank, 2, 2, context)
    np.testing.assert_allclose(ratio, 9)


@pytest.mark.parametrize(("degree", "power"), [(1, 1), (2, 2)])
def test_tasks_grow_like_d_to_the_lowest_degree_where_prompts_do_too(degree, power):
    sizes = np.array([2000, 8000])
    tasks = [tasks_for_signal(int(d), 2, degree, degree, 4.0 * d**degree) for d in sizes]
    np.testing.assert_allclose(np.log(tasks[1] / tasks[0]) / np.log(4), power, atol=0.02)


def test_weights_of_other_lengths_have_no_squares():
    with pytest.raises(InputError, match="weights must have rows of length 1, got a row of length 2"):
        prompt_gradient_squares([[2.0, 0.0]], 0.0, [[1.0], [0.0]], 1, 1, tasks=1, context=1)
    with pytest.raises(InputError, match="rank must be"):
        tasks_for_signal(4, 4, 1, 1, 10)

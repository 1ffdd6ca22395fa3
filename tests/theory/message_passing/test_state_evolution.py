import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from unlazy.checks import InputError
from unlazy.numerics.fixed_points import fixed_points
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.message_passing.state_evolution.glm import glm_state_evolution, glm_state_evolution_matrices
from unlazy.theory.message_passing.teachers import (
    LinearTeacher,
    LogitTeacher,
    ProbitTeacher,
    SignTeacher,
    teacher_error,
)
from unlazy.theory.regression.ridge import ridge_equivalent

P = 100
NAMES = ("response", "overlap", "norm", "training_loss", "training_error", "test_error", "stability")


def isotropic(ratio, ridge, loss, teacher):
    return glm_state_evolution([1 / P], 1 / P**2, 1.0, ratio * P, ridge, loss=loss, label_law=teacher, multiplicities=P)


@pytest.mark.parametrize(
    ("case", "values"),
    [
        (
            (3, 0.1, "logistic", SignTeacher()),
            (2.987763207, 2.171495380, 5.730814439, 0.176474780, 0.010972364, 0.138297999, 0.210576769),
        ),
        (
            (1, 1e-3, "logistic", SignTeacher()),
            (426.218196, 3.850937130, 31.086014521, 0.006937653, 0, 0.257306410, 0.418325316),
        ),
        (
            (3, 0.1, "logistic", LogitTeacher(2.0)),
            (2.455459780, 1.520601472, 4.018459955, 0.320472616, 0.112313133, 0.303906924, 0.226350027),
        ),
        (
            (3, 0.1, "hinge", ProbitTeacher(0.25)),
            (1.433750242, 1.759866892, 4.648535681, 0.144657795, 0.057368854, 0.239485685, 0.856624976),
        ),
        (
            (3, 0.1, "square", SignTeacher(0.1)),
            (0.465856100, 0.608571697, 0.628342768, 0.198123823, 0.102014113, 0.277105514, 0.302999666),
        ),
    ],
)
def test_classifiers_agree_with_an_independent_computation(case, values):
    found = isotropic(*case)
    for name, value in zip(NAMES, values, strict=True):
        np.testing.assert_allclose(getattr(found, name), value, rtol=2e-9, atol=1.1e-9, err_msg=name)


def test_conjugate_parameters_agree_with_an_independent_computation():
    found = isotropic(3, 0.1, "logistic", SignTeacher())
    values = found.conjugate_response, found.conjugate_norm, found.conjugate_overlap
    np.testing.assert_allclose(values, (23.469854558, 11.375076534, 72.679634538), rtol=1e-10)


@pytest.mark.parametrize(("ratio", "ridge", "noise"), [(2.0, 0.5, 0.25), (0.5, 1e-6, 0.1), (3.0, 1e3, 0.0)])
def test_isotropic_ridge_has_its_closed_form(ratio, ridge, noise):
    trace = ridge + ratio - 1
    variance = (np.sqrt(trace**2 + 4 * ridge) - trace) / (2 * ridge)
    drive = ratio / (1 + variance)
    overlap, stability = drive * variance, ratio * variance**2 / (1 + variance) ** 2
    norm = (stability * (1 + noise - 2 * overlap) + drive**2 * variance**2) / (1 - stability)
    found = isotropic(ratio, ridge, "square", LinearTeacher(noise))
    # for small V the closed form itself cancels digits
    np.testing.assert_allclose(found.response, variance, rtol=1e-9)
    np.testing.assert_allclose(
        [found.overlap, found.norm, found.stability], [overlap, norm, stability], rtol=1e-9, atol=1e-12
    )
    assert found.test_error is None


@pytest.mark.parametrize("n", [30.0, 90.0])
@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_the_square_loss_is_ridge_regression(n, ridge):
    rng = np.random.default_rng(0)
    spectrum, prior, noise, unexplained = rng.uniform(0.01, 1, 60) ** 3, rng.uniform(0, 1, 60), 0.3, 0.2
    # ridge_equivalent minimises the mean of squares + ridge |b|^2: half the sum there is n/2 times that
    other = ridge_equivalent(spectrum, prior, n, ridge / n, noise + unexplained)
    rho = spectrum @ prior + unexplained
    found = glm_state_evolution(
        spectrum, spectrum**2 * prior, rho, n, ridge, loss="square", label_law=LinearTeacher(noise)
    )
    np.testing.assert_allclose(found.test_square_error, other.risk + noise + unexplained, rtol=1e-10)
    np.testing.assert_allclose(found.training_square_error, other.training_error, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(found.stability, other.variance_degrees_of_freedom / n, rtol=1e-10)
    np.testing.assert_allclose(found.test_square_error, rho + noise - 2 * found.overlap + found.norm, rtol=1e-10)
    if ridge:
        np.testing.assert_allclose(other.effective_ridge, ridge * (1 + found.response) / n, rtol=1e-10)


def test_without_ridge_the_isotropic_interpolator_has_its_known_error():
    found = isotropic(0.4, 0.0, "square", LinearTeacher(0.3))
    np.testing.assert_allclose(found.test_square_error, 0.6 + 0.3 / 0.6, rtol=1e-12)
    assert found.training_square_error == 0
    assert np.isinf(found.response)


def asymmetric(t):
    return special.ndtr(1.5 * t - 0.4)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("teacher", [SignTeacher(0.1), LogitTeacher(8.0), asymmetric])
def test_solutions_satisfy_the_equations_by_adaptive_quadrature(loss, teacher):
    """Both sides by scipy's quadrature, a scalar minimiser for the proximal point and plain sums."""
    spectrum = np.array([1.0, 0.3, 0.1, 0.02])
    signal, n, ridge = np.array([0.5, 0.05, 0.01, 0.0]), 8.0, 0.2
    rho = 0.1 + (signal / spectrum).sum()
    found = glm_state_evolution(spectrum, signal, rho, n, ridge, loss=loss, label_law=teacher)
    v, m, q = found.response, found.overlap, found.norm
    rest = rho - m**2 / q

    def probability(t, y):
        if isinstance(teacher, SignTeacher):
            return np.where(y * t > 0, 0.9, 0.1)
        up = 1 / (1 + np.exp(-8.0 * t)) if isinstance(teacher, LogitTeacher) else asymmetric(t)
        return up if y > 0 else 1 - up

    def value(s):
        return np.log1p(np.exp(-s)) if loss == "logistic" else max(0.0, 1 - s)

    def force(omega):
        if loss == "hinge":
            return min(max((1 - omega) / v, 0.0), 1.0)
        s = optimize.brentq(lambda s: s - omega - v / (1 + np.exp(s)), omega - 1, omega + v + 1, xtol=1e-14)
        return 1 / (1 + np.exp(s))

    points, weights = np.polynomial.legendre.leggauss(60)

    def share(omega, y):
        """Z and dZ: t - mean = sqrt(rest) z, split at the jump."""
        mean, width = m / q * omega, np.sqrt(rest)
        middle = np.clip(-mean / width, -8.9, 8.9)
        total = np.zeros(2)
        for low, high in ((-9, middle), (middle, 9)):
            z = low + (high - low) * (points + 1) / 2
            mass = (high - low) / 2 * weights * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
            p = probability(mean + width * z, y)
            total += [mass @ p, mass @ (z * p) / width]
        return total

    sums = np.zeros(4)
    edges = np.unique(np.clip([-9, -3, -1, 0, 1, 3, 9, 1 / np.sqrt(q), (1 - v) / np.sqrt(q)], -9, 9))
    edges = np.unique(np.concatenate([edges, -edges]))
    for low, high in pairwise(edges):
        x, w = np.polynomial.legendre.leggauss(24)
        for deviation, mass in zip(low + (high - low) * (x + 1) / 2, (high - low) / 2 * w, strict=True):
            omega = np.sqrt(q) * deviation
            mass = mass * stats.norm.pdf(deviation)
            for y in (-1, 1):
                z, dz = share(omega, y)
                g = force(y * omega)
                slope = (force(y * omega + 1e-5) - force(y * omega - 1e-5)) / 2e-5
                sums += mass * np.array([-z * slope, z * g**2, dz * y * g, z * value(y * omega + v * g)])
    precision, noise, drive = n * sums[:3]
    weight = 1 / (ridge + precision * spectrum)
    np.testing.assert_allclose(spectrum @ weight, v, rtol=2e-6)
    np.testing.assert_allclose(drive * (signal @ weight), m, rtol=2e-6)
    norm = noise * (spectrum**2 @ weight**2) + drive**2 * ((signal * spectrum) @ weight**2)
    np.testing.assert_allclose(norm, q, rtol=2e-6)
    np.testing.assert_allclose(sums[3], found.training_loss, rtol=1e-6)


def test_test_errors_of_sign_and_probit_teachers_are_angles():
    for teacher, noise in ((SignTeacher(), 0.0), (ProbitTeacher(0.49), 0.49)):
        found = isotropic(np.array([0.5, 2.0, 500.0]), 0.05, "logistic", teacher)
        angle = np.arccos(found.overlap / np.sqrt((1 + noise) * found.norm)) / np.pi
        np.testing.assert_allclose(found.test_error, angle, rtol=1e-9)


def test_test_losses_are_averages_over_a_large_sample():
    found = isotropic(3, 0.1, "logistic", LogitTeacher(2.0))
    rng = np.random.default_rng(0)
    t = rng.standard_normal(1_000_000)
    rest = np.sqrt(found.norm - found.overlap**2)
    scores = found.overlap * t + rest * rng.standard_normal(t.size)
    y = np.where(rng.random(t.size) < 1 / (1 + np.exp(-2 * t)), 1, -1)
    losses = np.log1p(np.exp(-y * scores))
    assert abs(losses.mean() - found.test_loss) < 4 * losses.std() / 1000
    assert abs((y * scores < 0).mean() - found.test_error) < 4 * 0.5 / 1000


def test_a_function_is_the_teacher_it_computes():
    slope = 2.0
    one = isotropic(3, 0.1, "hinge", LogitTeacher(slope))
    other = isotropic(3, 0.1, "hinge", lambda t: 1 / (1 + np.exp(-slope * t)))
    np.testing.assert_allclose([getattr(one, n) for n in NAMES], [getattr(other, n) for n in NAMES], rtol=1e-8)


def test_a_matrix_is_its_eigenvalues_and_points_do_not_depend_on_each_other():
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    spectrum, theta = rng.uniform(0, 1, 40) ** 4, rng.standard_normal(40)
    spectrum[:3] = 0.0
    covariance = (basis * spectrum) @ basis.T
    rho = spectrum @ theta**2
    n, ridge = np.array([[10.0], [50.0], [400.0]]), np.array([1e-3, 1.0])
    full = glm_state_evolution_matrices(covariance, covariance @ basis @ theta, rho, n, ridge)
    assert full.test_error.shape == (3, 2)
    for i in range(3):
        for j in range(2):
            one = glm_state_evolution(spectrum, (spectrum * theta) ** 2, rho, n[i, 0], ridge[j])
            np.testing.assert_allclose(full.test_error[i, j], one.test_error, rtol=1e-8)
            np.testing.assert_allclose(full.training_loss[i, j], one.training_loss, rtol=1e-7)


def test_a_long_spectrum_is_summed_like_a_short_one():
    """Each size alone is summed over all eigenvalues, forty together over a few nodes."""
    d = 20_000
    spectrum = np.arange(1, d + 1) ** -1.2
    n = np.geomspace(30, 3000, 40)
    rho = spectrum.sum()
    together = glm_state_evolution(spectrum, spectrum**2, rho, n, 0.1)
    alone = glm_state_evolution(spectrum, spectrum**2, rho, n[7], 0.1)
    np.testing.assert_allclose([together.norm[7], together.response[7]], [alone.norm, alone.response], rtol=1e-9)


def test_extreme_cases_converge_to_stable_solutions():
    rng = np.random.default_rng(3)
    for loss in ("logistic", "hinge"):
        for _ in range(25):
            spectrum = rng.uniform(0.01, 1, 20) ** 4 * 10 ** rng.uniform(-3, 3)
            theta = rng.standard_normal(20)
            rho = spectrum @ theta**2 * rng.choice([1.0, 3.0])
            teacher = [SignTeacher(0.2), ProbitTeacher(10 ** rng.uniform(-4, 4))][rng.integers(2)]
            n, ridge = 10 ** rng.uniform(0, 4), 10 ** rng.uniform(-4, 4) * spectrum.sum()
            found = glm_state_evolution(spectrum, (spectrum * theta) ** 2, rho, n, ridge, loss=loss, label_law=teacher)
            assert all(np.isfinite(value) for value in found if value is not None)
            # 0 where all samples are on the linear part of the hinge loss
            assert 0 <= found.stability < 1
            assert 0 <= found.cosine <= 1
            assert 0 <= found.training_error <= found.test_error + 1e-9 <= 0.5 + 1e-8


@pytest.mark.parametrize("teacher", [SignTeacher(0.1), lambda t: special.ndtr(t)])
def test_small_weights_average_the_samples_whatever_the_loss_and_the_units_are(teacher):
    """At a large ridge w is proportional to sum y x: the cosine is gain / sqrt(gain^2 + p/n), gain = E[y t]."""
    gain = 0.8 * np.sqrt(2 / np.pi) if isinstance(teacher, SignTeacher) else np.sqrt(1 / np.pi)
    cosine = gain / np.sqrt(gain**2 + 1 / 3)
    for loss in ("logistic", "hinge", "square"):
        found = isotropic(3, 1e12, loss, teacher)
        small = glm_state_evolution(
            [1e-10 / P], 1e-10 / P**2, 1.0, 3 * P, 100.0, loss=loss, label_law=teacher, multiplicities=P
        )
        for one in (found, small):
            np.testing.assert_allclose(one.cosine, cosine, rtol=1e-9)
            if isinstance(teacher, SignTeacher):
                np.testing.assert_allclose(one.test_error, 0.1 + 0.8 * np.arccos(cosine) / np.pi, rtol=1e-9)
        np.testing.assert_allclose(small.training_error, found.training_error, rtol=1e-8)
        np.testing.assert_allclose(1e5 * small.norm, 1e5 * found.norm, rtol=1e-8)


def test_separable_data_without_ridge_approach_the_largest_margin():
    """The hinge fit has it exactly; the logistic one nears it with the logarithm of the ridge."""
    hinge = isotropic(10, 1e-6, "hinge", SignTeacher())
    one, two = (isotropic(10, ridge, "logistic", SignTeacher()) for ridge in (1e-8, 1e-12))
    assert one.cosine > two.cosine > hinge.cosine
    assert 8 * (one.cosine - hinge.cosine) > 12 * (two.cosine - hinge.cosine)
    # w = log(1/ridge) times the fit with margin 1, up to the logarithm of that
    growth = (np.sqrt(two.norm) - np.sqrt(one.norm)) / np.log(1e4)
    assert 0.85 < growth / np.sqrt(hinge.norm) < 1


def test_an_iteration_without_fixed_point_is_reported_with_its_residual():
    with pytest.raises(ConvergenceError, match=r"no fixed point at case 0: residual 1"):
        fixed_points(lambda x, rows: x + 1.0, np.zeros((1, 2)), lambda row: f"case {row}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"penalty": 0.0}, r"penalty must be > 0 for the logistic loss \(separable data"),
        ({"penalty": -1.0}, "penalty must be >= 0"),
        ({"loss": "hinge", "penalty": 0.0}, "penalty must be > 0 for the hinge loss"),
        ({"loss": "square", "penalty": 0.0, "n": 2, "label_law": LinearTeacher()}, "where n = rank = 2"),
        ({"loss": "cubic"}, "loss must be one of square, logistic, hinge"),
        ({"n": 0.5}, "n must be >= 1"),
        ({"spectrum": [1.0, -0.1]}, "spectrum must have eigenvalues >= 0, got -0.1"),
        ({"spectrum": [0.0, 0.0], "squared_cross_covariance": 0.0}, "must have a positive eigenvalue"),
        ({"spectrum": [1.0, 0.0]}, "squared_cross_covariance must be 0 where the eigenvalue is 0"),
        ({"teacher_variance": 0.0}, "teacher_variance must be"),
        ({"teacher_variance": 0.1}, r"teacher_variance must be at least u.Omega\^-1.u"),
        ({"label_law": SignTeacher(0.5)}, "flip_probability must be >= 0 and < 0.5"),
        ({"label_law": LinearTeacher()}, "label_law must give labels -1 and 1"),
        ({"label_law": "sign"}, "label_law must be a LinearTeacher"),
        ({"label_law": lambda t: 2 * np.tanh(t)}, r"probabilities P\(y = 1 \| t\) in \[0, 1\]"),
        ({"label_law": lambda t: (t > 0.3).astype(float)}, "label_law must be a smooth function"),
        ({"label_law": lambda t: (t > 0.3).astype(float), "loss": "square"}, "label_law must be a smooth function"),
        (
            {"label_law": lambda t: np.clip(t + 0.5, 0, 1), "loss": "square", "penalty": 0.0},
            "must be a smooth function",
        ),
        ({"label_law": SignTeacher}, "label_law must be a LinearTeacher"),
        ({"n": [1, 2], "penalty": [1, 2, 3]}, "values and .*: give arrays that broadcast"),
        ({"squared_cross_covariance": [0.1, np.nan]}, "squared_cross_covariance must be finite"),
    ],
)
def test_wrong_input_is_refused_in_words(change, message):
    arguments = {
        "spectrum": [1.0, 0.5],
        "squared_cross_covariance": 0.1,
        "teacher_variance": 1.0,
        "n": 5,
        "penalty": 0.1,
        **change,
    }
    with pytest.raises(InputError, match=message):
        glm_state_evolution(**arguments)


@pytest.mark.parametrize(
    ("covariance", "cross", "message"),
    [
        ([[1.0, 0.5], [0.0, 1.0]], [0.1, 0.1], "covariance must be symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], [0.1, 0.1], "covariance must have eigenvalues >= 0, got -1"),
        ([[1.0, 0.0]], [0.1, 0.1], "covariance must be a square matrix"),
        (np.eye(2), [0.1, 0.1, 0.1], "cross_covariance must have shape"),
    ],
)
def test_wrong_matrices_are_refused_in_words(covariance, cross, message):
    with pytest.raises(InputError, match=message):
        glm_state_evolution_matrices(covariance, cross, 1.0, 5, 0.1)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda t: 1 / (1 + math.exp(-t)), "converted"),
        (lambda t: 1.0 if t > 0 else 0.0, "truth value"),
        (lambda t: "often", "could not convert"),
        (lambda t, noise: t, "missing 1 required"),
    ],
)
def test_a_teacher_that_takes_no_array_is_refused_in_one_line(function, said):
    with pytest.raises(InputError, match=rf"label_law must be a function of an array of fields .*{said}") as caught:
        glm_state_evolution(np.full(4, 0.25), np.full(4, 1 / 16), 1.0, 8, 0.1, label_law=function)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("teacher", [SignTeacher(0.1), ProbitTeacher(0.25), LogitTeacher(2.0)])
def test_errors_of_scores_that_say_nothing_or_all_are_those_of_a_coin_and_of_the_teacher_itself(teacher):
    wrong = {
        SignTeacher: lambda t: teacher[0],
        ProbitTeacher: lambda t: stats.norm.cdf(-abs(t) / teacher[0] ** 0.5),
        LogitTeacher: lambda t: 1 / (1 + np.exp(teacher[0] * abs(t))),
    }[type(teacher)]
    least = 2 * integrate.quad(lambda t: stats.norm.pdf(t) * wrong(t), 0, 12)[0]
    np.testing.assert_allclose(teacher_error(teacher, 0.0, 0.0), 0.5, rtol=1e-12)
    np.testing.assert_allclose(teacher_error(teacher, 0.0, 3.0), 0.5, rtol=1e-12)
    # a cosine that rounding leaves above 1 is 1
    np.testing.assert_allclose(teacher_error(teacher, 2.0 * (1 + 1e-15), 4.0), least, rtol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SignTeacher(), 2.0, 1.0), "overlap must be at most sqrt"),
        ((SignTeacher(), 0.5, -1.0), "norm must be >= 0"),
        ((SignTeacher(2.0), 0.5, 1.0), "flip_probability must be"),
        ((SignTeacher(), np.nan, 1.0), "overlap must be finite"),
        (("sign", 0.5, 1.0), "label_law must be"),
        ((np.tanh, 0.5, 1.0), "label_law must be"),
    ],
)
def test_wrong_scores_are_refused_in_one_line(arguments, message):
    with pytest.raises(InputError, match=message):
        teacher_error(*arguments)

from itertools import product

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.numerics.contrasts import helmert_contrasts
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.message_passing.multiclass.nodes import cone_chance
from unlazy.theory.message_passing.multiclass.prox import softmax_prox
from unlazy.theory.message_passing.multiclass.softmax import multiclass_clusters, multiclass_teacher
from unlazy.theory.message_passing.multiclass.training import right_chance

D = 100
FLAT = np.full(D, 1 / D)


def corners(classes, strength, d=D):
    return strength / d**0.5 * np.eye(classes, d)


@pytest.mark.parametrize("size", [1e-3, 1.0, 17.0, 1e4])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_prox_is_stationary_and_its_slope_is_the_derivative_of_the_pull(classes, size):
    rng = np.random.default_rng(classes)
    r = classes - 1
    root = rng.standard_normal((r, r))
    response = size * (root @ root.T + 0.1 * np.eye(r))
    omega = 50 * rng.uniform(-1, 1, (r, 40))

    def prox(omega):
        return softmax_prox(helmert_contrasts(classes), 1, omega, np.linalg.cholesky(response))

    found = prox(omega)
    np.testing.assert_allclose(found.point, omega + response @ found.pull, atol=1e-9 * (1 + size))
    step = 1e-4 * np.eye(r)
    for b in range(r):
        above, below = (prox(omega + sign * step[:, b : b + 1]).pull for sign in (1, -1))
        np.testing.assert_allclose(found.slope[:, b], (above - below) / 2e-4, atol=2e-7)


@pytest.mark.parametrize(
    ("probabilities", "v", "q", "scalars"),
    [
        (
            None,
            [[4.684189693, 0], [0, 4.684189693]],
            [[2.534407244, 0], [0, 2.534407244]],
            (0.225849021, 0.148276001, 0.548423656, 0.223124956),
        ),
        (
            (0.5, 0.3, 0.2),
            [[4.58570651, -0.13336001], [-0.13336001, 4.97121573]],
            [[2.86829681, 0.29430867], [0.29430867, 2.07617271]],
            (0.214831505, 0.142391253, 0.526975244, 0.22160706),
        ),
    ],
)
def test_three_clusters_agree_with_an_independent_computation(probabilities, v, q, scalars):
    found = multiclass_clusters(corners(3, 2.0), 2 * D, 0.1, variances=FLAT, cluster_probabilities=probabilities)
    np.testing.assert_allclose(found.response[1], v, atol=1e-8)
    np.testing.assert_allclose(found.norm[2], q, atol=1e-8)
    measured = (found.test_error, found.training_loss, found.test_loss, found.stability)
    np.testing.assert_allclose(measured, scalars, atol=2e-9)
    if probabilities is None:
        np.testing.assert_allclose(found.overlap[[0, 2]], [[1.728974261, 0.998223755], [0, -1.99644751]], atol=2e-9)
        np.testing.assert_allclose(found.class_errors, found.test_error, atol=1e-10)


def test_two_classes_are_binary_logistic_regression_with_half_the_ridge():
    means = 0.15 * np.eye(1, D) * np.array([[1.0], [-1.0]])
    for bias, test_error, training_loss in ((True, 0.096676530, 0.110660555), (False, 0.098741345, 0.113512079)):
        found = multiclass_clusters(
            means, 300, 0.2, variances=FLAT, cluster_probabilities=(0.6, 0.4), fit_intercept=bias
        )
        if bias:
            np.testing.assert_allclose(found.training_error, 0.011346097, atol=1e-9)
        np.testing.assert_allclose((found.test_error, found.training_loss), (test_error, training_loss), atol=2e-9)
    # binary scores are sqrt 2 times the contrast
    np.testing.assert_allclose(found.overlap[0] * 2**0.5, 2.661894306, atol=1e-8)
    np.testing.assert_allclose(found.norm[0] * 2, 4.266185703, atol=1e-8)
    np.testing.assert_allclose(found.response[0] * 2, 4.027274641, atol=1e-8)


def test_two_classes_of_unequal_covariances_agree_with_the_scalar_mixture():
    from unlazy.theory.message_passing.state_evolution.mixture import mixture_state_evolution

    variances = np.array([np.linspace(0.2, 2.0, D), np.linspace(1.5, 0.5, D)]) / D
    means = 0.15 * np.eye(1, D) * np.array([[1.0], [-1.0]])
    found = multiclass_clusters(
        means, 150, 0.3, variances=variances, cluster_probabilities=(0.6, 0.4), fit_intercept=True
    )
    scalar = mixture_state_evolution(means, variances, (0.6, 0.4), (1, -1), 150, 0.15, fit_intercept=True)
    for name in ("test_error", "test_loss", "training_error", "training_loss", "stability"):
        np.testing.assert_allclose(getattr(found, name), getattr(scalar, name), rtol=1e-7, err_msg=name)
    np.testing.assert_allclose(2 * found.norm[:, 0, 0], scalar.norm, rtol=1e-7)
    np.testing.assert_allclose(2**0.5 * found.bias, scalar.bias, rtol=1e-7)


@pytest.mark.parametrize(
    ("classes", "ratio", "ridge"),
    # four classes have the dearest averages
    [*product((2, 3, 5), (0.5, 2.0, 10.0), (1e-2, 0.1, 1.0)), (4, 0.5, 1.0), (4, 2.0, 0.1)],
)
def test_equal_classes_have_no_bias_to_learn(classes, ratio, ridge):
    means = corners(classes, 2.0) - corners(classes, 2.0).mean(axis=0)
    found = multiclass_clusters(means, ratio * D, ridge, variances=FLAT, fit_intercept=True)
    without = multiclass_clusters(means, ratio * D, ridge, variances=FLAT)
    # the Sobol points of five classes are not symmetric
    tolerance = {2: 1e-9, 3: 1e-8, 4: 1e-6, 5: 5e-3}[classes]
    np.testing.assert_allclose(found.bias / np.sqrt(np.trace(found.norm[0])), 0, atol=tolerance)
    for name in ("test_error", "training_loss", "test_loss"):
        np.testing.assert_allclose(getattr(found, name), getattr(without, name), rtol=tolerance, err_msg=name)


@pytest.mark.parametrize("ridge", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("ratio", [0.02, 2.0, 10.0, 1e6])
def test_two_classes_at_small_ridges_agree_with_the_scalar_mixture(ratio, ridge):
    from unlazy.theory.message_passing.state_evolution.mixture import mixture_state_evolution

    means = 0.15 * np.eye(1, D) * np.array([[1.0], [-1.0]])
    found = multiclass_clusters(
        means, ratio * D, ridge, variances=FLAT, cluster_probabilities=(0.6, 0.4), fit_intercept=True
    )
    scalar = mixture_state_evolution(means, 1 / D, (0.6, 0.4), (1, -1), ratio * D, ridge / 2, fit_intercept=True)
    for name in ("test_error", "test_loss", "training_loss", "stability"):
        np.testing.assert_allclose(getattr(found, name), getattr(scalar, name), rtol=1e-6, err_msg=name)


@pytest.mark.parametrize(("classes", "ridge"), [(3, 1e-6), (4, 1e-3)])
def test_fits_of_separable_clusters_follow_the_prediction_that_few_steps_find(classes, ridge):
    from unlazy.training.message_passing.softmax_fits import fit_softmax

    d, seeds = 150, 8
    means, variances, n = corners(classes, 2.0, d), np.full(d, 1 / d), 2 * d
    theory = multiclass_clusters(means, n, ridge, variances=variances)
    assert theory.iterations < 100
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        labels = np.arange(n) % classes
        rows = means[labels] + rng.standard_normal((n, d)) / d**0.5
        weights = fit_softmax(rows, labels, classes, ridge, tolerance=1e-4 * ridge).weights @ helmert_contrasts(classes)
        found.append((np.sum(weights**2) / d, np.sum((means @ weights) ** 2)))
    expected = np.array([np.trace(theory.norm[0]), np.sum(theory.overlap**2)])
    error = np.std(found, axis=0, ddof=1) / seeds**0.5
    assert (error < 0.05 * expected).all()
    assert (np.abs(np.mean(found, axis=0) - expected) < 4 * error).all()


def test_teacher_of_three_classes_agree_with_an_independent_computation():
    found = multiclass_teacher(FLAT, 4 * np.eye(2), 3 * D, 0.05)
    for matrix, size in ((found.response, 3.807122), (found.overlap, 3.907018), (found.norm, 6.661269)):
        np.testing.assert_allclose(matrix, size * np.eye(2), atol=2e-6)
    measured = (found.training_loss, found.test_loss, found.stability)
    np.testing.assert_allclose(measured, (0.2669791, 1.0631569, 0.3676392), atol=2e-7)


def test_teacher_of_two_classes_is_the_scalar_logit_teacher():
    # t = sqrt 2 of the scalar field and half the ridge; the values are those of `test_state_evolution` for expit(2t)
    found = multiclass_teacher(FLAT, [[2.0]], 3 * D, 0.2)
    measured = [2 * found.response[0, 0], found.overlap[0, 0], 2 * found.norm[0, 0]]
    np.testing.assert_allclose(measured, (2.455459780, 1.520601472, 4.018459955), atol=1e-8)
    measured = [found.training_error, found.training_loss, found.test_error, found.stability]
    np.testing.assert_allclose(measured, (0.112313133, 0.320472616, 0.303906924, 0.226350027), atol=1e-8)


@pytest.mark.parametrize("size", [0.5, 8.0])
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_chance_of_a_right_training_row_is_that_of_drawn_proximal_points(classes, size):
    rng = np.random.default_rng(classes)
    r, draws = classes - 1, 20_000
    roots = rng.standard_normal((2, r, r))
    response, covariance = roots @ roots.swapaxes(1, 2) + 0.1 * np.eye(r)
    response, basis = size * response, helmert_contrasts(classes)
    # without its own pull the row is wrong rather than right
    mean = 0.3 * basis[1] - 0.6 * response @ basis[1]
    omega = mean[:, None] + np.linalg.cholesky(covariance) @ rng.standard_normal((r, draws))
    point = softmax_prox(basis, 1, omega, np.linalg.cholesky(response)).point
    right = np.mean((basis @ point).argmax(axis=0) == 1)
    found = right_chance(basis, 1, response, mean, covariance)
    assert 0.05 < found < 0.999
    assert abs(found - right) < 4 * np.sqrt(found * (1 - found) / draws)


def test_without_response_training_rows_are_fresh_ones():
    rng = np.random.default_rng(0)
    basis = helmert_contrasts(4)
    root = rng.standard_normal((3, 3))
    sides = basis[2] - np.delete(basis, 2, axis=0)
    mean, covariance = 0.5 * basis[2], root @ root.T + 0.1 * np.eye(3)
    expected = cone_chance(sides @ mean, sides @ covariance @ sides.T)
    np.testing.assert_allclose(right_chance(basis, 2, np.zeros((3, 3)), mean, covariance), expected, atol=2e-5)


def test_a_cluster_without_variance_has_no_error_where_its_score_is_right():
    variances = np.tile(FLAT, (3, 1))
    variances[0] = 0
    found = multiclass_clusters(corners(3, 2.0), D, 0.1, variances=variances)
    assert found.class_errors[0] == 0
    assert np.isfinite([found.test_error, found.training_error]).all()


@pytest.mark.slow
def test_teacher_of_four_classes_predicts_fits_within_their_standard_error():
    from sklearn.linear_model import LogisticRegression

    d, n, ridge, basis = 300, 1200, 0.1, helmert_contrasts(4)
    theory = multiclass_teacher(np.full(d, 1 / d), 4 * np.eye(3), n, ridge)
    found = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        rows, teacher = rng.standard_normal((n, d)) / d**0.5, rng.standard_normal((d, 3))
        teacher = 2 * np.linalg.solve(np.linalg.cholesky(teacher.T @ teacher / d), teacher.T).T
        scores = rows @ teacher @ basis.T
        labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        model = LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-6, max_iter=10_000).fit(rows, labels)
        weights = model.coef_.T @ basis
        wrong = np.mean((rows @ model.coef_.T).argmax(axis=1) != labels)
        found.append((wrong, np.sum(weights**2) / d / 3, np.sum(weights * teacher) / d / 3))
    error = np.std(found, axis=0, ddof=1) / 4
    expected = np.array([theory.training_error, np.trace(theory.norm) / 3, np.trace(theory.overlap) / 3])
    assert (error < 0.05 * expected).all()
    assert (np.abs(np.mean(found, axis=0) - expected) < 3 * error + 0.005 * expected).all()


def test_full_covariances_agree_with_diagonal_ones_in_a_rotated_basis():
    rng = np.random.default_rng(5)
    d = 12
    variances = rng.uniform(0.2, 2.0, (4, d)) / d
    means = 0.6 * rng.standard_normal((4, d)) / d**0.5
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    options = {
        "cluster_classes": (0, 1, 2, 0),
        "cluster_probabilities": (0.3, 0.3, 0.2, 0.2),
        "fit_intercept": True,
        "with_overlap_stability": True,
    }
    diagonal = multiclass_clusters(means, 30, 0.3, variances=variances, **options)
    covariances = np.einsum("ij,cj,kj->cik", turn, variances, turn)
    full = multiclass_clusters(means @ turn.T, 30, 0.3, covariances=covariances, **options)
    for name, one, other in zip(diagonal._fields, diagonal, full, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("classes", [3, 5])
def test_a_large_ridge_gives_the_hebbian_rule(classes):
    # W = sum_i x_i B_{y_i} / lam: means and covariance in closed form
    n, ridge, d = 200, 1e6, 40
    basis, variances = helmert_contrasts(classes), np.linspace(0.5, 1.5, d) / d
    p = np.arange(1.0, classes + 1) / np.arange(1.0, classes + 1).sum()
    means = corners(classes, 1.5, d)
    found = multiclass_clusters(means, n, ridge, variances=variances, cluster_probabilities=p)
    weights = n / ridge * means.T @ (p[:, None] * basis)
    # the classes of unequal shares pull with e_k - 1/K at scores 0
    np.testing.assert_allclose(found.overlap, means @ weights, rtol=1e-3, atol=1e-9)
    noise = n / ridge**2 * (variances @ variances) * (basis.T * p) @ basis
    np.testing.assert_allclose(found.norm[0], weights.T @ (variances[:, None] * weights) + noise, rtol=1e-3, atol=1e-12)
    np.testing.assert_allclose(found.training_loss, np.log(classes), atol=1e-3)


def test_cones_have_their_closed_chances():
    for classes in (2, 3, 4, 5, 7):
        basis = helmert_contrasts(classes)
        sides = basis[0] - basis[1:]
        tolerance = 1e-13 if classes < 5 else 2e-5
        np.testing.assert_allclose(cone_chance(np.zeros(classes - 1), sides @ sides.T), 1 / classes, atol=tolerance)
    correlation = np.array([[1.0, 0.3, -0.5], [0.3, 1.0, 0.2], [-0.5, 0.2, 1.0]])
    exact = 1 / 8 + np.arcsin(correlation[np.triu_indices(3, 1)]).sum() / (4 * np.pi)
    np.testing.assert_allclose(cone_chance(np.zeros(3), correlation), exact, atol=1e-13)
    independent = cone_chance(np.array([0.5, -1.0, 2.0, 0.3, 0.0]), np.eye(5))
    from scipy.special import ndtr

    np.testing.assert_allclose(independent, np.prod(ndtr([0.5, -1.0, 2.0, 0.3, 0.0])), atol=2e-5)


def test_five_equal_classes_stay_symmetric_to_the_accuracy_of_their_points():
    found = multiclass_clusters(corners(5, 2.0), 2 * D, 0.1, variances=FLAT)
    spread = np.linalg.eigvalsh(found.response).ravel()
    assert np.ptp(spread) < 2e-3 * spread.mean()
    assert np.ptp(found.class_errors) < 1e-4


def test_slowest_overlap_is_the_rate_at_which_the_iteration_itself_converges():
    from unlazy.theory.message_passing.multiclass.teacher import TeacherEquations

    harmonic = 1 / np.arange(1.0, D + 1)
    harmonic /= harmonic.sum()
    found = multiclass_teacher(harmonic, 4 * np.eye(2), 3 * D, 0.05, with_overlap_stability=True)
    run = TeacherEquations(harmonic, 4 * np.eye(2), 3.0 * D, 0.05)
    point, distances = run.first(), []
    for _ in range(30):
        point = run.step(point)
        distances.append(np.abs(point.norm - found.norm).max())
    measured = (distances[25] / distances[15]) ** (2 / 10)
    np.testing.assert_allclose(found.overlap_stability, measured, rtol=0.02)
    assert found.overlap_stability > found.stability


def test_arrays_of_rows_and_ridges_broadcast():
    together = multiclass_clusters(corners(3, 2.0), [[100], [300]], [0.1, 1.0], variances=FLAT)
    assert together.test_error.shape == (2, 2)
    alone = multiclass_clusters(corners(3, 2.0), 300, 0.1, variances=FLAT)
    np.testing.assert_allclose(together.test_loss[1, 0], alone.test_loss, rtol=1e-8)


def test_an_unfinished_iteration_is_an_error_with_its_residual():
    with pytest.raises(ConvergenceError, match=r"relative change of .* after 2 iterations"):
        multiclass_clusters(corners(3, 2.0), 100, 0.1, variances=FLAT, max_iterations=2)


BAD = np.eye(D)
BAD[0, 1] = 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalty": 0.0}, "penalty must be > 0"),
        ({"penalty": 1e-12}, "penalty must be 1e-10 to 1e.10, .* got 1e-12"),
        ({"fit_intercept": "yes"}, "fit_intercept must be True or False, got 'yes'"),
        ({"with_overlap_stability": 2}, "with_overlap_stability must be True or False, got 2"),
        ({"cluster_classes": [[0, 1], [2]]}, "cluster_classes must be numeric"),
        ({"n": 0.5}, "n must be >= 1"),
        ({"cluster_probabilities": (0.5, 0.3, 0.3)}, "cluster_probabilities must sum to 1"),
        ({"cluster_probabilities": (0.5, 0.5)}, "one entry per row of means"),
        ({"cluster_classes": (0, 2, 2)}, "none of class 1"),
        ({"cluster_classes": (0, 0, 0)}, "at least two classes"),
        ({"variances": None}, "exactly one of variances and covariances"),
        ({"variances": -FLAT}, "variances must be >= 0"),
        ({"variances": FLAT[:-1]}, "variances must have shape"),
        ({"variances": None, "covariances": BAD}, "covariances must be symmetric"),
        ({"variances": None, "covariances": np.diag([-1.0, *np.ones(D - 1)])}, "positive semi-definite"),
    ],
)
def test_wrong_clusters_are_refused_in_one_line(options, message):
    arguments = {"n": 100, "penalty": 0.1, "variances": FLAT, **options}
    with pytest.raises(InputError, match=message):
        multiclass_clusters(corners(3, 2.0), **arguments)


@pytest.mark.parametrize(
    ("spectrum", "teacher", "message"),
    [
        (np.zeros(5), np.eye(2), "spectrum must not be all 0"),
        (-FLAT, np.eye(2), "spectrum must be >= 0"),
        (FLAT, np.ones((2, 2)), "teacher_covariance must be positive definite"),
        (FLAT, np.ones((2, 3)), "teacher_covariance must have shape"),
    ],
)
def test_wrong_teachers_are_refused_in_one_line(spectrum, teacher, message):
    with pytest.raises(InputError, match=message):
        multiclass_teacher(spectrum, teacher, 100, 0.1)

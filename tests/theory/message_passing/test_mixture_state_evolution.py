import numpy as np
import pytest
from scipy import optimize, special, stats

from unlazy.checks import InputError
from unlazy.theory.message_passing.state_evolution.mixture import mixture_state_evolution

D = 100


def two_clusters(share=0.6, n=300, penalty=0.1, separation=1.5, **options):
    mean = np.zeros(D)
    mean[0] = separation / np.sqrt(D)
    return mixture_state_evolution([mean, -mean], 1 / D, [share, 1 - share], [1, -1], n, penalty, **options)


def test_two_clusters_agree_with_an_independent_computation():
    found = two_clusters()
    np.testing.assert_allclose(found.response, 4.086021391, rtol=1e-9)
    np.testing.assert_allclose(found.overlap, [2.635780030, -2.635780030], rtol=1e-9)
    np.testing.assert_allclose(found.norm, 4.202086702, rtol=1e-9)
    values = found.bias, found.test_error, found.training_loss, found.training_error, found.test_loss
    np.testing.assert_allclose(values, (0.401738865, 0.096676530, 0.110660555, 0.011346097, 0.237879217), atol=6e-10)
    without = two_clusters(fit_intercept=False)
    np.testing.assert_allclose(without.response, 4.027274641, rtol=1e-9)
    np.testing.assert_allclose(without.overlap[0], 2.661894306, rtol=1e-9)
    np.testing.assert_allclose(without.norm, 4.266185703, rtol=1e-9)
    np.testing.assert_allclose([without.test_error, without.training_loss], (0.098741345, 0.113512079), atol=6e-10)
    assert without.bias == 0


@pytest.mark.parametrize("loss", ["square", "logistic", "hinge"])
def test_a_large_ridge_averages_the_samples(loss):
    square, noise, n = 2.25 / D, 1 / D, np.array([50.0, 300.0])
    found = two_clusters(0.5, n, 1e7, fit_intercept=False, loss=loss)
    closed = special.ndtr(-square / np.sqrt(noise * (square + noise * D / n)))
    np.testing.assert_allclose(found.test_error, closed, rtol=1e-6)


def test_well_separated_clusters_do_not_end_in_a_two_cycle():
    """The plain iteration of the means does at |mu| = 6/sqrt(d); a solution has lam w = sum of forces."""
    found = two_clusters(separation=6.0)
    assert found.test_error < 1e-7
    assert found.stability < 1


@pytest.mark.parametrize("loss", ["square", "logistic", "hinge"])
def test_solutions_satisfy_the_equations_of_unequal_full_covariances(loss):
    """Both sides by other means: a root finder for the proximal point, trapezoidal sums and plain matrix algebra."""
    rng = np.random.default_rng(0)
    d, n, ridge = 6, 20.0, 0.3
    means = 0.6 * rng.standard_normal((3, d))
    factors = rng.standard_normal((3, d, d)) / np.sqrt(d)
    covariances = factors @ factors.transpose(0, 2, 1) * np.array([1.0, 2.0, 0.5])[:, None, None]
    shares, labels = np.array([0.5, 0.2, 0.3]), np.array([1, -1, -1])
    found = mixture_state_evolution(means, covariances, shares, labels, n, ridge, loss=loss)

    def force(omega, v):
        if loss == "square":
            return (1 - omega) / (1 + v)
        if loss == "hinge":
            return np.clip((1 - omega) / v, 0, 1)
        roots = [optimize.brentq(lambda s, o=o: s - o - v / (1 + np.exp(s)), o - 1, o + v + 1) for o in omega]
        return 1 / (1 + np.exp(np.array(roots)))

    # a smooth integrand needs few points; the kinks of the hinge loss leave an error of the order of the distance
    grid = np.linspace(-9, 9, 2_000_001 if loss == "hinge" else 401)
    weights = stats.norm.pdf(grid) * (grid[1] - grid[0])
    precision, noise, drive, squares, losses = (np.zeros(3) for _ in range(5))
    for c in range(3):
        v, deviation = found.response[c], np.sqrt(found.norm[c])
        omega = labels[c] * (found.overlap[c] + found.bias) + deviation * grid
        g = force(omega, v)
        slope = -(force(omega + 1e-6, v) - force(omega - 1e-6, v)) / 2e-6
        margin = omega + v * g
        value = {"square": (1 - margin) ** 2 / 2, "logistic": np.logaddexp(0, -margin)}.get(
            loss, np.maximum(1 - margin, 0)
        )
        precision[c], squares[c] = n * shares[c] * (weights @ slope), n * shares[c] * (weights @ slope**2)
        noise[c], drive[c] = n * shares[c] * (weights @ g**2), labels[c] * n * shares[c] * (weights @ g)
        losses[c] = weights @ value
    resolvent = np.linalg.inv(ridge * np.eye(d) + np.tensordot(precision, covariances, 1))
    w = resolvent @ (means.T @ drive)
    spread = resolvent @ np.tensordot(noise, covariances, 1) @ resolvent
    tolerance = 1e-4 if loss == "hinge" else 1e-6
    assert abs(drive.sum()) < tolerance * np.abs(drive).max()
    np.testing.assert_allclose(means @ w, found.overlap, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(np.trace(covariances @ resolvent, axis1=1, axis2=2), found.response, rtol=tolerance)
    norm = np.einsum("i,cij,j->c", w, covariances, w) + np.trace(covariances @ spread, axis1=1, axis2=2)
    np.testing.assert_allclose(norm, found.norm, rtol=tolerance)
    np.testing.assert_allclose(losses @ shares, found.training_loss, rtol=tolerance)
    pairs = np.array([[np.trace(a @ resolvent @ b @ resolvent) for b in covariances] for a in covariances])
    radius = np.abs(np.linalg.eigvals(pairs * squares)).max()
    np.testing.assert_allclose(found.stability, radius, rtol=10 * tolerance)


@pytest.mark.parametrize("n", [20.0, 70.0])
def test_without_ridge_the_square_loss_is_least_squares(n):
    """Against fits of the least norm: clusters of unequal covariances, one direction without variance."""
    d, seeds = 40, 400
    rng = np.random.default_rng(0)
    mean = np.full(d, 1.5 / d)
    mean[0] = 0.0
    diagonals = np.stack([np.linspace(0.0, 2.0, d), np.full(d, 1.5)]) / d
    diagonals[:, 0] = 0.0
    theory = mixture_state_evolution(
        [mean, -mean], diagonals, [0.5, 0.5], [1, -1], n, 0.0, loss="square", fit_intercept=False
    )
    near = mixture_state_evolution(
        [mean, -mean], diagonals, [0.5, 0.5], [1, -1], n, 1e-9, loss="square", fit_intercept=False
    )
    for name in ("overlap", "norm", "test_error", "training_error", "test_loss", "training_loss", "stability"):
        np.testing.assert_allclose(getattr(near, name), getattr(theory, name), rtol=2e-6, atol=1e-12, err_msg=name)
    assert np.isinf(theory.response).all() == (n < d)
    labels = np.where(np.arange(n) < n / 2, 1.0, -1.0)
    spread = np.sqrt(np.where(labels[:, None] > 0, *diagonals))
    found = []
    for _ in range(seeds):
        design = labels[:, None] * mean + spread * rng.standard_normal((int(n), d))
        weights = np.linalg.lstsq(design, labels)[0]
        found.append([mean @ weights, *(diagonals @ weights**2), np.mean((labels - design @ weights) ** 2) / 2])
    # the theory's relative error is O(1/d)
    expected = np.array([theory.overlap[0], *theory.norm, theory.training_loss])
    average, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(seeds)
    assert (np.abs(average - expected) < 4 * error + expected / d + 1e-12).all()


def small_weights_lose(separation, share, ratio, d, seed):
    """Whether w = 0, b = 1 is optimal for a draw: the dual, forces in [0, 1] of the larger class that balance all."""
    rng = np.random.default_rng(seed)
    n = round(ratio * d)
    count = round(share * n)
    centre = np.zeros(d)
    centre[0] = separation
    larger = rng.standard_normal((count, d)) + centre
    smaller = rng.standard_normal((n - count, d)) - centre
    left = np.vstack([larger.T, np.ones(count)])
    right = np.append(smaller.sum(axis=0), n - count)
    return optimize.linprog(np.zeros(count), A_eq=left, b_eq=right, bounds=(0, 1), method="highs").status == 0


@pytest.mark.parametrize(("separation", "share"), [(0.2, 0.8), (1.0, 0.8), (0.5, 0.95), (1.0, 0.95)])
def test_a_hinge_fit_with_bias_ignores_the_smaller_class_where_a_linear_program_says_so(separation, share):
    found = two_clusters(share, 30 * D, [0.1, 10.0], separation, loss="hinge")
    ignored = np.isnan(found.stability)
    assert [ignored.all()] * 3 == [small_weights_lose(separation, share, 30, 30, seed) for seed in range(3)]
    assert ignored.all() == ignored.any()
    if ignored.all():
        assert (found.norm == 0).all()
        assert (found.overlap == 0).all()
        assert (found.bias == 1).all()
        assert np.isnan(found.response).all()
        for error in (found.test_error, found.training_error, found.test_loss / 2, found.training_loss / 2):
            np.testing.assert_allclose(error, 1 - share)


def test_with_many_samples_the_smaller_class_is_ignored_up_to_a_known_separation():
    """p phi(c) = 2 s (1 - p) with Phi(-c) = (1 - p)/p: where the slope of the mean hinge loss at w = 0 vanishes."""
    share = 0.9
    cut = -special.ndtri((1 - share) / share)
    critical = share * stats.norm.pdf(cut) / (2 * (1 - share))
    for factor, ignored in ((0.98, True), (1.02, False)):
        found = two_clusters(1 - share, 1e7 * D, 0.1, factor * critical, loss="hinge")
        assert np.isnan(found.stability) == ignored
        assert found.bias == -1 if ignored else found.norm[0] > 0


def test_commuting_covariances_are_diagonal_in_their_basis():
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    diagonals = rng.uniform(0, 1, (2, 12))
    means = rng.standard_normal((2, 12)) / 3
    arguments = [0.3, 0.7], [1, -1], np.array([[5.0], [40.0]]), np.array([0.1, 1.0])
    plain = mixture_state_evolution(means, diagonals, *arguments)
    full = (basis * diagonals[:, None, :]) @ basis.T
    rotated = mixture_state_evolution(means @ basis.T, full, *arguments)
    assert plain.test_error.shape == (2, 2)
    assert plain.norm.shape == (2, 2, 2)
    for one, other in zip(plain, rotated, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


def test_a_cluster_in_two_halves_is_one_cluster():
    means = np.array([[0.4, 0.1, 0.0], [-0.3, 0.2, 0.1]])
    diagonals = np.array([[0.2, 0.3, 0.1], [0.5, 0.1, 0.2]])
    whole = mixture_state_evolution(means, diagonals, [0.6, 0.4], [1, -1], 9, 0.2)
    halves = mixture_state_evolution(means[[0, 0, 1]], diagonals[[0, 0, 1]], [0.3, 0.3, 0.4], [1, 1, -1], 9, 0.2)
    np.testing.assert_allclose(halves.norm, whole.norm[[0, 0, 1]], rtol=1e-9)
    for name in ("bias", "test_error", "test_loss", "training_error", "training_loss", "stability"):
        np.testing.assert_allclose(getattr(halves, name), getattr(whole, name), rtol=1e-8, err_msg=name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"penalty": 0.0}, r"penalty must be > 0 for the logistic loss \(separable data"),
        ({"penalty": 0.0, "loss": "square", "n": 2}, r"penalty must be > 0 where n = rank = 2"),
        (
            {"penalty": 0.0, "loss": "square", "covariances": [[1, 0], [1, 0]], "means": np.eye(2)},
            "without any variance",
        ),
        ({"fit_intercept": "no"}, "fit_intercept must be True or False"),
        ({"n": 0}, "n must be >= 1"),
        ({"cluster_probabilities": [0.5, 0.6]}, "cluster_probabilities must sum to 1"),
        ({"cluster_probabilities": [1.0]}, "cluster_probabilities must have one entry per cluster"),
        ({"cluster_labels": [1, 0]}, "cluster_labels must be 1 or -1, got 0"),
        ({"cluster_labels": [1, 1]}, "cluster_labels must contain both -1 and 1"),
        ({"covariances": np.ones((2, 3))}, "covariances must be a number or have shape"),
        ({"covariances": [[1, 1], [1, -1]]}, r"covariances\[1\] must be positive semi-definite"),
        ({"covariances": [np.eye(2), [[1, 2], [2, 1]]]}, r"covariances\[1\] must be positive semi-definite"),
        ({"covariances": [np.eye(2), [[1, 0.5], [0, 1]]]}, r"covariances\[1\] must be symmetric"),
        ({"covariances": [[1, 1], [0, 0]]}, r"covariances\[1\] must not be 0"),
        ({"loss": "cubic"}, "loss must be one of"),
        ({"means": [1.0, 2.0]}, "means must have 2 dimension"),
    ],
)
def test_wrong_input_is_refused_in_words(change, message):
    arguments = {
        "means": [[0.5, 0.0], [-0.5, 0.0]],
        "covariances": 0.1,
        "cluster_probabilities": [0.5, 0.5],
        "cluster_labels": [1, -1],
        "n": 10,
        "penalty": 0.1,
        **change,
    }
    with pytest.raises(InputError, match=message):
        mixture_state_evolution(**arguments)


def widest_margin(strength, deviation, n, d):
    """M and Q of the smallest w with y w.x >= 1 for all samples, by Gordon's inequality.

    w has the length a along the means and a rho across; t = (1 - M)/sqrt(Q) is where the samples of the margin begin.
    """
    from scipy.optimize import brentq, minimize_scalar
    from scipy.special import ndtr

    def found(rho):
        def excess(t):
            return (1 + t**2) * ndtr(t) + t * np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi) - d / n * rho**2 / (1 + rho**2)

        t = brentq(excess, -30, 30, xtol=1e-14)
        along = 1 / (strength + t * deviation * np.sqrt(1 + rho**2))
        return along, along**2 * (1 + rho**2)

    rho = minimize_scalar(lambda x: found(np.exp(x))[1], bounds=(-12, 3), options={"xatol": 1e-10}).x
    along, square = found(np.exp(rho))
    return along * strength, deviation**2 * square


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("ridge", [1e-8, 1e-3, 0.1])
@pytest.mark.parametrize("strength", [1.2, 3.0, 5.7, 6.0, 10.0, 30.0, 300.0])
def test_hinge_fits_of_clusters_however_far_apart_have_the_widest_margin(strength, ridge, bias):
    n, d = 200, 100
    means = strength * np.eye(1, d) * np.array([[1.0], [-1.0]])
    found = mixture_state_evolution(means, 1 / d, (0.5, 0.5), (1, -1), n, ridge, loss="hinge", fit_intercept=bias)
    mean, norm = widest_margin(strength, d**-0.5, n, d)
    np.testing.assert_allclose(found.overlap, [mean, -mean], rtol=1e-6)
    np.testing.assert_allclose(found.norm, norm, rtol=1e-6)

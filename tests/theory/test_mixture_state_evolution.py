import numpy as np
import pytest
from scipy import optimize, special, stats

from unlazy.errors import InputError
from unlazy.theory.mixture_state_evolution import mixture_state_evolution

D = 100


def two_clusters(share=0.6, n=300, ridge=0.1, separation=1.5, **options):
    mean = np.zeros(D)
    mean[0] = separation / np.sqrt(D)
    return mixture_state_evolution([mean, -mean], 1 / D, [share, 1 - share], [1, -1], n, ridge, **options)


def test_two_clusters_have_the_values_of_the_validated_note():
    found = two_clusters()
    np.testing.assert_allclose(found.variance, 4.086021391, rtol=1e-9)
    np.testing.assert_allclose(found.mean, [2.635780030, -2.635780030], rtol=1e-9)
    np.testing.assert_allclose(found.norm, 4.202086702, rtol=1e-9)
    values = found.bias, found.test_error, found.train_loss, found.train_error, found.test_loss
    np.testing.assert_allclose(values, (0.401738865, 0.096676530, 0.110660555, 0.011346097, 0.237879217), atol=6e-10)
    without = two_clusters(bias=False)
    np.testing.assert_allclose(without.variance, 4.027274641, rtol=1e-9)
    np.testing.assert_allclose(without.mean[0], 2.661894306, rtol=1e-9)
    np.testing.assert_allclose(without.norm, 4.266185703, rtol=1e-9)
    np.testing.assert_allclose([without.test_error, without.train_loss], (0.098741345, 0.113512079), atol=6e-10)
    assert without.bias == 0


@pytest.mark.parametrize("loss", ["square", "logistic", "hinge"])
def test_a_large_ridge_averages_the_samples(loss):
    square, noise, n = 2.25 / D, 1 / D, np.array([50.0, 300.0])
    found = two_clusters(0.5, n, 1e7, bias=False, loss=loss)
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
        v, deviation = found.variance[c], np.sqrt(found.norm[c])
        omega = labels[c] * (found.mean[c] + found.bias) + deviation * grid
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
    np.testing.assert_allclose(means @ w, found.mean, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(np.trace(covariances @ resolvent, axis1=1, axis2=2), found.variance, rtol=tolerance)
    norm = np.einsum("i,cij,j->c", w, covariances, w) + np.trace(covariances @ spread, axis1=1, axis2=2)
    np.testing.assert_allclose(norm, found.norm, rtol=tolerance)
    np.testing.assert_allclose(losses @ shares, found.train_loss, rtol=tolerance)
    pairs = np.array([[np.trace(a @ resolvent @ b @ resolvent) for b in covariances] for a in covariances])
    radius = np.abs(np.linalg.eigvals(pairs * squares)).max()
    np.testing.assert_allclose(found.stability, radius, rtol=10 * tolerance)


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
    for name in ("bias", "test_error", "test_loss", "train_error", "train_loss", "stability"):
        np.testing.assert_allclose(getattr(halves, name), getattr(whole, name), rtol=1e-8, err_msg=name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ridge": 0.0}, r"ridge must be > 0 \(separable data"),
        ({"n": 0}, "n must be >= 1"),
        ({"probabilities": [0.5, 0.6]}, "probabilities must sum to 1"),
        ({"probabilities": [1.0]}, "probabilities must have one entry per cluster"),
        ({"labels": [1, 0]}, "labels must be -1 or 1, got 0"),
        ({"labels": [1, 1]}, "labels must contain both -1 and 1"),
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
        "probabilities": [0.5, 0.5],
        "labels": [1, -1],
        "n": 10,
        "ridge": 0.1,
        **change,
    }
    with pytest.raises(InputError, match=message):
        mixture_state_evolution(**arguments)

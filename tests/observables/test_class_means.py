import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.observables.class_means import class_means


def mixture(rng, n, d, energy):
    """Two balanced classes at +-mu with |mu|^2 = energy, noise of variance 1; mu is along the first axis."""
    codes = np.arange(n) % 2
    X = rng.standard_normal((n, d))
    X[:, 0] += (2 * codes - 1) * np.sqrt(energy)
    return X, codes


def three_classes(rng, n, d):
    codes = np.arange(n) % 3
    return rng.standard_normal((n, d)) + 3 * np.eye(3, d)[codes], codes


def share_from_pairs(F, X, y):
    """tr(G^+ A) / |F|^2, where G and A are means over pairs of different rows of (x_i, x_j) and (F x_i, F x_j)."""
    labels = np.unique(y)
    G, A = np.zeros((2, len(labels), len(labels)))
    for a, one in enumerate(labels):
        for b, other in enumerate(labels):
            pairs = [(i, j) for i in np.flatnonzero(y == one) for j in np.flatnonzero(y == other) if i != j]
            G[a, b] = np.mean([X[i] @ X[j] for i, j in pairs])
            A[a, b] = np.mean([(F @ X[i]) @ (F @ X[j]) for i, j in pairs])
    centre = np.eye(len(labels)) - 1 / len(labels)
    return np.trace(np.linalg.pinv(centre @ G @ centre, rcond=1e-10) @ centre @ A @ centre) / np.sum(F**2)


@pytest.mark.parametrize(("energy", "held_out"), [(2.45, 200), (31.6, 75)])
def test_the_share_of_the_averaging_classifier_is_that_along_the_true_mean(energy, held_out):
    # its weights are mu + (noise of variance 1/n): |mu|^2 / (|mu|^2 + d/n) along mu, for any number of held-out rows
    n, d, seeds = 50, 1000, 40
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, int(energy)])
        X, codes = mixture(rng, n, d, energy)
        found.append(class_means(*mixture(rng, held_out, d, energy), 2).share((2 * codes[None] - 1) @ X / n))
    expected = energy / (energy + d / n)
    allowed = 4 * np.std(found, ddof=1) / np.sqrt(seeds)
    assert abs(np.mean(found) - expected) < allowed + 0.02 * expected
    # the means as they are, noise and all, would have given this
    shrunk = expected * energy / (energy + d / held_out)
    assert abs(np.mean(found) - shrunk) > allowed + 0.02 * expected


@pytest.mark.parametrize("classes", [2, 3])
def test_the_share_is_a_mean_over_pairs_of_different_rows(classes):
    rng = np.random.default_rng(3)
    V, codes = three_classes(rng, 31, 7) if classes == 3 else mixture(rng, 31, 7, 9.0)
    change = rng.standard_normal((4, 7))
    means = class_means(V, codes, classes)
    assert means.directions == classes - 1
    np.testing.assert_allclose(means.share(change), share_from_pairs(change, V, codes), rtol=1e-9)


def test_signal_and_noise_directions_have_the_shares_1_and_0():
    means = class_means(*three_classes(np.random.default_rng(5), 6000, 40), 3)
    contrasts = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) @ np.eye(3, 40)
    for change, expected in ((contrasts, 1.0), (np.eye(40)[3:], 0.0), (np.ones((1, 3)) @ np.eye(3, 40), 0.0)):
        assert abs(means.share(change) - expected) < 0.01
    assert np.isnan(means.share(0 * contrasts))


def test_the_share_does_not_depend_on_units_origin_or_rotation():
    rng = np.random.default_rng(6)
    V, codes = mixture(rng, 40, 30, 16.0)
    change = rng.standard_normal((3, 30))
    base = class_means(V, codes, 2).share(change)
    turn = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    for scale in (1e80, 1e-80):
        assert class_means(scale * V @ turn, codes, 2).share(change @ turn / scale) == pytest.approx(base, rel=1e-8)
    assert class_means(V + 5, codes, 2).share(change) == pytest.approx(base, rel=1e-8)


def test_classes_that_do_not_differ_in_their_means_are_refused():
    noise = np.random.default_rng(7).standard_normal((40, 50))
    with pytest.raises(InputError, match="X_val must tell the classes apart by their means"):
        class_means(noise, np.arange(40) % 2, 2)

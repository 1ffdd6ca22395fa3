import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.observables.feature_kernels import centred_kernel_alignment, feature_kernel


def test_alignment_ignores_rotations_factors_and_shifts():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, 8))
    turn = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    other = 3 * features @ turn + rng.normal(size=8)
    assert centred_kernel_alignment(feature_kernel(features), feature_kernel(other)) == pytest.approx(1, abs=1e-12)


def test_alignment_of_two_directions_is_their_squared_correlation():
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=(2, 40))
    expected = np.corrcoef(one, other)[0, 1] ** 2
    found = centred_kernel_alignment(feature_kernel(one[:, None] + 5), feature_kernel(other[:, None] - 9))
    assert found == pytest.approx(expected, rel=1e-10)


def test_of_independent_features_it_is_the_ratio_of_dimensions():
    # E <K, L> = tr K tr L / n, |K|^2 = n^2 (1/p + 1/n) in the units of p features
    rng = np.random.default_rng(2)
    n, p = 400, 50
    kernels = [feature_kernel(rng.normal(size=(n, p)) + 10) for _ in range(2)]
    assert centred_kernel_alignment(*kernels) == pytest.approx((1 / n) / (1 / p + 1 / n), rel=0.1)
    uncentred = np.sum(kernels[0] * kernels[1]) / np.linalg.norm(kernels[0]) / np.linalg.norm(kernels[1])
    assert uncentred > 0.95


def test_a_constant_kernel_has_no_alignment_and_wrong_kernels_are_refused():
    assert np.isnan(centred_kernel_alignment(np.ones((5, 5)), np.eye(5)))
    with pytest.raises(InputError, match="second must have shape"):
        centred_kernel_alignment(np.eye(5), np.eye(4))
    with pytest.raises(InputError, match="features must have at least 2 dimensions"):
        feature_kernel(np.ones(4))

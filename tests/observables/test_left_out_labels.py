import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.observables.feature_kernels import feature_kernel
from unlazy.observables.left_out_labels import fresh_readout_gain, indicators, left_out_labels
from unlazy.observables.margins import hits, margin_gap, margins


def blobs(rng, n, d, distance, classes=3):
    codes = rng.integers(0, classes, n)
    means = distance * np.eye(d)[:classes]
    return means[codes] + rng.normal(size=(n, d)), codes


def test_scores_are_those_of_a_ridge_fit_with_an_intercept_to_the_other_rows():
    rng = np.random.default_rng(0)
    features, codes = blobs(rng, 40, 6, 2.0)
    found = left_out_labels(feature_kernel(features), codes)
    targets = indicators(codes, 3)
    for row in (0, 7, 39):
        kept = np.arange(40) != row
        mean, level = features[kept].mean(axis=0), targets[kept].mean(axis=0)
        inputs = (features[kept] - mean) / np.sqrt(6)
        weights = np.linalg.solve(inputs.T @ inputs + found.penalty * np.eye(6), inputs.T @ (targets[kept] - level))
        expected = level + (features[row] - mean) / np.sqrt(6) @ weights
        np.testing.assert_allclose(found.scores[row], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.margins, margins(found.scores, codes))
    assert found.squared_error == pytest.approx(np.sum((found.scores - targets) ** 2) / 40)


def test_flipped_labels_have_the_lowest_margins():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(1)
    features, codes = blobs(rng, 300, 10, 6.0)
    flipped = rng.random(300) < 0.3
    given = np.where(flipped, (codes + rng.integers(1, 3, 300)) % 3, codes)
    assert roc_auc_score(flipped, -left_out_labels(feature_kernel(features), given).margins) > 0.99
    shuffled = left_out_labels(feature_kernel(features), rng.permutation(given))
    assert shuffled.error > 0.5


def test_a_readout_gains_what_the_bayes_rule_says_if_noise_columns_are_removed():
    # the class of 500 rows is the sign of one column; 450 columns of noise hide it from a linear readout
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 2, 500)
    signal = (2 * codes - 1) * 2 + rng.normal(size=500)
    initial = np.column_stack([signal, 3 * rng.normal(size=(500, 450))])
    found = fresh_readout_gain(initial, signal[:, None], codes)
    bayes = 0.02275
    assert abs(found.final_error - bayes) < 4 * np.sqrt(bayes / 500)
    assert found.gain == pytest.approx(found.initial_error - found.final_error)
    assert found.gain > 10 * found.deviation
    same = fresh_readout_gain(initial, 2 * initial, codes)
    assert same.gain == 0 == same.deviation


def test_margins_of_one_and_of_several_outputs():
    np.testing.assert_allclose(margins(np.array([[2.0], [-3.0]]), np.array([1, 1])), [2, -3])
    outputs = np.array([[1.0, 4.0, 2.0], [5.0, 5.0, 0.0]])
    found = margins(outputs, np.array([1, 0]))
    np.testing.assert_allclose(found, [2, 0])
    np.testing.assert_allclose(hits(found), [1, 0.5])
    assert margin_gap(np.array([4.0]), np.array([1.0])) == 0.75
    assert np.isnan(margin_gap(np.array([-1.0]), np.array([1.0])))


def test_wrong_labels_are_refused():
    with pytest.raises(InputError, match="codes must be one class for each"):
        left_out_labels(np.eye(4), [0, 1])
    with pytest.raises(InputError, match="kernel must tell some rows apart"):
        left_out_labels(np.ones((4, 4)), [0, 1, 0, 1])

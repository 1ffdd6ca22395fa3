"""Trained first layers as the theory of one spike sees them."""

import numpy as np
import pytest

from unlazy.functions.elementwise import as_activation
from unlazy.theory.one_step.gradient_step import gradient_cosine
from unlazy.training.one_step.trained_features import against_the_bulk, covariance_eigenvalues, trained_layer

LINK = as_activation("erf")


def test_after_one_step_the_measured_direction_has_the_cosine_of_the_gradient():
    d, width = 150, 200
    given = ("tanh", LINK, 5 * d, d, width, 0.01, np.sqrt(width), 1)
    found = np.array([trained_layer(np.random.default_rng(seed), *given).cosine for seed in range(12)])
    error = found.std(ddof=1) / np.sqrt(12)
    theory = float(gradient_cosine("erf", 5, 0.01))
    # leading order in 1/d: allow 0.01
    assert abs(found.mean() - theory) < 4 * error + 0.01
    assert abs(found.mean() - 0.8 * theory) > 4 * error + 0.01


def test_measured_overlaps_keep_the_norm_of_the_weights():
    layer = trained_layer(np.random.default_rng(0), "tanh", LINK, 200, 40, 60, 0.01, 8.0, 3)
    groups = layer.neuron_groups
    within_groups = np.sum(layer.weights**2) / 60 - groups.fractions @ (groups.spikes**2 + groups.radii**2)
    # what merging neurons into groups takes from the mean square of the spikes
    assert 0 <= within_groups < 0.02 * np.sum(layer.weights**2) / 60
    assert layer.outliers == 1


def test_no_step_leaves_a_random_layer():
    layer = trained_layer(np.random.default_rng(1), "tanh", LINK, 100, 80, 120, 0.01, 5.0, 0)
    assert (layer.cosine, layer.outliers) == (1.0, 0)
    assert np.var(layer.weights) == pytest.approx(1 / 80, rel=0.1)


def test_a_law_of_other_features_is_far_from_the_eigenvalues():
    layer = trained_layer(np.random.default_rng(2), "tanh", LINK, 500, 100, 150, 0.01, np.sqrt(150), 1)
    values = covariance_eigenvalues(np.random.default_rng(3), "tanh", layer.weights, 400)
    setting = {"neuron_groups": layer.neuron_groups, "n": 400, "d": 100, "width": 150}
    right, wrong = (against_the_bulk(values, activation=name, **setting)["bulk_distance"] for name in ("tanh", "relu"))
    assert right < 0.03 < 0.1 < wrong

"""Partial traces in a few numbers per sample have the law of those in d dimensions, and the overlap of the theory."""

import numpy as np
import pytest

from unlazy.functions.elementwise import as_link
from unlazy.studies.index_models.partial_trace import SIGN3
from unlazy.theory.index_models import partial_trace_overlap
from unlazy.training.index_models.partial_trace import eigenvector_overlaps, power_overlaps, radial_factor


@pytest.mark.parametrize("link", [SIGN3, "tanh"])
def test_power_steps_have_the_law_of_those_in_all_dimensions(link):
    rng, target, d, n = np.random.default_rng(0), as_link(link), 20, 400
    whole, drawn = [], []
    for _ in range(400):
        x = rng.standard_normal((n, d))
        w = (target(x[:, 0]) * radial_factor((x**2).sum(1), 3, d)) @ x
        w = w / np.linalg.norm(w)
        x = rng.standard_normal((n, d))
        y, u = target(x[:, 0]), x @ w
        later = (y * (u**2 - 1)) @ x - 2 * (y @ u) * w
        whole.append([w[0], later[0] / np.linalg.norm(later)])
        drawn.append(power_overlaps(rng, target, 3, d, n, 1))
    for power in (1, 2):
        each = np.array([whole, drawn]) ** power
        error = np.sqrt((each.var(1) / 400).sum(0))
        assert (np.abs(each[0].mean(0) - each[1].mean(0)) < 4 * error).all()


def test_a_matrix_has_the_overlap_of_a_spike_in_a_semicircle():
    def transform(z):
        return np.sign(np.abs(z**2 - 3) - np.sqrt(6))

    share, d, found = 0.572**2, 100, []
    n = [round(each * partial_trace_overlap(4, 1.0, d, share).samples_threshold) for each in (0.3, 5.0)]
    for seed in range(24):
        found.append(eigenvector_overlaps(np.random.default_rng(seed), transform, 4, d, n))
    low, high = np.mean(found, 0)
    expected, error = 1 - 1 / 5.0, np.std(found, 0)[1] / np.sqrt(24)
    assert low < 0.2
    assert abs(high - expected) < 4 * error + 0.03 < 0.2 * expected

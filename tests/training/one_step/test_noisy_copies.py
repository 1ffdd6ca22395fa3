"""Ridge regression on noisy copies, against the regression on all rows at once."""

import numpy as np
import pytest

from unlazy.training.one_step.noisy_copies import fit_noisy_copies


def test_copies_are_rows_and_fewer_are_fitted_in_disjoint_blocks():
    n, d, width, ridge, noise = 20, 6, 9, 0.05, 0.3
    given = ("tanh", np.sign, n, d, width, ridge, 0.1)
    found = fit_noisy_copies(np.random.default_rng(0), *given, input_noise_variance=noise, copies=(5, 2), fresh=40)
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((d, width)) / np.sqrt(d)
    x, new = rng.standard_normal((n, d)), rng.standard_normal((40, d))
    labels = np.sign(x[:, 0]) + np.sqrt(0.1) * rng.standard_normal(n)
    rows = np.concatenate([x + np.sqrt(noise) * rng.standard_normal((n, d)) for _ in range(5)])
    for index, (copies, starts) in enumerate(((5, (0,)), (2, (0, 2)))):
        repeated, errors = np.tile(labels, copies), []
        for start in starts:
            hidden = np.tanh(rows[start * n : (start + copies) * n] @ weights)
            gram, crossed = hidden.T @ hidden, hidden.T @ repeated
            fit = np.linalg.solve(gram + len(hidden) * ridge * np.eye(width), crossed)
            missed = np.mean((np.tanh(new @ weights) @ fit - np.sign(new[:, 0])) ** 2) + 0.1
            errors.append((missed, np.mean((repeated - hidden @ fit) ** 2)))
        assert [field[index] for field in found] == pytest.approx(np.mean(errors, axis=0), rel=1e-9)


def test_without_input_noise_copies_and_penalty_are_one_fit():
    given = ("tanh", np.sign, 30, 5, 8, 0.1, 0.1)
    found = fit_noisy_copies(np.random.default_rng(1), *given, input_noise_variance=0.0, copies=(1, 4, 0))
    for errors in found:
        np.testing.assert_allclose(errors, errors[0], rtol=1e-9)

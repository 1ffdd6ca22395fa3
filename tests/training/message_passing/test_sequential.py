"""Random sequential message passing on instances of finite size."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.message_passing.sequential.inference import (
    ensemble_of_spectra,
    mean_field_residual,
    row_orthogonal_ensemble,
    static_solution,
    wishart_ensemble,
)
from unlazy.theory.message_passing.sequential.tilted_averages import tilt
from unlazy.training.message_passing.sequential import (
    algorithm,
    draw_instance,
    fast_rotation,
    fitted_stability,
    init,
    quantiles,
    run,
    step,
)


class DenseRotation(NamedTuple):
    """Any orthogonal matrix, against which the fast one is tested."""

    matrix: np.ndarray

    def forward(self, x):
        return x @ self.matrix.T

    def backward(self, x):
        return x @ self.matrix


def haar_rotation(rng, size):
    """A uniformly distributed orthogonal matrix."""
    factor, triangle = np.linalg.qr(rng.standard_normal((size, size)))
    return DenseRotation(factor * np.sign(np.diag(triangle)))


def wishart_rotation(rng, size, alpha):
    """Eigenvectors and eigenvalues of a sampled X X^T/p, X of shape (size, p) with entries N(0, 1), p = size/alpha."""
    inputs = rng.standard_normal((size, round(size / alpha)))
    eigenvalues, vectors = np.linalg.eigh(inputs @ inputs.T / inputs.shape[1])
    return DenseRotation(vectors), np.maximum(eigenvalues, 0.0)


def _instance(rng, spectra, size, rotation=fast_rotation, flip=0.1):
    return draw_instance(rng, rotation(rng, size), *quantiles(spectra, size), flip)


@pytest.mark.parametrize("make", [fast_rotation, haar_rotation])
def test_rotations_are_orthogonal_and_spread_every_direction(make):
    rotation = make(np.random.default_rng(0), 256)
    matrix = rotation.forward(np.eye(256)).T
    assert np.abs(matrix.T @ matrix - np.eye(256)).max() < 1e-12
    assert rotation.backward(rotation.forward(np.arange(256.0))) == pytest.approx(np.arange(256.0), abs=1e-10)
    # N times the fourth moment of the entries of a Haar matrix is 3/N; signed permutations would give 1
    assert 256 * np.mean(matrix**4) * 256 == pytest.approx(3, rel=0.1)


def test_quantiles_have_the_moments_of_their_ensemble():
    spectra = wishart_ensemble(3.0)
    student, teacher = quantiles(spectra, 4096)
    for power in (1, 2, 3):
        assert np.mean(student**power) == pytest.approx(spectra.multiplicities @ spectra.spectrum**power, rel=1e-3)
    assert np.array_equal(student, teacher)


def test_a_parallel_step_is_the_dense_formula_and_a_partial_one_moves_the_chosen_sites():
    rng = np.random.default_rng(1)
    spectra = row_orthogonal_ensemble(3.0)
    instance = _instance(rng, spectra, 60, haar_rotation)
    student = static_solution(spectra, 4.0, 0.1)
    setting = algorithm(instance, [student, student], [1.0, 0.3])
    before = init(rng, instance, setting)
    after, residual = step(rng, instance, setting, before)

    matrix = instance.rotation.matrix
    covariance = matrix @ np.diag(instance.spectrum) @ matrix.T
    posterior = np.linalg.inv(np.linalg.pinv(covariance) + student.precision * np.eye(60))
    # directions without prior variance have no posterior variance
    null = instance.spectrum == 0
    posterior -= matrix[:, null] @ matrix[:, null].T / student.precision
    operator = posterior / (np.trace(posterior) / 60) - np.eye(60)
    kappa = before.fields[0]
    eta = tilt(kappa, instance.labels, student.cavity_variance, student.inverse_temperature)[0]
    proposal = operator @ (student.cavity_variance / student.posterior_variance * eta - kappa)
    assert after.fields[0] == pytest.approx(proposal, abs=1e-10)
    assert residual == pytest.approx(np.full(2, np.mean((proposal - kappa) ** 2)), rel=1e-10)
    moved = after.fields[1] != before.fields[1]
    assert after.fields[1][moved] == pytest.approx(proposal[moved], abs=1e-10)
    assert 5 <= moved.sum() <= 32


def test_fixed_point_is_that_of_expectation_propagation():
    """At convergence the mean is K times the sum of site terms, and does not depend on the schedule."""
    rng = np.random.default_rng(2)
    spectra = ensemble_of_spectra(np.linspace(0.2, 2.0, 40))
    instance = _instance(rng, spectra, 400, haar_rotation)
    student = static_solution(spectra, 2.0, 0.1)
    setting = algorithm(instance, [student, student], [1.0, 0.2])
    state = init(rng, instance, setting, "zero")
    for _ in range(400):
        state, residual = step(rng, instance, setting, state)
    assert residual.max() < 1e-25
    assert state.fields[1] == pytest.approx(state.fields[0], abs=1e-10)
    kappa, v = state.fields[0], student.cavity_variance
    eta = tilt(kappa, instance.labels, v, student.inverse_temperature)[0]
    # Gaussian posterior with precision K^-1 + Lambda and the linear term that the cavities imply
    chi = np.mean(instance.spectrum / (1 + student.precision * instance.spectrum))
    sites = eta / chi - kappa / v
    posterior = instance.spectrum / (1 + student.precision * instance.spectrum)
    mean = instance.rotation.forward(posterior * instance.rotation.backward(sites))
    assert mean == pytest.approx(eta, abs=1e-9)


def test_residuals_follow_the_mean_field_equations():
    spectra = row_orthogonal_ensemble(3.0)
    student = static_solution(spectra, 4.0, 0.1)
    expected = mean_field_residual(student, [1.0, 0.3], 4)
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        instance = _instance(rng, spectra, 4096)
        found.append(run(rng, instance, algorithm(instance, [student, student], [1.0, 0.3]), 4).residual.T)
    ratio = np.array(found) / expected
    error = ratio.std(axis=0, ddof=1) / math.sqrt(12)
    assert (np.abs(ratio.mean(axis=0) - 1) < 4 * error + 0.01).all()
    assert 4 * error.max() + 0.01 < 0.2


@pytest.mark.slow
def test_fast_and_uniform_rotations_and_sampled_wishart_matrices_agree():
    spectra = wishart_ensemble(3.0)
    student = static_solution(spectra, 2 * math.log(9), 0.1)
    means = {}
    for kind in ("fast", "haar", "sampled"):
        logs = []
        for seed in range(24):
            rng = np.random.default_rng(seed)
            if kind == "sampled":
                rotation, eigenvalues = wishart_rotation(rng, 900, 3.0)
                instance = draw_instance(rng, rotation, eigenvalues, eigenvalues, 0.1)
            else:
                instance = _instance(rng, spectra, 900, fast_rotation if kind == "fast" else haar_rotation)
            logs.append(np.log(run(rng, instance, algorithm(instance, [student], 0.25), 10).residual[:, 0]))
        means[kind] = np.mean(logs, axis=0), np.std(logs, axis=0, ddof=1) / math.sqrt(24)
    for kind in ("haar", "sampled"):
        gap = np.abs(means[kind][0] - means["fast"][0])
        assert (gap < 4 * np.hypot(means[kind][1], means["fast"][1]) + 0.02).all()


def test_wrong_input_is_named():
    rng = np.random.default_rng(0)
    spectra = row_orthogonal_ensemble(2.0)
    instance = _instance(rng, spectra, 16)
    student = static_solution(spectra, 1.0, 0.1)
    for rate in (0.0, 1.5):
        with pytest.raises(InputError, match="update_probability must be"):
            algorithm(instance, [student], rate)
    with pytest.raises(InputError, match="students must not be empty"):
        algorithm(instance, [], 1.0)
    with pytest.raises(
        InputError, match=r"update_probability must be one number or one per student, 2, got shape \(3,\)"
    ):
        algorithm(instance, [student, student], [0.1, 0.2, 0.3])
    with pytest.raises(InputError, match="students must be a list of static solutions"):
        algorithm(instance, student, 0.5)
    with pytest.raises(InputError, match="rotation must be of the size of spectrum, 6"):
        draw_instance(rng, instance.rotation, np.ones(6), np.ones(6), 0.1)
    with pytest.raises(InputError, match="start must be one of zero, stationary"):
        init(rng, instance, algorithm(instance, [student], 1.0), "warm")
    with pytest.raises(InputError, match="spectrum must have a positive trace"):
        draw_instance(rng, instance.rotation, np.zeros(16), np.ones(16), 0.1)
    with pytest.raises(InputError, match=r"flip_probability must be >= 0 and < 0.5"):
        draw_instance(rng, instance.rotation, np.ones(16), np.ones(16), 0.5)
    with pytest.raises(InputError, match="n must be an integer >= 2"):
        fast_rotation(rng, 1)


def test_effective_factor_is_that_of_a_geometric_residual():
    decay = 1 - 0.5 * (1 - np.array([0.76, 0.94, 1.0]))
    residual = 0.3 * decay ** np.arange(240)[:, None]
    residual[:40] *= 5
    assert fitted_stability(residual, 0.5, 40, 240) == pytest.approx([0.76, 0.94, 1.0], abs=1e-12)

"""The best estimate of a teacher's weights: fixed points by plain iteration, free entropies by plain integrals."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, log_ndtr, ndtr

from unlazy.checks import InputError
from unlazy.theory import (
    LinearTeacher,
    LogitTeacher,
    NormalWeights,
    ProbitTeacher,
    SignTeacher,
    SignWeights,
    SparseWeights,
    hard_phase,
    optimal_estimate,
)


def normal_mean(function, deviation=1.0):
    law = lambda z: function(deviation * z) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)  # noqa: E731
    return quad(law, -12, 12, limit=400, epsabs=1e-13, epsrel=1e-11, points=[-1, 0, 1])[0]


def overlap_of_signs(precision):
    return normal_mean(lambda z: np.tanh(precision + np.sqrt(precision) * z))


def overlap_of_sparse(precision, share):
    """E <w>^2 over both kinds of weights, from the posterior of a weight."""

    def squared_mean(field):
        log_odds = np.log(share / (1 - share)) + np.log(share / (share + precision)) / 2
        present = expit(log_odds + field**2 / (2 * (share + precision)))
        return (present * field / (share + precision)) ** 2

    zero = normal_mean(squared_mean, np.sqrt(precision))
    return (1 - share) * zero + share * normal_mean(squared_mean, np.sqrt(precision + precision**2 / share))


def information(overlap, probability):
    """E (dP)^2 / (P (1 - P)) of a label with P(1 | t) = probability(t) = 1 - P(1 | -t), by differences."""

    def average(field):
        return normal_mean(lambda z: probability(field + np.sqrt(1 - overlap) * z))

    def told(field):
        here = average(field)
        return ((average(field + 1e-4) - average(field - 1e-4)) / 2e-4) ** 2 / (here * average(-field))

    points, weights = np.polynomial.hermite_e.hermegauss(30)
    return sum(w * told(np.sqrt(overlap) * x) for x, w in zip(points, weights / weights.sum(), strict=True))


def iterated(samples, overlap, told):
    q = 0.0
    for _ in range(4000):
        before, q = q, overlap(samples * told(q))
        if abs(q - before) < 1e-13:
            return q
    raise AssertionError("no fixed point")


def sign_information(q):
    slope = np.sqrt(q / (1 - q))
    return normal_mean(lambda h: np.exp(-(h**2)) / (2 * np.pi * ndtr(h) * ndtr(-h)), slope) / (1 - q)


@pytest.mark.parametrize("samples", [0.3, 1.0, 1.3])
def test_message_passing_of_signs_ends_where_plain_iteration_does(samples):
    found = optimal_estimate(samples, SignWeights(), SignTeacher())
    assert found.algorithmic_overlap == pytest.approx(iterated(samples, overlap_of_signs, sign_information), abs=1e-9)


@pytest.mark.parametrize("share", [0.05, 0.4])
def test_sparse_weights_and_real_labels(share):
    found = optimal_estimate(0.5, SparseWeights(share), LinearTeacher(0.1))
    q = iterated(0.5, lambda r: overlap_of_sparse(r, share), lambda q: 1 / (0.1 + 1 - q))
    assert found.algorithmic_overlap == pytest.approx(q, abs=1e-9)
    assert found.algorithmic_error == pytest.approx(1.1 - q, abs=1e-9)


def test_normal_weights_and_real_labels_are_ridge_regression():
    """Of best penalty: 1 - q = 1/(1 + r) and r = a/(s + 1 - q) is a quadratic equation."""
    samples, noise = np.array([0.2, 1.0, 5.0]), 0.3
    found = optimal_estimate(samples, NormalWeights(), LinearTeacher(noise))
    sum_ = samples + noise - 1
    unknown = (-sum_ + np.sqrt(sum_**2 + 4 * noise)) / 2
    np.testing.assert_allclose(1 - found.overlap, unknown, atol=1e-12)


@pytest.mark.parametrize(
    ("law", "probability"),
    [
        (LogitTeacher(3.0), lambda t: expit(3 * t)),
        (ProbitTeacher(0.5), lambda t: ndtr(t / np.sqrt(0.5))),
    ],
)
def test_labels_with_noise_tell_what_their_probabilities_say(law, probability):
    found = optimal_estimate(2.0, NormalWeights(), law)
    q = float(found.overlap)
    assert q / (1 - q) == pytest.approx(2.0 * information(q, probability), rel=1e-5)


def test_flipped_labels_tell_less():
    flipped, clean = (optimal_estimate(2.0, NormalWeights(), SignTeacher(p)).overlap for p in (0.2, 0.0))
    q = float(flipped)
    told = normal_mean(
        lambda h: (0.6**2 * np.exp(-(h**2)) / (2 * np.pi)) / ((0.2 + 0.6 * ndtr(h)) * (0.2 + 0.6 * ndtr(-h))),
        np.sqrt(q / (1 - q)),
    ) / (1 - q)
    assert q / (1 - q) == pytest.approx(2.0 * told, rel=1e-8)
    assert flipped < 0.8 * clean


def test_signs_become_known_where_the_free_entropies_are_equal():
    """Of known signs it is -log 2; else the three terms of the source, integrated directly."""
    samples = hard_phase(SignWeights(), SignTeacher()).possible_from
    q = float(optimal_estimate(samples, SignWeights(), SignTeacher()).algorithmic_overlap)
    r = samples * sign_information(q)
    weights = normal_mean(lambda z: np.logaddexp(r + np.sqrt(r) * z, -r - np.sqrt(r) * z)) - np.log(2) - r / 2
    labels = 2 * normal_mean(lambda h: ndtr(h) * log_ndtr(h), np.sqrt(q / (1 - q)))
    assert weights + samples * labels - r * q / 2 == pytest.approx(-np.log(2), abs=1e-8)


def test_message_passing_of_signs_is_stuck_until_its_fixed_point_ends():
    end = hard_phase(SignWeights(), SignTeacher()).easy_from
    before, after = (optimal_estimate(end * (1 + e), SignWeights(), SignTeacher()) for e in (-1e-6, 1e-6))
    assert before.algorithmic_overlap < 0.9 < before.overlap == 1
    assert after.algorithmic_overlap == after.overlap == 1
    assert after.error == 0
    assert end == pytest.approx(1.493, abs=5e-4)  # Barbier et al. (2019)


def test_normal_weights_have_no_hard_phase_and_the_error_of_opper_and_haussler():
    assert np.isnan(hard_phase(NormalWeights(), SignTeacher()).easy_from)
    error = optimal_estimate([1e3, 1e4], NormalWeights(), SignTeacher()).error
    np.testing.assert_allclose(error * [1e3, 1e4], 0.442, rtol=2e-3)


def test_much_noise_leaves_no_hard_phase_and_little_of_it_moves_it():
    clean, noisy = (hard_phase(SignWeights(), ProbitTeacher(v)) for v in (1e-6, 0.01))
    assert clean.easy_from == pytest.approx(hard_phase(SignWeights(), SignTeacher()).easy_from, rel=1e-2)
    assert noisy.possible_from > clean.possible_from
    assert np.isnan(hard_phase(SignWeights(), ProbitTeacher(0.3)).possible_from)


def test_few_samples_of_labels_that_are_nearly_noise_tell_as_much_as_each_alone():
    """q = r = (n/d) s(0), with s(0) = (1 - 2p)^2 2/pi."""
    found = optimal_estimate([1e-6, 1e-3], SignWeights(), SignTeacher(0.49))
    np.testing.assert_allclose(found.overlap, np.array([1e-6, 1e-3]) * 0.02**2 * 2 / np.pi, rtol=1e-5, atol=1e-15)


def test_wrong_laws_are_refused_by_name():
    with pytest.raises(InputError, match="weight_law must be NormalWeights"):
        optimal_estimate(1.0, "signs", SignTeacher())
    with pytest.raises(InputError, match="label_law must be a LinearTeacher"):
        optimal_estimate(1.0, SignWeights(), abs)
    with pytest.raises(InputError, match="noise_variance"):
        optimal_estimate(1.0, SignWeights(), LinearTeacher(0.0))
    with pytest.raises(InputError, match="nonzero_share"):
        SparseWeights(1.0)
    with pytest.raises(InputError, match="samples_per_dimension"):
        optimal_estimate(0.0, SignWeights(), SignTeacher())

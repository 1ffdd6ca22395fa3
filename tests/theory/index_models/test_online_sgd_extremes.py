"""Fixed points, stalls, silent neurons, overlaps near 1 and tiny noise: where the drift is easily wrong."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate
from scipy.special import ndtr

from unlazy.checks import InputError
from unlazy.functions.links import link
from unlazy.numerics.orthant_moments import orthant_moments
from unlazy.theory.index_models.online_sgd import crossing_time, overlap_drift, overlap_path, stall_overlap


@pytest.mark.parametrize(
    ("teacher", "neuron"),
    [
        ("He4", {}),
        ("He4", {"sign": -1.0}),
        ("He2", {"student": "He2", "reuse": False}),
        ("He5", {"student": "He5", "reuse": False}),
    ],
)
def test_a_neuron_at_a_fixed_point_stays_there(teacher, neuron):
    # even links and matched h_k, k >= 2, have S(0) = 0
    assert crossing_time(teacher, 0.1, **neuron) == math.inf
    np.testing.assert_array_equal(overlap_path(teacher, [0.0, 1e3, 1e6], 0.1, **neuron), 0.0)
    assert stall_overlap(teacher, 0.1, **neuron) == 0


@pytest.mark.parametrize(("start", "accuracy"), [(1e-2, 1e-5), (1e-6, 1e-5), (1e-12, 1e-3)])
def test_a_small_start_of_an_unstable_fixed_point_takes_the_logarithm_of_time(start, accuracy):
    # dm/dt = 2 gamma m (1 - m^2) without the pull back, which is of relative order gamma; 1e-12 is near rounding
    gamma = 1e-7
    expected = (math.log(0.5 / start) - 0.5 * math.log(0.75 / (1 - start**2))) / (2 * gamma)
    found = crossing_time("He2", gamma, start=start, student="He2", reuse=False)
    assert found == pytest.approx(expected, rel=accuracy)
    assert overlap_path("He2", found, gamma, start=start, student="He2", reuse=False) == pytest.approx(
        0.5, rel=50 * accuracy
    )


@pytest.mark.parametrize("step", [0.1, 0.2, 0.4])
def test_the_time_to_a_level_at_or_beyond_the_stall_is_infinite(step):
    place = stall_overlap("He3", step, sign=-1)
    for beyond in (1e-8, 1e-4, 1e-3, 3e-3, 0.1):
        assert crossing_time("He3", step, level=place + beyond, sign=-1) == math.inf
    # below the velocity is linear in the distance, which each factor 10 divides in equal times
    times = [crossing_time("He3", step, level=place - before, sign=-1) for before in (1e-3, 1e-4, 1e-5, 1e-6)]
    assert np.isfinite(times).all()
    np.testing.assert_allclose(np.diff(times), np.diff(times)[-1], rtol=0.02)


def test_a_silent_neuron_has_its_tiny_averages():
    m, bias = 0.3, -10.0
    found = overlap_drift("He3", m, bias=bias, reuse=False)

    def square(u):
        # E[h_3(z)^2 | u] with z normal of mean m u and variance 1 - m^2
        a, v = m * u, 1 - m**2
        moment = {2: a**2 + v, 4: a**4 + 6 * a**2 * v + 3 * v**2}
        moment[6] = a**6 + 15 * a**4 * v + 45 * a**2 * v**2 + 15 * v**3
        return (moment[6] - 6 * moment[4] + 9 * moment[2]) / 6

    expected = integrate.quad(lambda u: square(u) * math.exp(-(u**2) / 2 + 50), 10, 30)[0]
    assert found.square == pytest.approx(expected * math.exp(-50) / math.sqrt(2 * math.pi), rel=1e-6)
    # S = (1 - m^2) d/dm E[h_3(z) relu(u + b)] = (1 - m^2) 3 m^2 beta_3, beta_3 = 10 phi(10) / sqrt(6)
    beta = 10 * math.exp(-50) / math.sqrt(2 * math.pi) / math.sqrt(6)
    assert found.signal == pytest.approx((1 - m**2) * 3 * m**2 * beta, rel=1e-6)
    for noise in (0.0, 0.3, 1000.0):
        for m in (0.0, 0.9, -0.99):
            faint = overlap_drift("He3", m, bias=-10.0, strength=5.0, noise=noise)
            assert np.isfinite(faint).all()
            assert abs(faint.signal) < 1e-8 * (1 + noise)


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-9, 1e-15])
def test_near_overlap_one_both_signs_are_known_and_mirror_images(gap, noise):
    m = 1 - gap
    one = overlap_drift("He3", [m, -m], sign=1.0, noise=noise)
    other = overlap_drift("He3", [-m, m], sign=-1.0, noise=noise)
    np.testing.assert_allclose(one.signal, -other.signal, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(one.square, other.square, rtol=1e-9)
    # the pull vanishes with 1 - m
    assert 0 < one.signal[0] < 20 * gap
    if noise == 0:
        # u = z: psi = y (1[z > 0] + 1[z + y 1[z > 0] > 0]) in one dimension
        def integrand(z):
            y = (z**3 - 3 * z) / math.sqrt(6)
            return (y * ((z > 0) * 1.0 + (z + y * (z > 0) > 0))) ** 2 * math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)

        ends = [-9, -math.sqrt(3), 0, math.sqrt(3 - math.sqrt(6)), math.sqrt(3), 9]
        exact = sum(integrate.quad(integrand, *pair)[0] for pair in pairwise(ends))
        assert one.square[0] == pytest.approx(exact, abs=10 * math.sqrt(gap))


@pytest.mark.parametrize("neuron", [{"sign": -1.0}, {"bias": 0.4, "strength": 3.0}])
def test_the_averages_are_continuous_in_the_noise(neuron):
    quiet = overlap_drift("He3", [0.0, 0.3, 0.9], **neuron)
    for noise in (1e-300, 1e-12, 1e-6):
        faint = overlap_drift("He3", [0.0, 0.3, 0.9], noise=noise, **neuron)
        np.testing.assert_allclose(faint, quiet, atol=10 * noise + 1e-8)


@pytest.mark.parametrize(("teacher", "student"), [("sign", "tanh"), ("He3", "relu"), ("He3", "He2")])
def test_without_reuse_noise_only_adds_its_variance_times_the_squared_slope(teacher, student):
    m, noise, bias = 0.95, 0.6, 0.4
    with_noise, without = (
        overlap_drift(teacher, m, student=student, bias=bias, reuse=False, noise=n) for n in (noise, 0.0)
    )
    slopes = {"tanh": lambda u: np.cosh(u) ** -2.0, "relu": lambda u: (u > 0) * 1.0, "He2": lambda u: math.sqrt(2) * u}
    mean = integrate.quad(
        lambda u: slopes[student](u + bias) ** 2 * math.exp(-(u**2) / 2) / math.sqrt(2 * math.pi), -9, 9, points=[-bias]
    )[0]
    assert with_noise.signal == pytest.approx(without.signal, abs=1e-9)
    assert with_noise.square - without.square == pytest.approx(noise**2 * mean, rel=1e-6)


@pytest.mark.parametrize(
    ("teacher", "overlap", "neuron"),
    [
        ("sign", 0.95, {"student": "tanh", "bias": 0.4, "reuse": False, "noise": 0.6}),
        ("sign", 0.95, {"student": "tanh", "bias": 0.4, "noise": 0.6}),
        ("He3", 0.3, {"noise": 1e-6}),
        ("He3", 0.999, {"noise": 1e-3, "strength": 100.0}),
    ],
)
def test_work_is_bounded(teacher, overlap, neuron):
    """These took 38 to 74 seconds: about 1e9 points at which a link is evaluated."""
    points = 0

    def counted(name):
        def count(function):
            def evaluate(z):
                nonlocal points
                points += np.size(z)
                return function(z)

            return evaluate

        known = link(name)
        return known._replace(value=count(known.value), derivative=count(known.derivative))

    if "student" in neuron:
        neuron = {**neuron, "student": counted(neuron["student"])}
    assert np.isfinite(overlap_drift(counted(teacher), overlap, **neuron)).all()
    assert 0 < points < 2e8


@pytest.mark.parametrize(
    ("h", "k", "r"),
    [(0.3, -0.5, 0.6), (-1.0, 2.0, -0.8), (0.0, 0.0, 0.3), (0.0, 0.0, -0.5), (0.0, 1.0, 0.4), (5.0, -5.0, -0.9)],
)
def test_orthant_moments_are_their_integrals(h, k, r):
    rest = math.sqrt(1 - r**2)
    found = orthant_moments(*map(np.array, (h, k, r, rest)))

    def tail(x):
        return ndtr(-(k - r * x) / rest)

    def mean(x):
        place = (k - r * x) / rest
        return r * x * ndtr(-place) + rest * math.exp(-(place**2) / 2) / math.sqrt(2 * math.pi)

    terms = (tail, lambda x: x * tail(x), mean, lambda x: x**2 * tail(x), lambda x: x * mean(x))
    for term, number in zip(terms, found, strict=True):
        exact = integrate.quad(
            lambda x: term(x) * math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi),  # noqa: B023
            h, 12, epsabs=1e-13,
        )[0]  # fmt: skip
        assert number == pytest.approx(exact, abs=1e-11)


@pytest.mark.parametrize("reuse", ["no", 2, 0.5, None, [True]])
def test_reuse_is_a_truth_value(reuse):
    with pytest.raises(InputError, match="reuse must be True or False, got "):
        overlap_drift("He3", 0.1, reuse=reuse)
    with pytest.raises(InputError, match="reuse must be True or False, got "):
        crossing_time("He3", 0.1, reuse=reuse)
    assert overlap_drift("He3", 0.1, reuse=1).signal == overlap_drift("He3", 0.1, reuse=True).signal

"""The drift of the overlap against closed forms, another quadrature, simulation, and published values.

Then where it is easily wrong: fixed points, stalls, silent neurons, overlaps near 1, tiny noise.
"""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate

from unlazy.checks import InputError
from unlazy.functions.elementwise import LINKS, as_link
from unlazy.functions.orthogonal import Hermite, coefficients
from unlazy.theory.index_models import online_sgd
from unlazy.theory.index_models.online_sgd import (
    crossing_time,
    overlap_drift,
    overlap_path,
    stall_overlap,
    stall_step_size,
)

OVERLAPS = np.array([-0.8, -0.3, 0.0, 0.2, 0.5, 0.9])


def psi(link, u, z, *, sign=1.0, bias=0.0, reuse_step_size=1.0, reuse=True, noise=0.0, activation="relu"):
    """The update itself, for averages by other means."""
    label, slope = sign * (as_link(link)(z) + noise), as_link(activation).derivative
    first = label * slope(u + bias)
    return first + label * slope(u + bias + reuse_step_size * first) if reuse else first


@pytest.mark.parametrize("k", [1, 2, 3, 4, 6])
def test_the_drift_of_a_matched_polynomial_is_its_closed_form(k):
    found = overlap_drift(f"He{k}", OVERLAPS, activation=f"He{k}", reuse=False)
    np.testing.assert_allclose(found.pull, k * OVERLAPS ** (k - 1) * (1 - OVERLAPS**2), atol=1e-9)
    assert overlap_drift(f"He{k}", 0.0, activation=f"He{k}", reuse=False).update_square == pytest.approx(k, abs=1e-9)


@pytest.mark.parametrize("link", ["He3", "tanh", "abs", "sign"])
@pytest.mark.parametrize("bias", [0.0, 1.0, -0.4])
def test_without_reuse_the_drift_is_the_hermite_series_of_link_and_student(link, bias):
    # S(m) = (1 - m^2) d/dm E[link(z) activation(u + b)] = (1 - m^2) sum_k k alpha_k beta_k m^(k-1)
    known = as_link(link)
    alpha = coefficients(known.value, Hermite(), 60, known.breakpoints).polynomial_coefficients
    beta = coefficients(lambda u: np.maximum(u + bias, 0), Hermite(), 60, (-bias,)).polynomial_coefficients
    m, k = np.array([-0.4, 0.0, 0.3, 0.5])[:, None], np.arange(1, 61)
    expected = (1 - m**2) * m ** (k - 1) @ (k * alpha[1:] * beta[1:])[:, None]
    found = overlap_drift(link, m[:, 0], bias=bias, reuse=False)
    np.testing.assert_allclose(found.pull, expected[:, 0], atol=1e-8)


def test_the_relu_at_bias_zero_does_not_see_the_third_hermite_polynomial():
    np.testing.assert_allclose(overlap_drift("He3", OVERLAPS, reuse=False).pull, 0.0, atol=1e-10)


def test_published_values_with_reuse():
    third = overlap_drift("He3", 0.0, sign=-1)
    assert third.pull == pytest.approx(0.0403, abs=5e-5)
    assert third.update_square == pytest.approx(1.3695, abs=2e-4)
    assert overlap_drift("He4", 0.095, sign=-1).pull == pytest.approx(0.0188, abs=1e-4)
    turning = overlap_drift("He4", [0.0, 0.31, 0.33], sign=1).pull
    assert turning[0] == pytest.approx(0, abs=1e-9)
    assert turning[1] > 0 > turning[2]
    steps = stall_step_size("He3", [0.3, 0.4, 0.5, 0.6, 0.7], sign=-1)
    np.testing.assert_allclose(steps, [0.47, 0.38, 0.30, 0.23, 0.15], atol=0.01)
    path = overlap_path("He3", [10, 20, 40, 60, 80, 100, 150], 0.1, sign=-1)
    np.testing.assert_allclose(path, [0.042, 0.088, 0.190, 0.302, 0.416, 0.518, 0.681], atol=2e-3)


@pytest.mark.parametrize(
    "neuron",
    [{"sign": -1.0}, {"sign": 1.0, "bias": 0.7}, {"reuse_step_size": 3.0, "bias": -0.5}, {"reuse_step_size": 0.0}],
)
@pytest.mark.parametrize("link", ["He3", "He4", "tanh"])
def test_the_relu_drift_is_that_of_a_fine_grid(link, neuron):
    # another order of integration, whose error at the jumps is of the order of the spacing
    points = (np.arange(1000) + 0.5) / 1000 * 15 - 7.5
    weights = np.exp(-(points**2) / 2) * 15 / 1000 / math.sqrt(2 * math.pi)
    u, v = points[:, None], points[None, :]
    for m in (0.0, 0.4, -0.7):
        across = math.sqrt(1 - m**2) * v
        values = psi(link, u, m * u + across, **neuron)
        found = overlap_drift(link, m, **neuron)
        assert found.pull == pytest.approx(weights @ (values * across) @ weights, abs=4e-3)
        assert found.update_square == pytest.approx(weights @ values**2 @ weights, rel=1e-2)


def test_the_drift_with_noise_is_that_of_a_simulation():
    rng = np.random.default_rng(1)
    u, v, noise = rng.standard_normal((3, 2_000_000))
    m, neuron = 0.4, {"sign": -1.0, "bias": 0.3, "reuse_step_size": 2.0}
    across = math.sqrt(1 - m**2) * v
    values = psi("tanh", u, m * u + across, noise=0.6 * noise, **neuron)
    found = overlap_drift("tanh", m, noise_variance=0.36, **neuron)
    for drawn, number in ((values * across, found.pull), (values**2, found.update_square)):
        error = drawn.std() / math.sqrt(drawn.size)
        assert abs(drawn.mean() - number) < 4 * error
        assert abs(drawn.mean() - 1.2 * number) > 4 * error


def test_the_drift_with_little_noise_is_that_without():
    quiet, faint = (overlap_drift("He3", [0.0, 0.3], sign=-1, noise_variance=variance) for variance in (0.0, 0.0004))
    np.testing.assert_allclose(quiet.pull, faint.pull, atol=2e-4)
    np.testing.assert_allclose(quiet.update_square, faint.update_square, atol=2e-3)
    plain = overlap_drift("He3", 0.3, reuse=False, bias=1.0, noise_variance=0.25)
    known = overlap_drift("He3", 0.3, reuse=False, bias=1.0)
    assert plain.pull == pytest.approx(known.pull, abs=1e-9)
    # the noise adds its variance times the probability that the neuron is active
    assert plain.update_square - known.update_square == pytest.approx(0.25 * 0.8413447460685429, abs=1e-9)


@pytest.mark.parametrize(("activation", "noise"), [("tanh", 0.0), ("He3", 0.0), ("sin", 0.3)])
def test_the_drift_of_smooth_students_is_that_of_equidistant_points_in_other_variables(activation, noise):
    points = np.linspace(-8.5, 8.5, 300)
    weights = np.exp(-(points**2) / 2) / np.exp(-(points**2) / 2).sum()
    u, v = points[:, None, None], points[None, :, None]
    draws, shares = np.polynomial.hermite_e.hermegauss(40) if noise else (np.zeros(1), np.ones(1))
    shares = shares / shares.sum()
    m, strength = 0.3, 0.4
    across = math.sqrt(1 - m**2) * v
    values = psi(
        "He2", u, m * u + across, activation=activation, reuse_step_size=strength, bias=0.2, noise=noise * draws
    )
    found = overlap_drift("He2", m, activation=activation, reuse_step_size=strength, bias=0.2, noise_variance=noise**2)
    assert found.pull == pytest.approx(np.einsum("ijk,i,j,k", values * across, weights, weights, shares), rel=1e-6)
    assert found.update_square == pytest.approx(np.einsum("ijk,i,j,k", values**2, weights, weights, shares), rel=1e-6)


def test_the_sign_turns_the_overlap_of_an_odd_link():
    one, other = overlap_drift("He3", OVERLAPS, sign=1), overlap_drift("He3", -OVERLAPS, sign=-1)
    np.testing.assert_allclose(one.pull, -other.pull, atol=1e-9)
    np.testing.assert_allclose(one.update_square, other.update_square, atol=1e-9)


def test_arguments_broadcast():
    both = overlap_drift("He4", [[0.1], [0.5]], sign=[1.0, -1.0], bias=[0.0, 0.5])
    assert both.pull.shape == (2, 2)
    assert both.pull[1, 1] == pytest.approx(overlap_drift("He4", 0.5, sign=-1, bias=0.5).pull, abs=1e-9)


def test_the_path_has_the_velocity_of_the_drift():
    times, h = np.array([5.0, 30.0, 90.0]), 1e-3
    neuron = {"sign": -1.0, "bias": 0.2}
    before, here, after = (overlap_path("He3", times + shift, 0.2, **neuron) for shift in (-h, 0, h))
    drift = overlap_drift("He3", here, **neuron)
    expected = 0.2 * drift.pull - 0.02 * here * drift.update_square
    np.testing.assert_allclose((after - before) / (2 * h), expected, rtol=1e-5)


def test_the_path_is_at_the_level_at_the_crossing_time():
    for link_name, start, neuron in (("He3", 0.0, {"sign": -1.0}), ("He2", 0.01, {}), ("He4", 0.05, {"sign": -1.0})):
        time = crossing_time(link_name, 0.1, start_overlap=start, target_overlap=0.4, **neuron)
        assert overlap_path(link_name, time, 0.1, start_overlap=start, **neuron) == pytest.approx(0.4, abs=1e-6)
    matched = crossing_time("He3", 1e-3, start_overlap=0.1, target_overlap=0.5, activation="He3", reuse=False)
    # without the pull back: int dm / (3 m^2 (1 - m^2)) = [-1/m + artanh m] / 3
    expected = (1 / 0.1 - 1 / 0.5 + math.atanh(0.5) - math.atanh(0.1)) / 3e-3
    assert matched == pytest.approx(expected, rel=0.02)
    assert crossing_time("He3", 0.1, start_overlap=0.6, sign=-1) == 0


def test_a_large_step_stalls_where_the_path_ends():
    for step in (0.2, 0.4):
        place = stall_overlap("He3", step, sign=-1)
        assert stall_step_size("He3", place, sign=-1) == pytest.approx(step, rel=1e-6)
        assert overlap_path("He3", 3000.0, step, sign=-1) == pytest.approx(place, abs=1e-4)
        assert crossing_time("He3", step, target_overlap=place + 0.01, sign=-1) == math.inf
    assert stall_overlap("He3", 0.1, reuse=False) == pytest.approx(0, abs=1e-6)
    assert stall_overlap("He3", 0.2, sign=1) == pytest.approx(-stall_overlap("He3", 0.2, sign=-1), abs=1e-9)


@pytest.mark.parametrize(
    ("link", "neuron"), [("He3", {"sign": -1}), ("He2", {"activation": "He2", "reuse": False}), ("tanh", {})]
)
def test_a_path_costs_nothing_after_it_has_come_to_rest(link, neuron, monkeypatch):
    """Counted in evaluations of the velocity, of which a path through the whole journey takes some hundred."""
    calls = []
    velocity = online_sgd._Flow.__call__
    monkeypatch.setattr(online_sgd._Flow, "__call__", lambda flow, m: calls.append(1) or velocity(flow, m))
    end = overlap_path(link, [1e3, 1e6, 1e12], 0.1, start_overlap=0.2, **neuron)
    assert len(calls) < 3000
    np.testing.assert_allclose(end, stall_overlap(link, 0.1, start_overlap=0.2, **neuron), rtol=1e-7)


def test_overlaps_near_one_and_extreme_neurons_give_numbers():
    for m in (0.999, -0.999, 1 - 1e-6):
        assert np.isfinite(overlap_drift("He3", m, sign=-1)).all()
    active = overlap_drift("He3", 0.3, bias=50.0, reuse=False)
    # always active: g1 = y, and h_3 has no linear part
    assert active.pull == pytest.approx(0, abs=1e-9)
    assert active.update_square == pytest.approx(1, abs=1e-9)
    silent = overlap_drift("He3", 0.3, bias=-50.0)
    assert silent.pull == pytest.approx(0, abs=1e-12)
    assert silent.update_square == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: overlap_drift("He3", 1.0), "overlap must be > -1 and < 1, got 1"),
        (lambda: overlap_drift("He33", 0.0), "link must be one of"),
        (lambda: overlap_drift("He3", 0.0, reuse_step_size=-1), "reuse_step_size must be >= 0"),
        (lambda: overlap_drift("He3", 0.0, sign=0.5), "sign must be 1 or -1, got 0.5"),
        (lambda: overlap_drift("He3", 0.0, noise_variance=-1), "noise_variance must be >= 0"),
        (lambda: overlap_drift("He3", 0.0, activation="abs"), "activation must be relu or a function without kinks"),
        (lambda: overlap_drift("He3", np.nan), "overlap must be finite"),
        (lambda: overlap_path("He3", [1.0], -0.1), "step_size must be >= 0"),
        (lambda: overlap_path("He3", [-1.0], 0.1), "samples_per_dimension must be >= 0"),
        (lambda: overlap_path("He3", [1.0], 0.1, start_overlap=-1.0), "start_overlap must be > -1 and < 1, got -1"),
        (lambda: crossing_time("He3", 0.1, target_overlap=1.0), "target_overlap must be > -1 and < 1"),
        (lambda: stall_step_size("He3", 0.0), "overlap must be > 0"),
        (lambda: stall_overlap("He3", -0.1), "step_size must be >= 0"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        call()


def test_every_link_can_be_the_target():
    for name in LINKS:
        if name not in ("He10", "He11", "He12"):
            assert np.isfinite(overlap_drift(name, [0.0, 0.5], sign=-1)).all()


@pytest.mark.parametrize(
    ("link", "neuron"),
    [
        ("He4", {}),
        ("He4", {"sign": -1.0}),
        ("He2", {"activation": "He2", "reuse": False}),
        ("He5", {"activation": "He5", "reuse": False}),
    ],
)
def test_a_neuron_at_a_fixed_point_stays_there(link, neuron):
    # even links and matched h_k, k >= 2, have S(0) = 0
    assert crossing_time(link, 0.1, **neuron) == math.inf
    np.testing.assert_array_equal(overlap_path(link, [0.0, 1e3, 1e6], 0.1, **neuron), 0.0)
    assert stall_overlap(link, 0.1, **neuron) == 0


@pytest.mark.parametrize(("start", "accuracy"), [(1e-2, 1e-5), (1e-6, 1e-5), (1e-12, 1e-3)])
def test_a_small_start_of_an_unstable_fixed_point_takes_the_logarithm_of_time(start, accuracy):
    # dm/dt = 2 gamma m (1 - m^2) without the pull back, which is of relative order gamma; 1e-12 is near rounding
    gamma = 1e-7
    expected = (math.log(0.5 / start) - 0.5 * math.log(0.75 / (1 - start**2))) / (2 * gamma)
    found = crossing_time("He2", gamma, start_overlap=start, activation="He2", reuse=False)
    assert found == pytest.approx(expected, rel=accuracy)
    assert overlap_path("He2", found, gamma, start_overlap=start, activation="He2", reuse=False) == pytest.approx(
        0.5, rel=50 * accuracy
    )


@pytest.mark.parametrize("step", [0.1, 0.2, 0.4])
def test_the_time_to_a_level_at_or_beyond_the_stall_is_infinite(step):
    place = stall_overlap("He3", step, sign=-1)
    for beyond in (1e-8, 1e-4, 1e-3, 3e-3, 0.1):
        assert crossing_time("He3", step, target_overlap=place + beyond, sign=-1) == math.inf
    # below the velocity is linear in the distance, which each factor 10 divides in equal times
    times = [crossing_time("He3", step, target_overlap=place - before, sign=-1) for before in (1e-3, 1e-4, 1e-5, 1e-6)]
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
    assert found.update_square == pytest.approx(expected * math.exp(-50) / math.sqrt(2 * math.pi), rel=1e-6)
    # S = (1 - m^2) d/dm E[h_3(z) relu(u + b)] = (1 - m^2) 3 m^2 beta_3, beta_3 = 10 phi(10) / sqrt(6)
    beta = 10 * math.exp(-50) / math.sqrt(2 * math.pi) / math.sqrt(6)
    assert found.pull == pytest.approx((1 - m**2) * 3 * m**2 * beta, rel=1e-6)
    for noise in (0.0, 0.3, 1000.0):
        for m in (0.0, 0.9, -0.99):
            faint = overlap_drift("He3", m, bias=-10.0, reuse_step_size=5.0, noise_variance=noise**2)
            assert np.isfinite(faint).all()
            assert abs(faint.pull) < 1e-8 * (1 + noise)


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-9, 1e-15])
def test_near_overlap_one_both_signs_are_known_and_mirror_images(gap, noise):
    m = 1 - gap
    one = overlap_drift("He3", [m, -m], sign=1.0, noise_variance=noise**2)
    other = overlap_drift("He3", [-m, m], sign=-1.0, noise_variance=noise**2)
    np.testing.assert_allclose(one.pull, -other.pull, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(one.update_square, other.update_square, rtol=1e-9)
    # the pull vanishes with 1 - m
    assert 0 < one.pull[0] < 20 * gap
    if noise == 0:
        # u = z: psi = y (1[z > 0] + 1[z + y 1[z > 0] > 0]) in one dimension
        def integrand(z):
            y = (z**3 - 3 * z) / math.sqrt(6)
            return (y * ((z > 0) * 1.0 + (z + y * (z > 0) > 0))) ** 2 * math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)

        ends = [-9, -math.sqrt(3), 0, math.sqrt(3 - math.sqrt(6)), math.sqrt(3), 9]
        exact = sum(integrate.quad(integrand, *pair)[0] for pair in pairwise(ends))
        assert one.update_square[0] == pytest.approx(exact, abs=10 * math.sqrt(gap))


@pytest.mark.parametrize("neuron", [{"sign": -1.0}, {"bias": 0.4, "reuse_step_size": 3.0}])
def test_the_averages_are_continuous_in_the_noise(neuron):
    quiet = overlap_drift("He3", [0.0, 0.3, 0.9], **neuron)
    for noise in (1e-150, 1e-12, 1e-6):
        faint = overlap_drift("He3", [0.0, 0.3, 0.9], noise_variance=noise**2, **neuron)
        np.testing.assert_allclose(faint, quiet, atol=10 * noise + 1e-8)


@pytest.mark.parametrize(("link", "activation"), [("sign", "tanh"), ("He3", "relu"), ("He3", "He2")])
def test_without_reuse_noise_only_adds_its_variance_times_the_squared_slope(link, activation):
    m, noise, bias = 0.95, 0.6, 0.4
    with_noise, without = (
        overlap_drift(link, m, activation=activation, bias=bias, reuse=False, noise_variance=n) for n in (noise**2, 0.0)
    )
    slopes = {"tanh": lambda u: np.cosh(u) ** -2.0, "relu": lambda u: (u > 0) * 1.0, "He2": lambda u: math.sqrt(2) * u}
    mean = integrate.quad(
        lambda u: slopes[activation](u + bias) ** 2 * math.exp(-(u**2) / 2) / math.sqrt(2 * math.pi),
        -9,
        9,
        points=[-bias],
    )[0]
    assert with_noise.pull == pytest.approx(without.pull, abs=1e-9)
    assert with_noise.update_square - without.update_square == pytest.approx(noise**2 * mean, rel=1e-6)


@pytest.mark.parametrize(
    ("link", "overlap", "neuron"),
    [
        ("sign", 0.95, {"activation": "tanh", "bias": 0.4, "reuse": False, "noise_variance": 0.36}),
        ("sign", 0.95, {"activation": "tanh", "bias": 0.4, "noise_variance": 0.36}),
        ("He3", 0.3, {"noise_variance": 1e-12}),
        ("He3", 0.999, {"noise_variance": 1e-6, "reuse_step_size": 100.0}),
    ],
)
def test_work_is_bounded(link, overlap, neuron):
    """These took 38 to 74 seconds: about 1e9 points at which a link is evaluated."""
    points = 0

    def counted(name):
        def count(function):
            def evaluate(z):
                nonlocal points
                points += np.size(z)
                return function(z)

            return evaluate

        known = as_link(name)
        return known._replace(value=count(known.value), derivative=count(known.derivative))

    if "activation" in neuron:
        neuron = {**neuron, "activation": counted(neuron["activation"])}
    assert np.isfinite(overlap_drift(counted(link), overlap, **neuron)).all()
    assert 0 < points < 2e8


@pytest.mark.parametrize("reuse", ["no", 1, 2, 0.5, None, [True]])
def test_reuse_is_a_truth_value(reuse):
    with pytest.raises(InputError, match="reuse must be True or False, got "):
        overlap_drift("He3", 0.1, reuse=reuse)
    with pytest.raises(InputError, match="reuse must be True or False, got "):
        crossing_time("He3", 0.1, reuse=reuse)


def test_a_start_that_is_next_to_nothing_is_none():
    found = overlap_path("He3", [1.0, 1e4], 1.0, start_overlap=3.5e-294, sign=-1)
    np.testing.assert_allclose(found, overlap_path("He3", [1.0, 1e4], 1.0, sign=-1), rtol=1e-9)
    # next to an unstable fixed point it counts: m = start exp(2 gamma t), down to rounding
    start = 1e-11
    slow = overlap_path("He2", 5e4, 1e-4, start_overlap=start, activation="He2", reuse=False)
    assert math.log(slow / start) == pytest.approx(10, rel=1e-3)

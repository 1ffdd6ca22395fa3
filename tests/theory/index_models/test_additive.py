import math

import numpy as np
import pytest
from scipy import integrate

from unlazy.checks import InputError
from unlazy.functions.elementwise import polynomial
from unlazy.theory.index_models.additive import (
    additive_drift,
    additive_path,
    additive_spread,
    additive_stall_overlap,
    additive_step_size,
    escape_samples,
)

MIXED = polynomial((0.3, 0.5, -0.4, 0.2))
MIXED_EVEN = polynomial((0.3, 0.0, 0.9, -0.2))
PUPIL = polynomial((0.1, 0.2, 0.6, -0.3, 0.1))


@pytest.mark.parametrize("k", [2, 3, 4, 7])
def test_one_matched_task_has_its_closed_drift_and_its_spread_at_the_start(k):
    m = np.array([-0.9, -0.2, 0.0, 0.3, 0.7, 1.0])
    found = additive_drift(f"He{k}", m[:, None])[:, 0]
    np.testing.assert_allclose(found, k * m ** (k - 1) * (1 - m**2), atol=1e-14)
    np.testing.assert_allclose(additive_spread(f"He{k}", [[0.0], [0.0]], [0.0, 0.25]), [k, 1.25 * k], rtol=1e-12)


def test_drift_and_spread_are_the_moments_of_drawn_steps():
    rng = np.random.default_rng(0)
    m, n = np.array([0.5, -0.4, 0.3]), 400_000
    u, g = rng.standard_normal(n), rng.standard_normal((n, 3))
    root = np.linalg.cholesky(np.eye(3) - np.outer(m, m))
    across = g @ root.T
    label = MIXED(u[:, None] * m + across).sum(axis=1) / math.sqrt(3) + 0.2 * rng.standard_normal(n)
    force = label * PUPIL.derivative(u)
    moves = force[:, None] * across
    error = moves.std(axis=0) / math.sqrt(n)
    drift = additive_drift(MIXED, m, activation=PUPIL)
    assert (np.abs(moves.mean(axis=0) - drift) < 4 * error).all()
    assert (np.abs(moves.mean(axis=0) - 1.2 * drift) > 4 * error).any()
    squares = force**2
    spread = additive_spread(MIXED, m, 0.04, activation=PUPIL)
    assert abs(squares.mean() - spread) < 4 * squares.std() / math.sqrt(n)
    assert abs(squares.mean() - 1.2 * spread) > 4 * squares.std() / math.sqrt(n)


def test_without_the_price_of_noise_samples_are_a_constant_times_tasks_and_power_of_dimension():
    tasks, d, scale, first, last = np.array([1, 2, 16]), 64, 0.5, 0.25, 0.8
    found = escape_samples("He3", d, tasks, first, last, additive_step_size("He3", d, tasks, scale), drift_only=True)
    integral = (1 / first - 1 / last + math.atanh(last) - math.atanh(first)) / 3
    np.testing.assert_allclose(found, tasks * d**1.5 * integral / scale, rtol=1e-12)
    np.testing.assert_allclose(found / (tasks * d**2), 0.299, atol=5e-4)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_the_path_arrives_when_escape_samples_says(noise):
    tasks, d, first, last = 5, 100, 0.3, 0.75
    size = additive_step_size("He3", d, tasks, 0.4)
    time = escape_samples("He3", d, tasks, first, last, size, noise) / d
    start = np.eye(tasks)[2] * first
    path = additive_path("He3", start, [0.0, time], size, noise)
    np.testing.assert_allclose(path[0], start)
    np.testing.assert_allclose(path[1], np.eye(tasks)[2] * last, atol=1e-6)


def test_a_constant_step_ends_at_the_stall_and_never_beyond():
    tasks, size = 8, 0.03
    stall = additive_stall_overlap("He3", tasks, size)
    state = np.eye(tasks)[0] * stall
    balance = additive_drift("He3", state)[0] - size / 2 * stall * additive_spread("He3", state)
    assert abs(balance) < 1e-10
    end = additive_path("He3", np.eye(tasks)[0] * 0.3, [1e5], size)[-1, 0]
    np.testing.assert_allclose(end, stall, atol=1e-6)
    samples = escape_samples("He3", 64, tasks, 0.3, [stall - 1e-4, stall + 1e-4], size)
    assert np.isfinite(samples[0])
    assert np.isinf(samples[1])
    # one minus the stall is proportional to a small step: 2 k (1 - m) M^(-1/2) = step V / 2
    tiny = 1e-6
    expected = tiny * math.sqrt(tasks) / 12 * additive_spread("He3", np.eye(tasks)[0])
    np.testing.assert_allclose(1 - additive_stall_overlap("He3", tasks, tiny), expected, rtol=1e-4)


@pytest.mark.parametrize(("link", "tasks", "size"), [("He3", 8, 0.03), ("He4", 3, 0.004), ("He3", 1, 0.2)])
def test_no_sample_size_reaches_a_threshold_at_or_beyond_the_stall(link, tasks, size):
    stall = additive_stall_overlap(link, tasks, size)
    beyond = escape_samples(link, 64, tasks, stall - 0.1, stall + np.array([1e-9, 1e-4, 1e-3, 3e-3]), size)
    assert np.isinf(beyond).all()
    # below it the speed is linear in the distance, which each factor 10 divides in equal times
    before = escape_samples(link, 64, tasks, stall - 0.1, stall - np.array([1e-3, 1e-4, 1e-5, 1e-6]), size)
    np.testing.assert_allclose(np.diff(before), np.diff(before)[-1], rtol=0.02)


def test_by_drift_alone_the_time_to_overlap_one_diverges():
    assert escape_samples("He3", 64, 1, 0.3, 1.0, 0.1, drift_only=True) == math.inf
    near = 1 - 1e-6
    expected = 64 / 0.1 * (1 / 0.3 - 1 / near + math.atanh(near) - math.atanh(0.3)) / 3
    assert escape_samples("He3", 64, 1, 0.3, near, 0.1, drift_only=True) == pytest.approx(expected, rel=1e-8)


def test_the_time_is_the_integral_by_other_means():
    def slowness(m):
        state = np.array([m, 0.0, 0.0])
        drift = additive_drift(MIXED_EVEN, state, activation=PUPIL)[0]
        return 1 / (0.02 * drift - 0.02**2 / 2 * m * additive_spread(MIXED_EVEN, state, 0.3, activation=PUPIL))

    exact = 50 * integrate.quad(slowness, 0.2, 0.6, epsrel=1e-10)[0]
    assert escape_samples(MIXED_EVEN, 50, 3, 0.2, 0.6, 0.02, 0.3, activation=PUPIL) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("size", "noise"), [(1e300, 0.0), (0.1, 1e300), (1e300, 1e300)])
def test_huge_steps_and_noise_gain_nothing(size, noise):
    assert escape_samples("He3", 64, 2, 0.3, 0.5, size, noise) == math.inf
    assert additive_stall_overlap("He3", 2, size, noise) == 0


def test_tiny_steps_and_starts_are_followed():
    assert additive_stall_overlap("He3", 2, 1e-300) == pytest.approx(1, abs=1e-12)
    start = 1e-100
    expected = 640 * math.sqrt(2) / 2 * (math.log(0.5 / start) - 0.5 * math.log(0.75))
    assert escape_samples("He2", 64, 2, start, 0.5, 0.1, drift_only=True) == pytest.approx(expected, rel=1e-10)


def test_without_steps_nothing_moves():
    assert escape_samples("He3", 64, 2, 0.2, 0.5, 0.0) == math.inf
    assert escape_samples("He3", 64, 2, 0.5, 0.5, 0.0) == 0
    assert additive_path("He3", [0.3, 0.1], [0.0, 50.0], 0.0).tolist() == [[0.3, 0.1]] * 2


def test_a_step_that_is_too_large_gains_nowhere():
    assert additive_stall_overlap("He3", 2, 100.0) == 0
    assert np.isinf(escape_samples("He3", 64, 2, 0.2, 0.3, 100.0))
    assert escape_samples("He3", 64, 2, 0.5, 0.3, 100.0) == 0


def test_arguments_broadcast_and_scalars_stay_scalars():
    assert np.shape(escape_samples("He4", 64, 3, 0.2, 0.5, 0.01)) == ()
    found = escape_samples("He4", 64, [[1], [3]], 0.2, [0.4, 0.5, 0.6], 0.001, [0.0, 0.1, 0.2])
    assert found.shape == (2, 3)
    one = escape_samples("He4", 64, 3, 0.2, 0.5, 0.001, 0.1)
    np.testing.assert_allclose(found[1, 1], one, rtol=1e-14)
    assert additive_spread("He3", np.zeros((4, 2, 3))).shape == (4, 2)
    assert additive_stall_overlap("He3", [1, 2], [[0.1], [0.2]]).shape == (2, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: additive_drift("He3", [0.9, 0.9]),
            "task_overlaps must have squares that add up to at most 1, got 1.62",
        ),
        (lambda: additive_drift("He3", [1.5]), "task_overlaps must be >= -1 and <= 1, got 1.5"),
        (lambda: additive_drift("relu", [0.5]), "link must be a polynomial such as He3, got 'relu'"),
        (lambda: additive_drift("He3", [0.5], activation="tanh"), "activation must be a polynomial"),
        (lambda: additive_drift("Hee3", [0.5]), "link must be one of"),
        (lambda: additive_spread("He3", [0.5], -1.0), r"noise_variance must be >= 0 and <= 1e\+300, got -1"),
        (lambda: escape_samples("He1", 64, 2, 0.2, 0.5, 0.1), "link must have information exponent >= 2"),
        (lambda: escape_samples("He3", 64, 0, 0.2, 0.5, 0.1), r"tasks must be >= 1 and <= 1e\+300, got 0"),
        (lambda: escape_samples("He3", 64, 2, 0.0, 0.5, 0.1), "start_overlap must be > 0 and <= 1, got 0"),
        (lambda: escape_samples("He3", 64, 2, 0.2, 0.5, -0.1), r"step_size must be >= 0 and <= 1e\+300, got -0.1"),
        (lambda: escape_samples("He3", [1, 2, 3], [1, 2], 0.2, 0.5, 0.1), "values and .*: give arrays that broadcast"),
        (lambda: additive_path("He3", [0.1], [1.0, 1.0], 0.1), "samples_per_dimension must increase"),
        (lambda: additive_step_size("He1", 64, 2, 0.5), "link must have information exponent >= 2"),
        (lambda: additive_step_size("tanh", 64, 2, 0.5), "link must be a polynomial such as He3, got 'tanh'"),
        (lambda: additive_step_size("He3", 64, 2.5, 0.5), r"tasks must be whole and >= 1 and <= 1e\+300, got 2.5"),
        (lambda: additive_step_size("He3", 64, 70, 0.5), "tasks must be at most d = 64, .*, got 70"),
        (
            lambda: escape_samples("He3", 64, 2.5, 0.2, 0.5, 0.1),
            r"tasks must be whole and >= 1 and <= 1e\+300, got 2.5",
        ),
        (lambda: escape_samples("He3", 64, [2, 70], 0.2, 0.5, 0.1), "tasks must be at most d = 64, .*, got 70"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.theory.mean_field.gaussian_problem import (
    Modes,
    batch_variance,
    gaussian_decay_rates,
    gaussian_energy,
    gaussian_free_energy,
    gaussian_moments,
    gaussian_optimum,
    reshuffled_mean_variance,
)
from unlazy.theory.mean_field.langevin import (
    batch_knee,
    guaranteed_decay_rate,
    log_sobolev_bound,
    optimal_batch_size,
    uniform_in_time_bound,
)
from unlazy.theory.mean_field.normal_mixture import normal_densities

MODE, HEAT = Modes(0.5, 1.5, 0.3, 1.0), 0.2


def test_the_optimum_has_the_published_values():
    best = gaussian_optimum(MODE, HEAT)
    assert best.particle_mean == pytest.approx([0.9])
    assert best.particle_variance == pytest.approx([0.4])
    assert best.energy == pytest.approx(0.04, abs=1e-14)
    assert best.free_energy == pytest.approx(-0.15215863345352, abs=1e-13)
    assert best.free_energy_excess == pytest.approx(0.13862943611199, abs=1e-13)


def test_modes_add_up_and_temperatures_broadcast():
    both = Modes([0.5, 0.7], [1.5, 0.0], [0.3, -1.0], [1.0, 2.0])
    single = [Modes(*(np.asarray(x)[k] for x in both)) for k in range(2)]
    heats = np.array([0.1, 0.2, 0.4])
    for name in ("energy", "free_energy", "free_energy_excess"):
        sums = sum(getattr(gaussian_optimum(mode, heats), name) for mode in single)
        assert getattr(gaussian_optimum(both, heats), name) == pytest.approx(sums)


def recursion(modes, heat, eta, steps, number, m, v0, s2):
    """The update as a matrix of all particles: exact mean and covariance, without the closed form."""
    a, b, h, c = (float(x) for x in modes)
    step = np.eye(number) * (1 - eta * a) - eta * b / number
    mean, cov = np.full(number, m), v0 * np.eye(number)
    for _ in range(steps):
        mean = step @ mean + eta * (h + b * c)
        cov = step @ cov @ step.T + 2 * heat * eta * np.eye(number) + eta**2 * s2
    return mean, cov


def test_moments_energy_and_free_energy_agree_with_the_covariance_of_all_particles():
    number, eta, steps, s2 = 5, 0.3, 7, 0.6
    for noise in (0.0, s2):
        mean, cov = recursion(MODE, HEAT, eta, steps, number, 2.0, 0.5, noise)
        found = gaussian_moments(
            MODE, HEAT, eta, steps, particles=number, start_mean=2.0, start_variance=0.5, gradient_variance=noise
        )
        assert found.particle_mean == pytest.approx([mean[0]])
        assert found.mean_variance == pytest.approx([cov.mean()])
        assert found.particle_variance == pytest.approx([(np.trace(cov) - number * cov.mean()) / (number - 1)])
        a, b, h, c = MODE
        square = mean[0] ** 2 + np.trace(cov) / number
        energy = a / 2 * square - h * mean[0] + b / 2 * ((mean[0] - c) ** 2 + cov.mean())
        assert gaussian_energy(MODE, found, particles=number) == pytest.approx(energy)
    mean, cov = recursion(MODE, HEAT, eta, steps, number, 2.0, 0.5, 0.0)
    entropy = -0.5 * np.linalg.slogdet(2 * np.pi * np.e * cov)[1] / number
    found = gaussian_moments(MODE, HEAT, eta, steps, particles=number, start_mean=2.0, start_variance=0.5)
    expected = gaussian_energy(MODE, found, particles=number) + HEAT * entropy
    assert gaussian_free_energy(MODE, found, HEAT, particles=number) == pytest.approx(expected)


def test_width_costs_the_same_constant_for_every_number_of_particles_at_all_times():
    steps = np.array([0, 3, 30, 300, np.inf])
    start = {"start_mean": 2.0, "start_variance": 0.5}
    limit = gaussian_free_energy(MODE, gaussian_moments(MODE, HEAT, 0.01, steps, **start), HEAT)
    added = []
    for number in (10, 100):
        moments = gaussian_moments(MODE, HEAT, 0.01, steps, particles=number, **start)
        added.append(number * (gaussian_free_energy(MODE, moments, HEAT, particles=number) - limit))
    assert added[0] == pytest.approx(added[1], rel=1e-9)
    assert added[0][0] == pytest.approx(0.375)
    assert added[0][-1] == pytest.approx(0.1386, abs=1e-4)
    assert (added[0] <= 0.375 + 1e-12).all()


def test_the_bias_of_a_step_is_linear_for_the_energy_and_quadratic_for_the_free_energy():
    best, moments = gaussian_optimum(MODE, HEAT), gaussian_moments(MODE, HEAT, 0.05, np.inf)
    energy = gaussian_energy(MODE, moments) - best.energy
    free = gaussian_free_energy(MODE, moments, HEAT) - best.free_energy
    assert energy / 0.05 == pytest.approx(0.02532, abs=1e-5)
    assert free / 0.05**2 == pytest.approx(0.00318, abs=1e-5)
    tiny = gaussian_moments(MODE, HEAT, 1e-3, np.inf)
    assert (gaussian_energy(MODE, tiny) - best.energy) / 1e-3 == pytest.approx(HEAT * 0.5 / 4, rel=1e-3)
    assert (gaussian_free_energy(MODE, tiny, HEAT) - best.free_energy) / 1e-6 == pytest.approx(
        HEAT * 0.25 / 16, rel=2e-3
    )


def test_rates_are_the_decay_of_small_steps():
    eta, time = 1e-5, 2.0
    best = gaussian_optimum(MODE, HEAT)
    mean, variance = gaussian_decay_rates(MODE)
    for start, rate in (((0.9 + 1e-2, 0.4), mean), ((0.9, 0.4 + 1e-3), variance)):
        gaps = []
        for steps in (0, round(time / eta)):
            moments = gaussian_moments(MODE, HEAT, eta, steps, start_mean=start[0], start_variance=start[1])
            moments = moments._replace(mean_variance=np.zeros(1))
            gaps.append(gaussian_free_energy(MODE, moments, HEAT) - best.free_energy)
        assert np.log(gaps[0] / gaps[1]) / time == pytest.approx(rate[0], rel=2e-2)
    alpha = log_sobolev_bound(0.25, HEAT)
    assert alpha == pytest.approx(HEAT / 0.5)  # the variance of exp(-x^2/4 / 0.2), whose constant it is
    assert guaranteed_decay_rate(alpha, HEAT) == pytest.approx(gaussian_decay_rates(Modes(0.5, 0.0))[0][0])
    assert guaranteed_decay_rate(alpha, HEAT, discrete_time=True) == pytest.approx(0.5)


def test_the_variance_of_a_batch_is_that_of_all_subsets():
    from itertools import combinations

    rows = np.random.default_rng(0).normal(size=6)
    for size in (1, 2, 4, 6):
        means = [np.mean(rows[list(chosen)]) for chosen in combinations(range(6), size)]
        assert batch_variance(6, size, rows.var()) == pytest.approx(np.var(means), abs=1e-15)


def test_reshuffled_batches_agree_with_all_orders_of_the_rows():
    from itertools import permutations

    rows, eta, size = np.array([-1.0, 0.2, 0.5, 2.0]), 0.3, 2
    stiff = 2.0
    kept = 1 - eta * stiff
    # w at the end of an epoch is kept^4 w + E (noise of the epoch)^2; all orders are equally likely
    noise = []
    for order in permutations(rows - rows.mean()):
        first, second = np.mean(order[:2]), np.mean(order[2:])
        noise.append((eta * first, eta * (kept * first + second)))
    own = 2 * HEAT * eta / 8
    first, second = np.mean(np.square(noise), axis=0)
    start = (second + own * (1 + kept**2)) / (1 - kept**4)
    middle = kept**2 * start + own + first
    end = kept**2 * (kept**2 * start + own) + own + second
    found = reshuffled_mean_variance(MODE, 4, size, HEAT, eta, rows.var(), particles=8)
    assert found == pytest.approx([(middle + end) / 2])
    # from v0 = 3 at N = 8: the first step, an epoch, one step and an epoch more
    begin = 3 / 8
    path = [begin]
    for _ in range(2):
        begin = path[-1]
        path += [kept**2 * begin + own + first, kept**4 * begin + own * (1 + kept**2) + second]
    steps = {"steps": [0, 1, 2, 3, 4], "start_variance": 3.0}
    assert reshuffled_mean_variance(MODE, 4, size, HEAT, eta, rows.var(), particles=8, **steps)[:, 0] == pytest.approx(
        path
    )


def test_the_largest_batch_without_waste_grows_like_one_over_the_root_of_the_error():
    start = {"start_mean": 2.0, "start_variance": 1.0}
    knees = np.array([batch_knee(MODE, 100_000, HEAT, gap, 1.0, **start).knee for gap in (1e-3, 1e-4, 1e-5)])
    # 63, 240, 832 by an independent search with a coarser grid of steps
    assert knees == pytest.approx([63, 240, 832], rel=0.1)
    energy = [batch_knee(MODE, 100_000, HEAT, gap, 1.0, judged="energy", **start).knee for gap in (1e-2, 1e-4)]
    assert energy == [6, 6]


def test_batch_knee_agrees_with_stepping():
    error, start = 1e-2, {"start_mean": 2.0, "start_variance": 1.0}
    found = batch_knee(MODE, 1000, HEAT, error, 1.0, **start)
    best = gaussian_optimum(MODE, HEAT).free_energy
    for place in (0, len(found.batch_size) // 2):
        size, eta, m, v, w = found.batch_size[place], found.step_size[place], 2.0, 1.0, 0.0
        noise = (1000 - size) / (size * 999)
        step = 0
        while True:
            step += 1
            m, v = m - eta * (2 * m - 1.8), (1 - eta / 2) ** 2 * v + 0.4 * eta
            w = (1 - 2 * eta) ** 2 * w + eta**2 * noise
            energy = 0.25 * (m**2 + w + v) - 0.3 * m + 0.75 * ((m - 1) ** 2 + w)
            if energy - 0.1 * np.log(2 * np.pi * np.e * v) - best <= error:
                break
        assert found.cost[place] == pytest.approx(size * step, rel=1e-3)


def test_the_terms_of_the_bound_balance_at_the_optimal_batch():
    alpha, heat, error, n = 3.0, 0.1, 1e-3, 10**9
    batch = optimal_batch_size(alpha, n, heat, error)
    assert batch == pytest.approx(np.sqrt(alpha / (heat * error)))
    assert optimal_batch_size(alpha, 10, heat, error) == 10
    terms = uniform_in_time_bound(alpha, heat, error / alpha, 0, n=n, batch_size=batch, particles=100)
    assert terms.batch_term == pytest.approx(alpha / heat * np.sqrt(error / alpha * heat) / batch, rel=1e-5)
    assert terms.batch_term == pytest.approx(error, rel=1e-5)
    assert terms.step_size_term == pytest.approx(error, rel=0.01)
    assert terms.initial_term == 1
    assert terms.particles_term == pytest.approx(alpha / heat / 100)
    assert uniform_in_time_bound(alpha, heat, 0.1, np.inf).initial_term == 0
    assert uniform_in_time_bound(alpha, heat, 0.1, 5, n=50).batch_term == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gaussian_optimum(Modes(0.0, 1.0), 0.2), "external_curvature must be > 1e-60"),
        (lambda: gaussian_optimum(Modes(1.0, -1.0), 0.2), "interaction must be >= 0"),
        (lambda: gaussian_optimum(MODE, 0.0), "temperature must be > 0"),
        (lambda: gaussian_optimum(Modes([1.0, 2.0], [1.0, 2.0, 3.0]), 0.2), "broadcast"),
        (lambda: gaussian_moments(MODE, 0.2, 1.0, 5), "below 2/"),
        (lambda: gaussian_moments(MODE, 0.2, 0.1, 5, particles=0), "particles must be >= 1"),
        (lambda: batch_variance(10, 11, 1.0), "batch_size must be <= n"),
        (lambda: log_sobolev_bound(0.0, 1.0), "confinement must be > 0"),
        (lambda: guaranteed_decay_rate(-1.0, 1.0), "log_sobolev must be > 0"),
        (lambda: optimal_batch_size(1.0, 10, 1.0, 0.0), "target_gap must be > 0"),
        (lambda: batch_knee(MODE, 100, 0.2, 1e-3, 1.0, judged="loss"), "judged must be one of"),
        (lambda: gaussian_moments(MODE, HEAT, 0.1, 3, particles=1.5), "particles must be whole and >= 1, got 1.5"),
        (lambda: gaussian_moments(MODE, HEAT, 0.1, [3, 2.5]), "steps must be whole and >= 0, got 2.5"),
        (
            lambda: reshuffled_mean_variance(MODE, 4, 2, HEAT, 0.1, 1.0, steps=np.inf),
            "steps must be finite and >= 0, got inf",
        ),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_a_hopeless_log_sobolev_constant_is_infinite_and_guarantees_nothing():
    alpha = log_sobolev_bound(1.0, 1e-3, 10.0)
    assert np.isinf(alpha)
    assert guaranteed_decay_rate(alpha, 1e-3) == 0


@pytest.mark.parametrize("step_size", [1e-300, 1e-12, 0.3])
def test_the_wander_of_reshuffled_batches_has_its_limit_at_small_steps(step_size):
    """Without the samples' noise it is that of full gradients, 2 temperature/(N (a+b)(2 - eta (a+b))), at every eta."""
    found = reshuffled_mean_variance(Modes(1.0, 0.5), 12, 3, 0.3, step_size, 0.0, particles=10)
    np.testing.assert_allclose(found, 2 * 0.3 / 10 / (1.5 * (2 - 1.5 * step_size)), rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: reshuffled_mean_variance(Modes(1.0, 0.5), 12, [3, 4], 0.3, 0.1, 1.0), "batch_size must be an integer"),
        (
            lambda: reshuffled_mean_variance(Modes(1.0, 0.5), 12, 3, 0.3, 0.1, 1.0, particles=[1, 2]),
            "particles must have 0",
        ),
        (lambda: gaussian_optimum(Modes(1.0, 0.5, 1e300), 0.3), "data_field must be >= -1e.60 and <= 1e.60"),
        (
            lambda: batch_knee(Modes(1.0, 0.5), 100, 0.3, 0.01, [1.0, 2.0, 3.0]),
            "data_field_variance must have 0 dimension",
        ),
        (lambda: guaranteed_decay_rate(1.0, 0.3, discrete_time=[1, 0]), "discrete_time must be True or False"),
        (lambda: normal_densities([0.0], [0.0], 0.0), "deviation must be >= 1e-100"),
    ],
)
def test_numbers_that_cannot_be_used_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()

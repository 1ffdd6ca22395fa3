import numpy as np
import pytest
from scipy.linalg import eigh_tridiagonal

from unlazy.checks import InputError
from unlazy.numerics.roots import ConvergenceError
from unlazy.theory.mean_field.flow import mean_field_flow, normal_masses
from unlazy.theory.mean_field.one_dimension import scalar_problem
from unlazy.theory.mean_field.rate import barrier, decay_rates, grid_decay_rates


def bump(temperature, **options):
    settings = {"interaction": 2, "target_mean": 0.3, "confinement": 0.2} | options
    return scalar_problem(lambda x: np.exp(-2 * x**2), np.tanh, temperature=temperature, **settings)


def quadratic(a, b, *, temperature=0.2, **options):
    """F = (a/2) E x^2 + (b/2)(E x - 1)^2."""
    settings = {"interaction": b, "target_mean": 1.0, "confinement": a / 2, "temperature": temperature} | options
    return scalar_problem(lambda x: 0 * x, lambda x: x, **settings)


@pytest.mark.parametrize(
    ("temperature", "gap", "rate", "loose", "mean", "free_energy"),
    [
        (0.15, 0.008521, 0.062169, 2.1e-4, 0.2668, 0.27605502),
        (0.2, 0.024789, 0.145626, 1.1e-3, 0.2572, 0.22457171),
        (0.3, 0.071012, 0.319216, 6.4e-3, 0.2402, 0.10035653),
        (0.5, 0.161858, 0.531949, 2.7e-2, 0.2132, -0.19854882),
        (1.0, 0.285535, 0.604057, 8.7e-2, 0.1700, -1.09381238),
        (2.0, 0.355990, 0.548880, 1.7e-1, 0.1249, -3.20185765),
    ],
)
def test_rates_agree_with_an_independent_computation(temperature, gap, rate, loose, mean, free_energy):
    """The numbers are rates of deviations, half those of L - L*."""
    problem = bump(temperature, grid_points=401, half_width=max(4, 7 * np.sqrt(temperature / 0.4)))
    found = decay_rates(problem)
    # The numbers are those of this grid, 0.1% from the limit.
    np.testing.assert_allclose(grid_decay_rates(problem), (2 * rate, 2 * gap), atol=1.2e-6)
    np.testing.assert_allclose((found.decay_rate, found.frozen_decay_rate), (2 * rate, 2 * gap), rtol=4e-3)
    np.testing.assert_allclose(found.loose_decay_rate, 2 * loose, rtol=0.05)
    np.testing.assert_allclose((problem.feature_mean, problem.free_energy), (mean, free_energy), atol=6e-5)
    np.testing.assert_allclose(problem.free_energy, free_energy, atol=1e-8)
    assert list(found) == sorted(found, reverse=True)
    assert len(set(found)) == 4


@pytest.mark.parametrize(("b", "rate"), [(0.0, 1.0), (0.2, 1.4), (3.0, 2.0)])
def test_a_quadratic_problem_decays_with_its_slower_mode(b, rate):
    found = decay_rates(quadratic(0.5, b, grid_points=2001))
    np.testing.assert_allclose((found.decay_rate, found.frozen_decay_rate), (rate, 1.0), rtol=1e-7)
    # A linear feature has no finite oscillation: the bound is attained without interaction and empty with it.
    np.testing.assert_allclose(found.guaranteed_decay_rate, 1.0 if b == 0 else 0, atol=1e-6)


@pytest.mark.parametrize("target", [0.3, 0.0])
def test_the_rate_is_twice_the_second_eigenvalue_of_the_dense_operator(target):
    problem = bump(0.3, grid_points=201, target_mean=target)
    x, h, lam = problem.points, problem.points[1] - problem.points[0], 0.3
    potential = problem.external_potential + 2 * (problem.feature_mean - target) * problem.feature_values
    generator = np.zeros((201, 201))
    for i in range(200):
        generator[i, i + 1] = lam / h**2 * np.exp((potential[i] - potential[i + 1]) / (2 * lam))
        generator[i + 1, i] = lam / h**2 * np.exp((potential[i + 1] - potential[i]) / (2 * lam))
    generator -= np.diag(generator.sum(axis=1))
    centred = np.tanh(x) - problem.feature_mean
    linearised = -generator @ (np.eye(201) + 2 / lam * np.outer(centred, problem.grid_masses * centred))
    values = np.sort(np.linalg.eigvals(linearised).real)
    frozen = np.sort(np.linalg.eigvals(-generator).real)[1]
    np.testing.assert_allclose(grid_decay_rates(problem), (2 * values[1], 2 * frozen), rtol=1e-7)


@pytest.mark.parametrize("points", [2001, 60_001, 99_999])
@pytest.mark.parametrize(("b", "rate"), [(0.2, 1.4), (0.499, 1.998), (3.0, 2.0)])
def test_rates_keep_their_digits_on_fine_grids(points, b, rate):
    """The eigenvalues of T are 0.5, 1, 1.5, ...; the interaction moves the first one alone, from 0.5 to 0.5 + b."""
    rates = grid_decay_rates(quadratic(0.5, b, grid_points=points, half_width=8.0))
    spacing = 16 / (points - 1)
    np.testing.assert_allclose(rates, (rate, 1.0), rtol=spacing**2 + 1e-9)


def test_a_rate_does_not_depend_on_how_fine_the_grid_is():
    """A bump that is 1/1000 wide and high needs 100,000 points; as it vanishes the rates become those without it."""

    def found(width):
        return decay_rates(
            scalar_problem(
                lambda x: np.exp(-(x**2) / (2 * width**2)),
                np.tanh,
                interaction=2,
                target_mean=0.3,
                confinement=0.2,
                temperature=1.0,
            )
        )

    fine, coarse = found(1e-3), found(4e-3)
    flat = decay_rates(
        scalar_problem(np.zeros_like, np.tanh, interaction=2, target_mean=0.3, confinement=0.2, temperature=1.0)
    )
    # what a narrow bump changes is proportional to its width
    for name in ("decay_rate", "frozen_decay_rate"):
        limit = getattr(flat, name)
        np.testing.assert_allclose((getattr(coarse, name) - limit) / (getattr(fine, name) - limit), 4, rtol=0.05)


@pytest.mark.parametrize("temperature", [0.05, 0.03, 0.02, 0.013])
def test_rates_behind_a_high_barrier_are_those_of_two_wells(temperature):
    """All other modes are faster by exp(barrier/temperature), up to 1e22, so that the odd mode is 1 in a well:

    1/gap = (1/temperature) int_0 exp(U/temperature) int_x exp(-U/temperature), and the interaction multiplies it by
    1 + s b/(1 + s w), s = interaction/temperature, b and w the variances of phi between and within the wells.
    """
    problem = bump(temperature, target_mean=0.0)
    x = np.linspace(0, 6, 400_001)
    potential = (0.2 * x**2 + np.exp(-2 * x**2)) / temperature
    step = x[1]
    law = np.exp(potential.min() - potential)
    law[0] /= 2
    beyond = law.sum() - np.cumsum(law) + law / 2
    well = np.argmin(potential)
    passage = np.exp(potential[:well] - potential.min()) * beyond[:well]
    gap = temperature / (step**2 * (passage.sum() - passage[0] / 2))
    mean, square = (law @ np.tanh(x) ** power / law.sum() for power in (1, 2))
    strength = 2 / temperature
    rate = gap * (1 + strength * mean**2 / (1 + strength * (square - mean**2)))
    found = decay_rates(problem)
    np.testing.assert_allclose((found.decay_rate, found.frozen_decay_rate), (2 * rate, 2 * gap), rtol=1e-4 + 20 * gap)


def narrow(temperature=2.0, *, centre=0.0, **options):
    """A bump of height 10 and width 0.1."""
    settings = {"interaction": 0, "target_mean": 0.3, "confinement": 0.2} | options
    return scalar_problem(
        lambda x: 10 * np.exp(-((x - centre) ** 2) / 0.02), np.tanh, temperature=temperature, **settings
    )


def test_a_narrow_bump_has_the_gap_of_finite_elements_on_another_grid():
    """Linear elements with lumped masses on points that are dense in the bump."""
    s = np.linspace(-1, 1, 8001)
    x = 19.0 * np.sinh(8 * s) / np.sinh(8)
    middle = (x[1:] + x[:-1]) / 2

    def density(x):
        return np.exp(-(0.2 * x**2 + 10 * np.exp(-(x**2) / 0.02)) / 2)

    stiffness = 2 * density(middle) / np.diff(x)
    masses = density(x) * np.gradient(x)
    main = np.append(stiffness, 0) + np.append(0, stiffness)
    values = eigh_tridiagonal(
        main / masses, -stiffness / np.sqrt(masses[1:] * masses[:-1]), select="i", select_range=(1, 1)
    )[0]
    found = decay_rates(narrow())
    np.testing.assert_allclose(found.frozen_decay_rate, 2 * values[0], rtol=1e-3)
    assert found.decay_rate == found.frozen_decay_rate
    np.testing.assert_allclose(
        decay_rates(narrow(grid_points=9001)).frozen_decay_rate, found.frozen_decay_rate, rtol=1e-3
    )


@pytest.mark.parametrize("points", [301, 801])
def test_a_grid_that_does_not_resolve_the_bump_is_refused(points):
    with pytest.raises(ConvergenceError, match=f"points = {points} do not resolve the potential"):
        narrow(grid_points=points)


@pytest.mark.parametrize(
    ("temperature", "options"),
    [(2.0, {}), (2.0, {"confinement": 1e-3}), (1e6, {}), (50.0, {"centre": 3.0123}), (1e6, {"centre": -3.0123})],
)
def test_the_oscillation_of_a_narrow_bump_is_its_height_and_the_bound_a_bound(temperature, options):
    problem = narrow(temperature, **options)
    np.testing.assert_allclose(problem.oscillation, 10, rtol=1e-9)
    found = decay_rates(problem)
    free = 4 * problem.confinement
    np.testing.assert_allclose(found.guaranteed_decay_rate, free * np.exp(-10 / temperature), rtol=1e-8)
    assert found.decay_rate >= found.frozen_decay_rate >= found.guaranteed_decay_rate == found.loose_decay_rate


def test_rates_that_do_not_settle_are_refused(monkeypatch):
    monkeypatch.setattr("unlazy.theory.mean_field.one_dimension._FINEST", 30_000)
    with pytest.raises(ConvergenceError, match=r"the rates still change by .* more than tolerance = 1e-13"):
        decay_rates(narrow(), tolerance=1e-13)


def test_the_flow_of_a_quadratic_problem_has_its_closed_form():
    a, b, lam = 0.5, 1.5, 0.2
    problem = quadratic(a, b, grid_points=1201, half_width=8.0)
    times = np.array([0.0, 0.3, 1.0, 2.0])
    flow = mean_field_flow(problem, normal_masses(problem, 2.0, 1.0), times, step_size=1e-3)
    m_star, v_star = b / (a + b), lam / a
    mean = m_star + (2 - m_star) * np.exp(-(a + b) * times)
    variance = v_star + (1 - v_star) * np.exp(-2 * a * times)
    energy = a / 2 * (mean**2 + variance) + b / 2 * (mean - 1) ** 2
    lowest = a / 2 * (m_star**2 + v_star) + b / 2 * (m_star - 1) ** 2
    # The error of implicit Euler is 2 r t (r step_size/2) = 0.8% in the gaps at t = 2.
    np.testing.assert_allclose(flow.feature_mean, mean, rtol=2e-3)
    np.testing.assert_allclose(flow.energy_gap, energy - lowest, rtol=1e-2)
    gaps = energy - lowest - lam / 2 * np.log(variance / v_star)
    np.testing.assert_allclose(flow.optimality_gap, gaps, rtol=1e-2)
    np.testing.assert_allclose(problem.free_energy, lowest - lam / 2 * np.log(2 * np.pi * np.e * v_star), rtol=1e-12)


def test_the_flow_falls_ends_at_the_rate_and_rests_at_the_optimum():
    problem = bump(0.3, grid_points=401)
    rate = decay_rates(problem).decay_rate
    times = np.linspace(0, 28, 57) / rate
    flow = mean_field_flow(problem, normal_masses(problem, 1.5, 0.3), times, step_size=0.02 / rate)
    assert (np.diff(flow.optimality_gap) < 0).all()
    late = slice(30, 50)
    np.testing.assert_allclose(-np.polyfit(times[late], np.log(flow.optimality_gap[late]), 1)[0], rate, rtol=0.01)
    assert mean_field_flow(problem, problem.grid_masses, [10.0], step_size=0.1).optimality_gap[0] < 1e-24


def test_large_steps_at_low_temperature_do_not_overshoot():
    problem = bump(0.05, grid_points=401)
    rate = grid_decay_rates(problem).decay_rate
    flow = mean_field_flow(problem, normal_masses(problem, 1.5, 0.3), 2 * np.arange(1, 12) / rate, step_size=0.2 / rate)
    # Ten implicit Euler steps of 0.2/r lower the gap by 1.1^-20 once the fast modes are gone.
    np.testing.assert_allclose(flow.optimality_gap[4:] / flow.optimality_gap[3:-1], 1.1**-20, rtol=1e-3)


def test_the_barrier_of_a_bump_has_its_closed_form():
    height, width, confinement = 1.0, 0.5, 0.2
    well = 2 * width**2 * np.log(height / (2 * confinement * width**2))
    expected = height - confinement * well - 2 * confinement * width**2
    np.testing.assert_allclose(barrier(bump(0.2, interaction=0, grid_points=4001)), expected, rtol=1e-5)
    assert barrier(quadratic(0.5, 1.5)) == 0


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"confinement": 0.0}, InputError, "confinement must be > 1e-60 and <= 1e.60, got 0"),
        ({"interaction": -1.0}, InputError, "interaction must be >= 0 and <= 1e.60, got -1"),
        ({"grid_points": 3}, InputError, "grid_points must be an integer >= 11"),
        ({"half_width": 0.5}, ConvergenceError, "half_width = 0.5 cuts the optimum off"),
    ],
)
def test_wrong_problems_are_refused_in_one_line(change, error, words):
    with pytest.raises(error, match=words):
        bump(0.3, **change)


def test_a_temperature_at_which_the_gap_is_lost_in_rounding_is_refused():
    cold = bump(0.01)
    with pytest.raises(ConvergenceError, match=r"is lost in rounding at temperature 0\.01"):
        decay_rates(cold)
    with pytest.raises(InputError, match="temperature must be high enough"):
        mean_field_flow(bump(5e-4), bump(5e-4).grid_masses, [1.0], step_size=0.1)


def test_wrong_starts_and_times_are_refused():
    problem = bump(0.3, grid_points=151)
    with pytest.raises(InputError, match=r"start_masses must have one mass per point \(151\), got 3"):
        mean_field_flow(problem, [0.2, 0.3, 0.5], [1.0], step_size=0.1)
    with pytest.raises(InputError, match="start_masses must sum to 1, got 2"):
        mean_field_flow(problem, 2 * problem.grid_masses, [1.0], step_size=0.1)
    with pytest.raises(InputError, match="time must increase"):
        mean_field_flow(problem, problem.grid_masses, [1.0, 0.5], step_size=0.1)
    with pytest.raises(InputError, match="feature must give one number per point"):
        scalar_problem(np.cos, lambda x: x[:3], interaction=1, target_mean=0, confinement=1, temperature=1)

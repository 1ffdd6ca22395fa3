import numpy as np
import pytest

from unlazy.studies.diffusion.girsanov_bound import PROBLEMS
from unlazy.training.diffusion.particles import divergence_from, integral_from, reverse_particles


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_particles_have_the_divergence_of_the_theory(name):
    problem, time = PROBLEMS[name], 1.0
    rng = np.random.default_rng(0)
    divergence = [divergence_from(problem.truth, reverse_particles(rng, problem, time, 8000, 60)) for _ in range(8)]
    integral = [integral_from(rng, problem, time, 2000) for _ in range(8)]
    cost = problem.cost(np.array([time]))
    for draws, expected in ((divergence, cost.divergence[0]), (integral, cost.integral[0])):
        deviation = np.mean(draws) - expected
        error = max(np.std(draws, ddof=1) / np.sqrt(8), 0.01 * expected)
        assert abs(deviation) < 5 * error
        assert abs(np.mean(draws) - 1.35 * expected) > 5 * error

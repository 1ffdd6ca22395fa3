import numpy as np
import pytest
from scipy.integrate import quad

from unlazy.studies.diffusion.shared.score_errors import (
    PROBLEMS,
    divergence_from,
    integral_from,
    reverse_particles,
)
from unlazy.theory.diffusion.process import gaussian_score_error, mixture_score


def test_the_cost_of_a_mixture_agrees_with_direct_quadrature_and_with_the_closed_form_of_one_component():
    problem = PROBLEMS["mixture"]
    time = np.array([0.4])
    x = np.linspace(-5, 5, 1501)

    def squared_error(t):
        score = [
            mixture_score(x[:, None], t, w, np.array(m)[:, None], v)
            for w, m, v in (
                (problem.weights, problem.means, problem.variances),
                (problem.model_weights, problem.model_means, problem.model_variances),
            )
        ]
        density = np.exp(score[0].log_density)
        return (density * (score[0].score - score[1].score)[:, 0] ** 2).sum() * (x[1] - x[0])

    direct = quad(squared_error, 1e-9, 0.4, epsabs=1e-8)[0]
    np.testing.assert_allclose(problem.cost(time).integral, direct, rtol=1e-4)

    # the same law written as a mixture of two equal halves takes the path of mixtures
    halves = {"weights": (0.5, 0.5), "means": (0.0, 0.0), "variances": (0.5, 0.5)}
    halves |= {"model_weights": (0.5, 0.5), "model_means": (0.1, 0.1), "model_variances": (0.8, 0.8)}
    found, expected = type(problem)(**halves).cost(time), gaussian_score_error(0.5, 0.1, 0.8, time)
    for name in ("divergence", "integral", "final_divergence", "mean", "variance"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6)


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_particles_have_the_divergence_of_the_theory(name):
    problem, time = PROBLEMS[name], 1.0
    rng = np.random.default_rng(0)
    divergence = [divergence_from(problem, reverse_particles(problem, rng, time, 8000, 60)) for _ in range(8)]
    integral = [integral_from(problem, rng, time, 2000) for _ in range(8)]
    cost = problem.cost(np.array([time]))
    for draws, expected in ((divergence, cost.divergence[0]), (integral, cost.integral[0])):
        deviation = np.mean(draws) - expected
        error = max(np.std(draws, ddof=1) / np.sqrt(8), 0.01 * expected)
        assert abs(deviation) < 5 * error
        assert abs(np.mean(draws) - 1.35 * expected) > 5 * error

import numpy as np
from scipy.integrate import quad

from unlazy.theory.diffusion.process import gaussian_score_error, mixture_score
from unlazy.theory.diffusion.wrong_score import LineMixture, WrongScore


def test_the_cost_of_a_mixture_agrees_with_direct_quadrature_and_with_the_closed_form_of_one_component():
    modes = (-1.0, 1.0), (0.15, 0.15)
    problem = WrongScore(LineMixture((0.75, 0.25), *modes), LineMixture((0.5, 0.5), *modes))
    time = np.array([0.4])
    x = np.linspace(-5, 5, 1501)

    def squared_error(t):
        score = [
            mixture_score(law.component_weights, np.array(law.means)[:, None], law.variances, x[:, None], t)
            for law in (problem.truth, problem.model)
        ]
        density = np.exp(score[0].log_density)
        return (density * (score[0].score - score[1].score)[:, 0] ** 2).sum() * (x[1] - x[0])

    direct = quad(squared_error, 1e-9, 0.4, epsabs=1e-8)[0]
    np.testing.assert_allclose(problem.cost(time).integral, direct, rtol=1e-4)

    # the same law written as a mixture of two equal halves takes the path of mixtures
    halves = [LineMixture((0.5, 0.5), (mean, mean), (v, v)) for mean, v in ((0.0, 0.5), (0.1, 0.8))]
    found, expected = WrongScore(*halves).cost(time), gaussian_score_error(0.0, 0.5, 0.1, 0.8, time)
    for name in ("divergence", "integral", "final_divergence", "final_mean", "final_variance"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6)

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.numerics.reverse_diffusion import run_reverse, time_grid
from unlazy.numerics.reverse_law import line_cells, reverse_law
from unlazy.theory.diffusion.wrong_score import LineMixture, WrongScore

TRUTH = LineMixture((0.75, 0.25), (-0.5, 0.5), (0.04, 0.04))
MODEL = LineMixture((0.5, 0.5), (-0.5, 0.5), (0.04, 0.04))


def _score(law):
    return lambda x, t: np.stack([law.diffused(points, float(time[0]))[1] for points, time in zip(x, t, strict=True)])


def _masses(law, edges):
    return np.diff(np.r_[0.0, law.cdf(edges[1:-1]), 1.0])


def _diffused(time):
    """The law of X_t / m_t."""
    return TRUTH._replace(variances=tuple(v + np.expm1(2 * time) for v in TRUTH.variances))


def test_the_exact_score_leads_back_to_the_data_with_an_error_of_order_two():
    errors = []
    for steps in (20, 40, 80):
        edges = line_cells(6.0, 8 * steps)
        found = reverse_law(_score(TRUTH), time_grid(6.0, 1e-6, steps), edges, _masses(_diffused(6.0), edges))
        assert found.sum() == pytest.approx(1, abs=1e-8)
        off = np.cumsum(found - _masses(TRUTH, edges))
        errors.append(np.abs(off).max())
    assert errors[1] < 0.35 * errors[0]
    assert errors[2] < 0.35 * errors[1]


def test_a_wrong_score_has_the_divergence_of_the_theory():
    """Of another mixture, from p_T at T = 1: `WrongScore.cost` has it by another quadrature, without any equation."""
    edges = line_cells(1.0, 256)
    found = reverse_law(_score(MODEL), time_grid(1.0, 1e-6, 80), edges, _masses(_diffused(1.0), edges))
    truth = _masses(TRUTH, edges)
    seen = truth > 1e-12
    divergence = np.sum(truth[seen] * np.log(truth[seen] / found[seen]))
    assert divergence == pytest.approx(float(WrongScore(TRUTH, MODEL).cost(np.array(1.0)).divergence[0]), rel=0.002)


def test_particles_have_the_law_of_a_score_that_is_nobodys():
    def score(points, time):
        return 1.2 * TRUTH.diffused(points, time)[1] + 0.3 * np.sin(3 * points)

    times, edges = time_grid(4.0, 1e-4, 60), line_cells(4.0, 128)
    found = reverse_law(
        lambda x, t: np.stack([score(p, float(at[0])) for p, at in zip(x, t, strict=True)]), times, edges
    )
    rng = np.random.default_rng(0)
    points = run_reverse(rng, score, rng.standard_normal(40_000), time_grid(4.0, 1e-4, 800), denoise=False)
    inner = edges[(np.abs(edges) < 1.01)][::8]
    share = np.searchsorted(np.sort(points * np.exp(1e-4)), inner) / points.size
    cdf = np.interp(inner, edges, np.r_[0.0, np.cumsum(found)])
    # four standard errors of a share, and the first order of the 800 steps
    assert np.abs(share - cdf).max() < 4 * 0.5 / np.sqrt(points.size) + 0.005


@pytest.mark.parametrize(
    ("times", "edges", "message"),
    [
        ((1.0, 2.0), (0, 1, 2, 3), "times must be at least two decreasing numbers"),
        ((2.0, 1.0), (0, 1, 1, 3), "edges must be at least four increasing numbers"),
    ],
)
def test_wrong_grids_are_named(times, edges, message):
    with pytest.raises(InputError, match=message):
        reverse_law(lambda x, t: -x, times, edges)

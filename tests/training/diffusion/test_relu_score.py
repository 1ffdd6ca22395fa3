from itertools import pairwise

import numpy as np
import pytest

from unlazy.functions.rough_densities import rough_density
from unlazy.numerics.splines.box import tensor_diffused
from unlazy.numerics.splines.interval import SplineBasis
from unlazy.theory.diffusion.process import mixture_score
from unlazy.training.diffusion.relu_score import (
    ReluScore,
    _jacobian,
    _layers,
    _unpacked,
    denoising_cells,
    draw_denoising,
    score_targets,
    train_relu,
    uniform_score,
)

CELLS = denoising_cells(128, 1e-3, 4.0, 5, 64)


def _network(rng, hidden=(5, 4)):
    shape = (2, *hidden, 1)
    size = sum((a + 1) * b for a, b in pairwise(shape))
    return ReluScore((), (_unpacked(rng.standard_normal(size), shape),))


@pytest.mark.parametrize("time", [1e-4, 0.03, 1.0, 4.0])
def test_the_uniform_law_has_the_score_of_a_sum_of_splines(time):
    basis = SplineBasis(6, 2)
    x = np.linspace(-1.5, 1.5, 31)
    # equal weights of unscaled B-splines sum to a constant
    grid = np.linspace(-1, 1, 4001)
    weights = np.linalg.lstsq(basis.values(grid), np.full(grid.size, 0.5), rcond=None)[0]
    exact = tensor_diffused((basis,), np.maximum(weights, 0), x[:, None], time).score[:, 0]
    np.testing.assert_allclose(uniform_score(x, np.full(31, time)), exact, rtol=1e-6, atol=1e-8)


def test_the_risk_over_all_noise_is_the_mean_over_draws():
    """The difference of two networks' risks, by cells and by 400,000 draws of rows, noise and uniform times."""
    rng = np.random.default_rng(0)
    shares = rng.multinomial(200, np.full(128, 1 / 128)) / 200
    middles = (2 * np.arange(128) + 1) / 128 - 1
    networks = [_network(rng), _network(rng)]
    target, weight = score_targets(CELLS, shares)
    by_cells = [weight @ (one.answer(CELLS.x, CELLS.times) - target) ** 2 for one in networks]
    rows = rng.choice(middles, 400_000, p=shares) + rng.uniform(-1, 1, 400_000) / 128
    x, times, drawn, each = draw_denoising(rng, rows, 400_000, 1e-3, 4.0, uniform=True)
    one, other = (each * (network.answer(x, times) - drawn) ** 2 for network in networks)
    error = 4 * (one - other).std() * np.sqrt(400_000)
    assert error < 0.2 * abs(by_cells[0] - by_cells[1])
    assert (one - other).sum() == pytest.approx(by_cells[0] - by_cells[1], abs=error)


def test_times_uniform_in_their_logarithm_have_the_same_risk():
    rng = np.random.default_rng(1)
    network, rows = _network(rng), rng.uniform(-1, 1, 50)
    risks = []
    for uniform in (True, False):
        x, times, _, each = draw_denoising(rng, rows, 400_000, 1e-3, 4.0, uniform=uniform)
        values = each * network.answer(x, times) ** 2
        risks.append((values.sum(), values.std() * np.sqrt(values.size)))
    assert risks[0][0] == pytest.approx(risks[1][0], abs=4 * np.hypot(risks[0][1], risks[1][1]))


def test_the_jacobian_is_that_of_differences():
    rng = np.random.default_rng(2)
    shape = (2, 4, 3, 1)
    flat, inputs = rng.standard_normal(12 + 15 + 4), rng.standard_normal((20, 2))
    found = _jacobian(_unpacked(flat, shape), _layers(_unpacked(flat, shape), inputs))
    steps = 1e-6 * np.eye(flat.size)
    moved = [
        (_layers(_unpacked(flat + s, shape), inputs)[-1] - _layers(_unpacked(flat - s, shape), inputs)[-1]) / 2e-6
        for s in steps
    ]
    np.testing.assert_allclose(found, np.transpose(moved), atol=1e-6)


def test_the_integrated_score_error_is_a_divergence():
    """De Bruijn: the risk of the score of another law is the divergence at the first time less that at the last."""
    rng = np.random.default_rng(3)
    p, q = (rough_density(2, rng).masses(128) for _ in range(2))
    (target, weight), (other, _) = score_targets(CELLS, p), score_targets(CELLS, q)
    integral = weight @ (other - target) ** 2
    middles, x = (2 * np.arange(128) + 1) / 128 - 1, np.linspace(-6, 6, 6001)
    total = 0.0
    for time, sign in ((1e-3, 1), (4.0, -1)):
        # a bin has nearly the law of a normal of its variance, once it is blurred
        log_p, log_q = (
            mixture_score(h, middles[:, None], np.full(128, 1 / 128**2 / 3), x[:, None], time)[0] for h in (p, q)
        )
        total += sign * 0.002 * np.sum(np.exp(log_p) * (log_p - log_q))
    assert integral == pytest.approx(total, rel=0.02)


def test_training_finds_most_of_the_score_of_a_smooth_density():
    rng = np.random.default_rng(4)
    shares = rough_density(3, rng).masses(128)
    target, weight = score_targets(CELLS, shares)
    found = train_relu(
        rng, CELLS.x, CELLS.times, target, weight, {0.25: (8, 8), 4.0: (4, 4)}, steps=60, starts=2, clip=5.0
    )
    assert found.network.size == (2 * 8 + 8 + 64 + 8 + 9) + (2 * 4 + 4 + 16 + 4 + 5)
    assert found.risks[0] <= found.risks[1:].min()
    wrong = weight @ (found.network.answer(CELLS.x, CELLS.times) - target) ** 2
    assert wrong == pytest.approx(found.risks[0], rel=0.05)
    assert wrong < 0.05 * weight @ target**2

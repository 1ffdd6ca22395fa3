import numpy as np
import pytest

from unlazy.numerics.reverse_diffusion import run_reverse, time_grid
from unlazy.training.diffusion.learned_scores import learned_chain, learned_cost, learned_score
from unlazy.training.diffusion.network_rates import BINS, law_errors
from unlazy.training.diffusion.noise_draws import drawn_errors


def test_the_total_variation_is_that_of_samples():
    """16 bins of 20,000 samples of the reverse equation against those of the network's law, by four standard errors."""
    rng = np.random.default_rng(0)
    network, masses = learned_score(rng, 200)
    points = run_reverse(
        rng,
        lambda x, t: network(x, np.full(x.shape, t)),
        rng.standard_normal(20_000),
        time_grid(4.0, 1e-5, 500),
        denoise=False,
    )
    shares = np.histogram(points, np.linspace(-1, 1, 17))[0] / points.size
    coarse = masses.reshape(16, -1).sum(axis=1)
    sampled = np.abs(shares - coarse).sum() / 2
    # bins hide what is finer than they are, and samples add their noise
    exact = law_errors(network, masses).total_variation
    noise = np.sqrt(2 / np.pi) * np.sqrt(coarse / points.size).sum() / 2
    assert sampled < exact + 4 * noise + 0.01
    assert sampled > 0.5 * exact


def test_a_network_obeys_girsanovs_bound_and_pinskers():
    network_cost, integral = learned_cost(np.random.default_rng(1), 300, (0.25, 4.0))
    assert (network_cost > 0).all()
    assert (network_cost < integral).all()
    network, masses = learned_score(np.random.default_rng(1), 300)
    # started from p_T, and from N(0, 1) whose distance at time 4 is below 0.01
    assert law_errors(network, masses).total_variation < np.sqrt(network_cost[1] / 2) + 0.01
    assert masses.size == BINS


def test_more_steps_bring_a_chain_nearer_to_its_limit():
    few, many = (learned_chain(np.random.default_rng(2), 100, "exponential", k, 1e-3, 2000) for k in (20, 80))
    assert many[0] < 0.5 * few[0]
    assert many[1] == pytest.approx(few[1])


def test_draws_of_noise_approach_all_of_it():
    whole, drawn = drawn_errors(np.random.default_rng(3), 2, 64, (1, 200), bumps=1.0, factor=18.0, steps=30, starts=1)
    assert drawn.shape == (2, 2)
    assert drawn[1, 1] < drawn[1, 0]
    assert drawn[1, 1] < 2 * whole

"""The chain of one overlap against the neuron in d dimensions, exact laws and the ODE."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.functions.elementwise import as_link
from unlazy.theory.index_models.online_sgd import overlap_path
from unlazy.training.index_models import online_index
from unlazy.training.index_models.overlap_chain import Draws, Rule, crossing_step, draw, step, train

THIRD = as_link("He3")
RELU = as_link("relu").derivative


@pytest.mark.parametrize("d", [3, 4, 7, 24, 64, 1000])
def test_the_squares_of_the_rest_are_chi_square(d):
    from scipy import stats

    drawn = np.asarray(draw(jax.random.key(d), (200, 1000), d).rest, float).ravel()
    assert stats.kstest(drawn, "chi2", args=(d - 2,)).pvalue > 1e-3
    # a test that would see the usual approximation, a cubed normal number, at few degrees of freedom
    if d <= 4:
        f = d - 2
        x = np.random.default_rng(0).standard_normal(drawn.size)
        approximate = f * np.maximum(1 - 2 / (9 * f) + x * math.sqrt(2 / (9 * f)), 0) ** 3
        assert stats.kstest(approximate, "chi2", args=(f,)).pvalue < 1e-6


def test_the_draws_are_independent_standard_normal_numbers():
    from scipy import stats

    u, v, rest, noise = (np.asarray(part, float).ravel() for part in draw(jax.random.key(0), (64, 4096), 20))
    for part in (u, v, noise):
        assert stats.kstest(part, "norm").pvalue > 1e-3
    correlations = np.corrcoef([u, v, noise, rest, u**2, v**2]) - np.eye(6)
    assert np.abs(correlations).max() < 5 / math.sqrt(u.size)
    # neighbours along both axes, where the proposals are repeated
    table = rest.reshape(64, 4096)
    for one, other in ((table[1:], table[:-1]), (table[:, 1:], table[:, :-1])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / math.sqrt(u.size)


@pytest.mark.parametrize("d", [3, 5, 40])
@pytest.mark.parametrize("reuse", [0.0, 1.0])
@pytest.mark.parametrize("activation", ["relu", "He3"])
def test_a_step_is_that_of_the_neuron_in_d_dimensions(d, reuse, activation):
    rng = np.random.default_rng(d)
    derivative = as_link(activation).derivative
    with jax.enable_x64(True):
        rule = Rule(2.0, reuse_step_size=1.5, reuse=reuse, sign=-1.0, bias=0.3, noise_variance=0.16, clip=1.0)
        for _ in range(20):
            w = rng.standard_normal(d)
            w /= np.linalg.norm(w)
            x, noise = rng.standard_normal(d), rng.standard_normal()
            m, u = w[0], w @ x
            side = math.sqrt(1 - m**2)
            v = (x[0] - m * u) / side
            rest = x @ x - u**2 - v**2
            draws = Draws(*(jnp.array([number]) for number in (u, v, rest, noise)))
            moved = step(draws, jnp.array([m]), d, rule, THIRD, derivative)
            weights = online_index.step(jnp.asarray(w)[None], jnp.asarray(x), noise, rule, THIRD, derivative)
            assert float(moved[0]) == pytest.approx(float(weights[0, 0]), abs=1e-12)
            assert abs(float(moved[0]) - m) > 1e-12 or activation == "relu"


def test_the_mean_overlap_follows_the_ode():
    d, times = 2000, np.array([10, 20])
    found = jax.jit(lambda key: train(key, jnp.zeros(256), d, Rule(0.2, sign=-1.0), times * d, link=THIRD))(
        jax.random.key(3)
    )
    expected = overlap_path("He3", times, 0.2, sign=-1)
    values = np.asarray(found, float)
    error = values.std(1) / math.sqrt(values.shape[1])
    assert (np.abs(values.mean(1) - expected) < 4 * error).all()
    assert (np.abs(values.mean(1) - 1.2 * expected) > 4 * error).all()


def test_traced_dimensions_and_records_give_the_same_overlaps():
    rule, times = Rule(0.3, sign=-1.0), jnp.array([1, 3])

    def overlaps(d):
        return train(jax.random.key(0), jnp.full(8, 0.2), d, rule, (times * d).astype(int), link=THIRD)

    together = jax.jit(jax.vmap(overlaps))(jnp.array([30.0, 100.0]))
    for row, d in zip(together, (30, 100), strict=True):
        alone = train(jax.random.key(0), jnp.full(8, 0.2), d, rule, [d, 3 * d], link=THIRD)
        np.testing.assert_allclose(row, alone, atol=1e-5)


def test_a_record_at_0_is_the_start():
    start = jnp.linspace(-0.5, 0.5, 4)
    found = train(jax.random.key(0), start, 20, Rule(0.1), [0, 5], link=THIRD)
    np.testing.assert_array_equal(found[0], start)
    assert (found[1] != start).any()


def test_the_crossing_step_is_the_first_at_which_the_share_is_above():
    key, start, rule, share = (
        jax.random.key(5),
        jnp.full(20, 0.2),
        Rule(0.2, sign=-1.0, bias=1.0, noise_variance=0.01),
        0.6,
    )
    crossing = jax.jit(lambda start, most: crossing_step(key, start, 30, rule, most, link=THIRD, share=share))
    overlaps = jax.jit(lambda n: train(key, start, 30, rule, jnp.array([n]), link=THIRD)[0])
    found = int(crossing(start, 20_000))
    assert found > 64
    above = [np.mean(np.abs(overlaps(n)) >= 0.5) >= share for n in (found - 30, found - 1, found)]
    assert above == [False, False, True]
    assert int(crossing(start, found)) == found
    assert int(crossing(start, found - 1)) == -1
    assert int(crossing(jnp.full(20, 0.6), 10)) == 0


def test_single_precision_does_not_matter():
    rng = np.random.default_rng(0)
    d, steps, rule = 200, 10_000, (0.1, 1.0, 1.0, -1.0, 0.3)
    drawn = [*rng.standard_normal((2, steps, 32)), rng.chisquare(d - 2, (steps, 32)), np.zeros((steps, 32))]
    ends = {}
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            draws = Draws(*(jnp.asarray(part, dtype) for part in drawn))
            settings = Rule(*(jnp.asarray(number, dtype) for number in rule))

            def one(m, x, settings=settings):
                return step(x, m, d, settings, THIRD, RELU), None

            ends[dtype] = np.asarray(jax.lax.scan(one, jnp.zeros(32, dtype), draws)[0], float)
    assert ends[np.float64].std() > 0.05
    np.testing.assert_allclose(ends[np.float32], ends[np.float64], atol=1e-3)


def test_the_clip_bounds_the_change():
    # a huge step turns w by at most atan(clip |x| / sqrt(d))
    draws = draw(jax.random.key(0), (1, 1000), 50)
    draws = Draws(*(part[0] for part in draws))
    moved = step(draws, jnp.zeros(1000), 50, Rule(1e6, clip=0.1), THIRD, as_link("He3").derivative)
    limit = 0.1 / math.sqrt(50)
    sine = limit * np.abs(draws.across) / np.sqrt(1 + limit**2 * (draws.across**2 + draws.rest))
    assert (np.abs(moved) <= sine * 1.0001).all()
    free = step(draws, jnp.zeros(1000), 50, Rule(1e6), THIRD, as_link("He3").derivative)
    assert (np.abs(free) > 2 * sine).any()
    assert (np.abs(free) <= 1).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"d": 2}, "d must be >= 3, got 2"),
        ({"rule": Rule(0.0)}, "step_size must be > 0, got 0"),
        ({"rule": Rule(-1.0)}, "step_size must be > 0, got -1"),
        ({"rule": Rule(0.1, reuse_step_size=-1.0)}, "reuse_step_size must be >= 0, got -1"),
        ({"rule": Rule(0.1, sign=0.0)}, "sign must be 1 or -1, got 0"),
        ({"rule": Rule(0.1, noise_variance=-0.1)}, "noise_variance must be >= 0, got -0.1"),
        ({"rule": Rule(0.1, clip=0.0)}, "clip must be > 0, got 0"),
        ({"rule": Rule(0.1, reuse=2.0)}, "reuse must be >= 0 and <= 1, got 2"),
        ({"rule": Rule(math.nan)}, "step_size must be finite"),
        ({"start": jnp.ones(3)}, r"\|start\| must be < 1, got 1"),
        ({"start": jnp.zeros((2, 2))}, "start must have 1 dimension"),
        ({"record_at": [0]}, "the last of record_at must be >= 1, got 0"),
        ({"record_at": [5, 5]}, "record_at must be increasing"),
        ({"record_at": [2.5]}, "record_at must be whole and >= 0, got 2.5"),
    ],
)
def test_bad_input_is_named(changes, words):
    call = {"start": jnp.zeros(3), "d": 10, "rule": Rule(0.1), "record_at": [5]} | changes
    with pytest.raises(InputError, match=words):
        train(jax.random.key(0), call["start"], call["d"], call["rule"], call["record_at"], link=THIRD)


def test_bad_crossings_are_named():
    call = (jax.random.key(0), jnp.zeros(3), 10, Rule(0.1))
    with pytest.raises(InputError, match="largest_steps must be >= 1, got 0"):
        crossing_step(*call, 0, link=THIRD)
    with pytest.raises(InputError, match="target_overlap must be > 0 and < 1, got 1"):
        crossing_step(*call, 5, link=THIRD, target_overlap=1.0)
    with pytest.raises(InputError, match="share must be > 0"):
        crossing_step(*call, 5, link=THIRD, share=0.0)

import math

import numpy as np
import pytest

from unlazy.checks import InputError
from unlazy.functions.elementwise import polynomial
from unlazy.theory.index_models.additive import additive_step_size
from unlazy.theory.index_models.racing_tasks import task_race


def diffusions(rng, strengths, d, target, size, runs, share):
    """Euler steps of the stochastic equations of h_3: when the share has arrived, and where."""
    strengths = np.asarray(strengths, float)
    tasks, k = strengths.size, 3
    own = strengths**2 / tasks
    friction = k * own.sum()
    spread = k * (own.sum() - own + own * (2 * k + 1))
    m = rng.standard_normal((runs, tasks))
    m = m / np.sqrt((m**2).sum(axis=1) + rng.chisquare(d - tasks, runs))[:, None]
    step = math.sqrt(d * tasks) / (size * k * strengths.max()) / 1000
    where, time = np.full(runs, -1), 0.0
    while np.mean(where >= 0) < share:
        drift = size * strengths / math.sqrt(tasks) * k * m**2 * (1 - m**2) - size**2 / 2 * friction * m
        kick = size * np.sqrt(spread * (1 - m**2) / d * step) * rng.standard_normal(m.shape)
        m = np.clip(m + drift * step + kick, -1, 1)
        time += step
        new = (where < 0) & (m.max(axis=1) >= target)
        where[new] = m[new].argmax(axis=1)
    return d * time, np.bincount(where[where >= 0], minlength=tasks) / np.sum(where >= 0)


def test_the_race_is_that_of_drawn_diffusions():
    strengths, d, target, size, runs = [1.0, 1.0, 0.6, 0.6], 100, 0.5, 0.04, 2000
    n, shares = diffusions(np.random.default_rng(0), strengths, d, target, size, runs, 0.5)
    found = task_race("He3", d, strengths, target, size)
    # the density of arrival times at the median is about 0.5/n
    assert abs(found.n / n - 1) < 4 / math.sqrt(runs) + 0.03
    assert abs(1.2 * found.n / n - 1) > 4 / math.sqrt(runs) + 0.03
    error = 4 * np.sqrt(found.chances * (1 - found.chances) / (0.5 * runs))
    assert (np.abs(found.chances - shares) < error).all()
    np.testing.assert_allclose(found.chances.sum(), 1.0)


def test_one_task_is_found_too_and_many_tasks_cost_their_number_up_to_a_logarithm():
    d, many = 1e6, np.array([1, 10**3, 10**6])
    n = np.array([task_race("He3", d, np.ones(m), 0.5, additive_step_size("He3", d, m, 0.5)).n for m in many])
    assert np.isfinite(n).all()
    exponents = np.diff(np.log(n)) / np.diff(np.log(many))
    assert exponents[0] < exponents[1] < 1
    # drift alone from the best of M starts: n is proportional to M over their quantile
    from scipy.special import ndtri

    start = ndtri(0.5 ** (1 / many[1:]))
    drift = np.diff(np.log(many[1:] / start))[0] / np.log(1e3)
    np.testing.assert_allclose(exponents[1], drift, atol=0.03)


def test_even_links_arrive_on_both_sides():
    d, size = 50, 0.01
    even, half = (task_race("He4", d, np.ones(m), 0.5, size * math.sqrt(m), share=0.4) for m in (1, 2))
    assert 0 < even.n < math.inf
    np.testing.assert_allclose(half.chances, 0.5)


def test_a_step_that_is_too_large_never_arrives_and_no_step_neither():
    assert math.isinf(task_race("He3", 100, [1.0], 0.9, 50.0).n)
    found = task_race("He3", 100, [1.0, 1.0], 0.5, 0.0)
    assert math.isinf(found.n)
    assert np.isnan(found.chances).all()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"link": "He2"}, "link"),
        ({"link": polynomial((0.1, 0.0, 0.0, 1.0))}, "link"),
        ({"strengths": []}, "strengths"),
        ({"strengths": np.ones(101)}, "strengths"),
        ({"share": 1.0}, "share"),
        ({"target_overlap": 1.0}, "target_overlap"),
    ],
)
def test_refusals_name_the_argument(change, word):
    given = {"link": "He3", "d": 100, "strengths": [1.0], "target_overlap": 0.5, "step_size": 0.1} | change
    with pytest.raises(InputError, match=word):
        task_race(**given)

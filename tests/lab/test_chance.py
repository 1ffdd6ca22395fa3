"""The chance of a verdict: how often fresh seeds repeat it."""

import numpy as np
import pytest
import xarray as xr
from scipy.special import ndtri

from unlazy.lab import at_least, claim, within
from unlazy.lab.claims import SURE, Verdict, count
from unlazy.lab.judge import judge
from unlazy.lab.study import Part


@claim("", "", within(1.0))
def mean(main):
    """The number is {criterion}."""
    return main.simulated.x


@claim("", "", within(1.0), resampled=True)
def resampled_mean(main):
    """The number is {criterion}."""
    return main.simulated.x.mean("seed")


@claim("", "", at_least(0.8))
def share(main):
    """The share of positive numbers is {criterion}."""
    return main.simulated.x > 0


def drawn(rng, truth, deviation, seeds, shared=0.0):
    """Normal numbers around the truths of several cases, with this correlation between them."""
    own = rng.standard_normal((seeds, len(truth)))
    common = rng.standard_normal((seeds, 1))
    values = truth + deviation * (np.sqrt(1 - shared) * own + np.sqrt(shared) * common)
    return {"main": Part(xr.Dataset({"x": (("seed", "case"), values)}, {"seed": np.arange(seeds)}), None)}


@pytest.mark.parametrize(
    ("judged", "seeds", "cases", "shared"),
    [(mean, 8, 1, 0), (mean, 8, 12, 0.9), (mean, 32, 6, 0), (resampled_mean, 16, 2, 0.5), (share, 40, 3, 0)],
)
def test_fresh_runs_repeat_a_verdict_as_often_as_its_chance_says(judged, seeds, cases, shared):
    """Over many systems, of which some are near the criterion; it may promise less than it keeps, by 0.2 at most."""
    rng = np.random.default_rng(seeds + cases)
    chances, repeated = [], []
    while len(chances) < (20 if judged is resampled_mean else 40):
        truth = np.full(cases, rng.uniform(0, 0.9)) + rng.choice([0.0, 0.1]) * rng.standard_normal(cases)
        likely = np.full(cases, ndtri(rng.uniform(0.8, 1)))
        system = (likely, 1.0) if judged is share else (truth, 0.1 * np.sqrt(seeds))
        verdict = judge(judged, drawn(rng, *system, seeds, shared))
        if verdict.verdict == "holds":
            again = [judge(judged, drawn(rng, *system, seeds, shared)).verdict for _ in range(5)]
            chances.append(verdict.chance)
            repeated.append(again.count("holds") / 5)
    assert len(set(np.round(chances, 2))) > 3
    error = 3 * np.std(repeated) / np.sqrt(len(repeated))
    assert np.mean(chances) - error < np.mean(repeated) < np.mean(chances) + 0.2 + error


def test_what_is_far_inside_or_without_spread_is_certain_and_what_is_at_the_edge_is_not():
    rng = np.random.default_rng(0)
    assert judge(mean, drawn(rng, np.zeros(3), 0.1, 8)).chance == 1.0
    assert judge(mean, drawn(rng, np.zeros(3), 0.0, 2)).chance == 1.0
    assert judge(mean, drawn(rng, np.full(3, 2.0), 0.1, 8)).chance == 1.0
    edge = judge(mean, drawn(np.random.default_rng(3), np.array([0.7]), 0.3, 9))
    assert edge.verdict == "holds"
    assert edge.chance < SURE


def test_a_seed_alone_and_a_value_that_is_none_stay_inconclusive():
    rng = np.random.default_rng(0)
    assert judge(mean, drawn(rng, np.zeros(3), 0.1, 1)).chance == 1.0
    assert judge(mean, drawn(rng, np.array([0.0, np.nan, 0.0, 0.0, 0.0]), 0.1, 8)).chance == 1.0


def test_an_infinite_mean_does_not_spoil_the_other_cases():
    verdict = judge(mean, drawn(np.random.default_rng(0), np.array([0.0, np.inf, 0.0, 0.0, 0.0]), 0.1, 8))
    assert (verdict.verdict, verdict.chance) == ("fails", 1.0)


def test_a_fragile_verdict_is_as_documented_and_is_called_so():
    fragile = Verdict(mean, "holds", 0.5, 0.1, 0.9, chance=0.9)
    assert (fragile.word, fragile.kind, fragile.as_documented) == ("holds (fragile)", "fragile", True)
    assert fragile.cells[-1] == ".900"
    known = claim("", "", within(1.0), known_negative="it is")(mean.number)
    assert Verdict(known, "fails", 2.0, 1.5, 2.5, chance=0.5).word == "fails (known, fragile)"
    assert Verdict(known, "holds", 0.0, 0.0, 0.0, chance=0.5).word == "holds (should fail)"
    assert count([fragile, Verdict(mean, "holds", 0, 0, 0, chance=1.0)]) == {"fragile": 1, "holds": 1}

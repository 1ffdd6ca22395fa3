"""Verdicts: intervals, worst cases, and their error rates."""

import math
import re

import numpy as np
import pytest
import xarray as xr

from unlazy.checks import InputError
from unlazy.lab import claims
from unlazy.lab.claims import OWN, Change, Criterion, Verdict, at_least, at_most, between, within
from unlazy.lab.judge import judge
from unlazy.lab.measures import crossing, enough, kept, relative_deviation, slope
from unlazy.lab.study import Part, Study


def part(values, dims=("seed",), **coords):
    data = xr.Dataset({"y": (dims, values)}, coords)
    return {"main": Part(data.assign_coords(seed=range(data.sizes["seed"])), None)}


def claim(criterion, number=lambda main: main.simulated.y, **options):
    number.__doc__, number.__name__ = "A sentence.", "c"
    return claims.claim(OWN, "somewhere", criterion, **options)(number)


def normal(mean, n=30, seed=0):
    draw = np.random.default_rng(seed).standard_normal(n)
    return mean + (draw - draw.mean()) / draw.std(ddof=1)


def test_the_interval_is_student_s():
    verdict = judge(claim(between(-2, 2)), part(normal(1.0, 9)))
    assert verdict.measured == pytest.approx(1)
    # The 0.995 quantile of Student's t with 8 degrees of freedom is 3.3554 in the tables.
    assert verdict.high - verdict.measured == pytest.approx(3.3554 / 3, rel=1e-4)
    assert verdict.measured - verdict.low == pytest.approx(3.3554 / 3, rel=1e-4)


@pytest.mark.parametrize(
    ("criterion", "verdict"),
    [
        (between(0, 2), "holds"),
        (between(0.9, 2), "inconclusive"),
        (between(3, 4), "fails"),
        (at_most(2), "holds"),
        (at_most(0), "fails"),
        (at_least(0), "holds"),
        (at_least(1.1), "inconclusive"),
        (at_least(2), "fails"),
    ],
)
def test_the_verdict_is_where_the_interval_lies(criterion, verdict):
    assert judge(claim(criterion), part(normal(1.0))).verdict == verdict


def test_every_case_must_hold_and_the_worst_is_reported():
    values = np.stack([normal(1.0), normal(5.0)])
    data = part(values, ("n", "seed"), n=[10, 20])
    assert judge(claim(between(0, 6)), data).verdict == "holds"
    verdict = judge(claim(between(0, 2)), data)
    assert (verdict.verdict, verdict.case) == ("fails", "n = 20")
    assert verdict.measured == pytest.approx(5)


def test_cases_of_several_arrays_are_judged_together():
    both = claim(between(0, 2), lambda main: [main.simulated.y, main.simulated.y + 5])
    assert judge(both, part(normal(1.0))).verdict == "fails"


def test_a_statistic_that_is_a_mean_gets_the_interval_of_the_mean():
    data = part(np.random.default_rng(1).gamma(2.0, size=40))
    by_seed = judge(claim(between(0, 9)), data)
    resampled = judge(claim(between(0, 9), lambda main: main.simulated.y.mean("seed"), resampled=True), data)
    assert resampled.measured == pytest.approx(by_seed.measured)
    assert resampled.high - resampled.low == pytest.approx(by_seed.high - by_seed.low, rel=0.12)


def test_a_resampled_ratio_covers_its_true_value_at_about_the_stated_rate():
    rng = np.random.default_rng(2)
    truth, missed = 2.0, 0
    for _ in range(200):
        pair = rng.gamma(4.0, 0.25, size=(12, 2))
        data = part(pair * [truth, 1.0], ("seed", "arm"))
        ratio = claim(
            between(-99, 99),
            lambda main: main.simulated.y.isel(arm=0).mean("seed") / main.simulated.y.isel(arm=1).mean("seed"),
            resampled=True,
        )
        verdict = judge(ratio, data)
        missed += not verdict.low <= truth <= verdict.high
    # 2 misses are expected at 99%; 12 or more would have probability 1e-6 there and 0.33 at a true rate of 95%.
    assert missed < 12


def test_true_claims_at_the_edge_rarely_fail_and_wrong_ones_are_found():
    rng = np.random.default_rng(3)
    cases = rng.standard_normal((300, 20, 16))
    edge = [judge(claim(at_most(0.0)), part(c, ("case", "seed"), case=range(20))).verdict for c in cases]
    # Each case sits exactly on the criterion: the Bonferroni level bounds false failures by 1%, 3 of 300.
    assert edge.count("fails") <= 12
    assert "holds" not in edge
    wrong = [judge(claim(at_most(-2.0)), part(c, ("case", "seed"), case=range(20))).verdict for c in cases[:50]]
    assert wrong.count("fails") >= 49


def test_one_seed_and_nan_are_never_a_verdict():
    one = judge(claim(between(-9, 9)), part(np.array([1.0])))
    assert one.verdict == "inconclusive"
    assert "one seed" in one.reason
    broken = judge(claim(between(-9, 9)), part(np.array([1.0, np.nan, 1.0])))
    assert broken.verdict == "inconclusive"
    assert broken.reason


def test_theory_claims_have_no_interval_and_say_so():
    theory = claim(at_most(1.0), theory=True, number=lambda main: xr.DataArray([0.5, 2.0], {"n": [1, 2]}, ("n",)))
    verdict = judge(theory, part(normal(0.0)))
    assert (verdict.verdict, verdict.case, verdict.low, verdict.high) == ("fails", "n = 2", 2.0, 2.0)
    assert verdict.as_json()["theory_only"] is True


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (lambda main: main.simulated.y.sel(n=7), "needs n = 7, which the run does not have"),
        (lambda main: main.simulated.y.sel(n=[1, 7]), "needs n = .*, which the run does not have"),
        (lambda main: main.simulated.y.sel(d=3), "needs several values of d, the run has one"),
        (lambda main: slope(main.simulated.y, "n"), "needs at least 3 values of n, the run has 2"),
        (lambda main: enough(main.simulated, "d", 2), "needs at least 2 values of d, the run has 0"),
        (lambda main: kept(main.simulated.y, main.simulated.n > 5), "no case that the claim is about"),
        (lambda other: other.simulated.y, "the run has no part 'other'"),
    ],
)
def test_a_claim_that_asks_for_what_the_run_lacks_is_untested_and_does_not_count_against_it(number, reason):
    data = part(np.stack([normal(1.0), normal(5.0)]), ("n", "seed"), n=[1, 2])
    data["main"].simulated.attrs["d"] = 10
    verdict = judge(claim(at_most(9.0), number), data)
    assert verdict.verdict == "untested"
    assert re.search(reason, verdict.reason)
    assert verdict.as_documented


def test_a_dimension_that_no_run_could_have_is_a_fault_of_the_claim():
    verdict = judge(claim(at_most(9.0), lambda main: main.simulated.y.sel(m=3)), part(normal(0.0)))
    assert verdict.broken


def test_known_negatives_are_documented_failures():
    known = claim(at_most(0.0), lambda main: main.simulated.y, known_negative="because")
    assert judge(known, part(normal(5.0))).as_documented
    assert not judge(known, part(normal(-5.0))).as_documented
    assert not judge(claim(at_most(0.0)), part(normal(5.0))).as_documented


def test_a_claim_is_what_its_function_says():
    @claims.claim("ba2022 lu2024", "Theorem 3", within(0.03), known_negative="because", departs="Planted.")
    def largest_value(main, other):
        """The largest value is right, {criterion} of it,
        always."""

    assert (largest_value.id, largest_value.parts) == ("largest-value", ("main", "other"))
    assert largest_value.statement == "The largest value is right, within 3% of it, always."
    assert (largest_value.keys, largest_value.place) == (("ba2022", "lu2024"), "Theorem 3")
    assert largest_value.notes == ("Known negative: because", "Departs from the source: Planted.")


def test_notes_of_all_claims_stand_with_the_study_and_those_of_one_with_the_claim():
    class Noted(Study):
        departs = "Smaller."
        history = (Change("", "the sizes", "too slow"), Change("small", "the bound", "a proof", after_look=False))

        @claims.claim("ba2022", "", at_most(1.0), known_negative="because", departs="Planted.")
        def large(main):
            """It is {criterion}."""
            return main.simulated.y

        @claims.claim("ba2022", "", at_most(1.0))
        def small(main):
            """It is {criterion}."""
            return main.simulated.y

    large, small = Noted.claims
    assert Noted.notes() == ("Departs from the source: Smaller.", "Chosen after a look: the sizes: too slow.")
    assert large.notes == ("Known negative: because", "Departs from the source: Planted.")
    assert small.notes == ("Changed: the bound: a proof.",)
    said = [judge(claim, part(normal(0.0))).as_json()["departs"] for claim in Noted.claims]
    assert said == ["Planted.", "Smaller."]
    assert [change.what for change in small.history] == ["the sizes", "the bound"]


def test_criteria_are_said_in_words():
    said = [c.words for c in (within(0.025), within(0.1, absolute=True), at_most(2.0), at_least(0.5), between(1, 2))]
    assert said == ["within 2.5%", "within 0.1", "at most 2", "at least 0.5", "between 1 and 2"]


def test_changes_read_as_sentences():
    assert str(Change("", "the size", "too few seeds")) == "Chosen after a look: the size: too few seeds."
    assert str(Change("", "the size", "too few seeds", after_look=False)) == "Changed: the size: too few seeds."


def test_a_claim_without_a_sentence_or_of_two_kinds_is_refused():
    with pytest.raises(InputError, match="needs a docstring"):
        claims.claim(OWN, "", at_most(1))(lambda main: main)
    with pytest.raises(InputError, match="both theory and resampled"):
        claim(at_most(1), theory=True, resampled=True)


def test_the_cases_that_are_kept_are_those_of_the_condition():
    values = part(np.stack([normal(1.0), normal(5.0), normal(3.0)]), ("n", "seed"), n=[1, 2, 3])["main"].simulated
    assert kept(values.y, values.n != 2).mean("seed").values == pytest.approx([1.0, 3.0])


@pytest.mark.parametrize(
    "options",
    [
        {"number": lambda main: main.simulated.y.mean("seed")},
        {"number": lambda main: main.simulated.z},
        {"number": lambda main: main.simulated.y.isel(seed=slice(0)).expand_dims(case=0)},
        {"number": lambda main: main.derived.y},
        {"number": lambda main: 3.0, "resampled": True},
    ],
)
def test_a_claim_that_cannot_be_judged_says_why_and_is_not_as_documented(options):
    verdict = judge(claim(at_most(1), **options), part(normal(0.0)))
    assert verdict.verdict == "untested"
    assert "the claim raised" in verdict.reason
    assert not verdict.as_documented


def test_shares_of_yes_know_that_all_of_eight_is_not_always():
    """Clopper and Pearson's 99% interval for 8 of 8 is [0.005^(1/8), 1]."""
    yes = part(np.ones(8, bool))
    verdict = judge(claim(at_least(0.9)), yes)
    assert (verdict.verdict, verdict.measured, verdict.high) == ("inconclusive", 1.0, 1.0)
    assert verdict.low == pytest.approx(0.005 ** (1 / 8))
    assert judge(claim(at_least(0.5)), yes).verdict == "holds"
    assert judge(claim(at_most(0.1)), yes).verdict == "fails"
    half = judge(claim(between(0, 1)), part(np.array([True, False] * 10)))
    assert half.low == pytest.approx(1 - half.high)


def test_infinite_numbers_are_judged_and_missing_ones_are_not():
    infinite = part(np.array([1.0, np.inf, 2.0]))
    assert judge(claim(at_most(5)), infinite).verdict == "fails"
    assert judge(claim(at_least(5)), infinite).verdict == "holds"
    theory = claim(at_least(1), theory=True, number=lambda main: xr.DataArray(np.inf))
    assert judge(theory, infinite).verdict == "holds"
    missing = judge(claim(at_most(5)), part(np.array([1.0, np.nan, 2.0])))
    assert (missing.verdict, missing.reason) == ("inconclusive", "a value is not a number")


def test_a_known_negative_that_is_only_inconclusive_is_not_as_documented():
    known = claim(between(0.9, 2), lambda main: main.simulated.y, known_negative="because")
    assert judge(known, part(normal(1.0))).verdict == "inconclusive"
    assert not judge(known, part(normal(1.0))).as_documented


def test_every_part_that_has_an_axis_must_have_what_the_claim_needs():
    long, short = (part(np.stack([normal(0.0)] * k), ("n", "seed"), n=range(k))["main"] for k in (3, 1))

    def longest(a, b):
        for run in (a, b):
            enough(run.simulated, "n", 2)
        return [a.simulated.y, b.simulated.y]

    needy = claim(at_most(9), longest)
    assert judge(needy, {"a": long, "b": long}).verdict == "holds"
    assert judge(needy, {"a": long, "b": short}).verdict == "untested"


def test_slope_recovers_a_power_law():
    x = np.array([10, 30, 100, 400])
    law = xr.DataArray(3.0 * x[:, None] ** np.array([-0.5, 1.5]), {"n": x}, ("n", "seed"))
    np.testing.assert_allclose(slope(law, "n"), [-0.5, 1.5], rtol=1e-12)


def test_cases_with_an_infinite_prediction_are_left_out():
    predicted = xr.DataArray([[1.0, np.inf], [2.0, 4.0]], {"n": [1, 2], "ridge": [0, 1]}, ("n", "ridge"))
    simulated = xr.DataArray(np.full((2, 3, 2), 2.0), {"n": [1, 2], "ridge": [0, 1]}, ("n", "seed", "ridge"))
    deviation = relative_deviation(simulated, predicted)
    assert sorted(deviation.isel(seed=0).values.tolist()) == [-0.5, 0.0, 1.0]
    verdict = judge(claim(at_most(0.5), lambda main: deviation), part(normal(0.0)))
    assert (verdict.verdict, verdict.case) == ("fails", "n = 1, ridge = 0")


@pytest.mark.parametrize("wrong", [lambda: between(1, -1), lambda: claim(0.5), lambda: between(float("nan"), 1)])
def test_criteria_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InputError, match="criterion"):
        wrong()


def test_relative_deviation_is_signed_by_the_simulation():
    assert relative_deviation(xr.DataArray(1.1), xr.DataArray(1.0)).item() == pytest.approx(0.1)
    assert relative_deviation(xr.DataArray(-1.1), xr.DataArray(-1.0)).item() == pytest.approx(-0.1)


def test_criteria_read_as_inequalities():
    assert [str(c) for c in (between(-1, 1), at_most(2), at_least(3))] == ["in [-1, 1]", "<= 2", ">= 3"]
    assert Criterion().low == -math.inf


def test_a_verdict_shows_its_number_interval_and_criterion():
    assert repr(Verdict(claim(at_most(1.0)), "holds", 0.5, 0.4, 0.6)) == "<c holds: 0.5 [0.4, 0.6], criterion <= 1>"


def test_a_slope_tells_how_it_bends_and_the_verdict_shows_it():
    d = np.array([10.0, 20.0, 40.0, 80.0, 160.0])
    values = xr.DataArray(np.where(d < 40, d, d**2 / 40)[None].repeat(4, 0), dims=("seed", "d"), coords={"d": d})
    found = slope(values, "d")
    assert found.lower_slope.item() == pytest.approx(1)
    assert found.upper_slope.item() == pytest.approx(2)
    assert 1.3 < found.values[0] < 1.7
    values = part(values.values, ("seed", "d"), d=d)
    verdict = judge(claim(between(1, 2), lambda main: slope(main.simulated.y, "d")), values)
    assert verdict.where == "slope of the lower half 1, of the upper half 2"


@pytest.mark.parametrize("level", [0.9, 0.5, 0.2])
def test_a_crossing_is_where_a_curve_first_passes_a_level(level):
    strength = np.geomspace(0.1, 10, 60)
    curves = np.stack([1 / (1 + (strength / at) ** 2) for at in (0.5, 1.0, 3.0)])
    values = xr.DataArray(curves, dims=("n", "strength"), coords={"strength": strength, "n": [1, 2, 3]})
    wanted = np.array([0.5, 1.0, 3.0]) * np.sqrt(1 / level - 1)
    np.testing.assert_allclose(crossing(values, "strength", level), wanted, rtol=2e-3)
    np.testing.assert_allclose(crossing(values[:, ::-1], "strength", level), wanted, rtol=2e-3)
    assert np.isnan(crossing(values, "strength", 1.5)).all()

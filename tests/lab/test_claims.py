"""Verdicts: intervals, worst cases, and their error rates."""

import math

import numpy as np
import pytest
import xarray as xr

from unlazy.errors import InputError
from unlazy.lab.claims import Claim, Criterion, at_least, at_most, between, judge, relative_deviation, slope
from unlazy.lab.study import Part


def part(values, dims=("seed",), **coords):
    data = xr.Dataset({"y": (dims, values)}, coords)
    return {"main": Part(data.assign_coords(seed=range(data.sizes["seed"])), None, None, None)}


def claim(criterion, **options):
    options = options or {"check": lambda p: p.simulated.y}
    return Claim("c", "source", "statement", criterion, **options)


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
    both = claim(between(0, 2), check=lambda p: [p.simulated.y, p.simulated.y + 5])
    assert judge(both, part(normal(1.0))).verdict == "fails"


def test_a_statistic_that_is_a_mean_gets_the_interval_of_the_mean():
    data = part(np.random.default_rng(1).gamma(2.0, size=40))
    by_seed = judge(claim(between(0, 9)), data)
    resampled = judge(claim(between(0, 9), statistic=lambda p: p.simulated.y.mean("seed")), data)
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
            statistic=lambda p: p.simulated.y.isel(arm=0).mean("seed") / p.simulated.y.isel(arm=1).mean("seed"),
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
    theory = claim(at_most(1.0), theory=lambda p: xr.DataArray([0.5, 2.0], {"n": [1, 2]}, ("n",)))
    verdict = judge(theory, part(normal(0.0)))
    assert (verdict.verdict, verdict.case, verdict.low, verdict.high) == ("fails", "n = 2", 2.0, 2.0)
    assert verdict.as_json()["theory_only"] is True


def test_a_claim_whose_axis_is_missing_is_untested_and_does_not_count_against_the_run():
    needing = claim(at_most(1.0), check=lambda p: p.simulated.y)
    for needs in ({"n": 3}, {"n": (0.5,)}):
        verdict = judge(Claim(**{**needing.__dict__, "needs": needs}), part(normal(0.0)))
        assert verdict.verdict == "untested"
        assert "needs" in verdict.reason
        assert verdict.as_documented
    missing_part = judge(Claim(**{**needing.__dict__, "parts": ("other",)}), part(normal(0.0)))
    assert missing_part.verdict == "untested"


def test_known_negatives_are_documented_failures():
    known = claim(at_most(0.0), check=lambda p: p.simulated.y, known_negative="because")
    assert judge(known, part(normal(5.0))).as_documented
    assert not judge(known, part(normal(-5.0))).as_documented
    assert not judge(claim(at_most(0.0)), part(normal(5.0))).as_documented


def test_a_claim_has_exactly_one_function():
    with pytest.raises(InputError, match="exactly one"):
        Claim("c", "s", "t", at_most(1))
    with pytest.raises(InputError, match="exactly one"):
        claim(at_most(1), check=lambda p: p, theory=lambda p: p)


def test_a_check_that_forgets_the_seeds_is_refused():
    with pytest.raises(InputError, match="must keep dimension seed"):
        judge(claim(at_most(1), check=lambda p: p.simulated.y.mean("seed")), part(normal(0.0)))


def test_slope_recovers_a_power_law():
    x = np.array([10, 30, 100, 400])
    law = xr.DataArray(3.0 * x[:, None] ** np.array([-0.5, 1.5]), {"n": x}, ("n", "seed"))
    np.testing.assert_allclose(slope(law, "n"), [-0.5, 1.5], rtol=1e-12)


def test_relative_deviation_is_signed_by_the_simulation():
    assert relative_deviation(xr.DataArray(1.1), xr.DataArray(1.0)).item() == pytest.approx(0.1)
    assert relative_deviation(xr.DataArray(-1.1), xr.DataArray(-1.0)).item() == pytest.approx(-0.1)


def test_criteria_read_as_inequalities():
    assert [str(c) for c in (between(-1, 1), at_most(2), at_least(3))] == ["in [-1, 1]", "<= 2", ">= 3"]
    assert Criterion().low == -math.inf

"""A run that diverged is never a result."""

import numpy as np
import pytest
import xarray as xr

import unlazy
from unlazy.checks import InputError
from unlazy.lab import Part, at_least, registry
from unlazy.lab.claims import Claim
from unlazy.lab.judge import judge
from unlazy.lab.running.fingerprint import dependencies
from unlazy.reporting.html.report import write_report

ALL = {"worst": 1.0}


@pytest.fixture
def diverged(study, store):
    return unlazy.run(study("Diverging"), set=ALL, store=store)


def test_nothing_is_masked_where_nothing_diverged(study, store):
    run = unlazy.run(study("Diverging"), store=store)
    assert run.divergence == run.as_json()["diverged"] == ""
    assert run.simulated.hits.dtype.kind == "i"
    assert np.isfinite(run.simulated.loss).all()
    assert [v.verdict for v in run.verdicts] == ["holds"] * len(run.verdicts)


def test_outputs_of_diverged_instances_are_no_numbers_stored_or_not(study, store, diverged):
    again = unlazy.run(study("Diverging"), set=ALL, store=store)
    assert again.computed == 0
    for run in (diverged, again):
        lost = run.simulated.diverged_at.values >= 0
        assert lost.sum() == 4
        for name in ("loss", "hits"):
            np.testing.assert_array_equal(np.isnan(run.simulated[name]), lost)


def test_a_claim_that_diverged_instances_reach_is_inconclusive_and_says_so(diverged):
    verdicts = {v.claim.id: v for v in diverged.verdicts}
    for name in ("mean", "share", "median"):
        assert verdicts[name].verdict == "inconclusive"
        assert verdicts[name].reason == "4 of 16 runs diverged, the first at step 7"
        assert "other" in verdicts[name].case
        assert np.isnan([verdicts[name].measured, verdicts[name].low, verdicts[name].high]).all()
    assert verdicts["one-arm"].verdict == "holds"


def test_some_diverged_seeds_are_not_left_out(study, store):
    run = unlazy.run(study("Diverging"), set={"worst": 0.5}, seeds=16, store=store)
    assert 0 < (run.simulated.diverged_at >= 0).sum() < 16
    assert [v.verdict for v in run.verdicts] == ["inconclusive"] * 3 + ["holds"] * 2


def test_the_report_the_terminal_and_the_json_count_them(diverged, study, reference_of, store, tmp_path, unlazy):
    words = "4 of 16 runs diverged, the first at step 7"
    write_report([diverged], tmp_path / "page.html", "quick")
    page = (tmp_path / "page.html").read_text()
    assert page.count(words) >= 2
    assert "No run diverged." not in page
    code, out, _ = unlazy("run", reference_of("Diverging"), "--set", "worst=1", "--store", store)
    assert code == 1
    assert words in out
    assert diverged.as_json()["diverged"] == words


def test_a_non_number_without_a_word_is_refused_and_not_stored(study, store, stored):
    assert unlazy.run(study("Untold"), store=store).computed
    kept = set(stored(store))
    with pytest.raises(
        InputError, match=r"^output loss of test-untold is nan at arm = other, step = 1.0, worst = 1.0;"
    ):
        unlazy.run(study("Untold"), set=ALL, store=store)
    new = [data for place, (_, layout, data) in stored(store).items() if place not in kept]
    assert all(np.isfinite(np.frombuffer(data[:8])[0]) for data in new)


def test_the_arm_that_did_not_diverge_keeps_its_verdict_to_the_digit(study, store, diverged):
    """Shares are judged as shares, whatever the other arm does."""
    alone = unlazy.run(study("Diverging"), set={**ALL, "arm": "one"}, store=store.with_name("alone.sqlite"))
    both = {v.claim.id: v for v in diverged.verdicts}["one-share"]
    only = {v.claim.id: v for v in alone.verdicts}["one-share"]
    assert (both.verdict, both.low, both.high) == (only.verdict, only.low, only.high)
    assert both.low < 1


def test_another_parts_divergence_takes_no_case_away():
    """Part `first` fails at step 0.1, which the diverging part `second` does not have."""

    def part(steps, losses, diverged):
        data = xr.Dataset(
            {"loss": (("step", "seed"), losses), "diverged_at": (("step", "seed"), diverged)},
            {"step": steps, "seed": range(40)},
        )
        return Part(data, None)

    ones, never = np.ones((2, 40)), np.full((2, 40), -1)
    first = part([0.1, 0.5], np.stack([0 * ones[0], ones[0]]), never)
    second = part([0.5, 1.0], ones, np.stack([never[0], 3 * ones[0].astype(int)]))
    for check in (lambda a, b: a.simulated.loss > 0.5, lambda a, b: a.simulated.loss):
        claim = Claim("c", "", at_least(0.8), check, source="", parts=("first", "second"))
        verdict = judge(claim, {"first": first, "second": second})
        assert (verdict.verdict, verdict.case) == ("fails", "step = 0.1")
    claim = Claim("c", "", at_least(0.8), lambda a, b: a.simulated.loss.sel(step=0.1), source="", parts=claim.parts)
    assert judge(claim, {"first": first, "second": second}).verdict == "fails"


def test_every_study_that_trains_by_an_engine_that_stops_says_where_it_stopped():
    engine = "unlazy.training.signal_noise.token_gram.engine"
    trained = [cls for cls in registry.all_studies() if engine in dependencies(cls)]
    assert len(trained) >= 12
    assert [cls.name for cls in trained if "diverged_at" not in cls.outputs] == []

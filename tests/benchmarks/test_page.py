"""The page of the benchmarks: what it shows of a record."""

import re
from itertools import pairwise

from benchmarks.measure import Row, against
from benchmarks.page import figure, markdown, outcome

MACHINE = {"cpu": "a CPU", "cores": 2, "system": "Linux", "python": "3.11", "versions": {"numpy": "2"}}


def results(*rows, **changes):
    entry = {
        "date": "2026-01-01 00:00 UTC",
        "machine": MACHINE,
        "load": [0.1, 0.2],
        "about": "What it is.",
        "seconds": 60.0,
        "rows": [row._asdict() for row in rows],
        "notes": ["one line", "a table\n  a  b"],
    }
    return {"ridge": entry | changes}


def places(html):
    """The places of the marks on the axis, in percent."""
    return [float(place) for place in re.findall(r'<svg x="([\d.-]+)%"', html)]


def test_a_win_is_right_of_one_a_loss_left_of_it_and_both_look_different():
    win, loss, tie = (against("peer", "a", [value] * 3) for value in (3.0, 0.2, 1.01))
    assert [outcome(row) for row in (win, loss, tie)] == ["win", "loss", "tie"]
    html = figure({"ridge": [win, loss, tie]})
    one = float(re.search(r'x1="([\d.]+)%"[^>]*stroke-width="1.4"', html)[1])
    right, left, middle = places(html)
    assert left < one < right
    assert abs(middle - one) < 1
    assert html.count("<circle") == html.count("<path") == html.count("<rect") == 1


def test_equal_factors_are_equally_far_apart_and_inside():
    html = figure({"ridge": [against("peer", "a", [value]) for value in (0.01, 1.0, 100.0, 1e4)]})
    found = places(html)
    steps = [b - a for a, b in pairwise(found)]
    assert max(steps) - min(steps) < 0.05
    assert 0 < min(found) < max(found) < 100


def test_a_quoted_number_has_a_hollow_mark():
    assert 'class="quoted"' in figure({"ridge": [against("peer", "a", [3.0], quoted=True)]})
    assert 'class="quoted"' not in figure({"ridge": [against("peer", "a", [3.0])]})


def test_the_page_has_every_row_with_its_target_and_what_was_missed():
    page = markdown(
        results(
            against("a peer", "all of it", [3.0, 5.0], at_least=10),
            against("another", "single one", [2.0], detail=True),
            Row("seconds", [1.0, 2.0], "s", at_most=2),
        )
    )
    for text in ("all of it: time of a peer / unlazy", "single one: time of another / unlazy", "seconds"):
        assert f"| {text} |" in page
    assert "1 of 2 targets are met, 1 missed" in page
    assert page.count("**MISSED**") == 1
    assert "wanted >= 10 x" in page
    assert "```text\n  a  b\n```" in page
    overview, section = page.split("## Ridge")
    assert "another" not in overview.split("## All ratios")[1]
    assert "<b>another</b>" in section


def test_what_was_not_run_or_broke_is_said():
    assert "Nothing is recorded yet" in markdown({})
    page = markdown(results(failed="ValueError: no"))
    assert "`ValueError: no`" in page
    assert "Not recorded yet: start" in page


def test_a_busy_machine_is_said():
    assert "machine was busy" not in markdown(results())
    assert "machine was busy" in markdown(results(load=[0.5, 9.0]))


def test_the_page_loads_nothing_from_elsewhere_and_its_text_is_text():
    page = markdown(results(against("a <b> & c", "x | y <i>", [2.0], at_least=3)))
    assert "http" not in page
    assert "<i>" not in page
    assert "<b> & c" not in page
    assert all(line.count("|") == 6 for line in page.splitlines() if line.startswith("| x"))


def test_html_blocks_have_no_empty_lines():
    """Markdown would end the block there."""
    assert "\n\n" not in figure({"ridge": [against("peer", "a", [2.0])], "store": [against("peer", "b", [2.0])]})

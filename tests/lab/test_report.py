"""The report and the figures that the lab draws itself."""

import re
from dataclasses import dataclass
from html.parser import HTMLParser

import numpy as np
import pytest

import unlazy
from unlazy.lab import Output, Source, Study, path, static, value
from unlazy.lab.claims import Claim, at_most, between
from unlazy.lab.report import write_report


@dataclass(frozen=True)
class Noisy(Study):
    name = "noisy-line"
    topic = "test_topic"
    question = "Is <y> & x a line?"
    sources = (Source("a", "Author, A. & Co", 2020, "A <title>", "Journal"),)
    n: int = static(4, "size", symbol="n", low=1, scale="log")
    offset: float = value(0.0, "offset", symbol="s")
    kind: str = static("plain", "kind", choices=("plain", "double"))
    at: tuple = path((0.0, 1.0, 2.0), "place", symbol="x")
    outputs = {"y": Output("value", "y", ("at",)), "size": Output("size", scale="log")}
    presets = {"quick": {"n": [1, 10, 100], "offset": [0.0, 1.0], "seeds": 5}}
    lines = {"main": "n"}
    claims = (
        Claim(
            "holds",
            "A 2020",
            "The offset is right.",
            between(-1, 1),
            check=lambda p: p.simulated.y.isel(at=0) - p.simulated.offset,
        ),
        Claim(
            "known", "A 2020", "y is tiny.", at_most(-9), check=lambda p: p.simulated.y, known_negative="It is <not>."
        ),
        Claim("absent", "A 2020", "Needs more.", at_most(0), check=lambda p: p.simulated.y, needs={"n": 99}),
    )

    def simulate(self, rng):
        return {"y": self.offset + 0.01 * rng.standard_normal(len(self.at)), "size": float(self.n)}

    def predict(self):
        return {"y": self.offset + 0 * np.array(self.at), "size": self.n}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.resources, self.stack = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "a":
            self.links.append(attrs.get("href", ""))
        self.resources += [attrs[k] for k in ("src", "xlink:href") if k in attrs]
        self.resources += [attrs["href"]] if tag in ("link", "image") and "href" in attrs else []


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    runs = [
        unlazy.run(Noisy, store=folder / "s.sqlite"),
        unlazy.run(Noisy, set={"kind": "double"}, over={"n": [1, 2]}, store=folder / "s.sqlite"),
    ]
    write_report(runs[:1], folder / "sub" / "index.html", "quick", {"broken-study": "ValueError: <oops>"})
    return (folder / "sub" / "index.html").read_text()


def test_the_report_stands_alone(page):
    parsed = Page(page)
    assert all(r.startswith(("#", "data:")) for r in parsed.resources)
    assert "@import" not in page
    assert "<script" not in page
    without_namespaces = re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)
    assert "url(http" not in without_namespaces


def test_every_link_of_the_report_leads_somewhere(page):
    parsed = Page(page)
    assert parsed.links
    assert {link.removeprefix("#") for link in parsed.links} <= set(parsed.ids)


def test_the_report_says_what_was_asked_measured_and_decided(page):
    for text in (
        "Is &lt;y&gt; &amp; x a line?",
        "A &lt;title&gt;",
        "The offset is right.",
        "It is &lt;not&gt;.",
        "in [-1, 1]",
        "fails (known)",
        "untested",
        "needs at least 99 values of n",
        "test_report.py:Noisy --preset quick",
        "broken-study did not run:",
        "ValueError: &lt;oops&gt;",
        "<svg",
    ):
        assert text in page, text


def test_a_figure_that_cannot_be_drawn_does_not_take_the_report_with_it(tmp_path, monkeypatch):
    from unlazy.lab import report

    result = unlazy.run(Noisy, store=tmp_path / "s.sqlite")
    monkeypatch.setattr(report, "svg", lambda figure, salt: 1 / 0)
    write_report([result], tmp_path / "index.html", "quick")
    assert "could not be drawn: ZeroDivisionError" in (tmp_path / "index.html").read_text()


def test_the_command_of_a_run_repeats_it(tmp_path):
    result = unlazy.run(
        "ridge-equivalent", set={"d": 10, "n": 5}, over={"ridge": [0.5, 1.0]}, seeds=2, store=tmp_path / "s.sqlite"
    )
    expected = "unlazy run ridge-equivalent --preset quick --set d=10 --set n=5 --over ridge=0.5,1.0 --seeds 2"
    assert result.command == expected


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"over": {"kind": ["plain", "double"]}},
        {"over": {"kind": ["plain", "double"]}, "set": {"n": 3, "offset": 0.5}},
        {"set": {"n": 3, "offset": 0.5}, "seeds": 1},
        {"over": {"at": [0.5]}},
    ],
)
def test_the_default_figure_draws_simulation_and_theory_for_any_grid(tmp_path, options):
    figure = unlazy.run(Noisy, store=tmp_path / "s.sqlite", **options).figure()
    assert len(figure.axes) == 2
    for axes in figure.axes:
        assert axes.containers
        assert len(axes.lines) > len(axes.containers)
        assert axes.get_ylabel()
        for line in axes.lines:
            assert np.isfinite(np.asarray(line.get_ydata(), float)).all()

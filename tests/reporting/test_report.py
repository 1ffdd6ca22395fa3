"""The report and the figures that the lab draws itself."""

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import parse_qsl

import numpy as np
import pytest

import unlazy
from unlazy.checks import InputError
from unlazy.lab import Output, Source, Study, path, static, value
from unlazy.lab.claims import Claim, at_most, between
from unlazy.lab.measures import enough
from unlazy.lab.registry import find
from unlazy.lab.running.fingerprint import fingerprint
from unlazy.plotting import style
from unlazy.plotting.page.themed import on_dark
from unlazy.plotting.panels import Panel, panels
from unlazy.reporting.html.report import section, topic_title, write_report


def _needy(main):
    enough(main.simulated, "n", 99)


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
            "The offset is right.",
            between(-1, 1),
            lambda p: p.simulated.y.isel(at=0) - p.simulated.offset,
            source="A 2020",
        ),
        Claim(
            "known", "y is tiny.", at_most(-9), lambda p: p.simulated.y, source="A 2020", known_negative="It is <not>."
        ),
        Claim("absent", "Needs more.", at_most(0), _needy, source="A 2020"),
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


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, [name for name, _ in attrs]))


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
    assert page.count("<script") == 1
    without_namespaces = re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)
    assert "url(http" not in without_namespaces


def test_every_link_of_the_report_leads_somewhere(page):
    parsed = Page(page)
    assert parsed.links
    assert {link.removeprefix("#") for link in parsed.links if "=" not in link} <= set(parsed.ids)
    assert len(parsed.ids) == len(set(parsed.ids))


def test_a_filter_link_names_a_topic_and_a_verdict_of_the_filters(page):
    filters = [dict(parse_qsl(link[1:])) for link in Page(page).links if "=" in link]
    assert filters
    for found in filters:
        for name, wanted in found.items():
            options = page.split(f'name="{name}"')[1].split("</select>")[0]
            assert f'<option value="{wanted}">' in options


def test_the_summary_counts_every_claim_once(page):
    assert "1 study, 3 claims, 1 holds. <b>1 more study did not run.</b>" in page
    for kind, count in {"holds": 1, "known": 1, "differs": 0, "inconclusive": 0, "untested": 1}.items():
        assert re.search(rf'class="count {kind}"[^>]*><b>{count}</b>', page), kind


def test_a_verdict_against_what_is_documented_is_neither_held_nor_untested(tmp_path, monkeypatch):
    from unlazy.reporting.html import report

    monkeypatch.setattr(report, "svg", lambda figure, salt: "")

    @dataclass(frozen=True)
    class Surprising(Noisy):
        name = "surprising"
        figure = panels(Panel("y", x="n"), caption="A caption of <its> own.")
        claims = (
            Claim("raises", "It raises.", at_most(0), lambda p: p.simulated.nothing, source="A"),
            Claim("held", "It is small.", at_most(9), lambda p: p.simulated.y, source="A", known_negative="No."),
        )

    found = section(unlazy.run(Surprising, store=tmp_path / "s.sqlite"))
    assert found["counts"] == {"differs": 2}
    assert found["caption"].endswith("with 99% intervals. A caption of <its> own.")


def test_a_study_that_did_not_run_stands_in_its_topic(tmp_path):
    write_report([], tmp_path / "index.html", "quick", {"spike": "ValueError: oops"}, seconds=12.3)
    page = (tmp_path / "index.html").read_text()
    assert "0 studies, 0 claims, 0 hold. <b>1 more study did not run.</b>" in page
    assert "this run took 12 s" in page
    topic = page.split('id="topic-one_step"')[1].split("</details>")[0]
    assert re.search(r'data-broken="spike".*did not run.*ValueError: oops', topic, re.DOTALL)


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    page = tmp_path / "index.html"
    write_report([], page, "old")
    before = page.read_text()

    def fail(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(page), "replace", fail)
    with pytest.raises(InputError, match="No space left"):
        write_report([], page, "new")
    assert page.read_text() == before
    assert list(tmp_path.iterdir()) == [page]


def test_words_beside_a_verdict_recompute_nothing(tmp_path):
    marks = []
    for index, line in enumerate(("", "    departs = 'Planted.'\n")):
        file = tmp_path / f"{index}" / "own.py"
        file.parent.mkdir()
        file.write_text(OWN.replace("    CAPTION\n", line))
        marks.append(fingerprint(find(f"{file}:Own")))
    assert marks[0] == marks[1]


OWN = """
from dataclasses import dataclass

from unlazy.lab import Output, Study, value


@dataclass(frozen=True)
class Own(Study):
    name, topic, question, sources = "own-study", "own", "Is it?", ()
    CAPTION
    x: float = value(0.0, "place")
    outputs = {"y": Output("value")}
    presets = {"quick": {"seeds": 2}}

    def simulate(self, rng):
        return {"y": rng.standard_normal()}
"""


def test_no_text_of_a_study_becomes_markup(tmp_path):
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\" onload='alert(1)"

    @dataclass(frozen=True)
    class Evil(Noisy):
        name = "evil-study"
        question = f"{evil}?"
        sources = (Source("a", evil, 2020, evil, evil),)
        outputs = {"y": Output(evil, "y", ("at",)), "size": Output(evil)}
        kind: str = static("plain", evil, choices=("plain", "double"))
        claims = (
            Claim("known", f"{evil}.", at_most(-9), lambda p: p.simulated.y, source=evil, known_negative=evil),
            Claim("raises", f"{evil}.", at_most(0), lambda p: p.simulated[evil], source=evil),
        )

    result = unlazy.run(Evil, store=tmp_path / "s.sqlite")
    write_report([result], tmp_path / "index.html", evil, {evil: evil})
    tags = Tags((tmp_path / "index.html").read_text()).found
    assert sum(tag == "script" for tag, _ in tags) == 1
    assert all(tag != "img" and not any(name.startswith("on") for name in names) for tag, names in tags)


def test_the_ids_of_figures_are_their_own(tmp_path):
    def draw(salt):
        figure, axes = style.panels(2)
        for panel in axes:
            style.theory(panel, [1, 2], [1, 2], color=style.colour(1), label="theory")
        return style.svg(figure, salt=salt)

    one, other = set(Page(draw("one")).ids), set(Page(draw("other")).ids)
    assert one
    assert not one & other
    used = re.findall(r'(?:href="|url\()#([^")]+)', draw("one"))
    assert set(used) == one


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
        '<a href="#broken-study">broken-study</a> did not run:',
        "Lines: theory; points: means over seeds with 99% intervals. Seeds: 5.",
        "ValueError: &lt;oops&gt;",
        "<svg",
    ):
        assert text in page, text


def test_a_figure_that_cannot_be_drawn_does_not_take_the_report_with_it(tmp_path, monkeypatch):
    from unlazy.reporting.html import report

    result = unlazy.run(Noisy, store=tmp_path / "s.sqlite")
    monkeypatch.setattr(report, "svg", lambda *rows, salt: 1 / 0)
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


def test_a_figure_for_a_page_stays_itself_where_the_page_sets_no_colours():
    figure, axes = style.panels()
    style.theory(axes, [1, 2], [1, 2], color="#440154")
    text = style.svg(figure, salt="salt")
    assert "stroke:var(--d440154,#440154)" in text
    assert "stroke:var(--figure-ink,#000000)" in text
    assert re.findall(r"--d440154:var\(--figure-dark\) (#\w+)", text) == [on_dark("#440154")]


def _contrast(colour, ground):
    """The contrast ratio as WCAG 2 defines it."""
    lights = []
    for text in (colour, ground):
        shares = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)
    return max(lights) / min(lights)


@pytest.mark.parametrize("colour", [*style.COLOURS[:-1], *style.shades(7), "#000080", "#ff0000"])
def test_colours_can_be_seen_on_a_dark_page(colour):
    assert _contrast(on_dark(colour.lower()), "#14171a") >= 3.4
    if _contrast(colour, "#14171a") >= 3.5:
        assert on_dark(colour) == colour


@pytest.mark.parametrize("grey", ["#dddddd", "#888888", "#666666", "#c9d3dd"])
def test_greys_keep_their_contrast_on_a_dark_page(grey):
    assert _contrast(on_dark(grey), "#14171a") == pytest.approx(_contrast(grey, "#ffffff"), rel=0.05)


def test_panels_are_pieces_of_a_page_that_stand_level(tmp_path):
    run = unlazy.run(Noisy, store=tmp_path / "s.sqlite")
    rows = run.drawn(apart=True).rows
    assert [len(row) for row in rows] == [2]
    rows[0][1].axes[0].set_xlabel("a label\nof two lines")
    text = style.svg(*rows, salt="salt")
    assert text.count("<svg") == len(run.figure().axes) == 2
    heights = {(round(axes.get_position().y0, 9), round(axes.get_position().y1, 9)) for f in rows[0] for axes in f.axes}
    assert len(heights) == 1
    # A letter that both have is defined once.
    defined = re.findall(r' id="([^"]+)"', text)
    assert len(defined) == len(set(defined))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', text)) == set(defined)


def test_marks_that_one_panel_defines_and_does_not_show_are_not_lost_to_the_next():
    figures = []
    for height in (np.nan, 1.0):
        figure, axes = style.panels()
        axes.plot([1, 2], [height, height], "o", color="#ff0000")
        figures.append(figure)
    text = style.svg(figures, salt="salt")
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', text)) <= set(re.findall(r' id="([^"]+)"', text))


def test_topics_have_names_in_words():
    assert topic_title("signal_noise") == "signal and noise"
    assert topic_title("mean_field") == "mean field"

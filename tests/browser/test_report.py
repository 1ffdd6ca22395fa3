"""The report in a real browser: links, filters, width, colours, paper."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest

import unlazy
from unlazy.lab import Output, Source, Study, at_least, at_most, between, static
from unlazy.lab.claims import Claim
from unlazy.lab.measures import enough
from unlazy.plotting.panels import Panel, panels
from unlazy.reporting.html.report import section, write_report

pytestmark = pytest.mark.browser
EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"


def _deviation(part):
    return part.simulated.size - part.predicted.size


def _needy(main):
    enough(main.simulated, "n", 99)


def _faint(axes, main):
    axes.plot(main.lines.n, 2 * main.lines.size, color="#0072b2", alpha=0.2)


class Draws(Study):
    sources = (Source("a", f"Author, A. {EVIL}", 2020, "A title", "Journal"),)
    outputs = {"y": Output(f"value {EVIL}", "y"), "size": Output("size", scale="log")}
    presets = {"quick": {"n": [1, 10, 100], "seeds": 5}}
    lines = {"main": "n"}

    def simulate(self, rng):
        return {"y": rng.standard_normal(), "size": float(self.n)}

    def predict(self):
        return {"y": 0.0, "size": self.n}


@dataclass(frozen=True)
class First(Draws):
    name = "first-study"
    topic = "some_topic"
    question = f"Does it draw? {EVIL}"
    n: int = static(4, "size", symbol="n", low=1, scale="log")
    claims = (
        Claim("size", "The size is the size.", between(-1, 1), _deviation, source="A 2020"),
        Claim(
            "tiny", f"It is tiny. {EVIL}", at_most(-9), lambda p: p.simulated.y, source="A 2020", known_negative=EVIL
        ),
        Claim("noisy", "The mean is above a hair.", at_least(0.001), lambda p: p.simulated.y, source="A 2020"),
    )

    figure = panels(
        Panel("size", x="n", title="a title that is much longer than the panel below it, and says so", draw=_faint),
        Panel("size", x="n"),
        Panel("y", x="n"),
    )


@dataclass(frozen=True)
class Second(Draws):
    name = "second-study"
    topic = "other_topic"
    question = "Does it wrap?"
    n: int = static(4, "size", symbol="n", low=1, scale="log")
    claims = (
        Claim("absent", "Pineapple.", at_most(0), _needy, source="B 2021"),
        Claim("raises", "It raises.", at_most(0), lambda p: p.simulated.nothing, source="B 2021"),
        Claim("size", "The size is the size.", between(-1, 1), _deviation, source="B 2021"),
        Claim("surprise", "It is huge.", at_least(9), lambda p: p.simulated.y, source="B 2021"),
        Claim("wrong", "It is small.", at_most(9), lambda p: p.simulated.y, source="B 2021", known_negative="No."),
    )

    figure = panels(*[Panel("size", x="n", colours=("#440154",))] * 5, columns=5)


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    runs = [unlazy.run(study, store=folder / "results.sqlite") for study in (First, Second)]
    found = {(run.study.name, v.claim.id): v.verdict for run in runs for v in run.verdicts}
    assert found["first-study", "noisy"] == "inconclusive", "the test needs one of each kind"
    write_report(runs, folder / "index.html", "quick", {"broken-study": f"ValueError: {EVIL}"})
    return (folder / "index.html").as_uri()


@pytest.fixture(scope="session")
def many(report, tmp_path_factory):
    """A page of ten studies, whose heights the browser learns only when they are drawn."""
    folder = tmp_path_factory.mktemp("many")
    run = unlazy.run(First, store=folder / "results.sqlite")
    tall = '<div class="figure-panels" style="height:{}px"></div>'
    runs, drawn, whole = [], {}, section(run)
    for index in range(10):
        topic = ("even", "odd")[index % 2]
        study = type(f"Study{index}", (First,), {"name": f"study-{index}", "topic": topic})
        runs.append(dataclasses.replace(run, study=study))
        made = {"name": study.name, "topic": topic, "title": topic, "figure": tall.format(300 + 400 * index)}
        drawn[study.name] = {**whole, **made}
    write_report(runs, folder / "index.html", "quick", drawn=drawn)
    return (folder / "index.html").as_uri()


@pytest.fixture
def visit(report, new_page):
    def go(fragment="", **options):
        visited = new_page(**options)
        visited.page.goto(report + fragment)
        return visited

    return go


def shown(page):
    """What is not hidden: claims of the table, claims of the sections, sections, links of the contents."""
    return page.evaluate(
        """() => {
          const seen = (selector, name) => [...document.querySelectorAll(selector)]
            .filter((e) => !e.closest("[hidden]")).map(name).filter((text) => text !== "broken-study");
          return [seen("tr[data-claim]", (e) => e.dataset.claim), seen("article.claim", (e) => e.id),
                  seen("section.study", (e) => e.id), seen("nav li[data-study]", (e) => e.dataset.study)];
        }"""
    )


def claims(page):
    """The claims that are shown, after a look whether table, sections and contents agree."""
    rows, articles, sections, links = shown(page)
    assert rows == articles
    assert sections == links == list(dict.fromkeys(name.rpartition("-")[0] for name in rows))
    return [name.replace("-study", "") for name in rows]


def counted(page, claims):
    """Wait until the page says that so many claims are shown: it follows its address a moment later."""
    page.locator("#filters output", has_text=f"{claims} claims shown").wait_for()


EVERYTHING = [
    *("first-size", "first-tiny", "first-noisy"),
    *("second-absent", "second-raises", "second-size", "second-surprise", "second-wrong"),
]


def test_nothing_overflows_fails_or_leaves_the_file(visit, report):
    page, errors, requests = visit()
    for width in (1100, 760, 380):
        for scheme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=scheme)
            page.reload()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            page.evaluate("for (const e of document.querySelectorAll('details')) e.open = true")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert errors == []
    assert {url for url in requests if not url.startswith("data:")} == {report}


def test_text_of_a_study_is_never_run(visit):
    page = visit().page
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1
    assert EVIL in page.locator("#first-study .question").text_content()


def test_every_link_lands_on_what_it_names(visit):
    page = visit().page
    names = page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.hash).filter(h => !h.includes('='))"
    )
    assert {"#first-study", "#second-study", "#second-study-surprise", "#topic-other_topic", "#top"} <= set(names)
    for name in dict.fromkeys(names):
        place = page.evaluate(
            """async (name) => {
              location.hash = name;
              for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
              const box = document.querySelector(name).getBoundingClientRect();
              const end = scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
              return {top: box.top, height: box.height, end};
            }""",
            name,
        )
        assert place["height"] > 0, name
        assert -2 <= place["top"] <= 20 or (place["end"] and 0 <= place["top"] < 800), (name, place)


def test_a_contents_link_can_be_clicked(visit):
    page = visit().page
    for study in ("first-study", "second-study"):
        page.click(f"nav li a[href='#{study}']")
        assert page.url.endswith(f"#{study}")
        assert page.locator(f"#{study} h3").is_visible()


def test_filters_act_on_table_sections_and_contents_together(visit):
    page = visit().page
    assert claims(page) == EVERYTHING
    page.select_option("#filter-topic", "other_topic")
    assert claims(page) == ["second-absent", "second-raises", "second-size", "second-surprise", "second-wrong"]
    page.select_option("#filter-verdict", "holds")
    assert claims(page) == ["second-size"]
    assert page.locator("#filters output").text_content() == "1 of 3 studies, 1 of 8 claims shown"
    page.select_option("#filter-topic", "")
    assert claims(page) == ["first-size", "second-size"]
    page.fill("#filter-text", "PINEAPPLE")
    assert claims(page) == []
    page.select_option("#filter-verdict", "")
    assert claims(page) == ["second-absent"]
    page.click("#filters button")
    assert claims(page) == EVERYTHING
    assert "#" not in page.url
    assert page.locator("#filters output").text_content() == "all 3 studies, all 8 claims shown"


def test_a_filtered_view_can_be_shared(visit):
    page = visit().page
    for verdict, expected in {
        "known": ["first-tiny"],
        "inconclusive": ["first-noisy"],
        "untested": ["second-absent"],
        "differs": ["second-raises", "second-surprise", "second-wrong"],
    }.items():
        page.select_option("#filter-verdict", verdict)
        assert claims(page) == expected
        page.reload()
        assert claims(page) == expected


def test_a_summary_number_shows_its_claims(visit):
    page = visit().page
    page.click("a.count.known")
    counted(page, "1 of 8")
    assert claims(page) == ["first-tiny"]
    page.go_back()
    counted(page, "all 8")
    page.click("table.topics a[href='#topic=other_topic&verdict=untested']")
    counted(page, "1 of 8")
    assert claims(page) == ["second-absent"]


def test_a_study_that_did_not_run_is_counted_and_stands_in_its_topic(visit):
    page = visit().page
    assert "1 more study did not run." in page.locator(".what").text_content()
    assert page.locator("#verdicts-other tr[data-broken='broken-study']").is_visible()
    page.click("nav li a[href='#broken-study']")
    assert page.locator("#broken-study .warning").is_visible()
    for fragment, expected in (("#topic=other", True), ("#topic=other_topic", False), ("#verdict=differs", False)):
        page.evaluate("(fragment) => { location.hash = fragment; }", fragment)
        page.wait_for_function(
            "(text) => document.getElementById('filters').elements.topic.value === text || text === ''",
            arg=fragment.partition("topic=")[2],
        )
        page.wait_for_function(
            "(text) => document.getElementById('filters').elements.verdict.value === text",
            arg=fragment.partition("verdict=")[2],
        )
        for selector in ("#broken-study", "tr[data-broken]", "nav li[data-study='broken-study']"):
            assert page.locator(selector).is_visible() is expected, (fragment, selector)


def test_a_link_to_a_hidden_study_clears_what_hides_it(visit):
    page = visit("#topic=other_topic&text=pineapple").page
    assert claims(page) == ["second-absent"]
    page.evaluate("location.hash = 'first-study-noisy'")
    page.wait_for_function("!document.getElementById('first-study').hidden")
    assert claims(page) == EVERYTHING
    assert page.locator("#first-study-noisy").is_visible()
    assert page.input_value("#filter-text") == ""


def place(page, name):
    """Where an element stands in the window, once nothing moves any more."""
    return page.evaluate(
        """async (name) => {
          let before = NaN, still = 0;
          for (let i = 0; i < 300 && still < 10; i++) {
            await new Promise(requestAnimationFrame);
            const top = document.getElementById(name).getBoundingClientRect().top;
            still = top === before ? still + 1 : 0;
            before = top;
          }
          return before;
        }""",
        name,
    )


def test_a_link_out_of_a_filtered_view_lands_on_a_study_far_below(many, new_page):
    page = new_page().page
    page.goto(many + "#text=study-0")
    page.wait_for_function("document.getElementById('study-9').hidden")
    for name in ("study-9", "study-5"):
        page.evaluate("(name) => { location.hash = name; }", name)
        page.wait_for_function("(name) => !document.getElementById(name).hidden", arg=name)
        assert -2 <= place(page, name) <= 20


def test_a_place_in_a_filtered_view_keeps_the_filter(many, new_page):
    page = new_page().page
    page.goto(many + "#topic=odd")
    page.click("nav li a[href='#study-7']")
    assert page.url.endswith("#study-7&topic=odd")
    for _ in range(2):
        assert -2 <= place(page, "study-7") <= 20
        assert page.input_value("#filter-topic") == "odd"
        assert page.locator("#study-4").is_hidden()
        page.reload()
    page.click("nav li a[href='#study-3']")
    page.go_back()
    page.wait_for_function("location.hash.startsWith('#study-7')")
    assert page.input_value("#filter-topic") == "odd"
    page.click("#filters button")
    assert "#" not in page.url


def test_a_nonsense_fragment_shows_everything(visit):
    page, errors, _ = visit()
    for fragment in ("verdict=nonsense&more=1", "no-such-study", "%E0%A4%A"):
        page.evaluate("(fragment) => { location.hash = fragment; }", fragment)
        page.reload()
        assert claims(page) == EVERYTHING
    assert errors == []


def test_filters_work_from_the_keyboard(visit):
    page = visit().page
    page.focus("#filter-text")
    page.keyboard.type("pineapple")
    assert claims(page) == ["second-absent"]
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert claims(page) == EVERYTHING
    assert page.evaluate("document.activeElement.id") == "filter-text"


def test_without_scripts_everything_is_there(visit):
    page = visit(java_script_enabled=False).page
    for name in EVERYTHING:
        assert page.locator(f"article#{name.replace('-', '-study-', 1)}").is_visible()
        assert page.locator(f"tr[data-claim={name.replace('-', '-study-', 1)}]").is_visible()
    assert page.locator("#filters").is_hidden()


def test_panels_stack_on_a_narrow_page_and_stay_readable(visit):
    across = """() => new Set([...document.querySelectorAll("#second-study .figure-panels svg")]
      .map((e) => Math.round(e.getBoundingClientRect().left))).size"""
    scale = """() => Math.min(...[...document.querySelectorAll("#second-study .figure-panels svg")]
      .map((e) => e.getBoundingClientRect().width / e.viewBox.baseVal.width))"""
    page = visit().page
    for width, expected in ((1900, 4), (760, 2), (380, 1)):
        page.set_viewport_size({"width": width, "height": 800})
        page.evaluate("document.getElementById('second-study').scrollIntoView()")
        assert page.evaluate(across) == expected
        # Text of 8 points keeps 9 pixels.
        assert 8 * page.evaluate(scale) >= 9


def test_panels_stand_alone(visit):
    page = visit(width=380).page
    boxes = page.evaluate(
        """() => [...document.querySelectorAll("#first-study .figure-panels svg")]
          .map((e) => [e.getBBox().x, e.getBBox().width, e.viewBox.baseVal.x, e.viewBox.baseVal.width])"""
    )
    assert len(boxes) == 3
    for x, width, left, whole in boxes:
        # Neither the long title nor anything else reaches beyond its piece.
        assert left - 6 <= x
        assert x + width <= left + whole + 6


def test_a_figure_takes_the_colours_of_the_page(visit):
    read = """() => {
      const line = document.querySelector("#second-study .figure-panels path[style*='--d440154']");
      const text = document.querySelector("#second-study .figure-panels svg use");
      return [getComputedStyle(line).stroke, getComputedStyle(text).fill, getComputedStyle(document.body).color];
    }"""
    line, text, _ = visit().page.evaluate(read)
    assert line == "rgb(68, 1, 84)"
    assert text == "rgb(0, 0, 0)"
    line, text, ink = visit(dark=True).page.evaluate(read)
    assert text == ink
    faint = "getComputedStyle(document.querySelector(\"#first-study path[style*='--o0_2']\")).strokeOpacity"
    assert [visit(dark=dark).page.evaluate(faint) for dark in (False, True)] == ["0.2", "0.45"]
    ground = np.array([0x14, 0x17, 0x1A])
    assert contrast(np.array([int(v) for v in line[4:-1].split(",")]), ground) >= 3.4


def contrast(one, other):
    """The contrast ratio of two colours as WCAG 2 defines it."""
    light = []
    for colour in (one, other):
        share = np.asarray(colour) / 255
        linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
        light.append(float(linear @ [0.2126, 0.7152, 0.0722]) + 0.05)
    return max(light) / min(light)


def test_on_paper_everything_is_printed_and_nothing_to_click(visit):
    page = visit(dark=True).page
    page.evaluate("for (const e of document.querySelectorAll('details')) e.open = false")
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tables = page.evaluate("[...document.querySelectorAll('main details table')].map(e => e.checkVisibility())")
    assert tables == [True] * 5
    assert page.evaluate("getComputedStyle(document.querySelector('section.study')).contentVisibility") == "visible"

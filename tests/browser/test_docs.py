"""The docs site in a browser, from a local server: it works, stands alone, and fits a telephone."""

import functools
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from unlazy.lab import registry

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
TOPIC = "regression"
PAGES = [
    "index.html",
    "use_it.html",
    "tutorials/your_own_study.html",
    "gallery/index.html",
    "gallery/ridge-equivalent.html",
    f"theory/{TOPIC}.html",
    "reference/theory/regression.html",
    "reference/cli.html",
    "reference/estimators.html",
    "benchmarks.html",
    "negatives.html",
]


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The site: $UNLAZY_DOCS_SITE if one is built already, else the pages of one topic, without stored results."""
    if os.environ.get("UNLAZY_DOCS_SITE"):
        return Path(os.environ["UNLAZY_DOCS_SITE"]).resolve()
    site = tmp_path_factory.mktemp("docs") / "site"
    part = {"UNLAZY_DOCS_TOPICS": TOPIC, "UNLAZY_DOCS_STORE": str(site.with_name("none.sqlite"))}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", **part}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return site


@pytest.fixture(scope="module")
def address(folder):
    handler = functools.partial(_Silent, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _may_be_left_out(path: str) -> bool:
    """Whether a page is one that the part of the site which is built for these tests lacks."""
    others = {f"gallery/{name}" for name in registry.names()} | {"tutorials/first_steps", "tutorials/your_own_data"}
    # mkdocs leaves a link to a page that it does not have as it was written.
    return path.removesuffix(".html").removesuffix(".md") in others


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_fit_a_telephone_and_ask_no_other_host(address, folder, new_page, dark):
    visited = new_page(width=380, dark=dark)
    for page in PAGES:
        visited.page.goto(f"{address}/{page}")
        wide = visited.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 380, f"{page} is {wide} px wide"
        scheme = visited.page.evaluate("document.body.dataset.mdColorScheme")
        assert scheme == ("slate" if dark else "default")
    assert visited.errors == []
    assert [url for url in visited.requests if not url.startswith((address, "data:", "blob:"))] == []


def test_every_internal_link_of_the_pages_leads_somewhere(address, folder, page):
    for name in PAGES:
        page.page.goto(f"{address}/{name}")
        links = page.page.evaluate("[...document.querySelectorAll('a[href]')].map(link => link.href)")
        ids = set(page.page.evaluate("[...document.querySelectorAll('[id]')].map(element => element.id)"))
        assert links
        for link in {link for link in links if link.startswith(address)}:
            parts = urlparse(link)
            path = unquote(parts.path).lstrip("/") or "index.html"
            assert (folder / path).is_file() or _may_be_left_out(path), f"{name} links to {path}"
            if parts.fragment and path == name:
                assert unquote(parts.fragment) in ids, f"{name} links to #{parts.fragment}"


@pytest.mark.parametrize("width", [760, 1200, 1600])
def test_the_navigation_is_visible(address, new_page, width):
    page = new_page(width=width).page
    page.goto(f"{address}/gallery/ridge-equivalent.html")
    for name in ("Gallery", "Theory", "Reference"):
        assert page.locator(".md-tabs__link", has_text=name).is_visible()


def test_formulas_of_sentences_are_drawn(address, new_page):
    page = new_page(width=1200).page
    page.goto(f"{address}/gallery/ridge-equivalent.html")
    boxes = page.evaluate("[...document.querySelectorAll('.said math')].map(e => e.getBoundingClientRect().height)")
    assert boxes
    assert min(boxes) > 5
    # the plain form is there to be found, and not to be seen
    assert page.evaluate("getComputedStyle(document.querySelector('.said annotation')).display") == "none"


def test_formulas_are_drawn_by_the_browser(address, page):
    page.page.goto(f"{address}/theory/{TOPIC}.html")
    assert page.page.locator("math").count() > 20
    assert page.page.locator(".arithmatex").count() == 0
    assert page.page.locator("math mfrac").first.bounding_box()["height"] > 15


def test_the_tutorial_has_text_code_and_a_figure(address, page):
    page.page.goto(f"{address}/tutorials/your_own_study.html")
    article = page.page.locator("article")
    assert article.locator("h1").count() == 1
    assert article.locator("pre code").count() >= 3
    box = article.locator("figure svg").first.bounding_box()
    assert box["width"] > 150
    assert box["height"] > 100


def test_the_search_finds_a_study(address, page):
    page.page.goto(f"{address}/index.html")
    page.page.locator(".md-search__input").click()
    page.page.locator(".md-search__input").fill("ridge-equivalent")
    found = page.page.locator(".md-search-result__link[href*='gallery/ridge-equivalent']").first
    found.wait_for(timeout=20_000)
    found.click()
    page.page.wait_for_url("**/gallery/ridge-equivalent.html*")
    assert page.page.locator("h1").inner_text().startswith("ridge-equivalent")
    assert page.errors == []


def test_the_switch_changes_between_light_and_dark(address, page):
    page.page.goto(f"{address}/index.html")
    page.page.locator("label.md-header__button[title='Switch to dark']").click()
    assert page.page.evaluate("document.body.dataset.mdColorScheme") == "slate"

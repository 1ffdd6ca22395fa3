"""A headless Chromium, and pages that remember their errors and every address they asked for."""

import shutil
from typing import Any, NamedTuple

import pytest


class Visited(NamedTuple):
    """A page, the errors on its console, and the addresses of all its requests."""

    page: Any
    errors: list[str]
    requests: list[str]


@pytest.fixture(scope="session")
def browser():
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium on the path")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def new_page(browser):
    """Open an empty page of some width, light or dark, in a context of its own."""
    contexts = []

    def new(width=1100, dark=False, height=800, **options):
        scheme = "dark" if dark else "light"
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        contexts.append(context)
        visited = Visited(context.new_page(), [], [])
        visited.page.on("console", lambda m: visited.errors.append(m.text) if m.type == "error" else None)
        visited.page.on("pageerror", lambda error: visited.errors.append(str(error)))
        visited.page.on("request", lambda request: visited.requests.append(request.url))
        return visited

    yield new
    for context in contexts:
        context.close()


@pytest.fixture
def page(new_page):
    return new_page()

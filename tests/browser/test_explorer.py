"""The explorer in a real browser: a slider changes the curve, a button adds points, a link restores the setting."""

import re
import socket
import subprocess
import sys
from urllib.parse import urlencode, urlsplit

import pytest

pytest.importorskip("marimo", reason="the extra app is not installed")
pytestmark = pytest.mark.browser

SMALL = urlencode(
    [("study", "ridge-equivalent"), ("part", "sizes"), ("x", "n"), ("set", "d=40;ridge=0.1"),
     ("over", "n=20,40,60"), ("seeds", "2"), ("show", "risk")]
)  # fmt: skip
WAIT = 120_000
"""Milliseconds: a busy machine is no failure."""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    store = tmp_path_factory.mktemp("explorer") / "store.sqlite"
    command = [sys.executable, "-m", "unlazy", "explore", "--no-browser", "--port", "0", "--store", str(store)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    found = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
    assert found, process.stderr.read()
    yield found[0]
    process.kill()
    process.communicate()


def panels(page):
    return page.locator(".unlazy-panels").first.inner_html(timeout=WAIT)


def lines(page):
    """Where each path that the panels draw begins and ends; how many points lie between depends on the machine."""
    paths = [re.findall(r"-?[\d.]+", path) for path in re.findall(r' d="([^"]*)"', panels(page))]
    return [(path[:2], path[-2:]) for path in paths]


def changed(page, before):
    page.wait_for_function("b => document.querySelector('.unlazy-panels')?.innerHTML !== b", arg=before, timeout=WAIT)


def command(page):
    return page.locator(".unlazy-command").inner_text(timeout=WAIT)


def test_slider_points_link_and_export(new_page, address):
    visited = new_page()
    page = visited.page
    page.goto(f"{address}?{SMALL}")
    page.locator(".unlazy-panels svg").first.wait_for(timeout=WAIT)
    assert "--set d=40" in command(page)

    before, paths, words = panels(page), lines(page), command(page)
    slider = page.locator("[data-cell-name=parameters] [role=slider]").last
    slider.focus()
    page.keyboard.press("ArrowRight")
    changed(page, before)
    assert lines(page) != paths
    page.wait_for_function("b => document.querySelector('.unlazy-command').innerText !== b", arg=words, timeout=WAIT)

    before, marks = panels(page), panels(page).count("<use")
    page.get_by_role("button", name="Add simulated points").click()
    page.get_by_text("Points are means over 2 seeds").wait_for(timeout=WAIT)
    changed(page, before)
    assert panels(page).count("<use") >= marks + 3

    with page.expect_download(timeout=WAIT) as waiting:
        page.get_by_text("CSV", exact=True).click()
    table = waiting.value.path().read_text()
    assert "simulation" in table
    assert "theory" in table

    page.set_viewport_size({"width": 380, "height": 800})
    assert page.evaluate("document.querySelector('#App').scrollWidth") <= 380

    link = page.locator(".unlazy-link").get_attribute("href")
    again = page.context.new_page()
    again.goto(link)
    again.get_by_text("Points are means over 2 seeds").wait_for(timeout=WAIT)
    assert command(again) == command(page)
    assert lines(again) == lines(page)
    # No folder of this machine, nor the file of the store.
    for shown in (page, again):
        assert not re.search(r"sqlite|/tmp|/home|/root", shown.locator("#App").inner_text())

    assert visited.errors == []
    asked = {urlsplit(url).netloc for url in visited.requests if urlsplit(url).scheme in ("http", "https", "ws", "wss")}
    assert asked == {urlsplit(address).netloc}


def test_a_study_without_theory_opens_on_a_picture_by_itself(new_page, address):
    """A first simulation begins by itself; nobody clicks."""
    visited = new_page()
    setting = urlencode([("study", "degrees-of-freedom-criterion"), ("set", "n=20;d=30;tasks=3"), ("show", "risk")])
    visited.page.goto(f"{address}?{setting}")
    visited.page.locator(".unlazy-panels svg").first.wait_for(timeout=WAIT)
    assert panels(visited.page).count("<use") >= 3
    seen = visited.page.locator(".unlazy-seen").inner_text()
    assert "points are the simulation" in seen
    assert "The study claims: " in seen
    assert visited.errors == []


def test_a_wrong_link_is_told_what_is_wrong(new_page, address):
    visited = new_page(width=380, dark=True)
    visited.page.goto(f"{address}?study=spyke&set=d=%3Cscript%3Ealert(1)%3C/script%3E")
    told = visited.page.get_by_text("The link cannot be followed")
    told.wait_for(timeout=WAIT)
    assert "did you mean spike" in told.inner_text()
    assert told.evaluate("e => e.scrollWidth <= e.clientWidth && e.getBoundingClientRect().right <= 380")
    visited.page.locator(".unlazy-panels svg").first.wait_for(timeout=WAIT)
    assert "Traceback" not in visited.page.locator("#App").inner_text()
    assert visited.errors == []


def test_no_other_address_of_this_machine_answers(address):
    port = urlsplit(address).port
    others = {"127.0.0.2", *(found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET))}
    for other in others - {"127.0.0.1"}:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((other, port), timeout=5)

"""The theory notes: examples run, names exist, links lead somewhere, every study is on the page of its topic."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from unlazy.lab.registry import all_studies, topics
from unlazy.lab.study import Study

NOTES = Path(__file__).parents[2] / "docs" / "theory"
PAGES = sorted(NOTES.glob("*.md"))
TOPIC_PAGES = [NOTES / f"{topic}.md" for topic in topics()]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"`(unlazy(?:\.\w+)+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$]+?)\$", re.DOTALL)


@cache
def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def _studies() -> list[type[Study]]:
    return all_studies()


def _examples(page: Path) -> list[str]:
    return [code for language, code in _FENCE.findall(_text(page)) if language == "python"]


def _prose(page: Path) -> str:
    """The page without fenced and inline code."""
    return re.sub(r"`[^`]*`", "", _FENCE.sub("", _text(page)))


def _exists(name: str) -> bool:
    """Whether a dotted name is a module or can be reached by attributes from one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


def test_every_topic_has_a_page() -> None:
    assert set(TOPIC_PAGES) <= set(PAGES)
    assert NOTES / "index.md" in PAGES


@pytest.mark.parametrize("page", TOPIC_PAGES, ids=lambda page: page.stem)
def test_every_topic_has_an_example_that_prints(page: Path) -> None:
    examples = _examples(page)
    assert examples
    for code in examples:
        calls = [node.func for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
        assert any(isinstance(called, ast.Name) and called.id == "print" for called in calls)


def test_all_examples_run_and_print_numbers() -> None:
    """One process for all of them, each with names of its own; they need neither JAX nor scikit-learn."""
    examples = [(page.name, code) for page in PAGES for code in _examples(page)]
    program = (
        "import sys\n"
        f"for name, code in {examples!r}:\n"
        "    print('page', name)\n"
        "    exec(compile(code, name, 'exec'), {'__name__': name})\n"
        "heavy = {'jax', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    printed = re.split(r"^page (\S+)$", done.stdout, flags=re.MULTILINE)[1:]
    for name, output in zip(printed[::2], printed[1::2], strict=True):
        assert re.search(r"\d", output), f"{name} printed {output!r}"
        assert not re.search(r"\b(nan|inf)\b", output), f"{name} printed {output!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_of_the_package_exists(page: Path) -> None:
    missing = [name for name in _NAME.findall(_text(page)) if not _exists(name)]
    assert not missing


def test_a_wrong_name_would_be_found() -> None:
    assert _exists("unlazy.theory.regression.ridge.ridge_equivalent")
    assert not _exists("unlazy.theory.regression.ridge.ridge_equivalents")
    assert not _exists("unlazy.theory.bridge")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_to_a_study_a_note_or_a_page_of_the_site(page: Path) -> None:
    """A study's page is made when the site is built, so its name must be that of a study; other pages are files."""
    names = {"index", *(study.name for study in _studies())}
    for target in _LINK.findall(_prose(page)):
        if target.startswith("../gallery/"):
            assert target.removeprefix("../gallery/").removesuffix(".md") in names, target
        else:
            assert (page.parent / target).resolve().is_file(), target


@pytest.mark.parametrize("topic", topics())
def test_every_study_is_on_the_page_of_its_topic(topic: str) -> None:
    linked = set(_LINK.findall(_text(NOTES / f"{topic}.md")))
    missing = [
        study.name for study in _studies() if study.topic == topic and f"../gallery/{study.name}.md" not in linked
    ]
    assert not missing


@pytest.mark.parametrize("topic", topics())
def test_every_known_negative_is_told_where_the_page_says_what_fails(topic: str) -> None:
    text = _text(NOTES / f"{topic}.md")
    fails = text.split("## What is known to fail")[1].split("\n## ")[0]
    with_negatives = {
        study.name
        for study in _studies()
        if study.topic == topic and any(claim.known_negative for claim in study.claims)
    }
    missing = [name for name in sorted(with_negatives) if f"../gallery/{name}.md" not in fails]
    assert not missing


@pytest.mark.parametrize("topic", topics())
def test_every_source_of_the_studies_is_among_the_sources(topic: str) -> None:
    sources = " ".join(_text(NOTES / f"{topic}.md").split("## Sources")[1].split("\n## ")[0].split())
    missing = {
        source.title
        for study in _studies()
        if study.topic == topic
        for source in study.sources
        if source.title not in sources or str(source.year) not in sources
    }
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_end_with_read_on_and_have_a_sensible_length(page: Path) -> None:
    headings = re.findall(r"^## (.+)$", _FENCE.sub("", _text(page)), re.MULTILINE)
    assert headings[-1] == "Read on"
    if page in TOPIC_PAGES:
        assert 120 <= len(_text(page).splitlines()) <= 300


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_formula_is_one_that_the_site_can_draw(page: Path) -> None:
    """No dollar is left over, no bar of a table is inside a formula, and the converter knows every command."""
    converter = pytest.importorskip("latex2mathml.converter")
    prose = _prose(page)
    assert "$" not in _FORMULA.sub("", prose)
    for line in prose.splitlines():
        if line.startswith("|"):
            assert not any("|" in inline for _, inline in _FORMULA.findall(line)), line
    for display, inline in _FORMULA.findall(prose):
        made = converter.convert(display or inline)
        assert not re.search(r"<mi>\s*\\|<merror", made), display or inline

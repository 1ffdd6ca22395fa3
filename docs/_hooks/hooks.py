"""What mkdocs calls: it adds the generated pages, fills in the generated parts of others, and draws formulas."""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

# mkdocs takes this folder off the path again once this file is loaded; griffe's extension imports from it later.
sys.path.append(str(Path(__file__).parent))

import benchmark_page
import gallery
import include
import mathml
import negatives
import reference
import stored
import text
import tutorials

from unlazy.lab import registry
from unlazy.reporting.html.report import topic_title

log = logging.getLogger("mkdocs.hooks.unlazy")
ROOT = Path(__file__).parents[2]
_built: dict[str, Any] = {}
"""What one build found, for the pages that are filled in later."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from studies, docstrings and notebooks, and their places in the navigation."""
    # A part of the site is enough to try it in a browser: pages of one topic and the notebook that takes least time.
    part = os.environ.get("UNLAZY_DOCS_TOPICS", "").split()
    studies = sorted(registry.all_studies(part or None), key=lambda study: (study.topic, study.name))
    found = stored.sections(studies, stored.store_file())
    log.info("the store has the quick results of %d of %d studies", len(found), len(studies))
    notes = {file.src_uri for file in files.documentation_pages() if file.src_uri.startswith("theory/")}
    _built.update(studies=studies, stored=found)

    def add(name: str, content: str) -> None:
        files.append(File.generated(config, name, content=content))

    for study in studies:
        section = found.get(study.name)
        add(f"gallery/{study.name}.md", gallery.study_page(study, section))
        if section and (picture := gallery.thumbnail(section["figure"])):
            add(f"gallery/{study.name}.svg", picture)
    for name, page in reference.pages().items():
        add(f"reference/{name}", page)
    lessons = tutorials.pages(ROOT / "notebooks", ("your_own_study",) if part else tutorials.NOTEBOOKS)
    for name, page in lessons.items():
        add(f"tutorials/{name}", page)
    config.nav = _navigation(config.nav, studies, notes, lessons)
    return files


def _navigation(nav: list, studies: list, notes: set[str], lessons: dict[str, str]) -> list:
    """The navigation of mkdocs.yml with its folders filled in."""
    topics = list(dict.fromkeys(study.topic for study in studies))
    filled: dict[str, list] = {
        "gallery/": [
            "gallery/index.md",
            *(
                {_title(topic): [{s.name: f"gallery/{s.name}.md"} for s in studies if s.topic == topic]}
                for topic in topics
            ),
        ],
        "theory/": [
            *sorted(note for note in notes if note == "theory/index.md"),
            *({_title(topic): note} for topic in registry.topics() if (note := f"theory/{topic}.md") in notes),
            *sorted(n for n in notes if Path(n).stem not in (*registry.topics(), "index")),
        ],
        "tutorials/": ["tutorials/index.md", *(f"tutorials/{name}" for name in lessons)],
        "reference/": [
            *("reference/index.md", "reference/cli.md", "reference/python.md"),
            *(f"reference/{name}.md" for name in reference.PACKAGES),
            {
                "Theory functions": [
                    "reference/theory.md",
                    *(f"reference/{name}" for name in reference.pages() if name.startswith("theory/")),
                ]
            },
            *(f"reference/{name}.md" for name in reference.MODULES),
        ],
    }

    found = [{title: filled.get(str(pages), pages) for title, pages in item.items()} for item in nav]
    return [item for item in found if [] not in item.values()]


def _title(topic: str) -> str:
    return topic_title(topic).capitalize()


_DIRECTIVE = re.compile(
    r"^<!-- (?P<what>gallery|negatives|benchmarks|include)(?: (?P<argument>.*?))? -->$", re.MULTILINE
)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Fill in the generated parts of a page, which comments such as `<!-- gallery -->` mark."""
    parts = {
        "gallery": lambda _: gallery.index(_built["studies"], _built["stored"]),
        "negatives": lambda _: negatives.negatives(_built["studies"], _built["stored"]),
        "benchmarks": lambda _: benchmark_page.page(ROOT / "benchmarks"),
        "include": lambda argument: include.section(ROOT, argument),
    }
    made = _DIRECTIVE.sub(lambda found: parts[found["what"]](found["argument"]), markdown)
    topic = page.file.src_uri.removeprefix("theory/").removesuffix(".md")
    if page.file.src_uri == f"theory/{topic}.md" and topic in {study.topic for study in _built["studies"]}:
        made += "\n\n" + gallery.topic_list(_built["studies"], topic) + "\n"
    return made


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Draw the formulas; one that cannot be drawn is a warning, which a strict build refuses."""
    made, wrong = mathml.replace_formulas(text.drawn(html))
    for message in wrong:
        log.warning("%s: formula %s", page.file.src_uri, message)
    return made

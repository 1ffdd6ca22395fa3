"""Parts of files at the root of the repository, with links that hold on the site."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from markdown.extensions.toc import slugify

_PAGES = {"CONTRIBUTING.md": "add_a_study.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}


def section(root: Path, argument: str) -> str:
    """The text of a file, or a part: `FILE`, `FILE # Heading` for a section, `FILE ... # Heading` up to it."""
    name, mark, heading = argument.partition(" # ")
    upto = name.endswith(" ...")
    file = root / name.removesuffix(" ...").strip()
    text = file.read_text(encoding="utf-8")
    if mark:
        parts = re.split(r"(?m)^(?=## )", text)
        starts = [part.split("\n", 1)[0].removeprefix("## ").strip() for part in parts]
        if heading not in starts:
            raise ValueError(f"{file.name} has no section {heading!r}; it has {', '.join(starts[1:])}")
        place = starts.index(heading)
        text = "".join(parts[:place]) if upto else parts[place].split("\n", 1)[1]
    return links(text, _places(root, file.name))


def _places(root: Path, name: str) -> dict[str, str]:
    """By anchor the page of the site that includes this section of a file."""
    marker = re.compile(rf"(?m)^<!-- include {re.escape(name)} # (.+?) -->$")
    pages = sorted((root / "docs").glob("*.md"))
    return {
        slugify(heading, "-"): page.name
        for page in pages
        for heading in marker.findall(page.read_text(encoding="utf-8"))
    }


def links(text: str, places: Mapping[str, str] | None = None) -> str:
    """Links to files of the repository become links to pages; what the site lacks becomes plain text.

    A link to a section leads to the page in `places` if the section is not in the text itself.
    """
    here = {slugify(heading, "-") for heading in re.findall(r"(?m)^#+ (.+)$", text)}

    def link(found: re.Match) -> str:
        image, label, target = found["image"], found["label"], found["target"]
        if target.startswith("#"):
            anchor = target[1:]
            page = (places or {}).get(anchor)
            return found[0] if anchor in here else f"[{label}]({page}#{anchor})" if page else label
        if re.match(r"[a-z]+:", target):
            return found[0]
        if target.startswith("docs/"):
            return f"{image}[{label}]({target.removeprefix('docs/')})"
        if target.startswith("notebooks/"):
            return f"[{label}](tutorials/{Path(target).stem}.md)"
        if target in _PAGES:
            return f"[{label}]({_PAGES[target]})"
        return label

    text = re.sub(r'(?<=\bsrc=")docs/|(?<=\bsrcset=")docs/', "", text)
    return re.sub(r"(?P<image>!?)\[(?P<label>[^\]]*)\]\((?P<target>[^)\s]+)\)", link, text)

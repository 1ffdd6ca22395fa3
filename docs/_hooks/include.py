"""Parts of files at the root of the repository, with links that hold on the site."""

from __future__ import annotations

import re
from pathlib import Path

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
    return links(text)


def links(text: str) -> str:
    """Links to files of the repository become links to pages; what the site lacks becomes plain text."""

    def link(found: re.Match) -> str:
        image, label, target = found["image"], found["label"], found["target"]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        if target.startswith("docs/"):
            return f"{image}[{label}]({target.removeprefix('docs/')})"
        if target.startswith("notebooks/"):
            return f"[{label}](tutorials/{Path(target).stem}.md)"
        if target in _PAGES:
            return f"[{label}]({_PAGES[target]})"
        return label

    return re.sub(r"(?P<image>!?)\[(?P<label>[^\]]*)\]\((?P<target>[^)\s]+)\)", link, text)

"""Plain text of studies as Markdown: what looks like markup in it stays text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from unlazy.reporting.html.formulas import marked

_FULL_LINE = 90
_SAID = re.compile(r'<span class="said">([^<]*)</span>')
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>()#+!|$~^&\"'=-]")


def plain(text: object) -> str:
    """Text that neither Markdown nor HTML reads as anything else."""
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", " ".join(str(text).split()))


def said(text: object) -> str:
    """A sentence of a study, whose formulas are drawn when the page is HTML."""
    return f'<span class="said">{plain(text)}</span>'


def drawn(page: str) -> str:
    """The HTML of a page with the formulas of what was `said`."""
    return _SAID.sub(lambda found: f'<span class="said">{marked(html.unescape(found[1]))}</span>', page)


def code(text: object) -> str:
    """Inline code."""
    return f"<code>{plain(text)}</code>" if str(text) else ""


def block(text: str, language: str = "") -> str:
    """A fenced block that whatever stands in it cannot end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def prose(docstring: str) -> str:
    """A docstring: paragraphs as text with inline code, indented lines and examples as code, sections as lists."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", docstring.strip("\n")):
        lines = paragraph.split("\n")
        if len(lines) > 2 and re.fullmatch(r"-{3,}\s*", lines[1]):
            parts.append(_section(lines[0].strip(), lines[2:]))
            continue
        if lines[0].startswith(">>> "):
            parts.append(block(paragraph, "pycon"))
            continue
        if all(line.startswith("    ") for line in lines):
            parts.append(block("\n".join(line[4:] for line in lines)))
            continue
        if all(re.match(r"(- |  )", line) for line in lines):
            items = re.split(r"(?m)^- ", paragraph)[1:]
            parts.append("\n".join(f"- {_inline(item.strip())}" for item in items))
            continue
        parts.append(_inline(paragraph))
    return "\n\n".join(parts)


def _section(title: str, lines: Sequence[str]) -> str:
    """A section in NumPy's style: `name : type` with the meaning below, or with the meaning behind the colon."""
    entries: list[list[str]] = []
    for line in lines:
        if line.startswith(" ") and entries:
            entries[-1].append(line.strip())
        # Attributes that belong together share a line.
        elif title == "Attributes":
            entries += [[entry] for entry in re.split(r";  +", line)]
        else:
            entries.append([line])
    # A line that fills the width is a sentence which goes on below, not a type.
    behind = title == "Attributes" or not any(more and len(first) < _FULL_LINE for first, *more in entries)
    items = []
    for first, *more in entries:
        name, _, about = first.partition(" : ")
        if behind:
            term, meaning = code(name.strip()), " ".join([about, *more])
        else:
            kind = f' <span class="kind">{_inline(about)}</span>' if about else ""
            term, meaning = code(name.strip()) + kind, " ".join(more)
        items.append(f"<dt>{term}</dt><dd>{_inline(meaning.strip())}</dd>")
    return f'<p class="section">{plain(title)}</p>\n<dl class="fields">\n' + "\n".join(items) + "\n</dl>"


def _inline(text: str) -> str:
    pieces = re.split(r"(`[^`\n]+`)", text)
    return "".join(
        code(piece[1:-1]) if piece.startswith("`") and piece.endswith("`") and len(piece) > 2 else _spaced(piece)
        for piece in pieces
    )


def _spaced(text: str) -> str:
    lead = " " if text[:1].isspace() else ""
    tail = " " if text[-1:].isspace() and text.strip() else ""
    return lead + plain(text) + tail


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in HTML, in a box that scrolls by itself where it is too wide; its cells are HTML already."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="md-typeset__scrollwrap"><div class="md-typeset__table"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div></div>"
    )

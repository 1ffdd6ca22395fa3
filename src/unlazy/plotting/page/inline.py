"""Figures inside a page: SVG that takes the page's colours and wraps between panels at its width.

The page may set three CSS variables: `--figure-ink` for text, axes and whatever is black, `--figure-ground` for what is
white, and on a dark ground `--figure-dark` to a space, which lightens dark colours and turns greys round. Without them
the colours are those of the figure. One drawing serves both grounds: two would double the page.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from unlazy.plotting.page.themed import themed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PIXELS = 4 / 3
"""CSS pixels in a point."""
_SMALLEST, _LARGEST = 0.85, 1.15
"""How far a panel may shrink beside others, so that text of 8 points keeps 9 pixels, and grow."""
_SMALLEST_ALONE = 0.6
"""How far it may shrink on a line of its own, on a page narrower than that; on a still narrower one it scrolls."""


def inline(rows: Sequence[Sequence[Figure]], salt: str) -> str:
    """Rows of figures, each an SVG element, that wrap where the page is narrow; `salt` keeps the ids of pages apart."""
    names, dark, defined = _Names(salt), dict[str, str](), set[str]()
    pieces = []
    for row in rows:
        _align(row)
        inside = "".join(_piece(_saved(figure, salt), names, dark, defined) for figure in row)
        pieces.append(f'<div style="display:flex;flex-wrap:wrap;align-items:flex-start">{inside}</div>')
    colours = "".join(f"--{name}:var(--figure-dark) {colour};" for name, colour in sorted(dark.items()))
    return (
        f'<div class="figure-panels" style="overflow-x:auto;{colours}fill:var(--figure-ink,#000000);'
        f'stroke-linejoin:round;stroke-linecap:butt">{"".join(pieces)}</div>'
    )


def _align(row: Sequence[Figure]) -> None:
    """Let the axes of figures that stand side by side begin and end at the same heights."""
    if len(row) < 2:
        return
    for figure in row:
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
            figure.set_layout_engine("none")
    boxes = [axes.get_position() for figure in row for axes in figure.axes]
    low, high = max(box.y0 for box in boxes), min(box.y1 for box in boxes)
    for figure in row:
        for axes in figure.axes:
            box = axes.get_position()
            axes.set_position((box.x0, low, box.width, high - low))


def _saved(figure: Figure, salt: str) -> ElementTree.Element:
    """The figure as SVG, without namespaces and without what draws nothing."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for key in list(element.attrib):
            if "}" in key:
                element.attrib[key.rpartition("}")[2]] = element.attrib.pop(key)
    for child in list(root):
        if child.tag == "metadata" or child.find("style") is not None:
            root.remove(child)
    return root


def _piece(root: ElementTree.Element, names: _Names, dark: dict[str, str], defined: set[str]) -> str:
    """One SVG element."""
    texts = [text for element in root.iter() for text in element.attrib.values()]
    used = dict.fromkeys(name for text in texts for name in re.findall(r"(?:^#|url\(#)([^)]+)", text))
    # What several figures define is the same in all: the name of a letter, of a mark, of a clipping says what it is.
    for group in [e for e in root.iter() if e.tag == "defs"]:
        for child in [e for e in group if e.get("id", "") in defined or e.get("id", "") not in used]:
            group.remove(child)
        defined |= {child.get("id", "") for child in group}
    body = "".join(_write(child, {name: names[name] for name in used}, dark) for child in root)
    view = " ".join(_short(float(v)) for v in root.attrib["viewBox"].split())
    width = float(root.attrib["viewBox"].split()[2])
    least, usual, most = (round(scale * _PIXELS * width) for scale in (_SMALLEST_ALONE, _SMALLEST, _LARGEST))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" style="display:block;overflow:visible;'
        f'flex:{width:.0f} 1 {usual}px;max-width:{most}px;min-width:{least}px">{body}</svg>'
    )


class _Names(dict[str, str]):
    """New names for ids, made as they are asked for; those of another salt are others."""

    def __init__(self, salt: str) -> None:
        self._prefix = re.sub(r"[^A-Za-z0-9_-]", "-", salt)
        if self._prefix != salt:
            self._prefix += f"-{zlib.crc32(salt.encode()):08x}"

    def __missing__(self, name: str) -> str:
        self[name] = f"{self._prefix}-{len(self)}"
        return self[name]


def _write(
    element: ElementTree.Element,
    names: Mapping[str, str],
    dark: dict[str, str],
    fixed: bool = False,
    on_image: bool = False,
) -> str:
    """An element as text: short numbers, new names, colours that follow the page unless they lie on an image."""
    attributes = dict(element.attrib)
    if attributes.get("id", "").startswith("axes_"):
        fixed = any(
            e.tag == "image" or e.get("id", "").startswith(("QuadMesh", "PolyQuadMesh")) for e in element.iter()
        )
    name = names.get(attributes.pop("id", ""))
    kept = {"id": name} if name else {}
    # In a panel with an image, only what is clipped to the panel lies on it.
    on_image = on_image or (fixed and "clip-path" in attributes)
    for key, text in attributes.items():
        if key == "style":
            text = themed(text, dark, on_image)
        elif key == "href" and text.startswith("#"):
            text = "#" + names[text[1:]]
        elif key == "clip-path":
            text = re.sub(r"#([^)]+)", lambda m: "#" + names[m[1]], text)
        elif key == "transform":
            text = re.sub(r"translate\([^)]*\)", lambda m: _rounded(m[0]), text)
        elif key in ("d", "x", "y", "width", "height", "points"):
            text = _rounded(text)
        if text:
            kept[key] = text
    inner = "".join(_write(child, names, dark, fixed, on_image) for child in element)
    if element.tag in ("g", "defs") and not inner:
        return ""
    if element.tag == "g" and not kept:
        return inner
    written = "".join(f' {key}="{escape(text)}"' for key, text in kept.items())
    return f"<{element.tag}{written}>{inner}</{element.tag}>" if inner else f"<{element.tag}{written}/>"


def _rounded(text: str) -> str:
    return re.sub(r"-?\d+\.\d+", lambda m: _short(float(m[0])), " ".join(text.split()))


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")

"""A figure inside a page: SVG that takes the page's colours and wraps at its width.

The page may set three CSS variables: `--figure-ink` for text, axes and whatever is black, `--figure-ground` for what is
white, and on a dark ground `--figure-dark` to a space, which lightens dark colours and turns greys round. Without them
the colours are those of the figure.
"""

from __future__ import annotations

import io
import itertools
import math
import re
import zlib
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from unlazy.plotting.page.arrange import standing_alone
from unlazy.plotting.page.themed import themed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PIXELS = 4 / 3
"""CSS pixels in a point."""
_SMALLEST, _LARGEST = 0.85, 1.15
"""How far a panel may shrink beside others, so that text of 8 points keeps 9 pixels, and grow."""
_SMALLEST_ALONE = 0.6
"""How far it may shrink on a line of its own, on a page narrower than that; on a still narrower one it scrolls."""
_OVERLAP = 6.0
"""The points by which neighbours may overlap (a last tick's label) and still be cut; nothing is clipped at a cut."""


class _Box(NamedTuple):
    """A part of the drawing, in points from its upper left corner."""

    left: float
    right: float
    top: float
    bottom: float


def inline(figure: Figure, salt: str) -> str:
    """A figure as a wrapping row of SVG elements, one per column of panels; `salt` keeps the ids of figures apart.

    What belongs to the whole figure (a title, a legend) stands above or below the columns, and a legend wraps between
    its entries; where it stands elsewhere, the figure is not cut.
    """
    with standing_alone(figure):
        root, boxes, entries, texts = _save(figure, salt)
        cuts = _cuts(figure, boxes)
    _strip(root)
    width, height = (float(v) for v in root.attrib["viewBox"].split()[2:])
    drawn = _drawn(root)
    names, dark = _names(root, salt), dict[str, str]()
    top, bottom = 0.0, height
    panels = [boxes[name] for name in drawn if name.startswith("panel-") and name in boxes]
    others = [name for name in drawn if not name.startswith("panel-") or name not in boxes]
    above = [name for name in others if name in boxes and all(boxes[name].bottom <= p.top + 1 for p in panels)]
    below = [name for name in others if name in boxes and all(boxes[name].top >= p.bottom - 1 for p in panels)]
    if not panels or set(others) - {*above, *below}:
        cuts, above, below = [], [], []
    if above:
        top = max(boxes[name].bottom for name in above)
    if below:
        bottom = min(boxes[name].top for name in below)

    def whole(name: str) -> str:
        if name in texts:
            return texts[name]
        return (
            _legend(drawn[name], entries[name], boxes, names, dark)
            if name in entries
            else (_piece(boxes[name], drawn[name], names, dark, alone=True))
        )

    pieces = [whole(name) for name in above]
    for left, right in itertools.pairwise([0.0, *cuts, width]):
        # The middle decides: what a panel shows may reach a little over the cut.
        inside = [n for n in drawn if n not in {*above, *below} and (not cuts or left <= _middle(boxes[n]) < right)]
        pieces.append(_piece(_Box(left, right, top, bottom), [e for n in inside for e in drawn[n]], names, dark))
    pieces += [whole(name) for name in below]
    shared = "".join(_write(child, names, dark) for child in root if child.tag == "defs")
    # A letter is defined where it is first used, which may be in what is written as text of the page.
    for name in texts.keys() & {*above, *below}:
        shared += "".join(_write(d, names, dark) for e in drawn[name] for d in e.iter("defs"))
    first = next(index for index, piece in enumerate(pieces) if "</svg>" in piece)
    pieces[first] = pieces[first].replace("</svg>", f"{shared}</svg>", 1)
    colours = "".join(f"--{name}:var(--figure-dark) {colour};" for name, colour in sorted(dark.items()))
    return (
        f'<div class="figure-panels" style="display:flex;flex-wrap:wrap;align-items:flex-start;overflow-x:auto;'
        f'{colours}fill:var(--figure-ink,#000000);stroke-linejoin:round;stroke-linecap:butt">{"".join(pieces)}</div>'
    )


def _piece(box: _Box, elements: Any, names: dict[str, str], dark: dict[str, str], alone: bool = False) -> str:
    """One SVG element; `alone` on a line of its own."""
    body = "".join(_write(element, names, dark) for element in elements)
    width = box.right - box.left
    least, usual, most = (round(scale * _PIXELS * width) for scale in (_SMALLEST_ALONE, _SMALLEST, _LARGEST))
    size = (
        f"width:{_PIXELS * width:.0f}px;max-width:100%" if alone else f"flex:{width:.0f} 1 {usual}px;max-width:{most}px"
    )
    element = _svg(box, f"{size};min-width:{least}px", body)
    return f'<div style="flex:1 0 100%;display:flex;justify-content:safe center">{element}</div>' if alone else element


def _svg(box: _Box, size: str, body: str) -> str:
    view = " ".join(_short(v) for v in (box.left, box.top, box.right - box.left, box.bottom - box.top))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" style="display:block;overflow:visible;{size}">'
        f"{body}</svg>"
    )


def _legend(
    drawn: list[ElementTree.Element],
    entries: Mapping[str, list[str]],
    boxes: Mapping[str, _Box],
    names: dict[str, str],
    dark: dict[str, str],
) -> str:
    """A legend of the figure: its title on a line of its own, and its entries, which wrap."""
    found: dict[str, list[ElementTree.Element]] = {}
    for element in (e for group in drawn for e in group.iter()):
        found.setdefault(element.get("id", ""), []).append(element)
    pieces = []
    for entry, parts in entries.items():
        box = boxes[entry]
        body = "".join(_write(element, names, dark) for part in parts for element in found.get(part, ()))
        piece = _svg(box, f"width:{_PIXELS * (box.right - box.left):.0f}px;max-width:100%", body)
        if entry.endswith("title"):
            piece = f'<div style="flex:1 0 100%;display:flex;justify-content:center">{piece}</div>'
        pieces.append(piece)
    return (
        '<div class="figure-legend" style="flex:1 0 100%;display:flex;flex-wrap:wrap;justify-content:center;'
        f'align-items:center;gap:2px 14px">{"".join(pieces)}</div>'
    )


class _Saved(NamedTuple):
    """The figure as SVG in which panels and the figure's own texts and legends are named, and what these are.

    `boxes` has them by name; `entries` the names of what draws each entry of a legend; `texts` the texts that a page
    can write itself, which are those without a formula.
    """

    root: ElementTree.Element
    boxes: dict[str, _Box]
    entries: dict[str, dict[str, list[str]]]
    texts: dict[str, str]


def _save(figure: Figure, salt: str) -> _Saved:
    import matplotlib
    from matplotlib.backends.backend_svg import RendererSVG

    artists: dict[str, Any] = {f"panel-{index}": axes for index, axes in enumerate(figure.axes)}
    artists |= {f"extra-{index}": artist for index, artist in enumerate([*figure.texts, *figure.legends])}
    named, entries, extents = dict(artists), dict[str, dict[str, list[str]]](), dict[str, Any]()
    for name, artist in artists.items():
        for entry, (box, drawn) in (_entries(artist) if artist in figure.legends else {}).items():
            parts = {f"{name}-{entry}-{index}": part for index, part in enumerate(drawn)}
            entries.setdefault(name, {})[f"{name}-{entry}"] = list(parts)
            named |= parts
            extents[f"{name}-{entry}"] = box
    before = [artist.get_gid() for artist in named.values()]
    buffer = io.StringIO()
    try:
        for name, artist in named.items():
            artist.set_gid(name)
        with matplotlib.rc_context({"svg.hashsalt": salt}):
            figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    finally:
        for artist, gid in zip(named.values(), before, strict=True):
            artist.set_gid(gid)
    points, height = 72 / figure.dpi, 72 * figure.get_figheight()
    boxes = {}
    for name, artist in artists.items():
        box = artist.get_tightbbox()
        if box is not None and np.isfinite(box.extents).all():
            x0, y0, x1, y1 = box.extents * points
            boxes[name] = _Box(x0, x1, height - y1, height - y0)
    if extents:
        # The places in a legend are those of its last drawing, which was for SVG: in points.
        usual, figure.dpi = figure.dpi, 72
        renderer = RendererSVG(72 * figure.get_figwidth(), height, io.StringIO())
        for name, artist in extents.items():
            x0, y0, x1, y1 = artist.get_window_extent(renderer).extents
            boxes[name] = _Box(x0, x1, height - y1, height - y0)
        figure.dpi = usual
    texts = {
        name: f'<div class="figure-text" style="flex:1 0 100%;text-align:center;color:var(--figure-ink,#000000);'
        f'font-size:{_PIXELS * artist.get_fontsize():.1f}px">{escape(artist.get_text())}</div>'
        for name, artist in artists.items()
        if artist in figure.texts and "$" not in artist.get_text()
    }
    return _Saved(ElementTree.fromstring(buffer.getvalue()), boxes, entries, texts)


def _entries(legend: Any) -> dict[str, tuple[Any, list[Any]]]:
    """The title and the entries of a legend: the box of each, and the artists in it."""
    found = {}
    if legend.get_title().get_text():
        found["title"] = (legend.get_title(), [legend.get_title()])
    items = [item for column in legend._legend_handle_box.get_children() for item in column.get_children()]
    for index, item in enumerate(items):
        handle, text = item.get_children()
        found[f"entry{index}"] = (item, [*handle.get_children(), *text.get_children()])
    return found


def _cuts(figure: Figure, boxes: Mapping[str, _Box]) -> list[float]:
    """The middles of the gaps between columns.

    A colour bar, or a panel without numbers at its own axis, stays with its neighbour.
    """
    spans = []
    for index, axes in enumerate(figure.axes):
        own = axes.get_label() != "<colorbar>" and axes.yaxis.get_tick_params().get("labelleft", True)
        if f"panel-{index}" in boxes:
            spans.append((boxes[f"panel-{index}"], own))
    cuts, reached = [], math.inf
    for box, own in sorted(spans):
        if own and box.left >= reached - _OVERLAP:
            cuts.append((box.left + reached) / 2)
        reached = box.right if math.isinf(reached) else max(reached, box.right)
    return cuts


def _middle(box: _Box) -> float:
    return (box.left + box.right) / 2


def _strip(root: ElementTree.Element) -> None:
    """Drop namespaces, and what draws nothing."""
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for key in list(element.attrib):
            if "}" in key:
                element.attrib[key.rpartition("}")[2]] = element.attrib.pop(key)
    for child in list(root):
        if child.tag == "metadata" or child.find("style") is not None:
            root.remove(child)


def _drawn(root: ElementTree.Element) -> dict[str, list[ElementTree.Element]]:
    """What the figure holds, by the name of its panel, text or legend; the rest under its own id."""
    found: dict[str, list[ElementTree.Element]] = {}
    for group in root:
        for element in group if group.tag == "g" else ():
            if any(_visible(e) for e in element.iter()):
                found.setdefault(element.get("id", ""), []).append(element)
    return found


def _visible(element: ElementTree.Element) -> bool:
    style = element.get("style", "")
    return element.tag in ("path", "use", "image", "rect") and style != "fill: none"


def _names(root: ElementTree.Element, salt: str) -> dict[str, str]:
    """New names for the ids that something refers to; the others are dropped."""
    prefix = re.sub(r"[^A-Za-z0-9_-]", "-", salt)
    if prefix != salt:
        prefix += f"-{zlib.crc32(salt.encode()):08x}"
    used = []
    for element in root.iter():
        for key, text in element.attrib.items():
            if key == "href" and text.startswith("#"):
                used.append(text[1:])
            used += re.findall(r"url\(#([^)]+)\)", text)
    return {name: f"{prefix}-{index}" for index, name in enumerate(dict.fromkeys(used))}


def _write(
    element: ElementTree.Element,
    names: Mapping[str, str],
    dark: dict[str, str],
    fixed: bool = False,
    on_image: bool = False,
) -> str:
    """An element as text: short numbers, new names, colours that follow the page unless they lie on an image."""
    attributes = dict(element.attrib)
    if attributes.get("id", "").startswith("panel-"):
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

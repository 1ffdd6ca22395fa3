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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PIXELS = 4 / 3
"""CSS pixels in a point."""
_SMALLEST, _LARGEST = 0.85, 1.15
"""How far a figure may shrink, so that text of 8 points keeps 9 pixels, and grow."""
_OVERLAP = 6.0
"""The points by which neighbours may overlap (a last tick's label) and still be cut; nothing is clipped at a cut."""
_DARK_GROUND = 0.0086
"""The luminance of the ground that dark colours are made for, #14171a."""
_LEAST_CONTRAST = 3.5


class _Box(NamedTuple):
    """A part of the drawing, in points from its upper left corner."""

    left: float
    right: float
    top: float
    bottom: float


def inline(figure: Figure, salt: str) -> str:
    """A figure as a wrapping row of SVG elements, one per column of panels; `salt` keeps the ids of figures apart.

    What belongs to the whole figure (a title, a legend) stands above or below the columns; where it does not, the
    figure is not cut.
    """
    root, boxes = _save(figure, salt)
    _strip(root)
    width, height = (float(v) for v in root.attrib["viewBox"].split()[2:])
    drawn = _drawn(root)
    names, dark = _names(root, salt), dict[str, str]()
    cuts, top, bottom = _cuts(figure, boxes), 0.0, height
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
    pieces = [_piece(boxes[name], drawn.pop(name), names, dark, alone=True) for name in above]
    for left, right in itertools.pairwise([0.0, *cuts, width]):
        # The middle decides: what a panel shows may reach a little over the cut.
        inside = [n for n in drawn if n not in below and (not cuts or left <= _middle(boxes[n]) < right)]
        pieces.append(_piece(_Box(left, right, top, bottom), [e for n in inside for e in drawn[n]], names, dark))
    pieces += [_piece(boxes[name], drawn[name], names, dark, alone=True) for name in below]
    shared = "".join(_write(child, names, dark) for child in root if child.tag == "defs")
    pieces[0] = pieces[0].replace("</svg>", f"{shared}</svg>")
    colours = "".join(f"--{name}:var(--figure-dark) {colour};" for name, colour in sorted(dark.items()))
    return (
        f'<div class="figure-panels" style="display:flex;flex-wrap:wrap;align-items:flex-start;overflow-x:auto;'
        f'{colours}fill:var(--figure-ink,#000000);stroke-linejoin:round;stroke-linecap:butt">{"".join(pieces)}</div>'
    )


def _piece(box: _Box, elements: Any, names: dict[str, str], dark: dict[str, str], alone: bool = False) -> str:
    """One SVG element; `alone` on a line of its own."""
    body = "".join(_write(element, names, dark) for element in elements)
    width, height = box.right - box.left, box.bottom - box.top
    least, most = (round(scale * _PIXELS * width) for scale in (_SMALLEST, _LARGEST))
    size = (
        f"width:{_PIXELS * width:.0f}px;max-width:100%" if alone else f"flex:{width:.0f} 0 {least}px;max-width:{most}px"
    )
    view = f"{_short(box.left)} {_short(box.top)} {_short(width)} {_short(height)}"
    element = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" '
        f'style="display:block;overflow:visible;{size};min-width:{least}px">{body}</svg>'
    )
    return f'<div style="flex:1 0 100%;display:flex;justify-content:safe center">{element}</div>' if alone else element


def _save(figure: Figure, salt: str) -> tuple[ElementTree.Element, dict[str, _Box]]:
    """The figure as SVG in which panels and the figure's own texts and legends are named, and the boxes of these."""
    import matplotlib

    artists: dict[str, Any] = {f"panel-{index}": axes for index, axes in enumerate(figure.axes)}
    artists |= {f"extra-{index}": artist for index, artist in enumerate([*figure.texts, *figure.legends])}
    before = [artist.get_gid() for artist in artists.values()]
    buffer = io.StringIO()
    try:
        for name, artist in artists.items():
            artist.set_gid(name)
        with matplotlib.rc_context({"svg.hashsalt": salt}):
            figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    finally:
        for artist, name in zip(artists.values(), before, strict=True):
            artist.set_gid(name)
    points, height = 72 / figure.dpi, 72 * figure.get_figheight()
    boxes = {}
    for name, artist in artists.items():
        box = artist.get_tightbbox()
        if box is not None and np.isfinite(box.extents).all():
            x0, y0, x1, y1 = box.extents * points
            boxes[name] = _Box(x0, x1, height - y1, height - y0)
    return ElementTree.fromstring(buffer.getvalue()), boxes


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
            text = _style(text, dark, on_image)
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


def _style(text: str, dark: dict[str, str], on_image: bool) -> str:
    compact = re.sub(r"\s*([:;])\s*", r"\1", text.strip())
    if on_image:
        return compact + (";fill:#000000" if "fill" not in compact else "")
    return re.sub(r"(fill|stroke):(#[0-9a-f]{6})", lambda m: f"{m[1]}:{_variable(m[2], dark)}", compact)


def _variable(colour: str, dark: dict[str, str]) -> str:
    """The colour as a variable of the page, with itself where the page sets none."""
    if colour == "#000000":
        return "var(--figure-ink,#000000)"
    if colour == "#ffffff":
        return "var(--figure-ground,#ffffff)"
    lifted = on_dark(colour)
    if lifted == colour:
        return colour
    dark[f"d{colour[1:]}"] = lifted
    return f"var(--d{colour[1:]},{colour})"


def on_dark(colour: str) -> str:
    """The colour for a dark ground: greys keep their contrast with it, other colours get at least 3.5."""
    from matplotlib.colors import to_hex, to_rgb

    encoded = np.array(to_rgb(colour))
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    if np.ptp(encoded) < 0.1:
        wanted = min(1.05 / (luminance + 0.05) * (_DARK_GROUND + 0.05) - 0.05, 1.0)
        linear = np.full(3, wanted)
    else:
        wanted = _LEAST_CONTRAST * (_DARK_GROUND + 0.05) - 0.05
        if luminance >= wanted:
            return colour
        # Half of the way with the same hue, the rest towards white.
        linear = linear * min(1 / linear.max(), (1 + wanted / luminance) / 2)
        luminance = float(linear @ [0.2126, 0.7152, 0.0722])
        linear = linear + max(0.0, (wanted - luminance) / (1 - luminance)) * (1 - linear)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    result: Any = to_hex(np.clip(encoded, 0, 1))
    return str(result)

"""The colours of a figure inside a page: variables that the page sets, and what they are on a dark ground."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

_DARK_GROUND = 0.0086
"""The luminance of the ground that dark colours are made for, #14171a."""
_LEAST_CONTRAST = 3.5


def themed(text: str, dark: dict[str, str], on_image: bool) -> str:
    """An SVG style with variables for its colours and opacities, whose values on a dark ground `dark` then has."""
    compact = re.sub(r"\s*([:;])\s*", r"\1", text.strip())
    if on_image:
        return compact + (";fill:#000000" if "fill" not in compact else "")
    if "stroke-opacity" in compact:
        compact = re.sub(r"((?:fill|stroke)-opacity):([\d.]+)", lambda m: f"{m[1]}:{_opacity(m[2], dark)}", compact)
    return re.sub(r"(fill|stroke):(#[0-9a-f]{6})", lambda m: f"{m[1]}:{_variable(m[2], dark)}", compact)


def _opacity(text: str, dark: dict[str, str]) -> str:
    """The opacity of a line or mark, higher on a dark ground, where thin and faint lines vanish."""
    name = "o" + text.replace(".", "_")
    dark[name] = f"{math.sqrt(float(text)):.2g}"
    return f"var(--{name},{text})"


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

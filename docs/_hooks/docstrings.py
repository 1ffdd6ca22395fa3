"""Docstrings for mkdocstrings: plain text with inline code and indented formulas, none of it markup by accident."""

from __future__ import annotations

from typing import Any

from griffe import Extension
from text import prose


class PlainDocstrings(Extension):
    """Escapes what Markdown would take for markup."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring and not obj.is_alias:
            obj.docstring.value = prose(obj.docstring.value)

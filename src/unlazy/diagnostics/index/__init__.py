"""Whether y depends on X through one index, and how many rows its direction takes."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.diagnostics.index.report import IndexReport, index_report

lazily(__name__)

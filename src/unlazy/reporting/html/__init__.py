"""The report as one file that needs no network."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.reporting.html import report

lazily(__name__)

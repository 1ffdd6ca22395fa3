"""What the command line prints."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.reporting.terminal import bar, board, listing, show, tables

lazily(__name__)

"""The explorer: one study at a time in the browser."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.app.server import serve

lazily(__name__)

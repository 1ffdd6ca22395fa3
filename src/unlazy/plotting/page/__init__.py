"""A figure inside a page: SVG that takes the page's colours and wraps at its width."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.plotting.page import inline, themed

lazily(__name__)

"""One figure style, and figures inside pages."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.plotting import page, panels, style

lazily(__name__)

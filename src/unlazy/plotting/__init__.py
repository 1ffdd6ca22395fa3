"""One figure style, figures as data and how they are drawn, and figures inside pages."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.plotting import drawing, film, page, panels, picture, style

lazily(__name__)

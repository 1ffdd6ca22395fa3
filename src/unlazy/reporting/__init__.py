"""What people see of a run: on the terminal, as a page, as a file."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.reporting import export, html, terminal

lazily(__name__)

"""The command line, thin."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.cli.commands import app
    from unlazy.cli.program import main

lazily(__name__)

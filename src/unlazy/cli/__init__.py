"""The command line, thin."""

from unlazy.cli.commands import app
from unlazy.cli.program import main

__all__ = ["app", "main"]

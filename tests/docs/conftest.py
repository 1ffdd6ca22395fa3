"""The docs site's own modules: what mkdocs finds beside its hook."""

import sys
from pathlib import Path

import pytest

HOOKS = Path(__file__).parents[2] / "docs/_hooks"
pytest.importorskip("latex2mathml")
sys.path.append(str(HOOKS))

"""How it is trained: one loop, and the engines topic by topic."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.loop import Training, train

lazily(__name__)

"""What nature draws, and real tables."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.data import many_tasks, real, single_index, unit_vectors

lazily(__name__)

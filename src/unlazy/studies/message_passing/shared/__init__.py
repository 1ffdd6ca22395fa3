"""What several studies of message passing share."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.studies.message_passing.shared import convex_fits, evolution, multiclass, sequential

lazily(__name__)

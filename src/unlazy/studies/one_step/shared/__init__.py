"""What several studies of one step share."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.studies.one_step.shared import gradient_step, planted

lazily(__name__)

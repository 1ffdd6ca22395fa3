"""What several studies of in context share."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.studies.in_context.shared import (
        bayes,
        comparison,
        concepts,
        mean_field,
        pretraining,
        prompt_learners,
        prompts,
        saddle,
    )

lazily(__name__)

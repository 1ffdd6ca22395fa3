"""What several studies of in context share."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.studies.in_context.shared import (
        bayes,
        concepts,
        mean_field,
        mean_field_figure,
        pretraining,
        prompt_learners,
        prompts,
        saddle,
        sources,
    )

lazily(__name__)

"""What nature draws, and real tables."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.data import (
        concept_prompts,
        digit_parity,
        encoding,
        images,
        labels,
        linear_tasks,
        many_tasks,
        plane_tasks,
        real,
        rows,
        signal_tokens,
        single_index,
        table_encoder,
        unit_vectors,
    )

lazily(__name__)

"""Pretraining attention and transformers on prompts."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.in_context import linear_attention, mean_field_attention, prompt_attention, transformer

lazily(__name__)

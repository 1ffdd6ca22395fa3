"""Pretraining attention and transformers on prompts."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.in_context import (
        attention_descent,
        bayes,
        causal_structure,
        concept_attention,
        learned_basis,
        linear_attention,
        mean_field_attention,
        nonparametric,
        pretraining,
        prompt_attention,
        prompt_learners,
        prompt_risks,
        saddle_escape,
        subspace_learning,
        task_pool,
        teacher_learning,
        transformer,
        transformer_runs,
    )

lazily(__name__)

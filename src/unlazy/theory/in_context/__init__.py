"""What pretrained attention learns in context."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.in_context.causal_structure import CausalGradient, causal_gradient
    from unlazy.theory.in_context.concepts import (
        ConceptDynamics,
        ConceptGrowth,
        attended_meaning,
        concept_dynamics,
        concept_growth,
    )
    from unlazy.theory.in_context.finite_size import (
        FiniteSizeErrors,
        PromptMoments,
        exact_error,
        finite_size_errors,
        gaussian_task_moments,
        task_moments,
    )
    from unlazy.theory.in_context.first_step import (
        PromptGradient,
        ReluCoefficients,
        prompt_gradient,
        relu_coefficients,
        sphere_moments,
    )
    from unlazy.theory.in_context.first_step_noise import (
        PromptGradientSquares,
        prompt_gradient_squares,
        tasks_for_signal,
    )
    from unlazy.theory.in_context.landscape import (
        Landscape,
        MeasuredSlopes,
        Saddle,
        attention_landscape,
        attention_saddle,
        descent_time,
        escape_slope,
        measured_slopes,
        saddle_curvature,
        slope_bound,
    )
    from unlazy.theory.in_context.linear_attention import (
        LinearAttentionErrors,
        OptimalRidge,
        bayes_error,
        linear_attention_errors,
        optimal_ridge,
    )
    from unlazy.theory.in_context.nonparametric import InContextRisks, in_context_risks, prompt_risk
    from unlazy.theory.in_context.saddle_differences import SaddleDifferences, saddle_by_differences

lazily(__name__)

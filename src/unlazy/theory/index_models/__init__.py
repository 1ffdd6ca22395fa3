"""Labels that see a few directions: how many samples finding them takes, by which algorithm."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.index_models.additive import (
        additive_drift,
        additive_path,
        additive_spread,
        additive_stall_overlap,
        additive_step_size,
        escape_samples,
    )
    from unlazy.theory.index_models.exponents import (
        GenerativeExponent,
        InformationExponent,
        MonomialExponents,
        SampleComplexity,
        generative_exponent,
        information_exponent,
        label_transform,
        monomial_exponents,
        sample_complexity,
    )
    from unlazy.theory.index_models.first_steps import FirstGradient, first_gradient, step_price
    from unlazy.theory.index_models.hidden_squares import light_polynomial
    from unlazy.theory.index_models.leaps import Leap, leap_exponent, staircase_samples
    from unlazy.theory.index_models.online_sgd import (
        Drift,
        crossing_time,
        overlap_drift,
        overlap_path,
        stall_overlap,
        stall_step_size,
    )
    from unlazy.theory.index_models.partial_trace import PartialTrace, partial_trace_overlap
    from unlazy.theory.index_models.racing_tasks import TaskRace, task_race
    from unlazy.theory.index_models.repeated_uses import repeated_drift
    from unlazy.theory.index_models.smoothing import smoothed_drift, smoothed_samples
    from unlazy.theory.index_models.spectral import (
        SpectralOverlap,
        best_linear_transform,
        best_spectral_transform,
        linear_overlap,
        samples_for_overlap,
        spectral_overlap,
        spectral_threshold,
    )
    from unlazy.theory.index_models.step_links import step_link
    from unlazy.theory.index_models.superorthogonal_links import (
        ExactSeries,
        NotConverged,
        SuperOrthogonal,
        moment_residual,
        superorthogonal,
    )

lazily(__name__)

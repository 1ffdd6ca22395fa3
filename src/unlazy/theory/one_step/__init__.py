"""One gradient step on the first layer, and ridge regression on the features that it leaves."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.one_step.gradient_step import (
        OneStepRisk,
        Outlier,
        RankOneStep,
        best_direction_ridge,
        gradient_cosine,
        one_step_risk,
        preconditioned_cosine,
        rank_one_step,
        spiked_outlier,
    )
    from unlazy.theory.one_step.linear_kernels import (
        LinearPart,
        gaussian_kernel_part,
        linear_kernel_risk,
        tangent_kernel_part,
    )
    from unlazy.theory.one_step.moments import (
        ActivationMoments,
        LinkMoments,
        activation_moments,
        link_moments,
    )
    from unlazy.theory.one_step.noise_injection import (
        NoiseInjection,
        NoiseMoments,
        noise_averaged,
        noise_injection_equivalent,
        noise_moments,
        noise_penalty,
    )
    from unlazy.theory.one_step.outer_product import outer_product_misalignment
    from unlazy.theory.one_step.several_steps import staircase_component
    from unlazy.theory.one_step.spiked import (
        FeatureOutliers,
        FeatureSpectrum,
        GradientStep,
        NeuronGroups,
        SpikedEquivalent,
        feature_outliers,
        feature_spectrum,
        gradient_step_equivalent,
        gradient_step_groups,
        groups_of_weights,
        normal_groups,
        spiked_features_equivalent,
        target_alignment,
    )

lazily(__name__)

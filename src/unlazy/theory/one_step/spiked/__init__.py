"""Features whose weights share one direction: their ridge regression and their eigenvalues."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.one_step.spiked.features import (
        GradientStep,
        SpikedEquivalent,
        gradient_step_equivalent,
        gradient_step_groups,
        groups_of_weights,
        normal_groups,
        spiked_features_equivalent,
        target_alignment,
    )
    from unlazy.theory.one_step.spiked.fixed_point import FeatureSizes, Solution, solve
    from unlazy.theory.one_step.spiked.spectrum import (
        FeatureOutliers,
        FeatureSpectrum,
        feature_outliers,
        feature_spectrum,
    )
    from unlazy.theory.one_step.spiked.statistics import FeatureStatistics, NeuronGroups, TargetStatistics

lazily(__name__)

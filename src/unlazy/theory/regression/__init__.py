"""Ridge regression in high dimension, learned metrics, and overfitting that is benign or not."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.regression.benign_overfitting import (
        TsiglerBartlett,
        classify_regime,
        overfitting_regime,
        tsigler_bartlett,
    )
    from unlazy.theory.regression.kept_directions import (
        KeptDirections,
        degrees_of_freedom_minimiser,
        least_squares_risk,
    )
    from unlazy.theory.regression.metric import (
        BayesRisk,
        MetricCriterion,
        bayes_risk,
        best_kernel,
        degrees_of_freedom_criterion,
        degrees_of_freedom_criterion_infimum,
        frozen_label_noise_penalty,
        label_noise_penalty,
        mallows_cp,
        optimal_risk_bound,
    )
    from unlazy.theory.regression.ridge import (
        RidgeCurve,
        RidgeEquivalent,
        ridge_curve_by_effective_ridge,
        ridge_equivalent,
        ridge_equivalent_matrices,
    )

lazily(__name__)

"""Random sequential message passing for Gaussian latent variables."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.message_passing.sequential.inference import (
        CovarianceEnsemble,
        StaticSolution,
        WeightSpaceSolution,
        at_line,
        ensemble_of_spectra,
        mean_field_residual,
        perceptron_solution,
        row_orthogonal_ensemble,
        static_solution,
        tilted_mean,
        wishart_ensemble,
    )
    from unlazy.theory.message_passing.sequential.tilted_averages import tilt

lazily(__name__)

"""Random sequential message passing for Gaussian latent variables."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.message_passing.sequential.inference import (
        CovarianceEnsemble,
        StaticSolution,
        almeida_thouless_line,
        almeida_thouless_solutions,
        covariance_ensemble,
        ensemble_of_spectra,
        matched_inverse_temperature,
        mean_field_residual,
        row_orthogonal_ensemble,
        static_solution,
        wishart_ensemble,
    )
    from unlazy.theory.message_passing.sequential.tilted_averages import tilt

lazily(__name__)

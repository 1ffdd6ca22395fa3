"""The diffusion in closed form, what a wrong score costs, and the rates of estimation."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.diffusion.process import (
        DensityRates,
        ForwardProcess,
        MixtureScore,
        ScoreErrorCost,
        density_rates,
        diffused_variance,
        forward_process,
        gaussian_divergence,
        gaussian_score_error,
        mixture_score,
        scaled_score_error,
        wasserstein_bound,
    )
    from unlazy.theory.diffusion.wrong_score import LineMixture, WrongScore

lazily(__name__)

"""Mean-field Langevin dynamics: optima, rates, and what finite particles and steps add."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.mean_field.dual import (
        EntropySandwich,
        ParticleConstants,
        entropy_sandwich,
        free_energy_on,
        naive_iteration_radius,
        online_averaging_constant,
        particle_constants,
        sample_optimum,
        typical_cloud,
        width_covariance,
    )
    from unlazy.theory.mean_field.finite_step import StepBias, step_size_bias
    from unlazy.theory.mean_field.flow import Flow, mean_field_flow, normal_masses
    from unlazy.theory.mean_field.fluctuations import width_fluctuations
    from unlazy.theory.mean_field.gaussian_problem import (
        GaussianDecayRates,
        GaussianMoments,
        GaussianOptimum,
        Modes,
        added_by_width,
        batch_variance,
        batched_moments,
        gaussian_decay_rates,
        gaussian_energy,
        gaussian_free_energy,
        gaussian_moments,
        gaussian_optimum,
        gaussian_wander,
        reshuffled_mean_variance,
        width_excess,
    )
    from unlazy.theory.mean_field.grid import Gibbs, GridProblem, Loss, gibbs_of_potential, logistic_loss, square_loss
    from unlazy.theory.mean_field.langevin import (
        BatchCost,
        BoundTerms,
        batch_knee,
        guaranteed_decay_rate,
        log_sobolev_bound,
        optimal_batch_size,
        uniform_in_time_bound,
    )
    from unlazy.theory.mean_field.log_sobolev import LogSobolev, log_sobolev_constant
    from unlazy.theory.mean_field.normal_mixture import Normal, TwoNormals, normal_densities
    from unlazy.theory.mean_field.one_dimension import ScalarProblem, scalar_problem
    from unlazy.theory.mean_field.optimum import (
        MeanFieldOptimum,
        density_optimum,
        mean_field_optimum,
        quadratic_optimum,
    )
    from unlazy.theory.mean_field.rate import DecayRates, GridDecayRates, barrier, decay_rates, grid_decay_rates
    from unlazy.theory.mean_field.tanh_network import tanh_optimum, tanh_step_bias

lazily(__name__)

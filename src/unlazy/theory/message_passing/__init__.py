"""State evolution: errors of convex fits and of message passing, without drawing data."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.message_passing.lasso import LassoStateEvolution, lasso_state_evolution
    from unlazy.theory.message_passing.multiclass import (
        ClusterState,
        TeacherState,
        multiclass_clusters,
        multiclass_teacher,
    )
    from unlazy.theory.message_passing.optimal import (
        HardPhase,
        NormalWeights,
        OptimalEstimate,
        SignWeights,
        SparseWeights,
        hard_phase,
        optimal_estimate,
    )
    from unlazy.theory.message_passing.sequential import (
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
    from unlazy.theory.message_passing.state_evolution import (
        GLMStateEvolution,
        MixtureStateEvolution,
        glm_state_evolution,
        glm_state_evolution_matrices,
        mixture_state_evolution,
    )
    from unlazy.theory.message_passing.teachers import (
        LinearTeacher,
        LogitTeacher,
        ProbitTeacher,
        SignTeacher,
        teacher_error,
    )

lazily(__name__)

"""State evolution of generalised linear models and of classifiers of Gaussian clusters."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.message_passing.state_evolution.glm import glm_state_evolution, glm_state_evolution_matrices
    from unlazy.theory.message_passing.state_evolution.glm_solvers import GLMStateEvolution
    from unlazy.theory.message_passing.state_evolution.mixture import MixtureStateEvolution, mixture_state_evolution

lazily(__name__)

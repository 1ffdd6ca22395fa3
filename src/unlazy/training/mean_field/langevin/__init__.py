"""Mean-field Langevin dynamics: particles that minimise a functional of their law plus its entropy.

    def functional(particles, rows):                                   # F of the empirical law, without confinement
        inputs, labels = rows
        return 0.5 * jnp.mean((jnp.tanh(inputs @ particles.T).mean(axis=1) - labels) ** 2)

    sample = sample_mean_field(functional, start, temperature=0.01, confinement=0.005, steps=5000, data=(x, y))

The law mu minimises F(mu) + confinement E|x|^2 + temperature E log mu. A user gives F as a function of the particle
array (N, d); with G = N dF/dx_i, the gradient of the first variation of F at particle i, one step is

    x_i <- x_i - step_size [G_i + 2 confinement x_i] + sqrt(2 temperature step_size) xi_i.

In the papers confinement is lambda_1, temperature lambda_2 and step_size eta; time is step_size times steps.
`langevin_step` is that step; `init`, `anchor` and `build_step` are the dynamics, `run` the loop for studies (pure, for
jit and vmap), and `sample_mean_field` the door for users, which checks its input and chooses the step. Source: Suzuki,
Wu & Nitanda (2023).
"""

from __future__ import annotations

from unlazy.training.mean_field.langevin.checks import curvature
from unlazy.training.mean_field.langevin.engine import (
    Functional,
    LangevinRun,
    LangevinState,
    anchor,
    build_step,
    energy,
    init,
    run,
    variation_gradient,
)
from unlazy.training.mean_field.langevin.sample import MeanFieldSample, sample_mean_field
from unlazy.training.mean_field.langevin.step import langevin_step, noisy_step

__all__ = [
    "Functional",
    "LangevinRun",
    "LangevinState",
    "MeanFieldSample",
    "anchor",
    "build_step",
    "curvature",
    "energy",
    "init",
    "langevin_step",
    "noisy_step",
    "run",
    "sample_mean_field",
    "variation_gradient",
]

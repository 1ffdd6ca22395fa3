"""Particles that minimise a functional of their law, and certificates of how well they do."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.mean_field import annealed_chains, certificate, double_loop, langevin, step_noise

lazily(__name__)

"""Particles that minimise a functional of their law, and certificates of how well they do."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.mean_field import (
        annealed_chains,
        batch_races,
        certificate,
        certified_runs,
        coupled_clouds,
        density,
        double_loop,
        gap_quadrature,
        gaussian_clouds,
        langevin,
        networks,
        parities,
        particle_loops,
        small_networks,
        stein,
        watched_network,
    )

lazily(__name__)

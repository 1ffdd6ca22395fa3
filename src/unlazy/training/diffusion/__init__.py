"""Training scores, and sampling with them."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.diffusion import (
        density_fits,
        learned_scores,
        line,
        line_networks,
        line_records,
        linear_support,
        manifold_errors,
        network_rates,
        network_sizes,
        noise_draws,
        particles,
        rate_errors,
        relu_score,
        reverse,
        score_matching,
    )

lazily(__name__)

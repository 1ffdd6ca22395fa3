"""Training scores, and sampling with them."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.diffusion import (
        density_fits,
        line,
        line_records,
        linear_support,
        manifold_errors,
        particles,
        rate_errors,
        reverse,
        score_matching,
    )

lazily(__name__)

"""The project's numerical methods, one of each kind."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.numerics import (
        compress,
        contrasts,
        convex_fits,
        fixed_points,
        gaussian,
        index_directions,
        leave_one_out,
        margin_losses,
        metric_path,
        monte_carlo,
        orthant_moments,
        quadrature,
        reverse_diffusion,
        reverse_law,
        ridge,
        roots,
        softmax_regression,
        spectral_sums,
        splines,
        wide_kernel,
    )

lazily(__name__)

"""B-splines: clamped ones as densities, on an interval and a box, diffused, fitted; uniform cubic ones as functions."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.numerics.splines import box, density, interval, likelihood, uniform

lazily(__name__)

"""Clamped B-splines as densities: on an interval and a box, diffused, fitted by maximum likelihood."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.numerics.splines import box, density, interval, likelihood

lazily(__name__)

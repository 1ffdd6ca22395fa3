"""Densities by diffusion."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.estimators.density.diffusion import DiffusionDensity

lazily(__name__)

"""Directions from one look at the data: exact limits of linear and spectral estimators."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.index_models.spectral.estimators import (
        SpectralOverlap,
        best_linear_transform,
        best_spectral_transform,
        linear_overlap,
        samples_for_overlap,
        spectral_overlap,
        spectral_threshold,
    )

lazily(__name__)

"""Errors against the number of rows, for kernels, moments and one-step features."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.diagnostics.learning_curve.curve import LearningCurve
    from unlazy.diagnostics.learning_curve.pool import subsample
    from unlazy.diagnostics.learning_curve.spectral import PoolSpectrum, spectral_curve

lazily(__name__)

"""Kernel and random-feature ridge regression on drawn points."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.kernels import learning_curves, pools, ridge, spectra, sphere

lazily(__name__)

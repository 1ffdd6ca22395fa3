"""Spectra of kernel matrices, and ridge regression with kernels and random features."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.kernels.blocks import Blocks, activation_blocks, kernel_blocks
    from unlazy.theory.kernels.free_probability import (
        Discrete,
        FreeSum,
        Law,
        MarchenkoPastur,
        Semicircle,
        moments_from_free_cumulants,
    )
    from unlazy.theory.kernels.random_features import (
        KernelEquivalent,
        feature_regression_equivalent,
        kernel_regression_equivalent,
    )
    from unlazy.theory.kernels.single_index import IndexKernelScores, index_kernel_scores
    from unlazy.theory.kernels.spectrum import (
        Atoms,
        KernelSpectrum,
        function_spectrum,
        function_spectrum_limit,
        kernel_spectrum,
        kernel_spectrum_limit,
    )

lazily(__name__)

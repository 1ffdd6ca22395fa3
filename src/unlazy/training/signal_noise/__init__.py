"""Patch networks on two-patch data."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.signal_noise import (
        contrastive,
        denoisers,
        graphs,
        image_runs,
        patch_attention,
        relu_runs,
        sparse_patches,
        token_gram,
    )

lazily(__name__)

"""Patch networks on two-patch data."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.signal_noise import (
        contrastive,
        denoisers,
        graphs,
        patch_attention,
        relu_runs,
        sparse_patches,
        token_gram,
        wrong_labels,
    )

lazily(__name__)

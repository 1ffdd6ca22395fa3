"""What is trained: Equinox modules."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.models import (
        functionals,
        image_networks,
        mean_field,
        patch_attention,
        scaled_networks,
        score_network,
        transformer,
        two_layer,
    )

lazily(__name__)

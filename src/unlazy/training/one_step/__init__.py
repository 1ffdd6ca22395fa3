"""One gradient step on the first layer, then ridge regression."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.one_step import (
        gradient_step,
        kernels,
        metric_machine,
        noisy_copies,
        output_scale,
        own_network,
        planted,
        replicas,
        rivals,
        several_steps,
        trained_features,
    )

lazily(__name__)

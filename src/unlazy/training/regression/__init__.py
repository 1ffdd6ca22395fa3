"""Metrics and first layers that move while the second layer is at its ridge optimum."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.regression import (
        label_noise,
        metric_criteria,
        metric_learning,
        noise_arms,
        relaxation,
        trained_layer,
        two_timescale,
    )

lazily(__name__)

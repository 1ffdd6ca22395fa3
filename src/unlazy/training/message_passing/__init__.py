"""Message passing on instances of finite size."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.message_passing import (
        amp_runs,
        cluster_scores,
        digit_fits,
        linear_fits,
        matrix_amp,
        optimal_amp,
        sequential,
        softmax_fits,
    )

lazily(__name__)

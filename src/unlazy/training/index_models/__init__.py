"""Online SGD on index models: as chains of overlaps, and as networks."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.index_models import (
        additive_network,
        diverse_tasks,
        fine_tuned,
        first_steps,
        giant_steps,
        kernel_or_index,
        lasso,
        one_shot,
        online_index,
        overlap_chain,
        partial_trace,
        repeated_push,
        reused_runs,
        smoothed_push,
        staircase_chain,
        strong_recovery,
        traced_links,
    )

lazily(__name__)

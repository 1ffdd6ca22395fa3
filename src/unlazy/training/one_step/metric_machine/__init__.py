"""Kernel ridge regression in a metric that the gradients of its own fits teach."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.training.one_step.metric_machine import kernels, members

lazily(__name__)

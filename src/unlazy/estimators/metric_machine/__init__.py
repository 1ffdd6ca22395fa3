"""Kernel ridge machines that learn their metric."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.estimators.metric_machine.machine import MetricMachineClassifier, MetricMachineRegressor

lazily(__name__)

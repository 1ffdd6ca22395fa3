"""Ridge regression in a metric learned from many targets or tasks."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.estimators.metric import task_batches
    from unlazy.estimators.metric.meta import AdaptedRegressor, MetaMetricRegressor
    from unlazy.estimators.metric.shared import SharedMetricRegressor

lazily(__name__)

"""Regressors for users' own data."""

from unlazy.estimators.meta_metric import AdaptedRegressor, MetaMetricRegressor
from unlazy.estimators.shared_metric import SharedMetricRegressor

__all__ = ["AdaptedRegressor", "MetaMetricRegressor", "SharedMetricRegressor"]

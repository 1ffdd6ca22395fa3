"""Regressors for users' own data."""

from unlazy.estimators.meta_metric import AdaptedRegressor, MetaMetricRegressor
from unlazy.estimators.noise_regularized import NoiseRegularizedRidge
from unlazy.estimators.one_step import OneStepFeatures, OneStepRegressor
from unlazy.estimators.shared_metric import SharedMetricRegressor

__all__ = [
    "AdaptedRegressor",
    "MetaMetricRegressor",
    "NoiseRegularizedRidge",
    "OneStepFeatures",
    "OneStepRegressor",
    "SharedMetricRegressor",
]

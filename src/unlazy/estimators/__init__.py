"""Regressors for users' own data."""

from unlazy.estimators.additive_index import AdditiveIndexRegressor
from unlazy.estimators.in_context import InContextRegressor
from unlazy.estimators.meta_metric import AdaptedRegressor, MetaMetricRegressor
from unlazy.estimators.multi_index import MultiIndexRegressor
from unlazy.estimators.noise_regularized import NoiseRegularizedRidge
from unlazy.estimators.one_step import OneStepFeatures, OneStepRegressor
from unlazy.estimators.shared_metric import SharedMetricRegressor
from unlazy.estimators.single_index import SingleIndexRegressor

__all__ = [
    "AdaptedRegressor",
    "AdditiveIndexRegressor",
    "InContextRegressor",
    "MetaMetricRegressor",
    "MultiIndexRegressor",
    "NoiseRegularizedRidge",
    "OneStepFeatures",
    "OneStepRegressor",
    "SharedMetricRegressor",
    "SingleIndexRegressor",
]

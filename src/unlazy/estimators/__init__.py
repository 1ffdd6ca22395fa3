"""Regressors, classifiers and densities for users' own data."""

from unlazy.estimators.additive_index import AdditiveIndexRegressor
from unlazy.estimators.diffusion_density import DiffusionDensity
from unlazy.estimators.in_context import InContextRegressor
from unlazy.estimators.logistic_loo import LogisticRegressionLOO
from unlazy.estimators.mean_field import (
    MeanFieldClassifier,
    MeanFieldRegressor,
    network_certificate,
    optimality_certificate,
)
from unlazy.estimators.meta_metric import AdaptedRegressor, MetaMetricRegressor
from unlazy.estimators.multi_index import MultiIndexRegressor
from unlazy.estimators.noise_regularized import NoiseRegularizedRidge
from unlazy.estimators.one_step import OneStepFeatures, OneStepRegressor
from unlazy.estimators.shared_metric import SharedMetricRegressor
from unlazy.estimators.single_index import SingleIndexRegressor

__all__ = [
    "AdaptedRegressor",
    "AdditiveIndexRegressor",
    "DiffusionDensity",
    "InContextRegressor",
    "LogisticRegressionLOO",
    "MeanFieldClassifier",
    "MeanFieldRegressor",
    "MetaMetricRegressor",
    "MultiIndexRegressor",
    "NoiseRegularizedRidge",
    "OneStepFeatures",
    "OneStepRegressor",
    "SharedMetricRegressor",
    "SingleIndexRegressor",
    "network_certificate",
    "optimality_certificate",
]

"""Regressors, classifiers and densities for users' own data."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.estimators.density import DiffusionDensity
    from unlazy.estimators.in_context import InContextRegressor
    from unlazy.estimators.index import AdditiveIndexRegressor, MultiIndexRegressor, SingleIndexRegressor
    from unlazy.estimators.linear import LogisticRegressionLOO
    from unlazy.estimators.mean_field import (
        MeanFieldClassifier,
        MeanFieldRegressor,
        network_certificate,
        optimality_certificate,
    )
    from unlazy.estimators.metric import AdaptedRegressor, MetaMetricRegressor, SharedMetricRegressor
    from unlazy.estimators.metric_machine import MetricMachineClassifier, MetricMachineRegressor
    from unlazy.estimators.one_step import OneStepClassifier, OneStepFeatures, OneStepRegressor
    from unlazy.estimators.random_features import NoiseRegularizedRidge

lazily(__name__)

"""Features of one large gradient step."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.estimators.one_step.classifier import OneStepClassifier
    from unlazy.estimators.one_step.regressor import OneStepFeatures, OneStepRegressor

lazily(__name__)

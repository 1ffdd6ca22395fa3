"""Ridge regression on random features."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.estimators.random_features.noise_regularized import NoiseRegularizedRidge

lazily(__name__)

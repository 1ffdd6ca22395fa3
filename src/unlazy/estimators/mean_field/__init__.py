"""Two-layer networks with a certificate of their distance from the optimum."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.estimators.mean_field.certificate import OptimalityCertificate, network_certificate
    from unlazy.estimators.mean_field.networks import (
        MeanFieldClassifier,
        MeanFieldRegressor,
        optimality_certificate,
    )

lazily(__name__)

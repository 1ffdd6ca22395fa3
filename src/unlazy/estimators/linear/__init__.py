"""Linear models whose strength is chosen by leave-one-out errors."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.estimators.linear.logistic import LogisticRegressionLOO

lazily(__name__)

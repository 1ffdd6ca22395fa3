"""Regressors for functions of a few unknown directions."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.estimators.index import whitening
    from unlazy.estimators.index.additive import AdditiveIndexRegressor
    from unlazy.estimators.index.multi import MultiIndexRegressor
    from unlazy.estimators.index.single import InputLink, SingleIndexRegressor

lazily(__name__)

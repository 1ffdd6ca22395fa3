"""A sum of links, each of a direction of its own."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.estimators.index.additive.regressor import AdditiveIndexRegressor

lazily(__name__)

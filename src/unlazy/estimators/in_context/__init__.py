"""A regressor pretrained on many related data sets."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.estimators.in_context.regressor import InContextRegressor

lazily(__name__)

"""Several directions and a function of all of them."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.estimators.index.multi.regressor import MultiIndexRegressor
    from unlazy.estimators.index.multi.report import plot_terms

lazily(__name__)

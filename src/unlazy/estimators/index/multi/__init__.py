"""Several directions and a function of all of them."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.estimators.index.multi.choice import (
        LEAST_SAMPLES,
        Choice,
        Family,
        check_count,
        check_folds,
        check_rows,
        gated_fit,
        input_scales,
    )
    from unlazy.estimators.index.multi.links import information
    from unlazy.estimators.index.multi.newton import Joint, JointFit, is_certain, joint_refine, most_rows
    from unlazy.estimators.index.multi.regressor import MultiIndexRegressor
    from unlazy.estimators.index.multi.report import plot_terms

lazily(__name__)

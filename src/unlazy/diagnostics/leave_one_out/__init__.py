"""Leave-one-out errors of fitted models from that one fit."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.diagnostics.leave_one_out.results import LooPath, LooScores
    from unlazy.diagnostics.leave_one_out.scores import loo_path, loo_scores

lazily(__name__)
